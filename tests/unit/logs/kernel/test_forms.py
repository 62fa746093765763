# SPDX-License-Identifier: Apache-2.0
"""What real kernels wrote, put into every form that logs have: it says the same as what /dev/kmsg gave.

Each capture goes through two forms, which change from one to the next; OOMTRACE_ALL_FORMS=1 takes all through all.
"""

import os
import re

import pytest

from tests.captured import captures, log_of
from tests.kernel_logs import read
from tests.logforms import FORMS, LINE_ENDS_LOST, WRAPPING, Rec
from tracer.events import LogEvent, LoggedOther, LoggedStats, LoggedTasks, LoggedTrigger

ALL = captures()
FORMS_EACH = len(FORMS) if os.environ.get("OOMTRACE_ALL_FORMS") else 2
PLACE = {"seq", "source", *LogEvent.__struct_fields__}
NAMES = {"comm", "cpuset", "memcg", "oom_memcg", "task_memcg", "release"}
PAGE_FAULTS = {"allocating-task"}
"""Their logs begin with other traces, far from any kill: how much of these is read depends on the form."""


def records_of(capture) -> list[Rec]:
    return [
        Rec(unescaped(each.text), each.usec, each.level, each.seq)
        for each in log_of(capture).records
        if each.facility == 0
    ]


def unescaped(text: str) -> str:
    def raw(found):
        return bytes.fromhex(found[0].replace("\\x", "")).decode("utf-8", "surrogateescape")

    return re.sub(r"(?:\\x[0-9a-f]{2})+", raw, text)


def essence(events, form: str):
    """What a report says, without where it stands."""
    left_out = (LoggedOther, LoggedStats) if form == "journalctl -o export" else (LoggedOther,)
    return [
        (type(event).__name__, {name: getattr(event, name) for name in event.__struct_fields__ if name not in PLACE})
        for event in events
        if not isinstance(event, left_out)
    ]


def unlike(one, other, form: str, *, hostile: bool) -> list[str]:
    """Fields that differ, where the form could have kept them."""
    if [kind for kind, _ in one] != [kind for kind, _ in other]:
        return [f"{[kind for kind, _ in one]}, then {[kind for kind, _ in other]}"]
    found = []
    for (kind, fields), (_, others) in zip(one, other, strict=True):
        for name, value in fields.items():
            if value == others[name]:
                continue
            if (form in WRAPPING or hostile) and (name in NAMES and (others[name] is None or hostile)):
                continue
            if kind == "LoggedTasks" and (form in WRAPPING or hostile) and name == "rows":
                continue
            found.append(f"{kind}.{name}: {value!r}, then {others[name]!r}")
    return found


def pairs():
    names = list(FORMS)
    for number, capture in enumerate(ALL):
        for step in range(FORMS_EACH):
            form = names[(number * FORMS_EACH + step) % len(names)]
            yield capture, form


@pytest.mark.parametrize("capture, form", list(pairs()), ids=str)
def test_a_form_says_what_the_kernel_said(capture, form):
    records = records_of(capture)
    base = essence(read(FORMS["/dev/kmsg"](records)), form)
    got = essence(read(FORMS[form](records)), form)
    if capture.name in PAGE_FAULTS:
        base, got = ([each for each in events if each[0] in ("LoggedDecision", "LoggedKill")] for events in (base, got))
    hostile = "hostile" in capture.name

    assert unlike(base, got, form, hostile=hostile and form not in ("/dev/kmsg", "journalctl -o json, bytes")) == []


@pytest.mark.parametrize("capture", ALL[::7], ids=str)
def test_the_reader_of_files_says_what_the_live_reader_says(capture):
    live = {event.log_seq: event for event in log_of(capture).events}
    for event in read(FORMS["/dev/kmsg"](records_of(capture))):
        one = live.get(event.log_seq)
        if type(one) is not type(event) or isinstance(event, LoggedTasks | LoggedTrigger | LoggedOther):
            continue
        for name in event.__struct_fields__:
            if name not in PLACE:
                assert getattr(event, name) == getattr(one, name)
        assert (event.said_by, event.trusted) == ("kernel", False)


def test_a_line_end_in_a_name_is_lost_in_some_forms_alone():
    assert FORMS.keys() >= LINE_ENDS_LOST | WRAPPING

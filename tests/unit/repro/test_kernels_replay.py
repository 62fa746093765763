# SPDX-License-Identifier: Apache-2.0
"""What real kernels did, judged by today's rules: each scenario gets the verdict that it declares, on every kernel.

Made by `scripts/vm --matrix --capture`; needs no kernel. Each check is a function that names what is wrong, so that it
can be shown to find it.
"""

import msgspec
import pytest

from tests.architecture.test_texts import FORBIDDEN
from tests.captured import DATA, Log, captures, log_of, read_log, recording_of, replayed, unpacked, verdict_of
from tracer.events import (
    Header,
    HookStatus,
    JobEnded,
    JobStarted,
    LogEvent,
    LogGap,
    LoggedDecision,
    LoggedKill,
    LoggedOther,
    LoggedSwap,
    Losses,
    OomMark,
    ProcessExited,
)
from tracer.repro.catalogue import by_name
from tracer.repro.expectations import declared, differences, found

ALL = captures()
MOST_BYTES = 6 << 20
OF_THE_RUN = ("ts_ns", "seq")
"""What a record read again has otherwise: its time was translated, and its number is of the recording."""
IN_FOUND = {
    "cause", "strength", "killed", "victim", "victim_role", "victims", "trigger", "limit", "constraint", "sender",
    "sender_comm", "status", "shmem_mib", "swapped_mib", "swap_exhausted",
}  # fmt: skip
"""Fields of `found` that a declaration can name and that hold the very thing. The rest are counts and wordings."""
IN_BOTH = ("uid", "oom_score_adj", "total_vm_bytes")
"""Of a mark and of the line of its kill. What is resident may go on changing between the two."""

WHOLE = [each for each in ALL if each.name != "lockdown"]
"""Where programs may read the kernel's memory: under lockdown there are glimpses in place of marks."""

each_capture = pytest.mark.parametrize("capture", ALL, ids=str)
each_whole_one = pytest.mark.parametrize("capture", WHOLE, ids=str)


def unlike_its_declaration(capture, events):
    scenario, seen = replayed(capture, events)
    return [str(each) for each in differences(scenario.expected, seen)]


def unlike_what_was_captured(capture, events, document):
    """Outcome, counts and what is declared stay as they were; what else is said may get better."""
    scenario, seen = replayed(capture, events)
    before, now = document["found"], msgspec.to_builtins(found(seen))
    names = IN_FOUND & {"cause", "strength", "killed", *declared(scenario.expected)}
    unlike = [
        f"{name}: {before[name]!r} then, {now[name]!r} now" for name in sorted(names) if before[name] != now[name]
    ]
    if document["outcome"] != "pass":
        unlike.append(f"outcome: {document['outcome']}")
    counters = msgspec.to_builtins(seen.counters)
    return [*unlike, *(["counters"] if counters != document["counters"] else [])]


def bare(event):
    """A log event without what is of its run."""
    if isinstance(event, LoggedSwap):  # captures of before it had a class have the line as text, which says it all
        text = {name: getattr(event, name) for name in LogEvent.__struct_fields__}
        return bare(LoggedOther(about="report", **text))
    return type(event), {name: getattr(event, name) for name in event.__struct_fields__ if name not in OF_THE_RUN}


def unlike_the_log(events, log: Log):
    """The raw log, read now, says what the recording says that it said."""
    again = {event.log_seq: event for event in log.events}
    there = {record.seq for record in log.records}
    told = {event.log_seq: event for event in events if isinstance(event, LogEvent) and not isinstance(event, LogGap)}
    unlike = [
        f"record {number}: {told[number].text!r}"
        for number in sorted(told.keys() & there)
        if number not in again or bare(again[number]) != bare(told[number])
    ]
    if log.whole:
        unlike += [f"record {number} is not in the log" for number in sorted(told.keys() - there)]
    if told and not any(isinstance(event, LogGap) for event in events):
        inner = [number for number in again if min(told) < number < max(told)]
        unlike += [f"record {number} is not in the recording" for number in sorted(set(inner) - told.keys())]
    return unlike


def unlike_the_marks(events, log: Log):
    """Whom the log names is whom the kernel marked, with the same memory."""
    marks = {}
    for event in events:
        if isinstance(event, OomMark):
            marks.setdefault(event.tid, event)
    lost = any(event.total for event in events if isinstance(event, Losses))
    numbers = [event.log_seq for event in events if isinstance(event, LogEvent)]
    unlike = []
    for kill in (event for event in log.events if isinstance(event, LoggedKill)):
        mark = marks.get(kill.pid)
        if mark is None:
            if not lost and numbers and min(numbers) <= kill.log_seq <= max(numbers):
                unlike.append(f"{kill.pid} was never marked")
        else:
            both = [(getattr(mark, name), getattr(kill, name)) for name in IN_BOTH]
            unlike += [f"{kill.pid}: {one} marked, {other} logged" for one, other in both if one != other]
    return unlike


@each_capture
def test_every_scenario_gets_the_verdict_that_it_declares(capture):
    assert unlike_its_declaration(capture, recording_of(capture)) == []


@each_capture
def test_what_was_judged_then_is_judged_now(capture):
    assert unlike_what_was_captured(capture, recording_of(capture), verdict_of(capture)) == []


@each_capture
def test_the_raw_log_is_read_as_it_was_recorded(capture):
    assert unlike_the_log(recording_of(capture), log_of(capture)) == []


@each_whole_one
def test_the_log_and_the_marks_speak_of_the_same_processes(capture):
    assert unlike_the_marks(recording_of(capture), log_of(capture)) == []


@each_capture
def test_where_something_is_killed_for_want_of_memory_the_log_tells_of_it(capture):
    kills = [event for event in log_of(capture).events if isinstance(event, LoggedKill)]

    assert bool(kills) == (verdict_of(capture)["found"]["killed"] > 0)


@each_capture
def test_a_capture_holds_nothing_of_the_machine_that_made_it(capture):
    (header,) = (event for event in recording_of(capture) if isinstance(event, Header))
    texts = [unpacked(capture.folder / name) for name in ("recording.oomtrace.xz", "kmsg.xz")]

    assert header.hostname == "guest"
    assert header.kernel_release == verdict_of(capture)["kernel_release"]
    assert header.kernel_release.startswith(f"{capture.kernel}.")
    assert not [what for what, line in FORBIDDEN.items() for text in texts if line.search(text.decode())]
    assert sorted(path.name for path in capture.folder.iterdir()) == [
        "kmsg.xz",
        "recording.oomtrace.xz",
        "verdict.json",
    ]


def test_every_capture_is_of_a_scenario_that_is_declared():
    """One that is gone from the catalogue is removed here by hand."""
    assert not [str(each) for each in ALL if verdict_of(each)["scenario"] not in by_name()]
    assert not [str(each) for each in ALL if each.name not in {name := verdict_of(each)["scenario"], f"{name}-v1"}]


def test_all_captures_together_are_small():
    assert sum(path.stat().st_size for path in DATA.rglob("*") if path.is_file()) < MOST_BYTES


# Each check finds what it is there for: in a recording of a kill that is changed in one place.


def a_kill(*, whole=True):
    """Any capture of the plainest kill."""
    return next(each for each in ALL if each.name == "memcg-leaf" and log_of(each).whole == whole)


def changed(events, kind, **fields):
    return [msgspec.structs.replace(event, **fields) if isinstance(event, kind) else event for event in events]


def without(events, *kinds):
    return [event for event in events if not isinstance(event, kinds)]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda events: without(events, OomMark), "strength"),
        (lambda events: without(events, OomMark, LoggedKill, LoggedDecision), "cause"),
        (lambda events: changed(events, JobStarted, cgroup="/other/oomtrace-run-repro-1", cgroup_id=1), "limit"),
        (lambda events: changed(events, (JobEnded, ProcessExited), status=0), "status"),
        (lambda events: changed(events, OomMark, comm="other", trigger_comm="other"), "victim"),
    ],
)
def test_a_recording_that_says_otherwise_is_not_as_declared(change, named):
    events = change(recording_of(a_kill()))

    assert any(each.startswith(named) for each in unlike_its_declaration(a_kill(), events))


@pytest.mark.parametrize("capture", [each for each in WHOLE if verdict_of(each)["found"]["killed"]], ids=str)
def test_without_the_marks_of_the_kernel_no_kill_is_as_declared(capture):
    assert unlike_its_declaration(capture, without(recording_of(capture), OomMark))


def test_a_verdict_that_was_otherwise_is_seen():
    capture = a_kill()
    events, document = recording_of(capture), verdict_of(capture)
    other = [
        {**document, "outcome": "fail"},
        {**document, "counters": {**document["counters"], "seen": 2}},
        *(
            {**document, "found": {**document["found"], name: "other"}}
            for name in ("cause", "strength", "victim", "limit")
        ),
    ]
    better = {**document, "found": {**document["found"], "caveats": ["said otherwise"], "blamed": "other"}}

    assert all(unlike_what_was_captured(capture, events, each) for each in other)
    assert unlike_what_was_captured(capture, events, better) == []


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (LoggedKill, {"pid": 1}),
        (LoggedKill, {"anon_rss_bytes": 1}),
        (LoggedKill, {"memcg": False}),
        (LoggedDecision, {"constraint": "CONSTRAINT_NONE"}),
        (LoggedDecision, {"oom_memcg": "/other"}),
        (LoggedDecision, {"tgid": 1}),
        (LoggedOther, {"about": "sysrq"}),
    ],
)
def test_a_recording_that_quotes_the_log_otherwise_is_seen(kind, fields):
    assert unlike_the_log(changed(recording_of(a_kill()), kind, **fields), log_of(a_kill()))


def test_a_record_that_is_in_one_of_both_alone_is_seen():
    events, log = recording_of(a_kill()), log_of(a_kill())
    less = log._replace(
        records=tuple(each for each in log.records if "Killed process" not in each.text),
        events=tuple(each for each in log.events if not isinstance(each, LoggedKill)),
    )

    assert unlike_the_log(without(events, LoggedDecision), log)
    assert unlike_the_log(events, less)
    assert unlike_the_log(events, less._replace(whole=False)) == []


@pytest.mark.parametrize("fields", [{"tid": 1}, {"uid": 1}, {"oom_score_adj": 5}, {"total_vm_bytes": 1}])
def test_a_mark_that_the_log_contradicts_is_seen(fields):
    assert unlike_the_marks(changed(recording_of(a_kill()), OomMark, **fields), log_of(a_kill()))


def test_a_log_that_was_cut_or_overwritten_is_not_whole():
    record = b"6,1,100,-;text\n SUBSYSTEM=x\n"

    assert read_log(record).whole
    assert len(read_log(record).records) == 1
    assert not read_log(record + b"# cut here\n").whole


def test_captures_are_of_more_than_one_kernel_and_of_hooks_that_held():
    kernels = {each.kernel for each in ALL}

    assert len(kernels) >= 2
    for capture in WHOLE:
        hooks = [event for event in recording_of(capture) if isinstance(event, HookStatus)]
        assert any(each.hook == "raw_tracepoint:mark_victim" and each.attached for each in hooks)

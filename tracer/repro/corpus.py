# SPDX-License-Identifier: Apache-2.0
"""Recordings of programs that show a mechanism, kept in a folder with what is known of each, and judged anew."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tracer.events import AnyEvent, LoggedDecision, LoggedStats, LoggedTasks
from tracer.logs.kernel.devkmsg import parse_kmsg
from tracer.logs.kernel.live import LiveRecords
from tracer.logs.kernel.shape import Stamp
from tracer.recording import read_recording
from tracer.recording.line import LineEncoder
from tracer.repro.confusion import CONTROL, Run, run_of
from tracer.repro.expectations import differences, found
from tracer.repro.replay import ground_in, seen_in
from tracer.repro.scenario import Counters, Outcome, Scenario, Truth

KINDS = ("killed", "fixed", "control")
"""How runs ended that are kept."""
_PREFIX = "/oomtrace-run-repro-"
_BEGIN, _END = "invoked oom-killer", re.compile(r"Killed process \d+|out of memory and no killable")


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What is read again of the document that `repro --json` printed."""

    outcome: Outcome
    counters: Counters
    found: dict[str, Any]


def mechanism(scenario: Scenario) -> str:
    """What it shows; a control shows none, and has a row of its own."""
    return truth_of(scenario).mechanism or CONTROL


def truth_of(scenario: Scenario) -> Truth:
    """Of those that have one."""
    assert scenario.truth is not None
    return scenario.truth


def stem(scenario: Scenario) -> str:
    """How files of its runs begin: the program, and whether it was killed."""
    truth = truth_of(scenario)
    how = "control" if truth.mechanism is None else "fixed" if truth.fixed else "killed"
    return f"{scenario.act[1]}-{how}"


def judged(scenario: Scenario, stem: Path) -> Run | None:
    """A run by today's rules, and by what the kernel counted then; `None`: there is none."""
    try:
        result = msgspec.json.decode(stem.with_suffix(".json").read_bytes(), type=_Kept)
    except OSError:
        return None
    path = stem.with_suffix(".oomtrace")
    if result.outcome == "not_applicable" or not path.exists():
        return run_of(truth_of(scenario), result.outcome, result.found)
    events = list(read_recording(path))
    seen = seen_in(events, scenario, ground_in(events, result.counters.kernel))
    return run_of(truth_of(scenario), "fail" if differences(scenario.expected, seen) else "pass", found(seen))


def line(name: str, run: Run) -> str:
    """One run, for a person."""
    named = " or ".join((run.named, *run.also)) if run.named is not None else "no mechanism"
    return f"{run.outcome:<15} {name:<36} {named}{f' ({run.strength})' if run.strength else ''}"


def portable(events: Sequence[AnyEvent], names: Mapping[str, str]) -> bytes:
    """The same recording without names of the machine that it was made on, for those who read it elsewhere."""
    encoder, buffer = LineEncoder(), bytearray()
    for event in events:
        encoder.append(_renamed(event, names), buffer)
    return bytes(buffer)


def renamed(text: str, names: Mapping[str, str]) -> str:
    """The longest name first: one may begin another."""
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, names[name])
    return text


def outer_names(events: Sequence[AnyEvent]) -> dict[str, str]:
    """Names for the cgroups in which the run's own was made, as long as theirs: records hold cut paths, too."""
    outer = ground_in(events, None).base.partition(_PREFIX)[0]
    return {name: f"outer{level}".ljust(len(name), "-")[: len(name)] for level, name in enumerate(outer.split("/")[1:])}


def own_cgroup(events: Sequence[AnyEvent]) -> str:
    """Path of the run's own, as far as it is its alone; empty: it never ran."""
    _, prefix, rest = ground_in(events, None).base.partition(_PREFIX)
    return prefix + rest


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return renamed(value, names)
    if isinstance(value, tuple):
        return tuple(_renamed(item, names) for item in value)
    if isinstance(value, dict):
        return {key: _renamed(item, names) for key, item in value.items()}
    if isinstance(value, msgspec.Struct):
        fields = value.__struct_fields__
        return msgspec.structs.replace(value, **{name: _renamed(getattr(value, name), names) for name in fields})
    return value


def with_reports(events: Sequence[AnyEvent], text: str) -> list[AnyEvent]:
    """A recording from before the tables of the kernel's reports were recorded, with those that were kept beside it.

    Args:
        text: records of /dev/kmsg, a line each.
    """
    if any(isinstance(event, LoggedTasks) for event in events):
        return list(events)
    stamps = {e.log_seq: e.ts_ns - e.log_usec * 1000 for e in events if isinstance(e, LoggedDecision) and e.log_usec}
    shift = next(iter(stamps.values()), 0)
    records, found = LiveRecords(), []
    for line in text.splitlines():
        record = parse_kmsg(line.encode())
        if record is not None:
            stamp = Stamp(record.usec * 1000 + shift, record.usec, record.seq, trusted=True, source="kmsg")
            found += records.push(record.text, stamp)
    first = max((event.seq for event in events), default=-1) + 1
    added = [event for event in found if isinstance(event, LoggedTasks | LoggedStats)]
    return [*events, *(msgspec.structs.replace(event, seq=first + place) for place, event in enumerate(added))]


def oom_reports(records: Iterable[str], *, of: str) -> tuple[str, ...]:
    """The lines of /dev/kmsg that are reports of kills in a cgroup whose path has `of`.

    Reports do not interleave: the kernel holds oom_lock from the first line of one to its last.
    """
    kept: list[str] = []
    current: list[str] = []
    for record in records:
        if _BEGIN in record:
            current = []
        current.append(record)
        if _END.search(record):
            if any("oom-kill:" in each and of in each for each in current):
                kept += current
            current = []
    return tuple(kept)

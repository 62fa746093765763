# SPDX-License-Identifier: Apache-2.0
"""Real kills of real PyTorch jobs, as the rules see them: with the kernel's tables or without, whole or thinned."""

import functools
from collections.abc import Iterable, Sequence

import msgspec

from tests.recorded_mechanisms import Recorded, recorded
from tracer.events import AnyEvent, CgroupSample, LoggedStats, LoggedTasks, PressureSample, ProcessSample
from tracer.repro import corpus
from tracer.units import NS_PER_S
from tracer.verdict.incident import Case
from tracer.verdict.kills import Kill
from tracer.verdict.limit_counted import shortage_of
from tracer.verdict.mechanisms.evidence import Evidence, gather
from tracer.verdict.story import Story

KILLED = [run for run in recorded() if run.name.endswith("-killed")]
BY_NAME = {run.name.removesuffix("-killed"): run for run in KILLED}


def with_table(run: Recorded) -> list[AnyEvent]:
    """As it is recorded since the tables are read live."""
    return corpus.with_reports(run.events(), run.report() or "")


def without_table(run: Recorded) -> list[AnyEvent]:
    """As where the kernel's log cannot be read live, or has no table (vm.oom_dump_tasks=0)."""
    return without(run.events(), LoggedTasks, LoggedStats)


def once_a_second(events: Iterable[AnyEvent]) -> list[AnyEvent]:
    """Without what was looked at more often near the limit, and after the kill."""
    kept: list[AnyEvent] = []
    last: dict[object, int] = {}
    for event in events:
        if isinstance(event, CgroupSample | ProcessSample | PressureSample):
            key = (type(event), getattr(event, "tgid", None), getattr(event, "path", None))
            if event.ts_ns - last.get(key, -NS_PER_S) < 0.9 * NS_PER_S:
                continue
            last[key] = event.ts_ns
        kept.append(event)
    return renumbered(kept)


def first_kill(case: Case) -> Kill:
    """Of the job's own."""
    return next(kill for kill in case.kills.kills if case.story.is_ours(kill.id.tgid, kill.start_ns))


def evidence(events: Sequence[AnyEvent]) -> Evidence:
    """What the rules get."""
    case = Case(Story(events))
    kill = first_kill(case)
    found = gather(case, kill, shortage_of(case.story, kill))
    assert found is not None
    return found


def bare(found: Evidence) -> Evidence:
    """Without what older recordings have not: locked pages, files of /dev/shm, faults."""
    people = tuple(msgspec.structs.replace(one, vitals=None) for one in found.people)
    return msgspec.structs.replace(found, people=people, owners=None, faults=None, kernel=None)


@functools.cache
def of(name: str, *, table: bool = True) -> Evidence:
    """Of the recording that is called so."""
    run = BY_NAME[name]
    return evidence(with_table(run) if table else without_table(run))


def without(events: Iterable[AnyEvent], *kinds: type[AnyEvent]) -> list[AnyEvent]:
    """All others."""
    return renumbered(event for event in events if not isinstance(event, kinds))


def renumbered(events: Iterable[AnyEvent]) -> list[AnyEvent]:
    """As if what is not there had never been recorded: no event is missing."""
    return [msgspec.structs.replace(event, seq=seq) for seq, event in enumerate(events)]

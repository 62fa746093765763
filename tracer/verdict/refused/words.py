# SPDX-License-Identifier: Apache-2.0
"""Refusals by the job's own words: whose they are, what of, and whether the process ended because of that."""

from collections.abc import Iterator
from typing import Literal

import msgspec

from tracer.events import ProcessId, TrainingLine
from tracer.events.machine import SHM
from tracer.units import NS_PER_S
from tracer.verdict.deaths import Death
from tracer.verdict.incident import Case
from tracer.verdict.refused.rooms import room
from tracer.verdict.spoken import is_anyones, went_on, whose

TOGETHER_NS = 2 * NS_PER_S
"""Lines of one failure come within this."""
ENOSPC = 28
NO_SPACE = "No space left on device"
Kind = Literal["host", "shm"]


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """What one process did not get."""

    kind: Kind
    death: Death
    at_ns: int
    who: ProcessId
    """It, or the DataLoader worker of it that was refused."""
    lines: tuple[TrainingLine, ...] = ()
    """Empty: by its end and its bound alone."""
    sure: bool = True
    """The words, where there are some, say whose they are, and of what."""
    asked_bytes: int | None = None


def kind_of(line: TrainingLine, *, full: bool) -> tuple[Kind, bool] | None:
    """What a line says was refused, and whether it says so beyond doubt.

    Args:
        full: /dev/shm was seen to be full about then.
    """
    if line.about == "host_alloc" or (line.about == "worker_raised" and line.what == "MemoryError"):
        return "host", True
    errno = line.numbers.get("errno")
    if line.about == "shm" and line.what != "Too many open files" and errno in {None, ENOSPC}:
        return "shm", errno == ENOSPC or line.what != "THAllocator"
    if line.about == "exception" and NO_SPACE in line.text:
        # Of a path elsewhere it is a disk that is full.
        here = f"{SHM}/" in line.text
        return ("shm", here) if here or (full and "/" not in line.text) else None
    return None


def by_words(case: Case) -> Iterator[Refused]:
    """One a process that ended soon after it, or somebody of its rank, had written that memory was refused."""
    found: dict[ProcessId, list[tuple[TrainingLine, Kind, bool]]] = {}
    deaths: dict[ProcessId, Death] = {}
    for line in case.said.lines:
        seen = room(case, line.ts_ns) if line.about == "exception" else None
        says = kind_of(line, full=seen is not None and seen.full)
        death = whose(case, line, aborted=True) if says is not None else None
        if says is None or death is None or _is_sent(death) or _killed_between(case, line, death):
            continue
        deaths[death.id] = death
        found.setdefault(death.id, []).append((line, *says))
    for identity, told in found.items():
        death = deaths[identity]
        # One that was survived is no reason, where there is another after it.
        lasting = [one for one in told if not went_on(case, one[0], death)] or told
        first, kind, sure = lasting[0]
        lines = [line for line, of, _ in lasting if of == kind and line.ts_ns - first.ts_ns <= TOGETHER_NS]
        asked = (line.numbers.get("requested_bytes") for line in lines)
        sizes = [round(size) for size in asked if size is not None]
        yield Refused(
            kind=kind,
            death=death,
            at_ns=min(first.ts_ns, death.at_ns),
            who=_worker(case, first, death) or death.id,
            lines=tuple(lines),
            sure=sure and not _is_doubtful(case, first, death),
            asked_bytes=max(sizes, default=None),
        )


def _is_doubtful(case: Case, first: TrainingLine, death: Death) -> bool:
    """Whether another one may have said so, or the process went on and ended by something else."""
    if is_anyones(case, first, death) or went_on(case, first, death):
        return True
    place = (first.ts_ns, first.seq)
    after = (line for line in case.said.lines if place < (line.ts_ns, line.seq) and line.ts_ns <= death.at_ns)
    return any(
        line.about == "exception" and kind_of(line, full=True) is None and _of_one_writer(first, line) for line in after
    )


def _of_one_writer(one: TrainingLine, two: TrainingLine) -> bool:
    """Far apart anybody may be meant. What is told at once by another rank follows from the first."""
    return two.ts_ns - one.ts_ns > TOGETHER_NS or (one.rank, one.stream) == (two.rank, two.stream)


def _killed_between(case: Case, line: TrainingLine, death: Death) -> bool:
    """Whether the kernel killed one of the job in between: it lived on until then, and that is the reason."""
    return any(
        line.ts_ns < kill.at_ns < death.at_ns and case.story.is_ours(kill.id.tgid, kill.start_ns)
        for kill in case.kills.kills
    )


def _is_sent(death: Death) -> bool:
    """Whether somebody else sent the signal that ended it."""
    by = death.by
    return bool(death.signal) and by is not None and by.sender_tgid != death.id.tgid


def _worker(case: Case, first: TrainingLine, death: Death) -> ProcessId | None:
    """The DataLoader worker that a line of the same failure names by its number."""
    near = (line for line in case.said.lines if abs(line.ts_ns - first.ts_ns) <= TOGETHER_NS)
    number = next((line.worker for line in near if line.about == "worker_raised" and line.worker is not None), None)
    if number is None:
        return None
    there = [
        identity
        for identity, role in case.story.roles.items()
        if role.name == "dataloader_worker"
        and role.worker == number
        and case.story.tree.is_ancestor(death.id, identity)
    ]
    alive = [one for one in there if (end := case.death(one)) is None or end.at_ns >= first.ts_ns - TOGETHER_NS]
    return alive[0] if len(alive) == 1 else None

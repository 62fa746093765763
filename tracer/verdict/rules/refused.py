# SPDX-License-Identifier: Apache-2.0
"""Host memory, or room in /dev/shm, was refused, and the process exited of that: nobody was killed.

The kernel has no record of a refusal. The job's own words make it likely, and no more; where it wrote none (or nobody
read it), a process that failed at its bound makes it possible. What bound that was is said only if it was seen.
"""

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from tracer.events import OutputWatched, ProcessId, TrainingLine
from tracer.events.machine import SHM
from tracer.units import NS_PER_S, format_bytes, format_duration
from tracer.verdict import people
from tracer.verdict.cuda.refusals import AT_ONCE_NS, BY_SIGNAL
from tracer.verdict.deaths import Death
from tracer.verdict.incident import TRAINING_ROLES, Case, Finding, belongs, doubt_caveats, strength
from tracer.verdict.mechanisms.rules.shared_memory import HELD
from tracer.verdict.model import Cause, Incident, Link, Status
from tracer.verdict.refused import remedies
from tracer.verdict.refused.bounds import Bound, address_space, bound, is_full
from tracer.verdict.refused.rooms import Room, room
from tracer.verdict.rules.cuda_oom import SURE, ended_link, not_killed
from tracer.verdict.spoken import SOON_NS, is_anyones, is_command, went_on, whose

TOGETHER_NS = 2 * NS_PER_S
"""Lines of one failure come within this."""
ENOSPC = 28
NO_SPACE = "No space left on device"
BRIM = 0.98
"""Of a bound: so near it must have been where nothing else speaks for it."""
Kind = Literal["host", "shm"]
CAUSES: dict[Kind, Cause] = {"host": "host_allocation_failed", "shm": "shm_exhausted"}
HEADLINES: dict[Kind, str] = {
    "host": "an allocation of host memory was refused; nobody was killed",
    "shm": f"{SHM} was full: shared memory was refused",
}


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


def find(case: Case, known: set[ProcessId]) -> Iterable[Finding]:
    """One a process.

    Args:
        known: processes whose end is explained by what the kernel or the driver of a GPU was seen to do.
    """
    told: set[ProcessId] = set()
    for refused in (*_by_words(case), *_by_bounds(case)):
        if refused.death.id not in told | known:
            told.add(refused.death.id)
            yield _finding(case, refused)


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


def _by_words(case: Case) -> Iterator[Refused]:
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
            sure=sure and not is_anyones(case, first, death) and not went_on(case, first, death),
            asked_bytes=max(sizes, default=None),
        )


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


def _by_bounds(case: Case) -> Iterator[Refused]:
    """Who failed by itself at a bound, of whom nothing else is told: a hint, and no more."""
    for death in case.deaths:
        if not 0 < death.code <= BY_SIGNAL or not _has_part(case, death.id) or _has_reason(case, death):
            continue
        mapped, shm = address_space(case, death.id), room(case, death.at_ns)
        full = mapped is not None and is_full(mapped, BRIM)
        if full or (shm is not None and shm.brimful):
            kind: Kind = "host" if full else "shm"
            yield Refused(kind=kind, death=death, at_ns=death.at_ns, who=death.id, sure=False)


def _has_part(case: Case, identity: ProcessId) -> bool:
    role = case.story.roles.get(identity)
    return (role is not None and role.name in TRAINING_ROLES - {"launcher"}) or is_command(case, identity)


def _has_reason(case: Case, death: Death) -> bool:
    """Whether its words, which were read, give one, or another process of the job was ended by a signal before."""
    before = (d for d in case.deaths if d.id != death.id and 0 <= death.at_ns - d.at_ns <= SOON_NS)
    if any(d.signal for d in before):
        return True
    if case.story.of(OutputWatched) or case.said.lines:
        return any(
            line.about not in {"progress", "host_alloc"} and -NS_PER_S <= death.at_ns - line.ts_ns <= SOON_NS
            for line in case.said.lines
        )
    return False


def _finding(case: Case, refused: Refused) -> Finding:
    story, death = case.story, refused.death
    doubts = story.doubts(refused.at_ns, death.at_ns)
    victim = people.process(story, refused.who)
    seen = room(case, refused.at_ns) if refused.kind == "shm" else None
    reason = bound(case, refused.who, refused.at_ns, refused.asked_bytes)
    short = _room_link(seen) if refused.kind == "shm" else _bound_link(reason)
    links = (
        _refused(refused),
        short,
        belongs(story, refused.who),
        ended_link(death, "not_observed", _ended(case, refused)),
        not_killed(case, death),
    )
    sure = strength(links, ("a text is no proof",)) if refused.lines and refused.sure else "possible"
    workers = sum(role.name == "dataloader_worker" for role in story.roles.values())
    if refused.kind == "shm":
        advice = remedies.of_shared_memory(seen, victim.place, workers, _holder(case, refused, seen))
    else:
        advice = remedies.of_allocation(reason, refused.asked_bytes, victim.place)
    text = f"{SURE[sure]}{HEADLINES[refused.kind]}"
    return Finding(
        at_ns=refused.at_ns,
        ids=(death.id,),
        kind="death",
        incident=Incident(
            cause=CAUSES[refused.kind],
            strength=sure,
            at=story.utc(refused.at_ns),
            headline=text[0].upper() + text[1:],
            summary=_summary(case, refused, short),
            victim=victim,
            victims=(victim,),
            signal=death.signal or None,
            exit_code=None if death.signal else death.code,
            proof=links,
            remedies=advice,
            caveats=doubt_caveats(doubts),
        ),
    )


def _holder(case: Case, refused: Refused, seen: Room | None) -> str | None:
    """Who has most of what lies in /dev/shm mapped, where one has: such batches are kept, and do not wait."""
    if seen is None:
        return None
    used = seen.fill.size_bytes - seen.fill.free_bytes
    mapped = [
        (sample.rss_shmem_bytes or 0, member.id)
        for member in case.story.tree.members.values()
        for sample in [s for s in member.samples if s.ts_ns <= refused.at_ns + NS_PER_S][-1:]
    ]
    most, who = max(mapped, default=(0, None))
    return people.describe(case.story, who) if who is not None and used and most >= HELD * used else None


def _refused(refused: Refused) -> Link:
    name = "it was refused"
    if not refused.lines:
        statement = "no line that says so was read: by its end and its bound alone"
        return Link(link=1, name=name, status="not_observed", statement=statement)
    whose_words = "its log says so" if refused.sure else "a line of the job says so"
    what = next((line.what for line in refused.lines if line.what and line.about != "exception"), None)
    size = f", {format_bytes(refused.asked_bytes)} asked for" if refused.asked_bytes is not None else ""
    statement = f"{whose_words}{f' ({what})' if what else ''}{size}; the kernel keeps no record of a refusal"
    evidence = tuple(line.seq for line in refused.lines[:20])
    return Link(link=1, name=name, status="not_observed", statement=statement, evidence=evidence)


def _bound_link(reason: Bound) -> Link:
    return Link(link=2, name="a bound was reached", status=reason.status, statement=reason.statement,
                evidence=reason.evidence, rung=reason.rung)  # fmt: skip


def _room_link(seen: Room | None) -> Link:
    name = "no room was left"
    if seen is None:
        statement = "how full /dev/shm was just then was not seen"
        return Link(link=2, name=name, status="not_observed", statement=statement)
    status: Status = "present" if seen.full else "not_observed"
    more = "" if seen.full else ": enough, unless more than that was wanted at once"
    return Link(link=2, name=name, status=status, statement=f"{seen.statement}{more}", evidence=(seen.sample.seq,),
                rung="proc")  # fmt: skip


def _ended(case: Case, refused: Refused) -> str:
    death = refused.death
    who = "" if refused.who == death.id else f"{people.describe(case.story, death.id)} ended by "
    if not refused.lines:
        return f"{who}{death.status}; why was not seen"
    after_ns = max(death.at_ns - refused.lines[0].ts_ns, 0)
    text = f"{who}{death.status}, {format_duration(after_ns)} later"
    if went_on(case, refused.lines[0], death):
        return f"{text}, but a step was told in between"
    return f"{text}: that it was because of this is likely" if after_ns <= AT_ONCE_NS else text


def _summary(case: Case, refused: Refused, short: Link) -> str:
    story, death = case.story, refused.death
    clock = (story.utc(refused.at_ns) or "")[11:23]
    at = f" at {clock} UTC" if clock else ""
    who = people.subject(story, refused.who)
    reason = f": {short.statement}" if short.status == "present" else ""
    if not refused.lines:
        return f"{who} ended{at} by {death.status}{reason}."
    size = format_bytes(refused.asked_bytes) if refused.asked_bytes is not None else "memory"
    what = size if refused.kind == "host" else "shared memory"
    other = f"{people.describe(story, death.id)} " if refused.who != death.id else ""
    return f"{who} was refused {what}{at}, and {other}ended by {death.status}{reason}."

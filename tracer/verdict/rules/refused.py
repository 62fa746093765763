# SPDX-License-Identifier: Apache-2.0
"""Host memory, or room in /dev/shm, was refused, and the process exited of that: nobody was killed.

The kernel has no record of a refusal. The job's own words make it likely, and no more; where it wrote none (or nobody
read it), a process that failed at its bound makes it possible. What bound that was is said only if it was seen.
"""

from collections.abc import Iterable

from tracer.events import ProcessId
from tracer.events.machine import SHM
from tracer.units import NS_PER_S, format_bytes, format_duration
from tracer.verdict import people
from tracer.verdict.cuda.refusals import AT_ONCE_NS
from tracer.verdict.incident import Case, Finding, belongs, doubt_caveats, strength
from tracer.verdict.mechanisms.rules.shared_memory import HELD
from tracer.verdict.model import Cause, Incident, Link, Status
from tracer.verdict.refused import remedies
from tracer.verdict.refused.bounds import Bound, bound
from tracer.verdict.refused.ends import by_bounds
from tracer.verdict.refused.rooms import Room, room
from tracer.verdict.refused.words import Kind, Refused, by_words
from tracer.verdict.rules.cuda_oom import SURE, ended_link, not_killed
from tracer.verdict.spoken import went_on

CAUSES: dict[Kind, Cause] = {"host": "host_allocation_failed", "shm": "shm_exhausted"}
HEADLINES: dict[Kind, str] = {
    "host": "an allocation of host memory was refused; nobody was killed",
    "shm": f"{SHM} was full: shared memory was refused",
}


def find(case: Case, known: set[ProcessId]) -> Iterable[Finding]:
    """One a process.

    Args:
        known: processes whose end is explained by what the kernel or the driver of a GPU was seen to do.
    """
    told: set[ProcessId] = set()
    for refused in (*by_words(case), *by_bounds(case)):
        if refused.death.id not in told | known:
            told.add(refused.death.id)
            yield _finding(case, refused)


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

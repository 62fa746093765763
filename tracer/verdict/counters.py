# SPDX-License-Identifier: Apache-2.0
"""What counts of OOM kills say where nothing saw the kills themselves: that one happened, and who it can have been.

A count tells that a process of a cgroup (v2: or of one below) was killed, not which. It rises before the signal is
sent (`__oom_kill_process()`, mm/oom_kill.c), so between two readings of the count lies the kill, and the victim's end
not long after. Who ended then by another way than SIGKILL is not the victim; of the others it is the largest, since
that is whom the kernel chooses, unless what was seen of them does not explain the memory.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

from tracer.attribution.tree import Member
from tracer.events import CgroupSample, LoggedDecision, LoggedKill, Losses, PressureSample, ProcessId, VmstatSample
from tracer.events.signals import SIGKILL
from tracer.units import NS_PER_MS, NS_PER_S, has_limit
from tracer.verdict.deaths import Death
from tracer.verdict.growth import unreclaimable_bytes
from tracer.verdict.kills import Kill
from tracer.verdict.story import Story

SLACK_NS = 50 * NS_PER_MS
"""A count is read a little before its sample is stamped."""
DYING_NS = 2 * NS_PER_S
"""So long after the count rose a victim may still be seen: it has memory to give back, and its parent is busy."""
WIDEST_NS = 10 * NS_PER_S
"""Between readings further apart than this too much may have happened to name anyone."""
EXPLAINED_SHARE = 0.5
"""Of the limit (or of the machine's memory) that the processes which were seen must have held, for one to be named."""
DOMINANCE = 4
"""Among several that ended, only one that held so many times more than the next is named."""


class Rise(msgspec.Struct, frozen=True, kw_only=True):
    """A count of OOM kills rose between two readings."""

    kills: int
    from_ns: int
    to_ns: int
    cgroup: str | None
    """`None`: the count of the whole machine."""
    own: bool
    """Nothing but the job lives in that cgroup."""
    evidence: tuple[int, ...]


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A process of the job that may be what was killed."""

    id: ProcessId
    by_sigkill: bool
    """It is known to have died of SIGKILL; otherwise it vanished."""
    last_alive_ns: int
    ended_ns: int
    memory_bytes: int | None
    """Unreclaimable, when it was last seen."""
    evidence: tuple[int, ...]


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """Kills that a count tells of, and whom it can mean."""

    rise: Rise
    candidates: tuple[Candidate, ...]
    """Everyone of the job who can have been killed, the largest first."""
    named: tuple[Candidate, ...]
    """Those who were, by their memory; empty: it cannot be told."""
    logged: tuple[LoggedKill, ...] = ()
    """What the kernel's log says of as many, where nobody is named who was seen."""
    sure: bool
    """As many ended as were killed, and nobody outside the job can be meant: likely. Else possible."""


def count_kills(story: Story, kills: Sequence[Kill], deaths: Sequence[Death]) -> tuple[Counted, ...]:
    """Kills of the job that only a count tells of, in time order; none where BPF watched them.

    Args:
        kills: that are known otherwise; what these explain is left out.
        deaths: of the job's processes.
    """
    if story.watched("mark_victim", "signal_generate"):
        return ()
    ends = {death.id: death for death in deaths}
    known = {kill.id for kill in kills}
    everyone = [c for m in story.tree.members.values() if m.id not in known and (c := _candidate(m, ends.get(m.id)))]
    end = ends.get(story.tree.root) if story.tree.root is not None else None
    found: list[Counted] = []
    for rise in rises(story):
        explained = sum(1 for k in kills if rise.from_ns - DYING_NS <= k.at_ns <= rise.to_ns + DYING_NS)
        # The first victim of a group kill is counted twice.
        if rise.kills > 2 * explained:
            rest = msgspec.structs.replace(rise, kills=rise.kills - explained)
            one = _counted(story, rest, everyone, failed=end is None or end.failed)
            if one is not None:
                found.append(one)
    return tuple(found)


def rises(story: Story) -> tuple[Rise, ...]:
    """Of the count of the job's own cgroup; of the machine's where there is none. Close ones are taken as one."""
    job = story.job
    if job is None:
        return ()
    samples = [
        s
        for s in story.by(CgroupSample, lambda s: s.cgroup_id, "id").get(job.cgroup_id, ())
        if s.oom_kill is not None and job.cgroup_id is not None
    ]
    if samples:
        # A group kill counts its first victim twice.
        readings = [(s.ts_ns, (s.oom_kill or 0) - (s.oom_group_kill or 0), s.seq) for s in samples]
        if job.own_cgroup:
            readings.insert(0, (job.ts_ns, 0, job.seq))
        return _joined(_rises(readings, samples[-1].path, own=job.own_cgroup))
    return _joined(_rises([(s.ts_ns, s.oom_kill, s.seq) for s in story.of(VmstatSample)], None, own=False))


def counts_were_read(story: Story) -> bool:
    """Whether the count of the job's own cgroup was read before the job began and after it ended."""
    job = story.job
    if job is None or job.cgroup_id is None:
        return False
    samples = [
        s for s in story.by(CgroupSample, lambda s: s.cgroup_id, "id").get(job.cgroup_id, ()) if s.oom_kill is not None
    ]
    root = story.member(job.tgid, job.start_ns)
    ended = root.ended if root is not None else None
    before = bool(samples) and (job.own_cgroup or samples[0].ts_ns <= job.ts_ns)
    # A sample that says what the one before said is not recorded, but what follows the last round is.
    after = ended is not None and any(losses.ts_ns >= ended.ts_ns for losses in story.of(Losses))
    return before and after and not story.missing_events


def held_bytes(member: Member, until_ns: int) -> int | None:
    """What it held when it was last seen alive before a moment."""
    values = [v for s in member.samples if s.ts_ns <= until_ns and (v := unreclaimable_bytes(s)) is not None]
    return values[-1] if values else None


def room_bytes(story: Story, at_ns: int) -> int | None:
    """The smallest limit above the job, else the machine's memory."""
    limits = [s.limit_bytes for s in story.of(CgroupSample) if has_limit(s.limit_bytes) and s.ts_ns <= at_ns]
    totals = [p.mem_total_bytes for p in story.of(PressureSample) if p.mem_total_bytes is not None]
    return min([*(limit for limit in limits if limit is not None), *totals], default=None)


def _rises(readings: Sequence[tuple[int, int, int]], cgroup: str | None, *, own: bool) -> Iterable[Rise]:
    for (from_ns, before, before_seq), (to_ns, after, seq) in pairwise(readings):
        if after > before:
            yield Rise(
                kills=after - before,
                from_ns=from_ns - SLACK_NS,
                to_ns=to_ns,
                cgroup=cgroup,
                own=own,
                evidence=(before_seq, seq),
            )


def _joined(found: Iterable[Rise]) -> tuple[Rise, ...]:
    """Rises so close that the same ends may belong to either."""
    joined: list[Rise] = []
    for rise in found:
        last = joined[-1] if joined else None
        if last is not None and rise.from_ns - last.to_ns <= DYING_NS:
            joined[-1] = msgspec.structs.replace(
                last, kills=last.kills + rise.kills, to_ns=rise.to_ns, evidence=(*last.evidence, *rise.evidence)
            )
        else:
            joined.append(rise)
    return tuple(joined)


def _candidate(member: Member, death: Death | None) -> Candidate | None:
    """`None`: it lives, or it ended by itself or by another signal."""
    if death is not None and death.signal != SIGKILL:
        return None
    end = death.ended or death.exit or death.zombie if death is not None else member.gone
    if end is None:
        return None
    alive = [e.ts_ns for e in (*member.samples, *member.seen) if e.ts_ns < end.ts_ns and not _is_dead(e)]
    held = [(s.seq, v) for s in member.samples if (v := unreclaimable_bytes(s)) is not None and s.ts_ns <= end.ts_ns]
    return Candidate(
        id=member.id,
        by_sigkill=death is not None,
        last_alive_ns=max(alive, default=end.ts_ns),
        ended_ns=end.ts_ns,
        memory_bytes=held[-1][1] if held else None,
        evidence=(*(death.evidence if death is not None else (end.seq,)), *(seq for seq, _ in held[-1:])),
    )


def _is_dead(event: object) -> bool:
    return getattr(event, "state", None) in {"Z", "X"}


def _counted(story: Story, rise: Rise, everyone: Sequence[Candidate], *, failed: bool) -> Counted | None:
    inside = [
        c
        for c in everyone
        if c.last_alive_ns <= rise.to_ns + DYING_NS and c.ended_ns >= rise.from_ns and _stands_in(story, c, rise)
    ]
    inside.sort(key=lambda c: (-(c.memory_bytes or 0), c.id))
    named = _named(story, rise, inside)
    killed = any(c.by_sigkill for c in inside)
    if not rise.own:
        # Others live there as well: only who held most of all the memory was larger than any of them.
        room = room_bytes(story, rise.to_ns)
        if room is None or sum(c.memory_bytes or 0 for c in named) <= EXPLAINED_SHARE * room:
            named = ()
        # Processes end all the time: that one vanished while somebody was killed is news where the job failed then.
        if not inside or not (killed or (rise.cgroup is not None and (named or failed))):
            return None
    alone = len(inside) == len(named) == rise.kills
    logged = () if named else _logged(story, rise)
    sure = ((alone and rise.cgroup is not None) or bool(logged)) and not story.missing_events
    return Counted(rise=rise, candidates=tuple(inside), named=named, logged=logged, sure=sure)


def _logged(story: Story, rise: Rise) -> tuple[LoggedKill, ...]:
    """Kills in the job's own cgroup that the kernel's log tells of, exactly as many as were counted."""
    if not rise.own or story.job is None or story.pids_differ:
        return ()
    inside = {
        d.tgid
        for d in story.of(LoggedDecision)
        if d.trusted and d.task_memcg is not None and d.task_memcg == rise.cgroup
    }
    found = tuple(
        k
        for k in story.of(LoggedKill)
        if k.trusted and k.pid in inside and rise.from_ns - DYING_NS <= k.ts_ns <= rise.to_ns + DYING_NS
    )
    return found if len(found) == rise.kills else ()


def _named(story: Story, rise: Rise, inside: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Those whom the kernel must have meant: the largest, where what was seen explains the memory."""
    top, rest = tuple(inside[: rise.kills]), inside[rise.kills :]
    room = room_bytes(story, rise.to_ns)
    if story.missing_events or len(top) < rise.kills or room is None or rise.to_ns - rise.from_ns > WIDEST_NS:
        return ()
    ids = {c.id for c in inside}
    others = [held_bytes(m, rise.to_ns) for m in story.tree.members.values() if m.id not in ids and _lived(m, rise)]
    ended = [c.memory_bytes for c in rest]
    if None in others or None in ended:
        return ()  # it may have held more than any other
    least = min(c.memory_bytes or 0 for c in top)
    held = [bytes_ or 0 for bytes_ in others]
    seen = sum(c.memory_bytes or 0 for c in inside) + sum(held)
    largest = least >= max(held, default=0) and least >= DOMINANCE * max((bytes_ or 0 for bytes_ in ended), default=0)
    explained = seen >= EXPLAINED_SHARE * room and all(c.by_sigkill or _fills(c, inside, held, room) for c in top)
    return top if least and largest and explained else ()


def _lived(member: Member, rise: Rise) -> bool:
    """Whether it was there when the count rose."""
    dead = next((sample for sample in member.samples if _is_dead(sample)), None)
    ends = [end.ts_ns for end in (member.exit, member.gone, member.ended, dead) if end is not None]
    return (member.began_ns is None or member.began_ns <= rise.to_ns) and min(ends, default=rise.to_ns) >= rise.from_ns


def _fills(candidate: Candidate, inside: Sequence[Candidate], others: Sequence[int], room: int) -> bool:
    """Whether it alone held most of the room: then nobody who came and went unseen can have been larger.

    One that only vanished may have ended in any way. What it holds may be its parent's since the fork, as may what
    each other process holds: the largest of them is taken off.
    """
    beside = [*others, *(c.memory_bytes or 0 for c in inside if c.id != candidate.id)]
    return (candidate.memory_bytes or 0) - max(beside, default=0) >= EXPLAINED_SHARE * room


def _stands_in(story: Story, candidate: Candidate, rise: Rise) -> bool:
    """v1 counts each cgroup by itself: who stood in another one is not meant."""
    member = story.tree.members[candidate.id]
    known = [s.cgroup_id for s in member.seen if s.cgroup_id is not None]
    v1 = story.header is not None and story.header.cgroup_version == 1
    job = story.job
    return not (v1 and rise.cgroup is not None and known and job is not None and known[-1] != job.cgroup_id)

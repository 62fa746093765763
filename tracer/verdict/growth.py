# SPDX-License-Identifier: Apache-2.0
"""Whose memory grew: each process's unreclaimable memory over time, and the culprit where one stands out.

Unreclaimable is anonymous + shared + swapped. Pages that a fork shares by copy-on-write count in each
process, so growth is measured against what a process began with, and never as a share of a total.
"""

from collections.abc import Sequence

import msgspec

from tracer.attribution.tree import Member
from tracer.events import CgroupSample, ProcessId, ProcessSample
from tracer.units import MIB, NS_PER_MS, NS_PER_S, format_bytes, format_duration
from tracer.verdict.kills import Kill
from tracer.verdict.model import Culprit, Series
from tracer.verdict.people import describe, ns_pids
from tracer.verdict.story import Story

WINDOW_NS = 300 * NS_PER_S
MIN_GROWTH_BYTES = 8 * MIB
CULPRIT_SHARE = 0.6
"""Of all growth in the window. Chosen for "no doubt", not fitted: below it nobody is named."""
LEAD_FACTOR = 3
"""Where all had grown as they began (a rank imports, and loads its model): the culprit grew this many times what the
next did, and outweighs all others over the second half of the time."""
ALIKE_FACTOR = 2
"""Processes of one role grew alike where the most grown did no more than this times what the least grown did."""
AFTER_NS = 250 * NS_PER_MS
"""The samples that a mark sets off come so late; whoever lives on has not grown much more in that time."""
SERIES_POINTS = 24


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """One process over the window before a moment."""

    id: ProcessId
    first_ns: int
    last_ns: int
    first_bytes: int
    last_bytes: int
    points: tuple[tuple[int, int], ...]
    """(ts_ns, bytes), in time order."""

    @property
    def grown_bytes(self) -> int:
        return self.last_bytes - self.first_bytes

    def grown_since(self, moment_ns: int) -> int:
        """From the last value known by then on."""
        return self.last_bytes - next(
            (size for at_ns, size in reversed(self.points) if at_ns <= moment_ns), self.first_bytes
        )

    @property
    def rate_bytes_per_s(self) -> float | None:
        """Mean over the span; `None` where it is too short to mean anything."""
        span_ns = self.last_ns - self.first_ns
        return self.grown_bytes * NS_PER_S / span_ns if span_ns >= NS_PER_S // 10 else None

    def series(self) -> Series:
        """Evenly spaced for a sparkline: the last value known at each step."""
        return resample(self.points, self.first_ns, self.last_ns)


def unreclaimable_bytes(sample: ProcessSample) -> int | None:
    """Anonymous + shared + swap; `None` where the sample has no anonymous memory."""
    if sample.rss_anon_bytes is None:
        return None
    return sample.rss_anon_bytes + (sample.rss_shmem_bytes or 0) + (sample.swap_bytes or 0)


def growths(story: Story, until_ns: int, kills: Sequence[Kill] = ()) -> tuple[Growth, ...]:
    """All processes of the job that were there at `until_ns`, over the window before it, most grown first.

    Args:
        kills: their marks give the last value of a victim exactly.
    """
    from_ns = max(until_ns - WINDOW_NS, story.job.ts_ns if story.job else 0)
    by_id = {kill.id: kill for kill in kills}
    found = [_growth(m, from_ns, until_ns, by_id.get(m.id)) for m in story.tree.members.values()]
    return tuple(sorted((g for g in found if g is not None), key=lambda g: (-g.grown_bytes, g.id)))


def shmem_growth(story: Story, cgroup_id: int | None, until_ns: int) -> int:
    """By how much shared memory and tmpfs of a cgroup grew in the window: much of it may be in no process's RSS."""
    from_ns = max(until_ns - WINDOW_NS, story.job.ts_ns if story.job else 0)
    values = [
        s.shmem_bytes
        for s in story.by(CgroupSample, lambda s: s.cgroup_id, "id").get(cgroup_id, ())
        if s.shmem_bytes is not None and from_ns <= s.ts_ns <= until_ns + AFTER_NS
    ]
    return max(values) - values[0] if values else 0


def culprit(story: Story, found: Sequence[Growth], shared_bytes: int = 0) -> Culprit | None:
    """The one process whose growth outweighs that of all others; `None` where none does.

    Args:
        shared_bytes: what grew in the cgroup as shared memory, whoever wrote it.
    """
    growing = [g for g in found if g.grown_bytes > 0]
    total = sum(g.grown_bytes for g in growing)
    if growing and growing[0].grown_bytes < CULPRIT_SHARE * (growing[0].grown_bytes + shared_bytes):
        return None
    if not growing or growing[0].grown_bytes < MIN_GROWTH_BYTES:
        return None
    top = growing[0]
    others = total - top.grown_bytes
    span = format_duration(top.last_ns - top.first_ns)
    why = f"{format_bytes(top.grown_bytes)} more in {span}"
    if len(found) == 2:
        why += f"; the other process of the job {format_bytes(others)}"
    elif len(found) > 2:
        why += f"; the other {len(found) - 1} processes of the job together {format_bytes(others)}"
    if top.grown_bytes < CULPRIT_SHARE * total:
        late = _lately(growing)
        if late is None:
            return None
        why += f", {late}"
    start_ns = story.tree.processes[top.id].start_ns
    who, pids = describe(story, top.id), ns_pids(story, top.id)
    return Culprit(pid=top.id.tgid, start_ns=start_ns, why=why, who=who, ns_pids=pids)


def _lately(growing: Sequence[Growth]) -> str | None:
    """What the others grew in the second half of the time, where the first one leads and stands out there."""
    top, others = growing[0], growing[1:]
    from_ns, until_ns = min(g.first_ns for g in growing), max(g.last_ns for g in growing)
    half_ns = until_ns - (until_ns - from_ns) // 2
    own, rest = top.grown_since(half_ns), sum(max(0, g.grown_since(half_ns)) for g in others)
    leads = top.grown_bytes >= LEAD_FACTOR * max(g.grown_bytes for g in others)
    if not leads or own < max(MIN_GROWTH_BYTES, CULPRIT_SHARE * (own + rest)):
        return None
    return f"{format_bytes(rest)} of it in the last {format_duration(until_ns - half_ns)}"


def together(story: Story, found: Sequence[Growth], shared_bytes: int = 0, whose: str | None = None) -> str | None:
    """What grew where no single process stands out: shared memory, or the processes of one role alike.

    Args:
        shared_bytes: what grew in the cgroup as shared memory.
        whose: and who has it, where that was looked at.
    """
    total = sum(g.grown_bytes for g in found if g.grown_bytes > 0)
    if shared_bytes >= max(MIN_GROWTH_BYTES, CULPRIT_SHARE * (total + shared_bytes)):
        whose = whose or "who wrote it was not seen"
        return f"shared memory and tmpfs of the cgroup: {format_bytes(shared_bytes)} more; {whose}"
    for name, plural in (("dataloader_worker", "DataLoader workers"), ("rank", "ranks")):
        group = role_group(story, found, name)
        grown = [g.grown_bytes for g in group]
        if len(group) > 1 and sum(grown) >= max(MIN_GROWTH_BYTES, CULPRIT_SHARE * total):
            low, high = format_bytes(min(grown)), format_bytes(max(grown))
            each = low if low == high else f"{low} to {high}"
            return f"{len(group)} {plural} alike, {each} more each; none stands out"
    return None


def is_flat(found: Sequence[Growth], identity: ProcessId) -> bool:
    """Whether a process was seen more than once and hardly grew."""
    return any(g.id == identity and len(g.points) > 1 and g.grown_bytes < MIN_GROWTH_BYTES for g in found)


def role_group(story: Story, found: Sequence[Growth], name: str) -> tuple[Growth, ...]:
    """The processes of one role that grew, if they did so alike; else nothing."""
    group = [g for g in found if (role := story.roles.get(g.id)) is not None and role.name == name]
    growing = [g for g in group if g.grown_bytes >= MIN_GROWTH_BYTES]
    same = bool(growing) and growing[0].grown_bytes <= ALIKE_FACTOR * growing[-1].grown_bytes
    return tuple(growing) if same else ()


def resample(points: Sequence[tuple[int, int]], first_ns: int, last_ns: int, count: int = SERIES_POINTS) -> Series:
    """The last value known at each of `count` evenly spaced moments."""
    values: list[int | None] = []
    place, current = 0, None
    for step in range(count):
        moment = first_ns + (last_ns - first_ns) * step // max(count - 1, 1)
        while place < len(points) and points[place][0] <= moment:
            current = points[place][1]
            place += 1
        values.append(current)
    return Series(values_bytes=tuple(values), first_ns=first_ns, last_ns=last_ns)


def _growth(member: Member, from_ns: int, until_ns: int, kill: Kill | None) -> Growth | None:
    began_ns = member.fork.ts_ns if member.fork is not None else from_ns
    if began_ns > until_ns or (member.end_ns is not None and member.end_ns < until_ns):
        return None
    points: list[tuple[int, int]] = []
    # An exec throws the inherited memory away: what counts begins after it.
    born_ns = max([from_ns, *(e.ts_ns for e in member.execs if e.ts_ns <= until_ns)])
    if member.fork is not None and not member.execs and member.fork.ts_ns >= from_ns:
        points.append((member.fork.ts_ns, member.fork.anon_rss_bytes))
    for sample in member.samples:
        value = unreclaimable_bytes(sample)
        if value is not None and born_ns <= sample.ts_ns <= until_ns:
            points.append((sample.ts_ns, value))
        elif value is not None and kill is None and until_ns < sample.ts_ns <= until_ns + AFTER_NS:
            points.append((until_ns, value))
            break
    if kill is not None and kill.mark is not None and kill.at_ns <= until_ns:
        mark = kill.mark
        points.append((kill.at_ns, mark.anon_rss_bytes + mark.shmem_rss_bytes + mark.swap_bytes))
    if not points:
        return None
    first, last = points[0], points[-1]
    return Growth(
        id=member.id,
        first_ns=first[0],
        last_ns=last[0],
        first_bytes=first[1],
        last_bytes=last[1],
        points=tuple(points),
    )

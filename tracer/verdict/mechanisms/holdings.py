# SPDX-License-Identifier: Apache-2.0
"""What each process held at a moment, and what of that it had inherited at its fork."""

from collections.abc import Mapping, Sequence

import msgspec

from tracer.attribution.tree import Member
from tracer.events import LoggedTasks, ProcessId
from tracer.units import NS_PER_MS
from tracer.verdict.growth import AFTER_NS
from tracer.verdict.kills import Kill
from tracer.verdict.mechanisms.vitals import Vitals, vitals
from tracer.verdict.people import short
from tracer.verdict.story import Story

NEXT_LOOK_NS = 1500 * NS_PER_MS
"""All are looked at each second; what did not change is not written."""


class Holding(msgspec.Struct, frozen=True, kw_only=True):
    """One process of the job at the kill."""

    id: ProcessId
    who: str
    role: str | None
    rank: int | None
    anon_bytes: int
    """Pages that are shared since a fork among them."""
    shmem_bytes: int
    """Of shared memory what it has mapped and touched."""
    inherited_bytes: int
    """Of `anon_bytes` what it may still share with who forked it; 0 after an exec."""
    before_bytes: int
    """What it had where the picture begins: of one that was forked since then what it inherited."""
    forked_ns: int | None
    vitals: Vitals | None = None
    """`None`: not recorded."""

    @property
    def grown_bytes(self) -> int:
        return self.anon_bytes - self.before_bytes

    @property
    def own_bytes(self) -> int:
        return self.anon_bytes - self.inherited_bytes


def holdings(
    story: Story, kill: Kill, from_ns: int, tasks: LoggedTasks | None, kills: Mapping[ProcessId, Kill]
) -> tuple[Holding, ...]:
    """Of all that lived at the kill and whose memory was seen, in the order of the tree."""
    there = [m for m in story.tree.members.values() if is_there(m, kill.at_ns)]
    rows = {} if tasks is None else {row.tgid: row for row in tasks.rows}
    page_bytes = story.header.page_bytes if story.header is not None else 4096
    found: list[Holding] = []
    shares = inherited(there)
    for member in there:
        row, own = rows.get(member.id.tgid), kills.get(member.id)
        last = _last(member, kill.at_ns)
        anon = last[0] if last is not None else None
        shmem = last[1] if last is not None else 0
        if own is not None and own.mark is not None:
            anon, shmem = own.mark.anon_rss_bytes, own.mark.shmem_rss_bytes
        if row is not None and row.rss_anon_pages is not None:
            anon, shmem = row.rss_anon_pages * page_bytes, (row.rss_shmem_pages or 0) * page_bytes
        if anon is None:
            continue
        role = story.roles.get(member.id)
        forked = member.fork if member.fork is not None and not _execed(member, kill.at_ns) else None
        before = anon_between(member, from_ns)
        if before is None:
            before = forked.anon_rss_bytes if forked is not None else 0
        found.append(
            Holding(
                id=member.id,
                who=short(story, member.id),
                role=role.name if role is not None else None,
                rank=role.rank if role is not None else None,
                anon_bytes=anon,
                shmem_bytes=shmem,
                inherited_bytes=min(shares.get(member.id, 0), anon),
                before_bytes=before,
                forked_ns=forked.ts_ns if forked is not None else None,
                vitals=vitals(member, from_ns, kill.at_ns),
            )
        )
    return tuple(found)


def inherited(there: Sequence[Member]) -> dict[ProcessId, int]:
    """What each shares with others at most since its fork, so that the sum is what is counted more than once.

    Where who forked them is gone, or runs another program, the pages are counted once less: by one of its children.
    """
    alive = {member.id: member for member in there}
    found: dict[ProcessId, int] = {}
    orphans: dict[ProcessId, list[ProcessId]] = {}
    for member in there:
        fork = member.fork
        if fork is None or member.execs or member.parent is None:
            continue
        found[member.id] = fork.anon_rss_bytes
        parent = alive.get(member.parent)
        if parent is None or any(e.ts_ns > fork.ts_ns for e in parent.execs):
            orphans.setdefault(member.parent, []).append(member.id)
    for children in orphans.values():
        found[max(children, key=lambda one: found[one])] = 0
    return found


def is_there(member: Member, at_ns: int) -> bool:
    """Whether it had begun and not ended."""
    began_ns = member.began_ns
    return (began_ns is None or began_ns <= at_ns) and (member.end_ns is None or member.end_ns >= at_ns)


def anon_at(member: Member, at_ns: int) -> int | None:
    """By the last look at it; a sample is written when something changed. `None`: not there, or not seen yet."""
    if not is_there(member, at_ns):
        return None
    begun_ns = max((e.ts_ns for e in member.execs if e.ts_ns <= at_ns), default=0)
    for sample in reversed(member.samples):
        if sample.ts_ns <= at_ns and sample.rss_anon_bytes is not None:
            return sample.rss_anon_bytes if sample.ts_ns >= begun_ns else None
    fork = member.fork
    return fork.anon_rss_bytes if fork is not None and fork.ts_ns <= at_ns and not begun_ns else None


def anon_between(member: Member, at_ns: int) -> int | None:
    """As `anon_at`, but in a straight line to the next look, where that comes so soon that none was left out."""
    before = anon_at(member, at_ns)
    looks = [s for s in member.samples if s.rss_anon_bytes is not None]
    last = next((s for s in reversed(looks) if s.ts_ns <= at_ns), None)
    after = next((s for s in looks if s.ts_ns > at_ns), None)
    if before is None or last is None or after is None or after.rss_anon_bytes is None:
        return before
    span_ns = after.ts_ns - last.ts_ns
    if span_ns > NEXT_LOOK_NS or any(last.ts_ns < e.ts_ns <= after.ts_ns for e in member.execs):
        return before
    return before + (after.rss_anon_bytes - before) * (at_ns - last.ts_ns) // span_ns


def _execed(member: Member, at_ns: int) -> bool:
    return any(e.ts_ns <= at_ns for e in member.execs)


def _last(member: Member, at_ns: int) -> tuple[int, int] | None:
    """The last look before; where there was none, the one that the mark set off."""
    begun_ns = max((e.ts_ns for e in member.execs if e.ts_ns <= at_ns), default=0)
    last = None
    for sample in member.samples:
        if sample.rss_anon_bytes is None or sample.ts_ns < begun_ns:
            continue
        if sample.ts_ns > at_ns:
            if sample.ts_ns <= at_ns + AFTER_NS and last is None:
                last = sample
            break
        last = sample
    if last is not None and last.rss_anon_bytes is not None:
        return last.rss_anon_bytes, last.rss_shmem_bytes or 0
    fork = member.fork
    return (fork.anon_rss_bytes, 0) if fork is not None and fork.ts_ns <= at_ns and not begun_ns else None

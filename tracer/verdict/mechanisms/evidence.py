# SPDX-License-Identifier: Apache-2.0
"""The numbers that all rules share, made once for a kill: what grew since when, who holds what, what a fork shared.

The arithmetic of copy-on-write: pages that a fork shares are in the RssAnon of each process and are charged once. So
`sum of RssAnon - what is charged` is still shared, and `what was inherited - that` has been copied since. It is exact
with the kernel's own report, whose table has every process below the limit; without it, processes that are none of
the job's hide in it.
"""

from collections.abc import Sequence

import msgspec

from tracer.attribution.tree import Member
from tracer.events import JobStarted, LoggedTasks
from tracer.units import MIB, NS_PER_S
from tracer.verdict.incident import Case
from tracer.verdict.kills import Kill
from tracer.verdict.limit import Shortage
from tracer.verdict.marks import Mark
from tracer.verdict.mechanisms.faults import Faults, since_fork
from tracer.verdict.mechanisms.filled import Filled, Limited, limited, looks_of
from tracer.verdict.mechanisms.holdings import Holding, anon_at, holdings, inherited, is_there
from tracer.verdict.mechanisms.kernel_parts import KernelGrowth, growth
from tracer.verdict.mechanisms.said import Doing, doing
from tracer.verdict.mechanisms.shape import Shape, course as course_of
from tracer.verdict.shm_owners import Owners, owners

LEAST_GROWN_BYTES = 8 * MIB
LEAST_GROWN_SHARE = 0.02
"""Of the limit: less is no growth."""
RATE_NS = 10 * NS_PER_S
"""The rate at the end is that of so long at most."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """Of one kill. Bytes `grown` are those since `from_ns`."""

    limited: Limited
    at_ns: int
    from_ns: int
    shape: Shape
    """jump, rise: from a level that had been steady, at once or in some seconds."""
    level_bytes: int
    """Of what cannot be reclaimed, the highest but for the last moments."""
    level_ns: int
    """So long it had been near that."""
    now: Filled
    before: Filled
    exact: bool
    """By the kernel's own report: nothing was estimated."""
    people: tuple[Holding, ...]
    inherited_bytes: int
    copied_bytes: int | None
    """Of what was inherited. `None`: what is charged is not known."""
    alone: bool
    """Nobody but the job is below the limit, as far as it is known: by the table, or by a cgroup of its own."""
    outside_bytes: int
    """Of processes that are none of the job's; without the table what at least must be theirs."""
    outside_grown_bytes: int
    outside_names: tuple[str, ...]
    frames: tuple[str, ...]
    cache_grown_bytes: int
    """At most, since `from_ns`: it may have been reclaimed again."""
    pinned_bytes: int
    pinned_grown_bytes: int
    calls_watched: bool
    """Of CUDA: what it locked is known."""
    rate_bytes_per_s: float | None
    doing: Doing
    """By the job's own words."""
    epochs: tuple[Mark, ...]
    owners: Owners | None = None
    """Of the files in /dev/shm; `None`: nobody looked."""
    faults: Faults | None = None
    """Since pages were shared; `None`: not recorded."""
    kernel: KernelGrowth | None = None
    """What grew of memory of the kernel; `None`: its size is not known."""
    doubts: tuple[str, ...]
    """Why something may be missing."""
    seqs: tuple[int, ...]

    @property
    def grown_bytes(self) -> int:
        """All that cannot be reclaimed."""
        return self.now.held_bytes - self.before.held_bytes

    @property
    def anon_grown_bytes(self) -> int:
        return _less(self.now.anon_bytes, self.before.anon_bytes)

    @property
    def shmem_grown_bytes(self) -> int:
        return _less(self.now.shmem_bytes, self.before.shmem_bytes)

    @property
    def kernel_grown_bytes(self) -> int:
        return _less(self.now.kernel_bytes, self.before.kernel_bytes)

    @property
    def has_grown(self) -> bool:
        limit = self.limited.limit_bytes or self.now.usage_bytes
        return self.grown_bytes >= max(LEAST_GROWN_BYTES, LEAST_GROWN_SHARE * limit)

    @property
    def left_level(self) -> bool:
        """Whether what grew came on top of a level."""
        return self.shape in {"jump", "rise"}

    def share(self, part_bytes: int) -> float:
        """Of all growth."""
        return max(0.0, min(1.0, part_bytes / self.grown_bytes)) if self.grown_bytes > 0 else 0.0

    def of_role(self, *names: str) -> tuple[Holding, ...]:
        return tuple(one for one in self.people if one.role in names)

    @property
    def lockers(self) -> tuple[Holding, ...]:
        """Who has more pages locked than where the picture begins, most first."""
        people = [one for one in self.people if one.vitals is not None and one.vitals.locked_grown_bytes > 0]
        return tuple(sorted(people, key=lambda one: -(one.vitals.locked_grown_bytes if one.vitals else 0)))

    @property
    def mapped_bytes(self) -> int:
        """Shared memory that processes have mapped and touched: of what two of them map twice."""
        return sum(one.shmem_bytes for one in self.people)


def gather(case: Case, kill: Kill, shortage: Shortage) -> Evidence | None:
    """`None`: the limit was not looked at while it filled."""
    story = case.story
    limit = limited(story, kill, shortage)
    if limit is None:
        return None
    now = limit.at_kill or _estimated(case, kill, shortage, limit)
    course = [(look.at_ns, look.held_bytes) for look in limit.looks]
    # Short of memory the looks themselves have to wait, and of a machine nothing tells how it was at the kill.
    end_ns = limit.looks[-1].at_ns if limit.machine else kill.at_ns
    from_ns, shape, level_bytes, level_ns = course_of(course, end_ns, now.held_bytes)
    before = next(look for look in reversed(limit.looks) if look.at_ns <= from_ns)
    exact = limit.at_kill is not None and limit.tasks is not None
    people = holdings(story, kill, from_ns, limit.tasks, case.kills.by_id)
    copied, spare = _copied(case, kill, limit, people)
    foreign, names = _foreign(case, kill, limit.tasks) if limit.tasks is not None else (None, ())
    # Processes of the job may have cgroups of their own beside that which it began in.
    left = max(0, now.held_bytes - sum(one.own_bytes for one in people))
    outside = foreign if foreign is not None else min(left, _beside(case, kill, limit, spare))
    if foreign and now.anon_bytes is not None:
        # What they share with processes elsewhere is charged elsewhere.
        outside = max(0, min(foreign, now.anon_bytes - sum(one.own_bytes for one in people) - (copied or 0)))
    caches = [look.cache_bytes or 0 for look in limit.looks if look.at_ns >= from_ns]
    held, held_before = case.cuda.held(kill.at_ns), case.cuda.held(from_ns)
    mark, marks = kill.mark, case.marks
    return Evidence(
        limited=limit,
        at_ns=kill.at_ns,
        from_ns=from_ns,
        shape=shape,
        level_bytes=level_bytes,
        level_ns=level_ns,
        now=now,
        before=before,
        exact=exact,
        people=people,
        inherited_bytes=sum(one.inherited_bytes for one in people),
        copied_bytes=copied,
        alone=not foreign if foreign is not None else _owns(case, limit),
        outside_bytes=outside,
        outside_grown_bytes=max(0, outside - _outside_before(case, before, limit, outside)),
        outside_names=names,
        frames=kill.frames or (),
        cache_grown_bytes=max(caches, default=0) - (before.cache_bytes or 0),
        pinned_bytes=held.pinned_bytes + held.registered_bytes,
        pinned_grown_bytes=held.pinned_bytes + held.registered_bytes
        - held_before.pinned_bytes - held_before.registered_bytes,
        calls_watched=case.cuda.watched_at_all,
        rate_bytes_per_s=rate(course, kill.at_ns, from_ns),
        doing=doing(story, marks, kill.at_ns),
        epochs=() if story.left_out else marks.epochs,  # how it grew within one is not known then
        owners=owners(story, kill.at_ns),
        faults=since_fork(story, people, kill.at_ns, _page_bytes(case)),
        kernel=_kernel(limit.looks[-1], before, people),
        doubts=story.doubts(from_ns, kill.at_ns),
        seqs=tuple(e.seq for e in (mark, limit.tasks) if e is not None),
    )  # fmt: skip


def rate(course: Sequence[tuple[int, int]], at_ns: int, from_ns: int) -> float | None:
    """Bytes a second at the end: the slope of least squares; `None`: too few looks."""
    since = max(from_ns, at_ns - RATE_NS)
    points = [(ns / NS_PER_S, held) for ns, held in course if since <= ns <= at_ns]
    if len(points) < 3:
        return None
    mean_s, mean = (sum(values) / len(points) for values in zip(*points, strict=True))
    spread = sum((s - mean_s) ** 2 for s, _ in points)
    return sum((s - mean_s) * (held - mean) for s, held in points) / spread if spread > 0 else None


def _estimated(case: Case, kill: Kill, shortage: Shortage, limit: Limited) -> Filled:
    """The last look, and what was charged since: to the processes that were seen to have grown by so much."""
    last = limit.looks[-1]
    usage = last.usage_bytes if limit.machine else shortage.limit.usage_bytes or last.usage_bytes
    caches = [look.cache_bytes for look in (last, limit.after) if look is not None and look.cache_bytes is not None]
    cache = min(caches, default=None)
    anon = last.anon_bytes
    since = usage - last.usage_bytes + (last.cache_bytes or 0) - (cache or 0)
    if anon is not None and since > 0 and kill.mark is not None and (member := case.story.tree.members.get(kill.id)):
        seen = anon_at(member, last.at_ns)
        anon += min(since, max(0, kill.mark.anon_rss_bytes - seen)) if seen is not None else 0
    return msgspec.structs.replace(last, at_ns=kill.at_ns, usage_bytes=usage, anon_bytes=anon, cache_bytes=cache)


def _copied(case: Case, kill: Kill, limit: Limited, people: Sequence[Holding]) -> tuple[int | None, int]:
    """What was copied of what was inherited; and what is charged beyond the sum of all RssAnon."""
    if limit.at_kill is not None and limit.tasks is not None and limit.at_kill.anon_bytes is not None:
        pages = sum(row.rss_anon_pages or 0 for row in limit.tasks.rows)
        shared = pages * _page_bytes(case) - limit.at_kill.anon_bytes
        share = sum(one.inherited_bytes for one in people)
        return max(0, min(share, share - shared)), max(0, -shared)
    last = limit.looks[-1]
    if last.anon_bytes is None:
        return None, 0
    # All at one moment: between two looks at processes that grow, megabytes are charged.
    there = [m for m in case.story.tree.members.values() if is_there(m, last.at_ns)]
    held = {m.id: anon for m in there if (anon := anon_at(m, last.at_ns)) is not None}
    share = sum(min(size, held.get(identity, 0)) for identity, size in inherited(there).items())
    shared = sum(held.values()) - last.anon_bytes
    return max(0, min(share, share - shared)), max(0, last.anon_bytes - sum(anon_at_most(m, kill) for m in there))


def anon_at_most(member: Member, kill: Kill) -> int:
    """About the last look at the limit: of the looks at it before and after that, and of its own mark, the most."""
    looks = [s.rss_anon_bytes for s in member.samples if s.rss_anon_bytes is not None and s.ts_ns <= kill.at_ns]
    after = [s.rss_anon_bytes for s in member.samples if s.rss_anon_bytes is not None and s.ts_ns > kill.at_ns]
    marked = [kill.mark.anon_rss_bytes] if kill.mark is not None and kill.id == member.id else []
    return max([*looks[-2:], *after[:1], *marked], default=0)


def _foreign(case: Case, kill: Kill, tasks: LoggedTasks) -> tuple[int, tuple[str, ...]]:
    """Anonymous memory of those in the table that are none of the job's, and their names, largest first."""
    story = case.story
    rows = [row for row in tasks.rows if row.tgid is not None and story.tree.alive_at(row.tgid, kill.at_ns) is None]
    rows.sort(key=lambda row: -(row.rss_anon_pages or 0))
    total = sum(row.rss_anon_pages or 0 for row in rows) * _page_bytes(case)
    return total, tuple(dict.fromkeys(f"{row.comm or '?'} ({row.tgid})" for row in rows[:3]))


def _beside(case: Case, kill: Kill, limit: Limited, spare_bytes: int) -> int:
    """Without the table: what is charged beyond the sum of all RssAnon, or to other cgroups than the job's."""
    own = _own_looks(case, limit, kill.at_ns)
    return max(spare_bytes, limit.looks[-1].held_bytes - own.held_bytes if own is not None else 0)


def _outside_before(case: Case, before: Filled, limit: Limited, outside_bytes: int) -> int:
    """At most: so that what grew outside is never too much."""
    own = _own_looks(case, limit, before.at_ns)
    if own is not None:
        return min(outside_bytes, max(0, before.held_bytes - own.held_bytes))
    there = [m for m in case.story.tree.members.values() if is_there(m, before.at_ns)]
    held = {m.id: anon for m in there if (anon := anon_at(m, before.at_ns)) is not None}
    share = sum(min(size, held.get(identity, 0)) for identity, size in inherited(there).items())
    return min(outside_bytes, max(0, (before.anon_bytes or 0) - sum(held.values()) + share))


def _own_looks(case: Case, limit: Limited, at_ns: int) -> Filled | None:
    """At the job's own cgroup, where that lies below the one whose limit it was."""
    job = case.story.job
    if job is None or limit.machine or job.cgroup_id is None or job.cgroup_id == limit.cgroup_id:
        return None
    looks = [look for look in looks_of(case.story, job.cgroup_id) if look.at_ns <= at_ns]
    return looks[-1] if looks else None


def _owns(case: Case, limit: Limited) -> bool:
    """Whether the limit is of a cgroup that was made for this job."""
    return any(job.own_cgroup and job.cgroup_id == limit.cgroup_id for job in case.story.of(JobStarted))


def _kernel(last: Filled, before: Filled, people: Sequence[Holding]) -> KernelGrowth | None:
    if last.kernel_bytes is None or before.kernel_bytes is None:
        return None
    return growth(last.kernel_parts, before.kernel_parts, last.kernel_bytes - before.kernel_bytes, people)


def _page_bytes(case: Case) -> int:
    return case.story.header.page_bytes if case.story.header is not None else 4096


def _less(now: int | None, before: int | None) -> int:
    return 0 if now is None or before is None else now - before

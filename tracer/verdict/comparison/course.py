# SPDX-License-Identifier: Apache-2.0
"""What a job held over time and could not give back: of its cgroup, or else summed over its processes."""

import bisect
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tracer.attribution.tree import Member
from tracer.events import (
    Attached,
    CgroupSample,
    Event,
    JobEnded,
    PressureSample,
    ProcessId,
    ProcessSample,
    ReclaimSample,
    VmstatSample,
)
from tracer.units import NS_PER_S, has_limit
from tracer.verdict.growth import unreclaimable_bytes
from tracer.verdict.mechanisms.holdings import inherited, is_there
from tracer.verdict.story import Story

LOOKS = (CgroupSample, PressureSample, ProcessSample, ReclaimSample, VmstatSample)
STILL_NS = 10 * NS_PER_S
"""So long nobody is looked at only where sampling stands still."""
EVERY_NS = NS_PER_S
MOST_LOOKS = 4096


class Held(msgspec.Struct, frozen=True, gc=False):
    """At one moment."""

    at_ns: int
    anon_bytes: int
    shmem_bytes: int
    swap_bytes: int
    kernel_bytes: int

    @property
    def all_bytes(self) -> int:
        return self.anon_bytes + self.shmem_bytes + self.swap_bytes + self.kernel_bytes


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """In time order."""

    of: str
    levels_up: int | None
    """Of the cgroup above the job's own. `None`: it is a sum over processes."""
    own: bool
    """Nobody but the job is in it."""
    limit_bytes: int | None
    """`None`: there is none, or it is not known."""
    looks: tuple[Held, ...]
    cache: bool
    """Page cache is known, and so is what is held beside it."""
    failed_charges: int | None
    """How often the limit was met meanwhile; page cache alone may do that."""
    gaps: tuple[tuple[int, int], ...]
    """Where nothing at all was looked at."""


def course_of(story: Story, levels_up: int | None = None) -> Course | None:
    """The job's memory over time; `None`: nobody looked at it.

    Args:
        levels_up: of the cgroup so many levels above the job's own; -1: the sum over processes, whatever its cgroups.
            `None`: the job's own cgroup if it has one, else the next one with a limit above it, else the sum.
    """
    chain = _chain(story)
    if levels_up is None:
        levels_up = _usual(story, chain)
    if levels_up is not None and 0 <= levels_up < len(chain):
        found = _of_cgroup(story, chain[levels_up], levels_up)
        if found is not None:
            return found
    return _sum(story)


def level_of(story: Story, cgroup_id: int | None) -> int | None:
    """How many levels above the job's own a cgroup is; `None`: it is none of those."""
    ids = [samples[0].cgroup_id for samples in _chain(story)]
    return ids.index(cgroup_id) if cgroup_id is not None and cgroup_id in ids else None


def _chain(story: Story) -> list[list[CgroupSample]]:
    """The looks at the job's own cgroup, and at each one above it."""
    job = story.job
    if job is None:
        return []
    attached = next((a for a in story.of(Attached) if a.cgroup is not None), None)
    path = attached.cgroup if attached is not None else job.cgroup
    if path is None:
        return []
    by_path = story.by(CgroupSample, lambda s: s.path, "path")
    found = []
    while True:
        samples = by_path.get(path, [])
        found.append(list(samples))
        if path in {"/", ""}:
            break
        path = path.rpartition("/")[0] or "/"
    return [samples for samples in found if samples]


def _usual(story: Story, chain: Sequence[Sequence[CgroupSample]]) -> int | None:
    job = story.job
    if not chain or job is None:
        return None
    own = job.own_cgroup or any(a.cgroup is not None for a in story.of(Attached))
    if own:
        return 0
    limited = (level for level, samples in enumerate(chain) if any(has_limit(s.limit_bytes) for s in samples))
    return next(limited, None)


def _of_cgroup(story: Story, samples: Sequence[CgroupSample], levels_up: int) -> Course | None:
    v1 = story.header is not None and story.header.cgroup_version == 1
    swaps = any(s.swap_total_bytes for s in story.of(PressureSample))
    looks = [held for sample in samples if (held := _held(sample, v1=v1, swaps=swaps)) is not None]
    if not looks or story.job is None:
        return None
    limit = next((s.limit_bytes for s in reversed(samples) if s.limit_bytes is not None), None)
    failed = [s.failcnt for s in samples if s.failcnt is not None]
    attached = any(a.cgroup is not None for a in story.of(Attached))
    return Course(
        of=f"cgroup {samples[0].path}",
        levels_up=levels_up,
        own=levels_up == 0 and (story.job.own_cgroup or attached),
        limit_bytes=limit if has_limit(limit) else None,
        looks=tuple(looks),
        cache=all(s.file_bytes is not None for s in samples if s.usage_bytes is not None),
        failed_charges=failed[-1] - failed[0] if failed else None,
        gaps=tuple(_gaps(story)),
    )


def _held(sample: CgroupSample, *, v1: bool, swaps: bool) -> Held | None:
    if sample.anon_bytes is None:
        return None
    usage, kernel = sample.usage_bytes, sample.kernel_bytes
    if kernel is None and usage is not None and sample.file_bytes is not None:
        kernel = max(0, usage - sample.anon_bytes - sample.file_bytes)
    swap = (sample.swap_usage_bytes or 0) if swaps else 0
    if v1:  # it counts memory and swap together
        swap = max(0, swap - (usage or 0))
    return Held(sample.ts_ns, sample.anon_bytes, sample.shmem_bytes or 0, swap, kernel or 0)


def _sum(story: Story) -> Course | None:
    """Once a second; pages that a fork shares count where they were before it."""
    samples = [s for s in story.of(ProcessSample) if s.rss_anon_bytes is not None]
    if not samples or story.job is None:
        return None
    begin, end = story.job.ts_ns, samples[-1].ts_ns
    every_ns = max(EVERY_NS, (end - begin) // MOST_LOOKS)
    looks = summed(story, range(begin, end + every_ns, every_ns))
    return Course(
        of="the job's processes",
        levels_up=None,
        own=True,
        limit_bytes=None,
        looks=tuple(looks),
        cache=True,
        failed_charges=None,
        gaps=tuple(_gaps(story)),
    )


def summed(story: Story, moments: Iterable[int]) -> list[Held]:
    """All processes of the job together, at each of these."""
    known = {m.id: [s for s in m.samples if unreclaimable_bytes(s) is not None] for m in story.tree.members.values()}
    return [_at(story, known, at_ns) for at_ns in moments]


def _at(story: Story, known: Mapping[ProcessId, Sequence[ProcessSample]], at_ns: int) -> Held:
    there = [m for m in story.tree.members.values() if is_there(m, at_ns)]
    last = {m.id: sample for m in there if (sample := _last(m, known[m.id], at_ns)) is not None}
    shared = inherited(there)
    anon = sum(max(0, (s.rss_anon_bytes or 0) - shared.get(identity, 0)) for identity, s in last.items())
    shmem = max((s.rss_shmem_bytes or 0 for s in last.values()), default=0)
    swap = sum(s.swap_bytes or 0 for s in last.values())
    return Held(at_ns, anon, shmem, swap, 0)


def _last(member: Member, samples: Sequence[ProcessSample], at_ns: int) -> ProcessSample | None:
    begun_ns = max((e.ts_ns for e in member.execs if e.ts_ns <= at_ns), default=0)
    place = bisect.bisect_right(samples, at_ns, key=lambda s: s.ts_ns)
    return samples[place - 1] if place and samples[place - 1].ts_ns >= begun_ns else None


def _gaps(story: Story) -> Iterable[tuple[int, int]]:
    """Where no look at anything was recorded: something of a machine changes each second."""
    last: int | None = None
    looks = _looks(story)
    # Of a very long recording some looks are left out.
    still_ns = max(STILL_NS, (looks[-1].ts_ns - looks[0].ts_ns) // 100) if story.left_out else STILL_NS
    for event in looks:
        if last is not None and event.ts_ns - last > still_ns:
            yield last, event.ts_ns
        last = event.ts_ns
    ended = next((e.ts_ns for e in story.of(JobEnded)), None)
    if last is not None and ended is not None and ended - last > still_ns:
        yield last, ended


def _looks(story: Story) -> Sequence[Event]:
    return [event for event in story.events if isinstance(event, LOOKS)]


def last_look_ns(story: Story) -> int | None:
    """When anything was looked at for the last time."""
    found = _looks(story)
    return found[-1].ts_ns if found else None

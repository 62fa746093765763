# SPDX-License-Identifier: Apache-2.0
"""How the limit that was hit was filled, over time and at the kill: by kind of memory."""

from collections.abc import Sequence

import msgspec

from tracer.events import CgroupSample, LogEvent, LoggedStats, LoggedTasks, LoggedUsage, PressureSample
from tracer.units import NS_PER_MS, has_limit
from tracer.verdict.kills import Kill
from tracer.verdict.limit import Shortage, report_of
from tracer.verdict.mechanisms.kernel_parts import Parts, of_cgroup, of_machine
from tracer.verdict.story import EventT, Story

SOON_AFTER_NS = 150 * NS_PER_MS
"""What a look so soon after the kill shows of page cache was so at the kill: none is read in meanwhile."""
_KERNEL_PARTS = ("slab", "kernel_stack", "pagetables", "sec_pagetables", "percpu", "sock", "vmalloc")


class Filled(msgspec.Struct, frozen=True, kw_only=True):
    """At one moment. `None`: not known."""

    at_ns: int
    usage_bytes: int
    anon_bytes: int | None = None
    shmem_bytes: int | None = None
    cache_bytes: int | None = None
    """Page cache without shared memory."""
    kernel_bytes: int | None = None
    kernel_parts: Parts = ()
    """What that is made of."""
    dirty_bytes: int | None = None
    """Of the page cache what has to be written before it can be reclaimed."""

    @property
    def held_bytes(self) -> int:
        """What cannot be reclaimed, but for swap."""
        return max(0, self.usage_bytes - (self.cache_bytes or 0))


class Limited(msgspec.Struct, frozen=True, kw_only=True):
    """A limit over time."""

    machine: bool
    cgroup_id: int | None
    limit_bytes: int | None
    looks: tuple[Filled, ...]
    """Before the kill, in time order."""
    after: Filled | None
    """The first one after it."""
    at_kill: Filled | None
    """By the kernel's own report alone; `None`: there is none, or it is not whole."""
    tasks: LoggedTasks | None
    """The table of that report, where it is whole."""


def limited(story: Story, kill: Kill, shortage: Shortage) -> Limited | None:
    """The limit of this shortage; `None`: it is not known whose, or it was never looked at."""
    if shortage.cause not in {"host_oom_cgroup", "host_oom_global"}:
        return None  # some nodes of the machine, or nobody knows of what: no look was at these alone
    machine = shortage.cause == "host_oom_global"
    if machine:
        looks = looks_of_machine(story)
        total = next((s.mem_total_bytes for s in story.of(PressureSample) if s.mem_total_bytes), None)
        cgroup_id, limit_bytes = None, total
    else:
        if len(shortage.limit.cgroups) != 1:
            return None
        cgroup_id = owner_id(kill, shortage)
        path = shortage.limit.cgroup
        looks = looks_of(story, cgroup_id) if cgroup_id is not None else []
        if not looks:
            by_path = story.by(CgroupSample, lambda s: s.path, "path").get(path, ())
            looks = [_of_cgroup(s) for s in by_path if s.usage_bytes is not None]
        limit_bytes = shortage.limit.limit_bytes
    before = tuple(look for look in looks if look.at_ns <= kill.at_ns)
    if not before:
        return None
    stats, tasks = _reported(story, kill, LoggedStats), _reported(story, kill, LoggedTasks)
    told = None if machine or not stats else _of_report(story, kill, stats[-1], shortage.limit.usage_bytes)
    whole = bool(tasks) and not tasks[-1].others and all(row.rss_anon_pages is not None for row in tasks[-1].rows)
    return Limited(
        machine=machine,
        cgroup_id=cgroup_id,
        limit_bytes=limit_bytes if has_limit(limit_bytes) else None,
        looks=before,
        after=next((look for look in looks if kill.at_ns < look.at_ns <= kill.at_ns + SOON_AFTER_NS), None),
        at_kill=told,
        tasks=tasks[-1] if whole and not story.pids_differ else None,
    )


def looks_of(story: Story, cgroup_id: int) -> list[Filled]:
    """At one cgroup, in time order."""
    samples = story.by(CgroupSample, lambda s: s.cgroup_id, "id").get(cgroup_id, ())
    return [_of_cgroup(s) for s in samples if s.usage_bytes is not None]


def looks_of_machine(story: Story) -> list[Filled]:
    """At all of its memory, in time order."""
    return [look for sample in story.of(PressureSample) if (look := _of_machine(sample)) is not None]


def owner_id(kill: Kill, shortage: Shortage) -> int | None:
    """The kernel's id of the cgroup whose limit was hit."""
    owners = [level.owner for level in shortage.limit.chain]
    return kill.levels[owners.index(True)].cgroup_id if kill.levels and True in owners else None


def _of_cgroup(sample: CgroupSample) -> Filled:
    cache = None if sample.file_bytes is None else max(0, sample.file_bytes - (sample.shmem_bytes or 0))
    return Filled(
        at_ns=sample.ts_ns,
        usage_bytes=sample.usage_bytes or 0,
        anon_bytes=sample.anon_bytes,
        shmem_bytes=sample.shmem_bytes,
        cache_bytes=cache,
        kernel_bytes=sample.kernel_bytes,
        kernel_parts=of_cgroup(sample),
        dirty_bytes=sample.dirty_bytes,
    )


def _of_machine(sample: PressureSample) -> Filled | None:
    if sample.mem_total_bytes is None or sample.mem_free_bytes is None:
        return None
    parts = (sample.slab_bytes, sample.kernel_stack_bytes, sample.page_tables_bytes, sample.percpu_bytes,
             sample.vmalloc_bytes)  # fmt: skip
    cached = None
    if sample.cached_bytes is not None:
        cached = max(0, sample.cached_bytes + (sample.buffers_bytes or 0) - (sample.shmem_bytes or 0))
    return Filled(
        at_ns=sample.ts_ns,
        usage_bytes=sample.mem_total_bytes - sample.mem_free_bytes,
        anon_bytes=sample.anon_bytes,
        shmem_bytes=sample.shmem_bytes,
        cache_bytes=cached,
        kernel_bytes=None if sample.slab_bytes is None else sum(part or 0 for part in parts),
        kernel_parts=of_machine(sample),
    )


def _of_report(story: Story, kill: Kill, stats: LoggedStats, usage_bytes: int | None) -> Filled | None:
    """v1 has what is below with it under `total_`, and kernel memory on a line of its own."""
    values = stats.values
    v1 = "cache" in values or "total_cache" in values
    anon, cache, shmem = (
        values.get(f"total_{name}", values.get(name)) if v1 else values.get(new)
        for name, new in (("rss", "anon"), ("cache", "file"), ("shmem", "shmem"))
    )
    kernel = values.get("kernel")
    if kernel is None and not v1 and "slab" in values:
        kernel = sum(values.get(name, 0) for name in _KERNEL_PARTS)
    usage = {u.counter: u.usage_bytes for u in _reported(story, kill, LoggedUsage)}
    used = usage.get("memory", usage_bytes)
    if anon is None or used is None:
        return None
    return Filled(
        at_ns=kill.at_ns,
        usage_bytes=used,
        anon_bytes=anon,
        shmem_bytes=shmem,
        cache_bytes=None if cache is None else max(0, cache - (shmem or 0)),
        kernel_bytes=usage.get("kmem") if v1 else kernel,
    )


def _reported(story: Story, kill: Kill, kind: type[EventT]) -> Sequence[EventT]:
    """What the kernel's report of this very kill has of a kind."""
    report = report_of(story, kill)
    if report is None:
        return ()
    first, last = report[0].log_seq or 0, report[1].log_seq or 0
    return [e for e in story.of(kind) if isinstance(e, LogEvent) and e.trusted and first < (e.log_seq or 0) < last]

# SPDX-License-Identifier: Apache-2.0
"""What memory of the kernel is made of: by its own counters (v2, a machine), or as far as processes tell (v1)."""

from collections.abc import Sequence

import msgspec

from tracer.events import CgroupSample, PressureSample
from tracer.verdict.mechanisms.holdings import Holding
from tracer.verdict.mechanisms.vitals import STACK_BYTES

Parts = tuple[tuple[str, int], ...]
"""Name and bytes."""

PAGE_TABLES, STACKS = "page tables", "kernel stacks of threads"
REST = "neither slab nor page tables: pages of pipes, buffers of sockets"
MOST = 0.5


class KernelGrowth(msgspec.Struct, frozen=True, kw_only=True):
    """Until the last look."""

    grown_bytes: int
    parts: Parts
    """Those that grew, most first."""
    whole: bool
    """All there is to memory of the kernel is among them; else the two that processes tell."""

    @property
    def top(self) -> tuple[str, int] | None:
        """What makes up most of it."""
        first = self.parts[0] if self.parts else None
        return first if first is not None and first[1] >= MOST * self.grown_bytes > 0 else None


def of_cgroup(sample: CgroupSample) -> Parts:
    """Empty on v1, which has but the sum."""
    if sample.slab_bytes is None:
        return ()
    reclaimable = sample.slab_reclaimable_bytes
    slab: Parts = (("slab", sample.slab_bytes),)
    if reclaimable is not None:
        slab = (("slab of dentries and inodes", reclaimable), ("other slab", sample.slab_bytes - reclaimable))
    return (*slab, *_known((PAGE_TABLES, sample.page_tables_bytes), (STACKS, sample.kernel_stack_bytes),
                           ("per-CPU memory", sample.percpu_bytes), ("buffers of network sockets", sample.sock_bytes),
                           ("vmalloc", sample.vmalloc_bytes)))  # fmt: skip


def of_machine(sample: PressureSample) -> Parts:
    """As /proc/meminfo has it."""
    return _known(("slab", sample.slab_bytes), (PAGE_TABLES, sample.page_tables_bytes),
                  (STACKS, sample.kernel_stack_bytes), ("per-CPU memory", sample.percpu_bytes),
                  ("vmalloc", sample.vmalloc_bytes))  # fmt: skip


def growth(now: Parts, before: Parts, grown_bytes: int, people: Sequence[Holding]) -> KernelGrowth:
    """Between two looks; without parts by what the processes that live have more."""
    if now and before:
        earlier = dict(before)
        grown = [(name, size - earlier.get(name, 0)) for name, size in now]
        grown.append((REST, grown_bytes - sum(size for _, size in grown)))
    else:
        known = [one.vitals for one in people if one.vitals is not None]
        grown = [
            (PAGE_TABLES, sum(one.page_tables_grown_bytes for one in known)),
            (STACKS, sum(one.threads_grown for one in known) * STACK_BYTES),
        ] if known else []  # fmt: skip
    parts = tuple(sorted((one for one in grown if one[1] > 0), key=lambda one: -one[1]))
    return KernelGrowth(grown_bytes=grown_bytes, parts=parts, whole=bool(now and before))


def _known(*parts: tuple[str, int | None]) -> Parts:
    return tuple((name, size) for name, size in parts if size is not None)

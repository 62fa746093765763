# SPDX-License-Identifier: Apache-2.0
"""Memory of the machine that no account of the kernel's has: a driver's pages, pinned for a GPU, among it.

MemTotal - MemFree - all that /proc/meminfo accounts for. What that is at the start is the kernel's own; zram, a
hypervisor's balloon and other drivers are in it as well: its growth hints at pinned memory and proves nothing.
"""

from collections.abc import Sequence

import msgspec

from tracer.events import PressureSample
from tracer.units import GIB, format_bytes
from tracer.verdict.story import Story

AFTER_NS = 250_000_000
MATERIAL_SHARE = 0.05
MATERIAL_BYTES = GIB
"""Less is nothing to speak of: pages on their way into and out of swap are in no account either."""
ACCOUNTS = ("anon_bytes", "cached_bytes", "buffers_bytes", "slab_bytes", "kernel_stack_bytes", "page_tables_bytes")
"""Without one of these nothing is computed; older kernels lack the others."""
MORE_ACCOUNTS = ("percpu_bytes", "vmalloc_bytes", "hugetlb_bytes")


class Unaccounted(msgspec.Struct, frozen=True, kw_only=True):
    """At the first sample, and at a moment."""

    first_bytes: int
    last_bytes: int
    total_bytes: int
    evidence: tuple[int, ...]

    @property
    def grown_bytes(self) -> int:
        return self.last_bytes - self.first_bytes

    @property
    def material(self) -> bool:
        return self.grown_bytes >= max(MATERIAL_BYTES, MATERIAL_SHARE * self.total_bytes)


def unaccounted_bytes(sample: PressureSample) -> int | None:
    """Of one sample; `None`: it has not all that is needed."""
    needed = [getattr(sample, name) for name in ("mem_total_bytes", "mem_free_bytes", *ACCOUNTS)]
    if any(value is None for value in needed):
        return None
    total, free, *accounted = needed
    more = (getattr(sample, name) or 0 for name in MORE_ACCOUNTS)
    return int(total - free - sum(accounted) - sum(more))


def unaccounted(story: Story, at_ns: int) -> Unaccounted | None:
    """By the samples up to a moment; `None`: fewer than two."""
    points: Sequence[tuple[PressureSample, int]] = [
        (sample, value)
        for sample in story.of(PressureSample)
        if sample.ts_ns <= at_ns + AFTER_NS and (value := unaccounted_bytes(sample)) is not None
    ]
    if len(points) < 2:
        return None
    (first, first_bytes), (last, last_bytes) = points[0], points[-1]
    total_bytes = last.mem_total_bytes or 0
    return Unaccounted(
        first_bytes=first_bytes, last_bytes=last_bytes, total_bytes=total_bytes, evidence=(first.seq, last.seq)
    )


def statement(found: Unaccounted, pinned_bytes: int) -> str:
    """For the caveats of a kill that was the machine's."""
    grown = format_bytes(found.grown_bytes)
    text = f"{grown} of the machine's memory, more than at the start, is in no account of the kernel's"
    if pinned_bytes >= found.grown_bytes // 2:
        return f"{text}; CUDA had {format_bytes(pinned_bytes)} pinned for the job, which no account shows."
    if pinned_bytes:
        return f"{text}: pages of a driver, or zram. CUDA had {format_bytes(pinned_bytes)} pinned for the job."
    return f"{text}: pages that a driver holds, such as pinned memory of a GPU, or zram."


def machine_bytes(story: Story, at_ns: int) -> int | None:
    """MemTotal, as last read."""
    samples = (s for s in reversed(story.of(PressureSample)) if s.ts_ns <= at_ns + AFTER_NS)
    return next((s.mem_total_bytes for s in samples if s.mem_total_bytes is not None), None)

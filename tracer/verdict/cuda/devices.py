# SPDX-License-Identifier: Apache-2.0
"""What GPUs held around a moment, by NVML; and NUMA nodes that may be a GPU's memory."""

from collections.abc import Iterable, Sequence

from tracer.events import GpuDevice, GpuSample, GpuStatus, NumaNode, NumaNodes, ProcessId
from tracer.units import format_bytes
from tracer.verdict.story import Story

AFTER_NS = 250_000_000


def samples_at(story: Story, at_ns: int, *, after_ns: int = AFTER_NS) -> dict[str, GpuSample]:
    """The newest of each device; they are recorded when they change."""
    found: dict[str, GpuSample] = {}
    for sample in story.of(GpuSample):
        if sample.ts_ns <= at_ns + after_ns:
            found[sample.uuid] = sample
    return found


def used_by(story: Story, ids: Iterable[ProcessId], at_ns: int) -> Sequence[GpuSample]:
    """Of the devices that these processes are known to use; of all, where NVML does not tell who uses which."""
    return known_to_use(story, ids, at_ns) or _newest(story, at_ns)


def known_to_use(story: Story, ids: Iterable[ProcessId], at_ns: int) -> Sequence[GpuSample]:
    """Of the devices on which NVML shows one of these processes."""
    pids = {identity.tgid for identity in ids}
    users: dict[str, set[int]] = {}
    for sample in story.of(GpuSample):
        if sample.processes is not None and sample.ts_ns <= at_ns + AFTER_NS:
            users.setdefault(sample.uuid, set()).update(one.pid for one in sample.processes)
    return [s for s in _newest(story, at_ns) if users.get(s.uuid, set()) & pids]


def _newest(story: Story, at_ns: int) -> Sequence[GpuSample]:
    return sorted(samples_at(story, at_ns).values(), key=lambda s: (s.index, s.uuid))


def device(story: Story, uuid: str) -> GpuDevice | None:
    """What NVML says of it."""
    return next((d for status in reversed(story.of(GpuStatus)) for d in status.devices if d.uuid == uuid), None)


def held_text(samples: Sequence[GpuSample]) -> str | None:
    """`GPU 0 held 31.2 GiB of 79.6 GiB`; of several together."""
    known = [s for s in samples if s.used_bytes is not None and s.total_bytes is not None]
    if not known:
        return None
    used, total = sum(s.used_bytes or 0 for s in known), sum(s.total_bytes or 0 for s in known)
    name = f"GPU {known[0].index}" if len(known) == 1 else f"{len(known)} GPUs"
    return f"{name} held {format_bytes(used)} of {format_bytes(total)}"


def why_unknown(story: Story) -> str | None:
    """Why NVML told nothing; `None`: it was not asked, or it did."""
    status = next(reversed(story.of(GpuStatus)), None)
    return None if status is None or status.available else status.why_not or "NVML is not available"


def coherent_nodes(story: Story) -> Sequence[NumaNode]:
    """Nodes with memory and no CPU: that of a GPU on a coherent platform, or of a CXL device."""
    told = next(reversed(story.of(NumaNodes)), None)
    return [] if told is None else [n for n in told.nodes if n.mem_total_bytes > 0 and n.cpus == 0]

# SPDX-License-Identifier: Apache-2.0
"""Files in a tmpfs: a dataset that was copied into /dev/shm, or a cache that lies there."""

from tracer.units import format_bytes
from tracer.verdict.mechanisms.evidence import Evidence
from tracer.verdict.mechanisms.named import Named, part
from tracer.verdict.mechanisms.rules.prefetch_queue import EARLIER
from tracer.verdict.mechanisms.rules.shared_memory import IN_FLIGHT, before_fork, grew, mapped_share


def judge(evidence: Evidence) -> Named | None:
    """Shared memory that nobody has mapped, and no worker to have made it."""
    if not grew(evidence) or mapped_share(evidence) >= IN_FLIGHT:
        return None
    workers = evidence.of_role("dataloader_worker")
    earlier = before_fork(evidence)
    if workers and earlier <= EARLIER:
        return None
    shmem = evidence.now.shmem_bytes or 0
    when = f", {earlier:.0%} of it from before any DataLoader worker" if workers else "; there is no DataLoader worker"
    return Named(
        name="tmpfs_data",
        strength="likely",
        share=evidence.share(evidence.shmem_grown_bytes),
        statement=f"{format_bytes(shmem)} lie in a tmpfs (/dev/shm, most often) or in shared memory nobody has mapped",
        because=(
            f"{part(evidence.shmem_grown_bytes, evidence.grown_bytes)} of the growth is shared memory or tmpfs",
            f"{part(evidence.mapped_bytes, shmem)} is mapped by a process{when}",
        ),
        against=("which files these are was not listed",),
        also=("shm_held",),
        decide=("df and ls -l /dev/shm and other tmpfs: a file with a name is data, /proc/PID/fd has those without",),
    )

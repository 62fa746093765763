# SPDX-License-Identifier: Apache-2.0
"""Batches wait in shared memory: workers times prefetch_factor, and what the trainer has not taken yet."""

from tracer.units import format_bytes
from tracer.verdict.mechanisms.evidence import Evidence
from tracer.verdict.mechanisms.named import Named, count, part
from tracer.verdict.mechanisms.rules.shared_memory import (
    HELD,
    IN_FLIGHT,
    MOSTLY,
    before_fork,
    grew,
    listed,
    mapped_share,
    queued,
    unlisted,
)

EARLIER = 0.5
"""With so much of it from before the workers it is data rather than a queue."""


def judge(evidence: Evidence) -> Named | None:
    """Shared memory that nobody has mapped, while workers live."""
    workers = evidence.of_role("dataloader_worker")
    share = mapped_share(evidence)
    if not grew(evidence) or not workers or share >= HELD or before_fork(evidence) > EARLIER:
        return None
    shmem = evidence.now.shmem_bytes or 0
    owners = listed(evidence)
    batches = owners is not None and owners.most(owners.waiting_bytes + owners.taken_bytes, MOSTLY)
    if owners is not None and owners.most(owners.named_bytes, MOSTLY):
        return None  # files with names of their own are data
    sure = share < IN_FLIGHT or (owners is not None and owners.most(owners.waiting_bytes, MOSTLY))
    also = () if batches else ("tmpfs_data",)
    return Named(
        name="prefetch_queue",
        strength="likely" if sure else "possible",
        share=evidence.share(evidence.shmem_grown_bytes),
        statement=f"batches of {count(len(workers), 'DataLoader worker')} wait in shared memory: {format_bytes(shmem)}",
        because=(
            (
                f"{part(evidence.shmem_grown_bytes, evidence.grown_bytes)} of the growth is shared memory, since the "
                "workers began"
            ),
            f"of it {part(evidence.mapped_bytes, shmem)} is mapped by a process: the rest is on its way",
            *((queued(owners),) if owners is not None and batches else ()),
        ),
        against=() if batches else (unlisted(evidence),),
        also=also if sure else ("shm_held", *also),
        decide=("ls -l /dev/shm and /proc/PID/fd of the workers: torch_PID_... (deleted) are batches",),
    )

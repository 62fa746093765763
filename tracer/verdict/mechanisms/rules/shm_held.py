# SPDX-License-Identifier: Apache-2.0
"""Tensors in shared memory that a process keeps: batches as they came from workers, or a cache of them."""

from tracer.units import format_bytes
from tracer.verdict.mechanisms.evidence import Evidence
from tracer.verdict.mechanisms.named import Named, count, part
from tracer.verdict.mechanisms.rules.shared_memory import HELD, grew, listed, mapped_share, unlisted
from tracer.verdict.shm_owners import Owners


def judge(evidence: Evidence) -> Named | None:
    """Shared memory that is mapped."""
    share = mapped_share(evidence)
    if not grew(evidence) or share < HELD:
        return None
    holder = max(evidence.people, key=lambda one: one.shmem_bytes)
    shmem = evidence.now.shmem_bytes or 0
    main = holder.shmem_bytes >= HELD * shmem
    owners = listed(evidence)
    who = f"{holder.who} holds" if main else "several processes hold"
    return Named(
        name="shm_held",
        strength="likely",
        share=evidence.share(evidence.shmem_grown_bytes),
        statement=f"{who} {format_bytes(evidence.mapped_bytes)} of shared memory mapped, and keeps it",
        because=(
            f"{part(evidence.shmem_grown_bytes, evidence.grown_bytes)} of the growth is shared memory",
            f"{part(holder.shmem_bytes, shmem)} is mapped by {holder.who}",
            *((_open_in(owners),) if owners is not None and owners.taken_bytes else ()),
        ),
        against=() if owners is not None else (unlisted(evidence),),
    )


def _open_in(owners: Owners) -> str:
    made = f", made by {count(owners.makers, 'DataLoader worker')}" if owners.worker_made else ""
    size, files = format_bytes(owners.taken_bytes), count(owners.taken_files, "file")
    return f"{owners.when} {owners.taken_by} had {files} of /dev/shm open, {size}{made}"

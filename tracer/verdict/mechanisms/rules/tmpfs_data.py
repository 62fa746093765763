# SPDX-License-Identifier: Apache-2.0
"""Files in a tmpfs: a dataset that was copied into /dev/shm, or a cache that lies there."""

from tracer.units import format_bytes
from tracer.verdict.mechanisms.evidence import Evidence
from tracer.verdict.mechanisms.named import Named, count, part
from tracer.verdict.mechanisms.rules.prefetch_queue import EARLIER
from tracer.verdict.mechanisms.rules.shared_memory import (
    IN_FLIGHT,
    MOSTLY,
    before_fork,
    grew,
    listed,
    mapped_share,
    unlisted,
)
from tracer.verdict.shm_owners import Owners


def judge(evidence: Evidence) -> Named | None:
    """Shared memory that nobody has mapped, and no worker to have made it."""
    if not grew(evidence) or mapped_share(evidence) >= IN_FLIGHT:
        return None
    workers = evidence.of_role("dataloader_worker")
    earlier = before_fork(evidence)
    owners = listed(evidence)
    named = owners is not None and owners.most(owners.named_bytes, MOSTLY)
    left = owners is not None and owners.most(owners.left_bytes, MOSTLY)
    if workers and earlier <= EARLIER and not named and not left:
        return None
    shmem = evidence.now.shmem_bytes or 0
    when = f", {earlier:.0%} of it from before any DataLoader worker" if workers else "; there is no DataLoader worker"
    return Named(
        name="tmpfs_data",
        strength="likely",
        share=evidence.share(evidence.shmem_grown_bytes),
        statement=f"{format_bytes(shmem)} lie in a tmpfs (/dev/shm, most often) or in shared memory nobody has mapped",
        because=(
            *((_files(owners, left=left),) if owners is not None and (named or left) else ()),
            f"{part(evidence.shmem_grown_bytes, evidence.grown_bytes)} of the growth is shared memory or tmpfs",
            f"{part(evidence.mapped_bytes, shmem)} is mapped by a process{when}",
        ),
        against=() if named or left else (unlisted(evidence),),
        also=() if named else ("shm_held",),
        decide=("df and ls -l /dev/shm and other tmpfs: a file with a name is data, /proc/PID/fd has those without",),
    )


def _files(owners: Owners, *, left: bool) -> str:
    if left:
        files, size = count(owners.left_files, "file"), format_bytes(owners.left_bytes)
        return (
            f"{owners.when} {files} that PyTorch had made in /dev/shm, {size}, had a name still and were open in nobody"
        )
    files, size = count(owners.named_files, "file"), format_bytes(owners.named_bytes)
    return f"{owners.when} {files} with a name lay in /dev/shm, {size}, that are no batches"

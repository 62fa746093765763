# SPDX-License-Identifier: Apache-2.0
"""What the three rules about shared memory and tmpfs ask alike."""

from tracer.units import format_bytes
from tracer.verdict.mechanisms.evidence import Evidence
from tracer.verdict.mechanisms.named import MOST_OF_IT, count
from tracer.verdict.shm_owners import Owners

IN_FLIGHT = 0.3
"""Of it at most is mapped while it waits in a queue. Fitted: 0.01 to 0.18."""
HELD = 0.6
"""From here on processes hold it. Fitted: 1.0."""


COVERED = 0.5
"""Of all shared memory: where files make up less, most of it is something else."""
MOSTLY = 0.6
"""Of all files: what kind they are."""


def grew(evidence: Evidence) -> bool:
    """Whether it is shared memory that grew."""
    both = evidence.shmem_grown_bytes + max(0, evidence.anon_grown_bytes)
    return evidence.shmem_grown_bytes > 0 and evidence.shmem_grown_bytes >= MOST_OF_IT * max(
        both, evidence.grown_bytes * MOST_OF_IT
    )


def mapped_share(evidence: Evidence) -> float:
    """How much of it is in some process's RSS."""
    return evidence.mapped_bytes / evidence.now.shmem_bytes if evidence.now.shmem_bytes else 0.0


def listed(evidence: Evidence) -> Owners | None:
    """Whose the files in /dev/shm are, where these are most of the shared memory that was there at that look."""
    owners = evidence.owners
    if owners is None:
        return None
    at_ns = evidence.at_ns - owners.ago_ns
    then = [look.shmem_bytes for look in evidence.limited.looks if look.at_ns <= at_ns and look.shmem_bytes is not None]
    return owners if owners.total_bytes and owners.total_bytes >= COVERED * (then[-1] if then else 0) else None


def unlisted(evidence: Evidence) -> str:
    """What is not known of files, where `listed` has nothing or other kinds."""
    if evidence.owners is None:
        return "files that are open or lie in /dev/shm were not listed"
    if not evidence.owners.complete:
        return "not all files that are open or lie in /dev/shm could be listed"
    return "most of it is in no file of /dev/shm that has a name or is open: another tmpfs, or mapped and then closed"


def queued(owners: Owners) -> str:
    """Batches on their way."""
    parts = []
    if owners.waiting_bytes:
        size = format_bytes(owners.waiting_bytes)
        parts.append(f"{count(owners.waiting_files, 'file')} ({size}) open in the worker that made them alone")
    if owners.taken_bytes:
        size = format_bytes(owners.taken_bytes)
        parts.append(f"{count(owners.taken_files, 'file')} ({size}) in {owners.taken_by} already")
    made = f", made by {count(owners.makers, 'DataLoader worker')}" if owners.makers else ""
    return f"{owners.when}: {', '.join(parts)}{made}"


def before_fork(evidence: Evidence) -> float:
    """How much of it was there before the first worker that lives was forked."""
    forks = [one.forked_ns for one in evidence.of_role("dataloader_worker") if one.forked_ns is not None]
    if not forks or not evidence.now.shmem_bytes:
        return 0.0
    earlier = [look.shmem_bytes or 0 for look in evidence.limited.looks if look.at_ns <= min(forks)]
    return (earlier[-1] if earlier else 0) / evidence.now.shmem_bytes

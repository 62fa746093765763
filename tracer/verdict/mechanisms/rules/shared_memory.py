# SPDX-License-Identifier: Apache-2.0
"""What the three rules about shared memory and tmpfs ask alike."""

from tracer.verdict.mechanisms.evidence import Evidence
from tracer.verdict.mechanisms.named import MOST_OF_IT

IN_FLIGHT = 0.3
"""Of it at most is mapped while it waits in a queue. Fitted: 0.01 to 0.18."""
HELD = 0.6
"""From here on processes hold it. Fitted: 1.0."""


def grew(evidence: Evidence) -> bool:
    """Whether it is shared memory that grew."""
    both = evidence.shmem_grown_bytes + max(0, evidence.anon_grown_bytes)
    return evidence.shmem_grown_bytes > 0 and evidence.shmem_grown_bytes >= MOST_OF_IT * max(
        both, evidence.grown_bytes * MOST_OF_IT
    )


def mapped_share(evidence: Evidence) -> float:
    """How much of it is in some process's RSS."""
    return evidence.mapped_bytes / evidence.now.shmem_bytes if evidence.now.shmem_bytes else 0.0


def before_fork(evidence: Evidence) -> float:
    """How much of it was there before the first worker that lives was forked."""
    forks = [one.forked_ns for one in evidence.of_role("dataloader_worker") if one.forked_ns is not None]
    if not forks or not evidence.now.shmem_bytes:
        return 0.0
    earlier = [look.shmem_bytes or 0 for look in evidence.limited.looks if look.at_ns <= min(forks)]
    return (earlier[-1] if earlier else 0) / evidence.now.shmem_bytes

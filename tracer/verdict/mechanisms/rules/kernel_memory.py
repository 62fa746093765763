# SPDX-License-Identifier: Apache-2.0
"""Memory of the kernel that is charged: pipes, sockets, page tables, dentries, inodes."""

from tracer.verdict.mechanisms.evidence import Evidence
from tracer.verdict.mechanisms.named import MOST_OF_IT, Named, part


def judge(evidence: Evidence) -> Named | None:
    """By the counter alone."""
    grown = evidence.kernel_grown_bytes
    if grown <= 0 or evidence.share(grown) < MOST_OF_IT:
        return None
    return Named(
        name="kernel_memory",
        strength="likely",
        share=evidence.share(grown),
        statement="memory of the kernel grew, not that of any process: pipes, sockets, open files, page tables",
        because=(f"{part(grown, evidence.grown_bytes)} of the growth is kernel memory",),
        against=("which kind of kernel memory was not recorded",),
        decide=("memory.stat (slab, sock, pagetables, percpu), slabtop, and ls /proc/PID/fd | wc -l over time",),
    )

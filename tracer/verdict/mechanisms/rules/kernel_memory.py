# SPDX-License-Identifier: Apache-2.0
"""Memory of the kernel that is charged: pipes, sockets, page tables, dentries, inodes."""

from tracer.units import format_bytes
from tracer.verdict.mechanisms.evidence import Evidence
from tracer.verdict.mechanisms.kernel_parts import KernelGrowth
from tracer.verdict.mechanisms.named import MOST_OF_IT, Named, part


def judge(evidence: Evidence) -> Named | None:
    """By the counter alone."""
    grown = evidence.kernel_grown_bytes
    if grown <= 0 or evidence.share(grown) < MOST_OF_IT:
        return None
    kernel = evidence.kernel
    top = kernel.top if kernel is not None else None
    because = [f"{part(grown, evidence.grown_bytes)} of the growth is kernel memory"]
    against = []
    if kernel is not None and kernel.parts and (kernel.whole or top is not None):
        because += [f"of it, at the last look, {_listed(kernel)}"]
    elif kernel is not None and kernel.parts:
        against.append(f"which kind is not told by cgroup v1: of what processes tell {_listed(kernel)} are new")
    else:
        against.append("which kind of kernel memory was not recorded")
    return Named(
        name="kernel_memory",
        strength="likely",
        share=evidence.share(grown),
        statement="memory of the kernel grew, not that of any process: "
        + (top[0] if top is not None else "pipes, sockets, open files, page tables"),
        because=tuple(because),
        against=tuple(against),
        decide=("memory.stat (slab, sock, pagetables, percpu), slabtop, and ls /proc/PID/fd | wc -l over time",),
    )


def _listed(kernel: KernelGrowth) -> str:
    return ", ".join(f"{format_bytes(size)} {name}" for name, size in kernel.parts[:3])

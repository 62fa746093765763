# SPDX-License-Identifier: Apache-2.0
"""Page-locked host memory by calls of libcuda."""

from tracer.units import format_bytes
from tracer.verdict.mechanisms.evidence import Evidence
from tracer.verdict.mechanisms.named import MOST_OF_IT, Named, part


def judge(evidence: Evidence) -> Named | None:
    """By the calls that were watched."""
    grown = evidence.pinned_grown_bytes
    if grown <= 0 or evidence.share(grown) < MOST_OF_IT:
        return None
    return Named(
        name="pinned_memory",
        strength="likely" if evidence.limited.machine else "possible",
        share=evidence.share(grown),
        statement=f"page-locked host memory grew: {format_bytes(evidence.pinned_bytes)} by calls of libcuda",
        because=(f"calls of libcuda locked {part(grown, evidence.grown_bytes)} of the growth",),
        against=()
        if evidence.limited.machine
        else ("what the driver allocates itself is not charged to a cgroup; only what is registered is",),
    )

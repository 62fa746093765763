# SPDX-License-Identifier: Apache-2.0
"""Page-locked host memory by calls of libcuda."""

from tracer.units import format_bytes
from tracer.verdict.mechanisms.evidence import Evidence
from tracer.verdict.mechanisms.named import MOST_OF_IT, Named, part

MOST_OF_THEM = 0.75
"""Of what grew in the processes that locked."""


def judge(evidence: Evidence) -> Named | None:
    """By the calls that were watched, or by what processes have locked themselves."""
    grown = evidence.pinned_grown_bytes
    if grown <= 0 or evidence.share(grown) < MOST_OF_IT:
        return _locked(evidence)
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


def _locked(evidence: Evidence) -> Named | None:
    """VmLck and VmPin are the kernel's own counts. Locked pages are charged as any others, whoever locked them why."""
    lockers = evidence.lockers
    locked = sum(one.vitals.locked_grown_bytes for one in lockers if one.vitals is not None)
    theirs = sum(max(0, one.grown_bytes) for one in lockers)
    if not lockers or locked < MOST_OF_THEM * theirs or evidence.share(locked) < MOST_OF_IT:
        return None
    who = lockers[0].who if len(lockers) == 1 else f"{len(lockers)} processes"
    return Named(
        name="pinned_memory",
        strength="likely",
        share=evidence.share(max(locked, theirs)),
        statement=f"page-locked memory of {who} grew: {format_bytes(locked)} more of its pages are locked (mlock)",
        because=(
            f"{part(min(locked, evidence.grown_bytes), evidence.grown_bytes)} of the growth is locked (VmLck, VmPin)",
        ),
        against=("a process that locks all that it has (mlockall) locks what leaks as well",),
        also=("main_process_growth",),
        decide=(
            "who calls mlock(2), cudaHostRegister or pin_memory; with mlockall(2) all memory is locked, leaks too",
        ),
    )

# SPDX-License-Identifier: Apache-2.0
"""The training process itself grows: a graph that is kept, results in a list, Python objects, a heap not given back."""

from tracer.units import format_bytes, format_duration
from tracer.verdict.mechanisms.evidence import Evidence
from tracer.verdict.mechanisms.named import MOST_OF_IT, Named, part
from tracer.verdict.mechanisms.rules.rank_asymmetry import by_rank

OF_ALL = 0.6
"""Of the growth of all processes."""
MAIN = frozenset({"job", "rank"})


def judge(evidence: Evidence) -> Named | None:
    """By the growth of one process. What within it grew cannot be seen from outside."""
    grown = sum(max(0, one.grown_bytes) for one in evidence.people)
    top = max(evidence.people, key=lambda one: one.grown_bytes, default=None)
    if top is None or top.role not in MAIN or evidence.left_level:
        return None
    if top.grown_bytes < OF_ALL * grown or evidence.share(top.grown_bytes) < MOST_OF_IT or len(by_rank(evidence)) > 1:
        return None
    steady = evidence.shape == "growing"
    also: tuple[str, ...] = ("preprocessing_in_process", "allocator_retention", "dataset_in_ram")
    if not evidence.calls_watched:
        also = (*also, "pinned_memory")
    return Named(
        name="main_process_growth",
        strength="likely" if steady else "possible",
        share=evidence.share(top.grown_bytes),
        statement=f"{top.who} itself grew by {format_bytes(top.grown_bytes)} of anonymous memory in "
        f"{format_duration(evidence.at_ns - evidence.from_ns)}",
        because=(
            f"{part(top.grown_bytes, max(grown, 1))} of what processes grew is its own",
            "it grew on and on" if steady else "it grew, too short or too unevenly to call it steady",
        ),
        against=("what it holds there cannot be told from outside: tensors, Python objects and freed heap look alike",),
        also=also if steady else (*also, "optimizer_state", "checkpoint_spike"),
        decide=(
            *(() if evidence.calls_watched else ("VmLck and VmPin in /proc/PID/status: pages that are locked",)),
            (
                "run once with MALLOC_MMAP_THRESHOLD_=131072 MALLOC_TRIM_THRESHOLD_=131072: flat then means a "
                "heap that was not given back"
            ),
            (
                "count tensors with a grad_fn each step (gc.get_objects(), torch.is_tensor): rising means a "
                "kept graph; tracemalloc shows Python objects"
            ),
        ),
    )

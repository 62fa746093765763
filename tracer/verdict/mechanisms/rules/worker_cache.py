# SPDX-License-Identifier: Apache-2.0
"""DataLoader workers hold ever more memory of their own: each caches what it has read."""

from tracer.units import format_bytes
from tracer.verdict.mechanisms.evidence import Evidence
from tracer.verdict.mechanisms.named import MOST_OF_IT, Named, count, part

OF_ALL = 0.7
"""Of the growth of all processes. Fitted: 23 of 23."""
ONE = 0.75
"""Of the workers' growth: it is one that grows."""


def judge(evidence: Evidence) -> Named | None:
    """By what each has beyond what it inherited."""
    grown = sum(max(0, one.grown_bytes) for one in evidence.people)
    workers = [one for one in evidence.of_role("dataloader_worker") if one.grown_bytes > 0]
    theirs = sum(one.grown_bytes for one in workers)
    if not workers or theirs < OF_ALL * grown or evidence.share(theirs) < MOST_OF_IT:
        return None
    top = max(workers, key=lambda one: one.grown_bytes)
    alone = top.grown_bytes >= ONE * theirs and len(evidence.of_role("dataloader_worker")) > 1
    who = f"{top.who} alone" if alone else count(len(workers), "DataLoader worker")
    low, high = (format_bytes(pick(one.grown_bytes for one in workers)) for pick in (min, max))
    each = f"{format_bytes(top.grown_bytes)}" if alone else low if low == high else f"{low} to {high} each"
    against = [] if evidence.shape == "growing" else ["it did not grow steadily, as far as it was looked at"]
    return Named(
        name="worker_cache",
        strength="possible" if evidence.left_level else "likely",
        share=evidence.share(theirs),
        statement=f"{who} came to hold {each} more than at fork, private and anonymous, and kept it",
        because=(
            f"{part(theirs, evidence.grown_bytes)} of the growth is in DataLoader workers",
            f"of what they inherited {format_bytes(evidence.copied_bytes)} was copied: it is memory of their own"
            if evidence.copied_bytes is not None
            else "it is beyond what they had at fork",
        ),
        against=tuple(against),
        also=("allocator_retention",),
        decide=(
            (
                "run once with MALLOC_MMAP_THRESHOLD_=131072 MALLOC_TRIM_THRESHOLD_=131072: if it stays flat "
                "then, freed memory was not given back; if it grows, something holds it "
                "(sys.getsizeof, tracemalloc in __getitem__)"
            ),
        ),
    )

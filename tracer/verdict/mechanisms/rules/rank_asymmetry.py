# SPDX-License-Identifier: Apache-2.0
"""One rank, or what runs beside it, takes far more than the other ranks do."""

from collections.abc import Mapping

from tracer.units import format_bytes
from tracer.verdict.mechanisms.evidence import Evidence
from tracer.verdict.mechanisms.holdings import Holding
from tracer.verdict.mechanisms.named import MOST_OF_IT, Named, part

TIMES = 2.0
"""What the rank that grew most grew, against the next."""
ALIKE = 1.6
"""The most against the least: so far apart they grew alike."""


def by_rank(evidence: Evidence) -> Mapping[int, tuple[Holding, ...]]:
    """Each rank with the processes that it started."""
    found: dict[int, list[Holding]] = {}
    for one in evidence.people:
        if one.rank is not None:
            found.setdefault(one.rank, []).append(one)
    return {rank: tuple(people) for rank, people in sorted(found.items())}


def grown(people: tuple[Holding, ...]) -> int:
    """By how much they did together; what shrank does not count."""
    return sum(max(0, one.grown_bytes) for one in people)


def judge(evidence: Evidence) -> Named | None:
    """By the growth of each rank and what is below it; leaking workers are another rule's."""
    ranks = by_rank(evidence)
    if len(ranks) < 2:
        return None
    order = sorted(ranks, key=lambda rank: -grown(ranks[rank]))
    first, second = (grown(ranks[rank]) for rank in order[:2])
    people = [one for one in ranks[order[0]] if one.grown_bytes > 0]
    if not people or first < TIMES * max(second, 1) or evidence.share(first) < MOST_OF_IT:
        return None
    top = max(people, key=lambda one: one.grown_bytes)
    if top.role == "dataloader_worker":
        return None
    itself = top.role == "rank"
    return Named(
        name="rank_asymmetry",
        strength="likely",
        share=evidence.share(first),
        statement=f"{top.who}{'' if itself else f' beside rank {order[0]}'} grew by {format_bytes(top.grown_bytes)}; "
        f"all of rank {order[1]} by {format_bytes(second)}",
        because=(
            f"{part(first, evidence.grown_bytes)} of the growth is in rank {order[0]} and what it started",
            f"{len(ranks)} ranks do the same work under one limit: only what rank {order[0]} does besides can be it",
        ),
        against=("what it does besides the other ranks is not visible from outside",),
        decide=("compare what rank 0 alone does: logging, metrics, checkpoints, validation, gathering of results",),
    )

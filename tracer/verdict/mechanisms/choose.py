# SPDX-License-Identifier: Apache-2.0
"""Of all that rules name the one that explains most; what explains nearly as much stands beside it, in doubt."""

from collections.abc import Callable

import msgspec

from tracer.verdict.mechanisms.evidence import Evidence
from tracer.verdict.mechanisms.named import Named
from tracer.verdict.mechanisms.rules import (
    cow_refcount,
    kernel_memory,
    limit_too_tight,
    main_process_growth,
    model_duplication,
    neighbour,
    one_off,
    pinned_memory,
    prefetch_queue,
    rank_asymmetry,
    shm_held,
    tmpfs_data,
    worker_cache,
)

RULES: tuple[Callable[[Evidence], Named | None], ...] = (
    limit_too_tight.judge,
    neighbour.judge,
    cow_refcount.judge,
    shm_held.judge,
    prefetch_queue.judge,
    tmpfs_data.judge,
    kernel_memory.judge,
    pinned_memory.judge,
    worker_cache.judge,
    rank_asymmetry.judge,
    model_duplication.judge,
    one_off.judge,
    main_process_growth.judge,
)
"""In the order in which one goes before another that explains as much."""
NEARLY = 0.75
"""Of what the first explains: what explains so much as well may be it. Not fitted: mixed causes were not recorded."""


def choose(evidence: Evidence) -> Named | None:
    """`None`: no rule carries so far. Page cache is never named: it is given up before anybody is killed."""
    found = [named for rule in RULES if (named := rule(evidence)) is not None]
    if not evidence.has_grown:
        found = [named for named in found if named.name == "limit_too_tight"]
    if not found:
        return None
    first = max(found, key=lambda named: named.share)  # the first of equals
    rivals = [named for named in found if named is not first and named.share >= NEARLY * first.share]
    rivals = [named for named in rivals if named.name not in first.also]
    if evidence.doubts:
        # A process, a fork or a look that is not there makes another of what is there.
        first = msgspec.structs.replace(first, strength="possible", against=(*first.against, *evidence.doubts))
    if not rivals or first.name == "limit_too_tight":
        return first
    return msgspec.structs.replace(
        first,
        strength="possible",
        also=tuple(dict.fromkeys((*first.also, *(named.name for named in rivals)))),
        against=(*first.against, *(f"{named.name} explains as much: {named.statement}" for named in rivals)),
    )

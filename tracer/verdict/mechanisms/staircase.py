# SPDX-License-Identifier: Apache-2.0
"""Whether memory grew once an epoch, in steps, or all along: the same growth, and not the same mistake."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from operator import itemgetter
from typing import NamedTuple

from tracer.units import MIB, NS_PER_S, format_bytes
from tracer.verdict.marks import Mark
from tracer.verdict.mechanisms.model import Staircase

LEAST_EPOCHS = 3
"""Whole ones: two steps may be by chance."""
LEAST_EPOCH_NS = 6 * NS_PER_S
"""Looks come once a second: in a shorter epoch nobody can tell when within it something grew."""
LOOK_NS = NS_PER_S
"""What did not change is not written: between two looks further apart it grew in the last moment."""
LEAST_STEP_BYTES = 4 * MIB
PARTS = 12
"""An epoch is looked at in so many parts."""
NARROW = 4
"""Parts, next to each other (an epoch's end is next to its beginning), in which a step lies: a third of the epoch."""
IN_STEPS = 0.75
"""Of the growth: so much of it within those is a staircase."""
EACH = 0.3
"""Of the mean step: the least that each epoch must add."""


class Course(NamedTuple):
    """How much was held, by looks in order of time."""

    looks: Sequence[tuple[int, int]]

    def at(self, at_ns: int) -> float:
        """In a straight line from one look to the next."""
        place = bisect_right(self.looks, at_ns, key=itemgetter(0))
        if place == 0:
            return self.looks[0][1]
        if place == len(self.looks):
            return self.looks[-1][1]
        (before_ns, before), (after_ns, after) = self.looks[place - 1], self.looks[place]
        from_ns = max(before_ns, after_ns - LOOK_NS)
        part = (at_ns - from_ns) / (after_ns - from_ns) if after_ns > from_ns else 1.0
        return before + (after - before) * max(part, 0.0)


def staircase(looks: Sequence[tuple[int, int]], epochs: Sequence[Mark], until_ns: int) -> Staircase | None:
    """`None`: too few epochs were seen, or one was too short, or nothing grew.

    Args:
        looks: when, and how many bytes were held.
        epochs: their beginnings, as far as they were told.
        until_ns: the kill; what came since the last mark is no whole epoch.
    """
    begins = [mark.at_ns for mark in epochs if mark.at_ns <= until_ns]
    spans = list(pairwise(begins))
    if len(spans) < LEAST_EPOCHS or not looks:
        return None
    # The first one has the start of everything in it.
    spans = spans[1:] if len(spans) > LEAST_EPOCHS else spans
    course = Course(looks)
    grown = [course.at(end) - course.at(begin) for begin, end in spans]
    mean = sum(grown) / len(grown)
    if min(end - begin for begin, end in spans) < LEAST_EPOCH_NS or mean < LEAST_STEP_BYTES:
        return None
    share = _in_steps(course, spans)
    once = share >= IN_STEPS and min(grown) >= EACH * mean
    low, high = (format_bytes(round(max(0.0, pick(grown)))) for pick in (min, max))
    each = low if low == high else f"{low} to {high}"
    known = "" if epochs[0].known_by == "log" else " (told apart by starts of DataLoader workers)"
    how = (
        f"{share:.0%} of that in one third of it, always the same" if once else "all along, and not at one place of it"
    )
    return Staircase(
        epochs=len(spans),
        step_bytes=round(mean),
        once=once,
        statement=f"each of {len(spans)} epochs{known} added {each}: {how}",
        evidence=tuple(mark.evidence for mark in epochs if mark.at_ns <= until_ns)[:20],
    )


def _in_steps(course: Course, spans: Sequence[tuple[int, int]]) -> float:
    """How much of the growth lies where most of it lies, in all epochs at the same place."""
    parts = [0.0] * PARTS
    for begin, end in spans:
        edges = [begin + (end - begin) * number // PARTS for number in range(PARTS + 1)]
        for number, (one, two) in enumerate(pairwise(edges)):
            parts[number] += max(0.0, course.at(two) - course.at(one))
    total = sum(parts)
    best = max(sum(parts[(first + more) % PARTS] for more in range(NARROW)) for first in range(PARTS))
    return best / total if total > 0 else 0.0

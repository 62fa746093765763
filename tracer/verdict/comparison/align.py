# SPDX-License-Identifier: Apache-2.0
"""Two runs laid over each other: by epochs or steps where both have them, else by time."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from tracer.events import OutputWatched
from tracer.units import MIB, NS_PER_MS, NS_PER_S
from tracer.verdict.comparison.model import Aligned
from tracer.verdict.comparison.run import Run
from tracer.verdict.comparison.trend import LEAST_BLOCKS, MOST_BLOCKS, Point, Trend, held_at, trend_of
from tracer.verdict.marks import Mark, place_at
from tracer.verdict.projected import Unit

ENOUGH_EPOCHS = 3
"""Marks, so two whole epochs at least: then an epoch is a block, and what happens within one does not matter."""
BLOCKS_IN_TIME = 12
WHOLE_EPOCHS = 4
NOISE_BYTES = 2 * MIB
"""By so much a level may be off at any time: caches of allocators, pages that are charged in batches."""
LOOK_NS, NEXT_LOOK_NS = NS_PER_S, 1500 * NS_PER_MS
"""All are looked at each second."""
TAIL_SHARE = 2 / 3
"""What comes first fills queues and warms up."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """One run in the unit, from where it is compared."""

    points: tuple[Point, ...]
    """(place, bytes)."""
    span: float
    seconds: float
    """The same in time."""
    begin_ns: int
    whole: Trend | None
    tail: Trend | None
    """Of its last two thirds."""

    @property
    def grown(self) -> Trend | None:
        """What it grew by, of one that did: from the beginning on, where that is clear."""
        return self.whole if self.whole is not None and self.whole.rises else self.tail or self.whole

    @property
    def first_bytes(self) -> float:
        return held_at(self.points, 0.0)

    @property
    def level_bytes(self) -> float:
        """The last third's: the median of its blocks."""
        trend = self.tail or self.whole
        if trend is None:
            return held_at(self.points, self.span)
        last = sorted(y for x, y in trend.blocks if x >= trend.blocks[len(trend.blocks) // 2][0])
        return last[len(last) // 2]

    @property
    def peak_bytes(self) -> float:
        return max(y for _, y in self.points)

    def rise_to(self, place: float) -> float:
        """How much more was held there than in the beginning."""
        return held_at(self.points, place) - self.first_bytes

    @property
    def pace_s(self) -> float | None:
        """Seconds for one unit."""
        return self.seconds / self.span if self.span > 0 else None


class Pair(NamedTuple):
    """Both, in the same unit. `None`: of that run there is nothing to compare from there on."""

    aligned: Aligned
    before: Seen | None
    after: Seen | None


def align(before: Run, after: Run) -> Pair:
    """By the finest marks that both have."""
    unit = _unit(before, after)
    since_marks = before.marks.begin_ns is not None and after.marks.begin_ns is not None
    known_by = before.marks.known_by if unit != "second" else None
    aligned = Aligned(
        unit=unit,
        since="first_mark" if since_marks else "job_start",
        known_by=known_by or "time",
        statement=_statement(unit, before, after, since_marks=since_marks),
    )
    return Pair(aligned, seen(before, unit, since_marks=since_marks), seen(after, unit, since_marks=since_marks))


def seen(run: Run, unit: Unit, *, since_marks: bool) -> Seen | None:
    """A run in a unit."""
    begin_ns = run.marks.begin_ns if since_marks and run.marks.begin_ns is not None else run.begin_ns
    marks = marks_in(run, unit)
    if marks:
        begin_ns = marks[0].at_ns
    if run.course is None or run.end_ns <= begin_ns:
        return None
    looks = [(look.at_ns, float(look.all_bytes)) for look in run.course.looks if look.at_ns <= run.end_ns]
    if run.peak_bytes is not None and looks and run.peak_bytes > looks[-1][1]:
        looks.append((run.end_ns, float(run.peak_bytes)))
    course = _joined(looks)
    points = [(_place(run, unit, at_ns, begin_ns), held) for at_ns, held in course if at_ns >= begin_ns]
    if course and course[0][0] < begin_ns:
        points.insert(0, (0.0, held_at([(float(at_ns), held) for at_ns, held in course], float(begin_ns))))
    span, seconds = _place(run, unit, run.end_ns, begin_ns), (run.end_ns - begin_ns) / NS_PER_S
    if not points or span <= 0:
        return None
    count = _blocks(_epochs(run, begin_ns), seconds, len(points))
    tail_from = span * (1 - TAIL_SHARE)
    tail_count = max(LEAST_BLOCKS, round(count * TAIL_SHARE)) if count >= LEAST_BLOCKS + 1 else 0
    return Seen(
        points=tuple(points),
        span=span,
        seconds=seconds,
        begin_ns=begin_ns,
        whole=trend_of(points, 0.0, span, count, NOISE_BYTES),
        tail=trend_of(points, tail_from, span, tail_count, NOISE_BYTES),
    )


def _joined(looks: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """A look is written when something changed: where none is for long, it was as before until just before the next."""
    found: list[tuple[int, float]] = []
    for at_ns, held in looks:
        if found and at_ns - found[-1][0] > NEXT_LOOK_NS:
            found.append((at_ns - LOOK_NS, found[-1][1]))
        found.append((at_ns, held))
    return found


def marks_in(run: Run, unit: Unit) -> Sequence[Mark]:
    """Those of a unit, up to the end."""
    if unit == "second":
        return ()
    kind = run.marks.steps if unit == "step" else run.marks.epochs
    return [mark for mark in kind if mark.at_ns <= run.end_ns]


def _place(run: Run, unit: Unit, at_ns: int, begin_ns: int) -> float:
    """From the beginning of what is compared."""
    marks = marks_in(run, unit)
    if not marks:
        return max(0.0, (at_ns - begin_ns) / NS_PER_S)
    place = place_at(marks, at_ns)
    return max(0.0, (place if place is not None else marks[0].number) - marks[0].number)


def _unit(before: Run, after: Run) -> Unit:
    counts = [len(marks_in(run, "epoch")) for run in (before, after)]
    same = before.marks.known_by == after.marks.known_by
    epoch: Unit = "worker_start" if before.marks.known_by == "workers" else "epoch"
    if same and min(counts) >= ENOUGH_EPOCHS:
        return epoch
    if same and all(len(marks_in(run, "step")) > 1 for run in (before, after)):
        return "step"
    return epoch if same and min(counts) > 1 else "second"


def _epochs(run: Run, begin_ns: int) -> float:
    """How many went by; in whatever unit it is compared, what comes back in each of them is then in each block."""
    marks = marks_in(run, "epoch")
    if len(marks) < ENOUGH_EPOCHS or marks[0].at_ns > begin_ns + (run.end_ns - begin_ns) // WHOLE_EPOCHS:
        return 0.0
    return (place_at(marks, run.end_ns) or 0.0) - marks[0].number


def _blocks(epochs: float, seconds: float, looks: int) -> int:
    if epochs >= WHOLE_EPOCHS:
        return min(round(epochs), MOST_BLOCKS)
    return min(max(int(2 * seconds), looks // 2), BLOCKS_IN_TIME)


def _not_read(before: Run, after: Run) -> str | None:
    """Of whom nobody read what it wrote, and how to have it read."""
    names = [
        name
        for run, name in ((before, "BEFORE"), (after, "AFTER"))
        if not run.marks.epochs and not run.marks.steps and not run.case.story.of(OutputWatched)
    ]
    return f"the output of {' and '.join(names)} was not read (`run --log FILE` or `--until` does)" if names else None


def _statement(unit: Unit, before: Run, after: Run, *, since_marks: bool) -> str:
    if unit == "second":
        since = "the first sign of training" if since_marks else "the job began"
        deaf = _not_read(before, after)
        why = f"{deaf}, so that epochs and steps are not known" if deaf else "the two have no epochs or steps in common"
        return f"by time since {since}: {why}, and another pace is another growth"
    if unit == "worker_start":
        return "by starts of DataLoader workers, as no log tells of epochs"
    name = "epochs" if unit == "epoch" else "steps"
    text = f"by {name} of the job's own output, from the first on"
    first, second = marks_in(before, unit)[0].number, marks_in(after, unit)[0].number
    return text if first == second else f"{text} ({first:g} in BEFORE, {second:g} in AFTER)"

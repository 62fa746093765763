# SPDX-License-Identifier: Apache-2.0
"""One run as the document has it."""

from collections.abc import Iterator

from tracer.units import NS_PER_S
from tracer.verdict.comparison.align import Seen
from tracer.verdict.comparison.course import Held
from tracer.verdict.comparison.model import Part, Side
from tracer.verdict.comparison.run import Run
from tracer.verdict.comparison.trend import Trend, held_at
from tracer.verdict.projected import Interval

POINTS = 48
KINDS = (
    ("anonymous memory", "anon_bytes"), ("shared memory and tmpfs", "shmem_bytes"), ("swap", "swap_bytes"),
    ("memory of the kernel", "kernel_bytes"),
)  # fmt: skip


def side(run: Run, other: Run, seen: Seen | None, *, first: bool = False) -> Side:
    """It, beside the other; of the first one it is told what it grew by, of the second what is left of that."""
    course = run.course
    trend = None if seen is None else settled(run, seen)
    grown = seen.grown if first and seen is not None else trend
    peak = None if course is None else max((held.all_bytes for held in _until(run)), default=None)
    peak = max((value for value in (peak, run.peak_bytes) if value is not None), default=None)
    level = None if seen is None else round(seen.level_bytes)
    return Side(
        recording=run.path,
        command=run.case.story.command,
        ranks=run.case.story.ranks,
        of="nothing" if course is None else course.of,
        limit_bytes=run.limit_bytes,
        cause=run.incident.cause,
        strength=run.incident.strength,
        killed=run.killed,
        status=None if run.verdict.job is None else run.verdict.job.status,
        ended_as_asked=run.ended_as_asked,
        headline=run.incident.headline,
        mechanism=run.incident.mechanism,
        seconds=round(run.seconds, 3),
        covered=None if seen is None else round(seen.span, 4),
        first_bytes=None if seen is None else round(seen.first_bytes),
        level_bytes=level,
        peak_bytes=peak,
        growth_bytes=None if grown is None else of_trend(grown),
        time_to_limit_s=None if trend is None or seen is None else time_to_limit(run, seen, trend),
        series_bytes=tuple(_series(run, max(run.seconds, other.seconds))),
        parts=tuple(_parts(run, seen)),
    )


def of_trend(trend: Trend) -> Interval:
    """Its slope."""
    return Interval(value=round(trend.slope, 3), low=round(trend.low, 3), high=round(trend.high, 3))


def time_to_limit(run: Run, seen: Seen, trend: Trend) -> Interval | None:
    """From the end on, in seconds; `None`: it was killed, has no limit, or is not known to grow."""
    if run.killed or run.limit_bytes is None or not trend.rises or seen.pace_s is None:
        return None
    room = max(0.0, run.limit_bytes - held_at(seen.points, seen.span))
    value, low, high = (room / slope * seen.pace_s for slope in (trend.slope, trend.high, trend.low))
    return Interval(value=round(value, 1), low=round(low, 1), high=round(high, 1))


def settled(run: Run, seen: Seen) -> Trend | None:
    """How it went on in the end; of one that was killed all of it counts: it had no time to settle."""
    return seen.tail if not run.killed and seen.tail is not None else seen.whole


def _until(run: Run) -> list[Held]:
    return [] if run.course is None else [held for held in run.course.looks if held.at_ns <= run.end_ns]


def _series(run: Run, seconds: float) -> Iterator[int | None]:
    looks = _until(run)
    points = [((held.at_ns - run.begin_ns) / NS_PER_S, float(held.all_bytes)) for held in looks]
    for number in range(POINTS):
        first, last = (seconds * edge / POINTS for edge in (number, number + 1))
        within = [held for x, held in points if first <= x < last]
        if within:
            yield round(max(within))
        elif not points or first > run.seconds or last <= points[0][0]:
            yield None
        else:
            yield round(held_at(points, last))


def _parts(run: Run, seen: Seen | None) -> Iterator[Part]:
    """Which kind it is that grew."""
    looks = _until(run)
    if seen is None or not looks:
        return
    first = next((held for held in reversed(looks) if held.at_ns <= seen.begin_ns), looks[0])
    for what, name in KINDS:
        begin, end = getattr(first, name), getattr(looks[-1], name)
        if begin or end:
            yield Part(what=what, first_bytes=begin, last_bytes=end)

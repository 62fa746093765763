# SPDX-License-Identifier: Apache-2.0
"""Why a level that AFTER kept may yet hide growth: looked for before anything is called fixed.

A trend is robust on purpose, so what comes late or elsewhere does not move it. Here is what would show it.
"""

from collections.abc import Callable, Iterator, Sequence
from statistics import median

from tracer.events import PressureSample, ProcessSample
from tracer.units import format_bytes, format_duration
from tracer.verdict.comparison.align import Pair, Seen
from tracer.verdict.comparison.course import STILL_NS, Course, Held, last_look_ns, summed
from tracer.verdict.comparison.growth import IN_TIME, LEAST_RISE_BYTES, LEAST_RISE_SHARE
from tracer.verdict.comparison.run import Run
from tracer.verdict.comparison.trend import BY_RANKS, Point, trend_of

EARLY_SHARE = 2 / 3
"""What is held behind that has to be what was held before."""
START_SHARE = 0.85
"""The same where start-up itself is compared, which is a rise."""
LAST_LOOKS = 3
LEAST_LOOKS = 6
BEHIND_SHARE = 0.1
"""Of the time: less behind what is compared is the end of the job."""
MOVED_SHARE = 0.1
"""Of what BEFORE would have grown by: where the processes grew by so much more than what is compared, it went there."""
LIVED = 3.0
"""So many times as long, and busy, it has done what BEFORE did."""
MOMENTS = 9
"""At so many of each third the processes are summed up."""
OTHER_PACE = 1.5
OTHER_EPOCHS = 4.0
"""Marks that come so many times as fast, while memory grows in time as it did, are other marks."""


def hidden(before: Run, after: Run, pair: Pair, *, start: bool) -> str | None:
    """What speaks against `fixed`; `None`: nothing does. `start`: BEFORE was killed before it trained."""
    found = _loaded(before, after) if start else _training(before, after)
    if found is None and pair.aligned.unit == "second":
        found = _idle(after)
    if found is None and pair.after is not None:
        found = _silent(after) or _late(pair.after, START_SHARE if start else EARLY_SHARE)
        found = found or _behind(after, pair.after) or _elsewhere(before, after, pair) or _shared(before, after, pair)
    return found


def fewer(before: Run, after: Run) -> str | None:
    """Fewer ranks have a lower peak, each of them the same."""
    ranks = [run.case.story.ranks for run in (before, after)]
    if not 0 < ranks[1] < ranks[0]:
        return None
    return f"AFTER had {ranks[1]} rank{'s' if ranks[1] > 1 else ''} where BEFORE had {ranks[0]}: each may hold as much"


def beside(before: Run, after: Run, pair: Pair) -> Iterator[str]:
    """What is no reason against `fixed`, as anybody may have done it, and is to be known."""
    course = after.course
    if pair.after is None or course is None or course.levels_up is None:
        return
    gone = _machine(
        after, pair.after, lambda one: None if one.mem_available_bytes is None else -one.mem_available_bytes
    )
    if gone is not None and gone - _grown(after, pair.after, _all) >= 5 * MOVED_SHARE * _expected(before, pair):
        yield (
            f"AFTER: meanwhile the machine's available memory fell by {format_bytes(round(gone))}, which is not in "
            f"{course.of}: by others, or by what no cgroup counts, as memory that a driver pins."
        )


def other_marks(pair: Pair) -> str | None:
    """Why less growth for each mark is no less growth; `None`: it may be."""
    one, two, unit = pair.before, pair.after, pair.aligned.unit
    if one is None or two is None or not one.pace_s or not two.pace_s or unit == "second":
        return None
    times = one.pace_s / two.pace_s
    if times < (OTHER_EPOCHS if unit == "epoch" else OTHER_PACE):
        return None
    trends = [next((t for t in (seen.whole, seen.tail) if t is not None and t.rises), None) for seen in (one, two)]
    if trends[0] is None or trends[1] is None:
        return None
    in_time = trends[1].slope / two.pace_s / (trends[0].slope / one.pace_s)
    if in_time < IN_TIME[0]:
        return None
    name = {"epoch": "epochs", "step": "steps"}.get(unit, "starts of workers")
    return f"in time AFTER grows as BEFORE did, and its {name} come {times:.1f} times as fast: they may be others"


def _loaded(before: Run, after: Run) -> str | None:
    """Where BEFORE was killed as it started, one that waits with less has not come to that place."""
    if after.marks.begin_ns is not None or _done(after) or after.seconds >= LIVED * before.seconds:
        return None
    return (
        "AFTER told of no epoch or step, did not come to its own end, and did not live "
        f"{LIVED:g} times as long as BEFORE: nothing tells that it has started up"
    )


def _done(after: Run) -> bool:
    return after.verdict.job is not None and after.verdict.job.status == "exit 0"


def _idle(after: Run) -> str | None:
    """Samples are written when anything changes, and of a process that works that is each second."""
    samples = [one.ts_ns for one in after.case.story.of(ProcessSample)]
    since_ns = after.begin_ns + (after.end_ns - after.begin_ns) // 3
    if not samples or _done(after) or any(since_ns < at_ns < after.end_ns - STILL_NS // 10 for at_ns in samples):
        return None
    return "no process of AFTER did anything for two thirds of its time: it may have waited"


def _training(before: Run, after: Run) -> str | None:
    """One that waits for its data is level, too."""
    if before.marks.known_by == "log" and after.marks.known_by is None:
        return "BEFORE told of epochs or steps, and AFTER of none: nothing tells that it came to train"
    return None


def _late(two: Seen, early_share: float) -> str | None:
    """Its last looks are above all that were before."""
    begin, until = two.span * (1 - EARLY_SHARE), two.span * early_share
    early = [y for x, y in two.points if begin <= x <= until]
    last = [y for _, y in two.points][-LAST_LOOKS:]
    if not early or len(two.points) < LEAST_LOOKS:
        return None
    risen = min(last) - max(early)
    whole = two.whole.blocks if two.whole is not None else ()
    levels = [y for x, y in whole if begin <= x <= until]
    if levels and len(whole) >= BY_RANKS:
        risen = max(risen, whole[-1][1] - max(levels))
    if risen < _least(two.points):
        return None
    return f"AFTER was level for a time, and rose by {format_bytes(round(risen))} at last"


def _behind(after: Run, two: Seen) -> str | None:
    """It grew on behind its last mark, or behind the end of one of its processes."""
    last_ns = last_look_ns(after.case.story)
    if after.course is None or last_ns is None:
        return None
    asked_ns = after.asked_ns if after.asked_ns is not None else last_ns
    until_ns = min(last_ns, asked_ns)
    points = [
        (float(look.at_ns), float(look.all_bytes))
        for look in after.course.looks
        if after.end_ns <= look.at_ns <= until_ns
    ]
    if len(points) < LEAST_LOOKS or until_ns - after.end_ns < BEHIND_SHARE * (until_ns - two.begin_ns):
        return None
    trend = trend_of(points, points[0][0], points[-1][0], min(len(points) // 2, 2 * BY_RANKS))
    if trend is None or not trend.rises:
        return None
    grown = trend.slope * (points[-1][0] - points[0][0])
    if grown < _least(two.points):
        return None
    return f"AFTER grew by {format_bytes(round(grown))} behind the end of what can be compared"


def _elsewhere(before: Run, after: Run, pair: Pair) -> str | None:
    """Its processes grew, and its cgroup did not: they are in another one, or it went into swap that nobody counts."""
    two, course = pair.after, after.course
    if two is None or course is None or course.levels_up is None:
        return None
    first_ns, last_ns = two.begin_ns + (after.end_ns - two.begin_ns) // 3, after.end_ns
    thirds = ((two.begin_ns, first_ns), (last_ns - (first_ns - two.begin_ns), last_ns))
    moments = [begin + (end - begin) * n // MOMENTS for begin, end in thirds for n in range(MOMENTS)]
    held = summed(after.case.story, moments)
    own = [_held_at(course, at_ns) for at_ns in moments]
    beside = [mine.anon_bytes + mine.swap_bytes - other for mine, other in zip(held, own, strict=True)]
    moved = median(beside[MOMENTS:]) - median(beside[:MOMENTS])
    if moved < max(_least(two.points), MOVED_SHARE * _expected(before, pair)):
        return None
    grown = format_bytes(round(moved))
    return f"the processes of AFTER grew by {grown} that are not in {course.of}: in another cgroup, or in swap"


def _silent(after: Run) -> str | None:
    """At the end of a recording its cgroup is looked at once more, whether or not anything changed."""
    course = after.course
    if course is None or course.levels_up is None:
        return None
    silent_ns = after.end_ns - course.looks[-1].at_ns
    if silent_ns <= max(STILL_NS, BEHIND_SHARE * (after.end_ns - after.begin_ns)):
        return None
    return f"nobody looked at {course.of} of AFTER for the last {format_duration(silent_ns)}"


def _shared(before: Run, after: Run, pair: Pair) -> str | None:
    """Of files in shared memory that nobody has mapped, a sum over processes shows nothing."""
    two, course = pair.after, after.course
    if two is None or course is None or course.levels_up is not None:
        return None
    grown = _machine(after, two, lambda one: one.shmem_bytes)
    if grown is None:
        return None
    grown -= _grown(after, two, lambda look: look.shmem_bytes)
    if grown < max(_least(two.points), MOVED_SHARE * _expected(before, pair)):
        return None
    return f"shared memory of the machine grew by {format_bytes(round(grown))} meanwhile, and AFTER has no cgroup"


def _machine(after: Run, two: Seen, of: Callable[[PressureSample], int | None]) -> float | None:
    """By how much something of the machine grew from the first third of the time to the last one."""
    values = [(one.ts_ns, value) for one in after.case.story.of(PressureSample) if (value := of(one)) is not None]
    return _from_third_to_third(values, two.begin_ns, after.end_ns)


def _grown(after: Run, two: Seen, of: Callable[[Held], int]) -> float:
    assert after.course is not None
    values = [(look.at_ns, of(look)) for look in after.course.looks]
    return _from_third_to_third(values, two.begin_ns, after.end_ns) or 0.0


def _from_third_to_third(values: Sequence[tuple[int, int]], begin_ns: int, end_ns: int) -> float | None:
    third_ns = (end_ns - begin_ns) // 3
    first = [value for at_ns, value in values if begin_ns <= at_ns <= begin_ns + third_ns]
    last = [value for at_ns, value in values if end_ns - third_ns <= at_ns <= end_ns]
    return median(last) - median(first) if first and last else None


def _all(look: Held) -> int:
    return look.all_bytes


def _held_at(course: Course, at_ns: int) -> int:
    """Anonymous memory and swap."""
    look = next((look for look in reversed(course.looks) if look.at_ns <= at_ns), course.looks[0])
    return look.anon_bytes + look.swap_bytes


def _expected(before: Run, pair: Pair) -> float:
    one, two = pair.before, pair.after
    assert two is not None
    if one is None or one.whole is None or not one.whole.rises:
        return float(before.peak_bytes or 0)
    return one.whole.slope * two.span


def _least(points: Sequence[Point]) -> float:
    return max(float(LEAST_RISE_BYTES), LEAST_RISE_SHARE * max(y for _, y in points))

# SPDX-License-Identifier: Apache-2.0
"""How memory came to its last value: steadily, at once from a level, in some seconds from a level, or unlike either.

That it grew on and on is shown, and not what is left where no level is found: a job that is slow, on a machine that
others use, takes seconds for what is one allocation.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from tracer.units import NS_PER_MS, NS_PER_S

# Fitted on recordings of real PyTorch jobs that grew for seconds (tests/README.md), not measured on long ones.
WINDOW_SHARE = 0.55
"""Growth is what came since the usage was this much of its last value: start-up, which all jobs have, is before it."""
LEVEL_SHARE = 0.95
"""A level is left where the usage had been this near to its highest for long."""
STEADY_SHARE = 0.5
"""A jump from a steady level: so much of the time since the usage was `WINDOW_SHARE` was spent on the level."""
UNSURE_SHARE = 0.35
"""From here on it may have been one."""
DRIFT_SHARE = 0.4
"""Of what came since the level was reached: with so much of it within the level it was none, but slow growth."""
STEPS = 12
END_NS = 500 * NS_PER_MS
"""The last moments are no part of a level."""
SLOW_END_SHARE, SLOW_END_NS = 0.05, 5 * NS_PER_S
"""Nor is so much of the time, and so long at most, where all is slow."""
STRAIGHT = 0.8
"""Of the variance, what a straight line explains where memory grew on and on. One step from level to level comes to
0.75 at most, wherever it lies. Measured: 0.82 and more where it grew, 0.57 at most where one allocation was made."""
STRAIGHT_STEPS = 40

Shape = Literal["growing", "jump", "rise", "unclear"]
Points = Sequence[tuple[int, int]]


class Course(NamedTuple):
    """Since when, and how."""

    from_ns: int
    """Where the picture begins."""
    shape: Shape
    level_bytes: int
    """The highest but for the last moments."""
    level_ns: int
    """So long it had been near that."""


def course(points: Points, at_ns: int, last_bytes: int) -> Course:
    """Of looks in order of time, and the value at the end."""
    found = _course(points, at_ns, last_bytes, END_NS)
    if found.shape == "jump" or (found.shape == "growing" and _is_straight(points, found.from_ns, at_ns, last_bytes)):
        return found
    end_ns = min(SLOW_END_NS, round(SLOW_END_SHARE * (at_ns - found.from_ns)))
    slow = _course(points, at_ns, last_bytes, end_ns) if end_ns > END_NS else found
    return slow._replace(shape="rise") if slow.shape == "jump" else found._replace(shape="unclear")


def _course(points: Points, at_ns: int, last_bytes: int, end_ns: int) -> Course:
    below = [ns for ns, held in points if held < WINDOW_SHARE * last_bytes]
    from_ns = below[-1] if below else points[0][0]
    within = [(ns, held) for ns, held in points if ns >= from_ns]
    earlier = [(ns, held) for ns, held in within if ns <= at_ns - end_ns]
    if len(earlier) < 3:
        return Course(from_ns, "unclear", max(held for _, held in within), 0)
    level = max(held for _, held in earlier)
    reached_ns = next(ns for ns, held in earlier if held >= LEVEL_SHARE * level)
    level_ns = at_ns - end_ns - reached_ns
    share = level_ns / max(at_ns - from_ns, 1)
    if share < UNSURE_SHARE:
        return Course(from_ns, "growing", level, level_ns)
    if share < STEADY_SHARE:
        return Course(from_ns, "unclear", level, level_ns)
    held = [_held(within, reached_ns + level_ns * step // (STEPS - 1)) for step in range(STEPS)]
    early, late = (sorted(part)[STEPS // 6] for part in (held[: STEPS // 3], held[-(STEPS // 3) :]))
    if late - early > DRIFT_SHARE * (last_bytes - early):
        return Course(reached_ns, "growing", level, level_ns)  # slowly, and near its end all along
    # The level swings, as steps do: what came on top of it is what grew.
    top_ns = max((held, ns) for ns, held in earlier)[1]
    return Course(top_ns, "jump", level, level_ns)


def _is_straight(points: Points, from_ns: int, at_ns: int, last_bytes: int) -> bool:
    """Evenly in time: looks are denser near a limit."""
    held = [_held(points, from_ns + (at_ns - from_ns) * step // STRAIGHT_STEPS) for step in range(STRAIGHT_STEPS)]
    held.append(last_bytes)
    mean, middle = sum(held) / len(held), STRAIGHT_STEPS / 2
    spread = sum((step - middle) ** 2 for step in range(len(held)))
    varied = sum((value - mean) ** 2 for value in held)
    along = sum((step - middle) * (value - mean) for step, value in enumerate(held))
    return along > 0 and along**2 >= STRAIGHT * spread * varied


def _held(points: Points, at_ns: int) -> int:
    """By the last look: what did not change is not written."""
    return next((held for ns, held in reversed(points) if ns <= at_ns), points[0][1])

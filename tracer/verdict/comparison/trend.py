# SPDX-License-Identifier: Apache-2.0
"""How fast something grows, and how sure that is: robust, and without any package.

Samples of memory are nothing like independent: a level that was left stays left. So they are not fitted as they are.
The window is cut into blocks of equal length (epochs, where there are enough), of each the median is taken, and the
slope is the median of all slopes between two blocks (Theil and Sen): a spike, a sawtooth within an epoch or one odd
block do not move it. The interval is Sen's, by the ranks of those slopes, and wider the more neighbouring blocks are
alike beyond the trend; of few blocks it reaches from the least slope to the greatest.
"""

import bisect
import math
from collections.abc import Sequence
from itertools import combinations, pairwise
from statistics import median

import msgspec

MOST_BLOCKS = 24
LEAST_BLOCKS = 3
BY_RANKS = 6
"""From so many blocks on the interval is one of ranks."""
SIGMAS = 1.96
LEAST_ALIKE, MOST_ALIKE = 0.3, 0.9
"""Of neighbouring blocks beyond the trend: of few blocks it cannot be told that they are not alike at all."""
LOOKS = 8
"""In each block."""

Point = tuple[float, float]


class Trend(msgspec.Struct, frozen=True, kw_only=True):
    """Of `y` for each one of `x`."""

    slope: float
    low: float
    high: float
    """It is between these, 95 times of 100."""
    blocks: tuple[Point, ...]

    @property
    def rises(self) -> bool:
        return self.low > 0

    @property
    def highest(self) -> float:
        return max(y for _, y in self.blocks)


def held_at(points: Sequence[Point], x: float) -> float:
    """In a straight line between two points; before the first and behind the last it is as there."""
    place = bisect.bisect_right(points, x, key=lambda point: point[0])
    if place == 0 or place == len(points):
        return points[max(place - 1, 0)][1]
    (x1, y1), (x2, y2) = points[place - 1], points[place]
    return y1 + (y2 - y1) * (x - x1) / (x2 - x1)


def blocks_of(points: Sequence[Point], first: float, last: float, count: int) -> tuple[Point, ...]:
    """The median of each of `count` parts of a window, at its middle."""
    width = (last - first) / count
    found = []
    for number in range(count):
        begin = first + number * width
        looks = [held_at(points, begin + width * (look + 0.5) / LOOKS) for look in range(LOOKS)]
        found.append((begin + width / 2, median(looks)))
    return tuple(found)


def trend_of(points: Sequence[Point], first: float, last: float, count: int, noise: float = 0.0) -> Trend | None:
    """The trend over a window; `None`: it is too short.

    Args:
        points: `x` rising.
        first: where the window begins.
        last: where it ends.
        count: how many blocks.
        noise: by so much `y` may be off at either end for no reason.
    """
    if not points or last <= first or count < LEAST_BLOCKS:
        return None
    return trend_of_blocks(blocks_of(points, first, last, min(count, MOST_BLOCKS)), noise)


def trend_of_blocks(blocks: Sequence[Point], noise: float = 0.0) -> Trend | None:
    """The same, of blocks."""
    if len(blocks) < LEAST_BLOCKS:
        return None
    slopes = sorted((y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(blocks, 2) if x2 > x1)
    slope = median(slopes)
    low, high = slopes[0], slopes[-1]
    if len(blocks) >= BY_RANKS:
        low, high = _by_ranks(blocks, slopes, slope)
    pad = noise / (blocks[-1][0] - blocks[0][0])
    return Trend(slope=slope, low=low - pad, high=high + pad, blocks=tuple(blocks))


def _by_ranks(blocks: Sequence[Point], slopes: Sequence[float], slope: float) -> tuple[float, float]:
    n, count = len(blocks), len(slopes)
    variance = n * (n - 1) * (2 * n + 5) / 18 * _alike(blocks, slope)
    reach = SIGMAS * math.sqrt(variance)
    low = math.floor((count - reach) / 2)
    high = math.ceil((count + reach) / 2)
    return slopes[min(max(low, 0), count - 1)], slopes[min(max(high, 0), count - 1)]


def _alike(blocks: Sequence[Point], slope: float) -> float:
    """By how much the variance is greater since neighbours are alike: that of a process that forgets step by step."""
    rest = [y - slope * x for x, y in blocks]
    middle = sum(rest) / len(rest)
    spread = sum((one - middle) ** 2 for one in rest)
    if spread <= 0:
        return 1.0
    together = sum((one - middle) * (two - middle) for one, two in pairwise(rest)) / spread
    # Of so few blocks the estimate is too low.
    alike = (
        min(max((together * len(blocks) + 1) / (len(blocks) - 4), LEAST_ALIKE), MOST_ALIKE)
        if len(blocks) > 4
        else LEAST_ALIKE
    )
    return (1 + alike) / (1 - alike)

# SPDX-License-Identifier: Apache-2.0
"""Slopes and their intervals: right for lines, robust against what is none, and honest about noise."""

import random

import pytest
from hypothesis import given, strategies as st

from tracer.verdict.comparison.trend import blocks_of, held_at, trend_of, trend_of_blocks


def line(slope, count=20, noise=0.0, seed=1, alike=0.0):
    rng, rest, points = random.Random(seed), 0.0, []
    for x in range(count):
        rest = alike * rest + rng.gauss(0, noise) * (1 - alike * alike) ** 0.5
        points.append((float(x), 100 + slope * x + rest))
    return points


@given(st.floats(-1000, 1000), st.integers(3, 24))
def test_of_a_line_the_slope_is_exact(slope, count):
    trend = trend_of_blocks(line(slope, count))

    assert trend.slope == pytest.approx(slope, abs=1e-6)
    assert trend.low <= trend.slope <= trend.high


def test_one_spike_does_not_move_it():
    points = line(0)
    points[7] = (7.0, 10_000.0)

    assert trend_of_blocks(points).slope == pytest.approx(0)


def test_a_sawtooth_that_comes_back_is_no_growth():
    points = [(x / 10, 100 + 50 * (x / 10 % 1)) for x in range(100)]
    trend = trend_of(points, 0, 10, 10)

    assert not trend.rises
    assert abs(trend.slope) < 1


def test_a_staircase_is_one_step_an_epoch():
    points = [(x / 10, 100 + 50 * (x // 10)) for x in range(100)]

    assert trend_of(points, 0, 10, 10).slope == pytest.approx(50)


@pytest.mark.parametrize("alike", [0.0, 0.5, 0.8])
def test_the_interval_has_the_truth_in_it_as_often_as_it_says(alike):
    """It is said to be so 95 times of 100; of blocks that are much alike, some less."""
    trends = [trend_of_blocks(line(3, 12, noise=10, seed=seed, alike=alike)) for seed in range(400)]
    right = sum(trend.low <= 3 <= trend.high for trend in trends) / len(trends)

    assert right >= (0.9 if alike < 0.8 else 0.85)


def test_what_is_too_short_has_no_trend():
    assert trend_of([], 0, 1, 5) is None
    assert trend_of([(0, 1.0)], 1, 1, 5) is None
    assert trend_of([(0, 1.0), (1, 2.0)], 0, 1, 2) is None
    assert trend_of_blocks([(0, 1.0), (1, 2.0)]) is None


def test_between_points_it_is_a_straight_line_and_beyond_them_the_same():
    points = [(0.0, 0.0), (2.0, 10.0)]

    assert [held_at(points, x) for x in (-1, 0, 1, 2, 3)] == [0, 0, 5, 10, 10]
    assert [x for x, _ in blocks_of(points, 0, 2, 4)] == [0.25, 0.75, 1.25, 1.75]


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1 << 45)), min_size=1, max_size=50), st.integers(3, 24))
def test_whatever_the_points_the_slope_is_within_its_interval(points, count):
    ordered = sorted((float(x), float(y)) for x, y in points)
    trend = trend_of(ordered, 0.0, 1000.0, count, 1.0)

    assert trend.low <= trend.slope <= trend.high

# SPDX-License-Identifier: Apache-2.0
"""Rows of characters that stand for numbers."""

import pytest
from hypothesis import given, strategies as st

from tracer.views.terminal.sparkline import bar, sparkline

LEVELS = "▁▂▃▄▅▆▇█"
sizes = st.none() | st.integers(0, 2**60)


@pytest.mark.parametrize(
    "values, room, drawn",
    [
        ((), 8, ""),
        ((0, 1, 2, 3, 4, 5, 6, 7), 8, "▁▂▃▄▅▆▇█"),
        ((58, 58, 58), 8, "███"),
        ((100, 101, 100), 8, "███"),
        ((0, 0), 8, "▁▁"),
        ((1, None, 2), 8, "▅ █"),
        ((0, 0, 9, 0, 0, 0), 3, "▁█▁"),
        ((None, None, 5, None), 2, " █"),
    ],
)
def test_growth_rises_flat_is_flat_and_unknown_is_a_gap(values, room, drawn):
    assert drawn == sparkline(values, room, levels=LEVELS)


@given(st.lists(sizes), st.integers(1, 30))
def test_the_peak_is_always_drawn_full_and_the_room_is_kept(values, room):
    drawn = sparkline(values, room, levels=LEVELS)

    assert min(len(values), room) == len(drawn)
    assert ("█" in drawn) == any(values)


@pytest.mark.parametrize(
    "used, total, drawn",
    [
        (0, 8, "........"),
        (1, 8, "#......."),
        (1, 8000, "#......."),
        (7999, 8000, "#######."),
        (8, 8, "########"),
        (9, 8, "########"),
        (0, 0, "########"),
    ],
)
def test_a_bar_is_full_only_when_the_limit_is_reached(used, total, drawn):
    assert drawn == bar(used, total, 8, full="#", empty=".")

# SPDX-License-Identifier: Apache-2.0
"""Where lines, areas, labels and marks of a chart lie."""

import itertools
import re

import pytest
from hypothesis import given, strategies as st

from tracer.units import GIB, MIB, NS_PER_S
from tracer.verdict.dossier.model import Chart, Epoch, Layer, Strip
from tracer.views.webpage.drawing import NARROW, WIDE, draw, styles, time_label
from tracer.views.webpage.marks import Numbered, flags
from tracer.views.webpage.sparkline import HEIGHT, sparkline


def chart(*rows, limit_bytes=512 * MIB, span_ns=10 * NS_PER_S, **more) -> Chart:
    count = len(rows[0])
    layers = [
        Layer(kind="process", who=f"p{place}", values_bytes=tuple(v * MIB for v in row))
        for place, row in enumerate(rows)
    ]
    return Chart(
        what="x", extent="whole", from_ns=0, to_ns=span_ns, limit_bytes=limit_bytes, layers=tuple(layers),
        moments_ns=tuple(span_ns * place // (count - 1) for place in range(count)),
        totals_bytes=tuple(sum(step) * MIB for step in zip(*rows, strict=True)), **more,
    )  # fmt: skip


def points(path: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"L(-?[\d.]+) (-?[\d.]+)", path)]


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=lambda size: size.name)
@given(rows=st.lists(st.lists(st.integers(0, 9000), min_size=5, max_size=5), min_size=1, max_size=9))
def test_everything_lies_inside_of_the_drawing(size, rows):
    drawn = draw(chart(*rows), size, 5 * NS_PER_S, [])

    for area in drawn.areas:
        for x, y in points(area.path):
            assert size.left <= x <= drawn.right
            assert drawn.top <= y <= drawn.bottom
    assert all(drawn.top - 1 <= tick.at <= drawn.bottom for tick in drawn.up)
    assert all(size.left <= tick.at <= drawn.right for tick in drawn.across)


def test_layers_lie_upon_each_other():
    lower, upper = sorted(draw(chart([100] * 5, [50] * 5), WIDE, None, []).areas, key=lambda area: area.letter)

    assert points(lower.path)[0][1] > points(upper.path)[0][1]
    assert draw(chart([100] * 5, [50] * 5), WIDE, None, []).areas[0].letter == "B"  # drawn first, so that A covers it


def test_a_limit_that_is_far_above_does_not_press_the_rest_down():
    far = draw(chart([100] * 5, limit_bytes=64 * GIB), WIDE, None, [])
    near = draw(chart([400] * 5), WIDE, None, [])

    assert far.limit_at is None
    assert near.limit_at is not None
    assert near.top <= near.limit_at < points(near.areas[0].path)[0][1]


def test_of_many_moments_those_with_most_in_use_are_drawn():
    values = [100] * 1000
    values[777] = 500

    drawn = draw(chart(values), NARROW, None, [])

    assert len(points(drawn.areas[0].path)) <= NARROW.most_points + 2
    assert min(y for _, y in points(drawn.areas[0].path)) < drawn.top + 40


def test_marks_that_would_hide_each_other_are_one_and_the_decisive_one_gives_its_place():
    exits = [(100.0 + n, Numbered(n, n, "exit", primary=n == 3)) for n in range(1, 6)]
    far = [(500.0, Numbered(6, 6, "signal", primary=False))]

    near_one, far_one = flags([*exits, *far])

    assert (near_one.text, near_one.at, near_one.primary) == ("1\u20135", 103.0, True)
    assert (far_one.text, far_one.primary) == ("6", False)


def test_names_of_epochs_do_not_run_into_each_other():
    epochs = tuple(Epoch(at_ns=n * NS_PER_S // 10, text=f"epoch {n}") for n in range(100))

    drawn = draw(chart([1] * 5, epochs=epochs), WIDE, None, [])
    named = [tick.at for tick in drawn.epochs if tick.text]

    assert len(drawn.epochs) == 100
    assert min(b - a for a, b in itertools.pairwise(named)) >= 88


def test_strips_stand_below_the_plot():
    strip = Strip(kind="pressure", what="p", values=(0.0, 0.5, 1.0))

    drawn = draw(chart([1] * 5, strips=(strip,)), WIDE, None, [])

    assert drawn.ribbons[0].top > drawn.bottom
    assert drawn.height > draw(chart([1] * 5), WIDE, None, []).height


def test_the_one_that_grew_has_a_colour_of_its_own():
    layers = [
        Layer(kind="process", who="a", parts=("victim", "culprit"), values_bytes=(1,)),
        Layer(kind="process", who="b", values_bytes=(1,)),
        Layer(kind="group", who="c", values_bytes=(1,)),
        Layer(kind="other_anonymous", who="d", values_bytes=(1,)),
        Layer(kind="rest", who="e", values_bytes=(1,)),
    ]

    assert styles(layers) == [
        ("A", "l-hot1"), ("B", "l-process1"), ("C", "l-group1"), ("D", "l-other-anonymous"), ("E", "l-rest"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "offset_ns, label",
    [
        (0, "0"),
        (-10 * NS_PER_S, "\u221210 s"),
        (500_000_000, "+0.5 s"),
        (-600 * NS_PER_S, "\u221210 min"),
        (7200 * NS_PER_S, "+2 h"),
    ],
)
def test_labels_of_time_are_short(offset_ns, label):
    assert time_label(offset_ns) == label


def test_a_sparkline_has_a_gap_where_nothing_is_known_and_its_peak_at_the_top():
    line = sparkline([0, 10, None, 20, 20])

    assert line.count("M") == 2
    assert f"L{72:.1f} 1.0" in line
    assert line.startswith(f"M0.0 {HEIGHT - 1:.1f}")
    assert sparkline([0, 0, 0]) == sparkline([None]) == ""

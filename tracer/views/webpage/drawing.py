# SPDX-License-Identifier: Apache-2.0
"""A chart as shapes: where lines, areas and labels lie. What they show was computed elsewhere."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tracer.units import GIB, KIB, MIB, NS_PER_S, format_bytes, format_duration
from tracer.verdict.dossier.model import Chart, Layer, Strip
from tracer.views.webpage.marks import Flag, Numbered, flags
from tracer.views.webpage.safe import Shape

_STRIP_PX = 14
_STRIP_GAP_PX = 8
_TIME_STEPS_S = (
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600,
    7200, 14400, 28800, 43200, 86400, 172800, 604800,
)  # fmt: skip
_LETTERS = "ABCDEFGHIJKL"
_LEAST_LETTER_PX = 13
_EPOCH_PX = 88
"""Least distance of two names of epochs."""
_WIDE_SHARE = 0.6
"""Of a layer's thickest place: its letter stands in the middle of all that are so thick."""
_FAR_LIMIT = 0.45
"""Of the limit: when never more was in use, the limit is named and not drawn."""


@dataclass(frozen=True)
class Size:
    """Of a drawing, in its own units: pixels, where it is not scaled."""

    name: str
    width: int
    height: int
    left: int
    most_points: int
    tick_px: int
    """Least distance of labels below."""


WIDE = Size("wide", 960, 330, 74, 190, 84)
NARROW = Size("narrow", 380, 260, 58, 90, 70)


@dataclass(frozen=True)
class Area:
    """One layer as a path, and where its letter stands."""

    letter: str
    style: str
    path: Shape
    letter_at: tuple[float, float] | None


@dataclass(frozen=True)
class Tick:
    """A label at an axis."""

    at: float
    text: str


@dataclass(frozen=True)
class Ribbon:
    """A strip: how full each step is."""

    label: str
    top: float
    path: Shape


@dataclass(frozen=True)
class Drawing:
    """Everything that the template needs to write an `svg`."""

    size: Size
    height: float
    top: int
    bottom: int
    right: int
    areas: tuple[Area, ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]
    limit_at: float | None
    incident_at: float | None
    flags: tuple[Flag, ...]
    epochs: tuple[Tick, ...]
    ribbons: tuple[Ribbon, ...]


def styles(layers: Sequence[Layer]) -> list[tuple[str, str]]:
    """Of each layer its letter, and the class that gives it colour and pattern."""
    found = []
    counts = {"hot": 0, "process": 0, "group": 0}
    for letter, layer in zip(_LETTERS, layers, strict=False):
        kind: str = "hot" if {"victim", "subject", "culprit"} & set(layer.parts) and counts["hot"] < 2 else layer.kind
        if kind in counts:
            counts[kind] += 1
            kind = f"{kind}{counts[kind]}"
        found.append((letter, f"l-{kind.replace('_', '-')}"))
    return found


def draw(chart: Chart, size: Size, at_ns: int | None, events: Sequence[Numbered]) -> Drawing:
    """Lay a chart out."""
    top, right, bottom = 30, size.width - 10, size.height - 26
    plot = _Plot(chart, size.left, right, top, bottom)
    places = _places(chart, size.most_points)
    strips = [_ribbon(plot, strip, place) for place, strip in enumerate(chart.strips)]
    below = len(strips) * (_STRIP_PX + _STRIP_GAP_PX)
    inside = at_ns is not None and chart.from_ns <= at_ns <= chart.to_ns
    return Drawing(
        size=size,
        height=size.height + below,
        top=top,
        bottom=bottom,
        right=right,
        areas=tuple(_areas(plot, places)),
        across=tuple(_across(plot, at_ns if at_ns is not None else chart.from_ns, size.tick_px)),
        up=tuple(_up(plot)),
        limit_at=plot.y(chart.limit_bytes)
        if chart.limit_bytes is not None and chart.limit_bytes <= plot.most
        else None,
        incident_at=plot.x(at_ns) if inside and at_ns is not None else None,
        flags=flags([(plot.x(one.at_ns), one) for one in events if chart.from_ns <= one.at_ns <= chart.to_ns]),
        epochs=tuple(_epochs(plot)),
        ribbons=tuple(strips),
    )


class _Plot:
    """From time and size to a place."""

    def __init__(self, chart: Chart, left: int, right: int, top: int, bottom: int) -> None:
        self.chart, self.left, self.right, self.top, self.bottom = chart, left, right, top, bottom
        highest = max(chart.totals_bytes, default=0)
        limit = chart.limit_bytes
        near = limit is not None and highest >= _FAR_LIMIT * limit
        self.step = _size_step(max(highest, limit if near and limit is not None else 0, MIB))
        self.most = max(highest, limit if near and limit is not None else 0, MIB) * 1.06

    def x(self, at_ns: int) -> float:
        share = (at_ns - self.chart.from_ns) / max(1, self.chart.to_ns - self.chart.from_ns)
        return round(self.left + share * (self.right - self.left), 1)

    def y(self, size_bytes: float) -> float:
        return round(self.bottom - size_bytes / self.most * (self.bottom - self.top), 1)


def _places(chart: Chart, most: int) -> list[int]:
    """Which of the chart's moments are drawn: of several the one with most in use, and the first and the last."""
    count = len(chart.moments_ns)
    if count <= most:
        return list(range(count))
    bounds = [step * count // most for step in range(most + 1)]
    found = {0, count - 1}
    for first, last in itertools.pairwise(bounds):
        found.add(max(range(first, last), key=lambda place: chart.totals_bytes[place]))
    return sorted(found)


def _areas(plot: _Plot, places: Sequence[int]) -> Iterator[Area]:
    """From the top of the stack down, each from its upper edge to the ground: the lower ones lie over it."""
    chart = plot.chart
    xs = [plot.x(chart.moments_ns[place]) for place in places]
    below = [0] * len(places)
    found = []
    for (letter, style), layer in zip(styles(chart.layers), chart.layers, strict=False):
        above = [low + layer.values_bytes[place] for low, place in zip(below, places, strict=True)]
        edge = [(x, plot.y(value)) for x, value in zip(xs, above, strict=True)]
        path = f"M{xs[0]:g} {plot.bottom}" + "".join(f"L{x:g} {y:g}" for x, y in _straightened(edge))
        thick = [plot.y(low) - y for low, (_, y) in zip(below, edge, strict=True)]
        broad = [min(thick[max(0, place - 2) : place + 3]) for place in range(len(thick))]
        wide = [place for place, size in enumerate(broad) if size >= _WIDE_SHARE * max(broad)]
        widest = wide[len(wide) // 2]
        middle = (min(max(xs[widest], plot.left + 9), plot.right - 9), edge[widest][1] + thick[widest] / 2 + 4)
        found.append(
            Area(letter, style, Shape(f"{path}V{plot.bottom}Z"), middle if broad[widest] >= _LEAST_LETTER_PX else None)
        )
        below = above
    yield from reversed(found)


def _straightened(edge: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Without points in the middle of a level."""
    for place, point in enumerate(edge):
        if 0 < place < len(edge) - 1 and edge[place - 1][1] == point[1] == edge[place + 1][1]:
            continue
        yield point


def _up(plot: _Plot) -> Iterator[Tick]:
    value = 0
    while value <= plot.most:
        yield Tick(plot.y(value), format_bytes(value) if value else "0")
        value += plot.step


def _size_step(most_bytes: int) -> int:
    """A power of two that makes three to six steps."""
    step = KIB
    while most_bytes / step > 6:
        step *= 2
    return min(step, GIB * 1024)


def _across(plot: _Plot, zero_ns: int, least_px: int) -> Iterator[Tick]:
    chart = plot.chart
    span_s = (chart.to_ns - chart.from_ns) / NS_PER_S
    most = max(1, (plot.right - plot.left) // least_px)
    step_s = next((step for step in _TIME_STEPS_S if span_s / step <= most), _TIME_STEPS_S[-1])
    step_ns = round(step_s * NS_PER_S)
    number = -((zero_ns - chart.from_ns) // step_ns)
    while zero_ns + number * step_ns <= chart.to_ns:
        yield Tick(plot.x(zero_ns + number * step_ns), time_label(number * step_ns))
        number += 1


def time_label(offset_ns: int) -> str:
    """`-10 s`, `0`, `+0.5 s`: short, for an axis."""
    if offset_ns == 0:
        return "0"
    sign = "\u2212" if offset_ns < 0 else "+"
    size = abs(offset_ns)
    if size < 100 * NS_PER_S:
        return f"{sign}{size / NS_PER_S:g} s"
    text = format_duration(size)
    return f"{sign}{text.removesuffix(' 0 s').removesuffix(' 0 min')}"


def _epochs(plot: _Plot) -> Iterator[Tick]:
    last = float("-inf")
    for epoch in plot.chart.epochs:
        at = plot.x(epoch.at_ns)
        named = at - last >= _EPOCH_PX
        if named:
            last = at
        yield Tick(at, epoch.text.replace("DataLoader workers, ", "workers, ") if named else "")


def _ribbon(plot: _Plot, strip: Strip, place: int) -> Ribbon:
    top = plot.bottom + 26 + place * (_STRIP_PX + _STRIP_GAP_PX)
    full = max(0.25, *strip.values)
    width = (plot.right - plot.left) / len(strip.values)
    ground = top + _STRIP_PX
    parts = []
    for step, value in enumerate(strip.values):
        tall = value / full * _STRIP_PX
        if tall >= 0.25:
            left = plot.left + step * width
            parts.append(f"M{left:.1f} {ground}v-{tall:.1f}h{width:.2f}V{ground}")
    return Ribbon("stalled" if strip.kind == "reclaim" else "pressure", top, Shape("".join(parts)))

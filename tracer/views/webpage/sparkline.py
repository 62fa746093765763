# SPDX-License-Identifier: Apache-2.0
"""A small curve beside a line of text: from zero to its own peak."""

from collections.abc import Sequence

from tracer.views.webpage.safe import Shape

WIDTH, HEIGHT = 72, 14


def sparkline(values: Sequence[int | None]) -> Shape:
    """As a path; a gap where nothing is known."""
    peak = max((value for value in values if value is not None), default=0)
    if not peak or len(values) < 2:
        return Shape()
    parts, broken = [], True
    for place, value in enumerate(values):
        if value is None:
            broken = True
            continue
        x, y = place * WIDTH / (len(values) - 1), HEIGHT - 1 - max(value, 0) / peak * (HEIGHT - 2)
        parts.append(f"{'M' if broken else 'L'}{x:.1f} {y:.1f}")
        broken = False
    return Shape("".join(parts))

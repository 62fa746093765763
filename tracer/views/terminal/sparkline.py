# SPDX-License-Identifier: Apache-2.0
"""Draws numbers as a row of characters: memory over time, and how full a limit is."""

from collections.abc import Sequence
from itertools import pairwise


def sparkline(values: Sequence[int | None], room: int, *, levels: str, top: int | None = None) -> str:
    """`values` in at most `room` cells, from zero to their own peak or to `top`; a gap where nothing is known.

    The scale starts at zero, so what is flat looks flat and only real growth rises. Where several values
    share a cell the largest shows: the peak is what counts here.
    """
    cells = _resampled(values, room)
    peak = max((value for value in cells if value is not None), default=0) if top is None else top
    return "".join(" " if value is None else levels[_level(value, peak, len(levels))] for value in cells)


def bar(used: int, total: int, room: int, *, full: str, empty: str) -> str:
    """`room` cells, filled in proportion; quite full only when it is, and not empty when anything is used."""
    if total <= 0 or used >= total:
        return full * room
    filled = min(room - 1, max(used * room // total, 1 if used > 0 else 0))
    return full * filled + empty * (room - filled)


def _level(value: int, peak: int, count: int) -> int:
    if peak <= 0:
        return 0
    return (2 * max(value, 0) * (count - 1) + peak) // (2 * peak)


def _resampled(values: Sequence[int | None], room: int) -> list[int | None]:
    if len(values) <= room:
        return list(values)
    bounds = [cell * len(values) // room for cell in range(room + 1)]
    return [
        max((value for value in values[first:last] if value is not None), default=None)
        for first, last in pairwise(bounds)
    ]

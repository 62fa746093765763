# SPDX-License-Identifier: Apache-2.0
"""Marks above a chart: which rows of the timeline happened when, without one hiding another."""

from collections.abc import Sequence
from dataclasses import dataclass

from tracer.verdict.model import EntryKind

_NEAR_PX = 44
_DRAWN: frozenset[EntryKind] = frozenset({"kill", "signal", "exit", "gone", "oom", "mark"})


@dataclass(frozen=True)
class Numbered:
    """A row of the timeline."""

    number: int
    at_ns: int
    kind: EntryKind
    primary: bool


@dataclass(frozen=True)
class Flag:
    """One mark, of one row or several."""

    at: float
    text: str
    first: int
    """The row that it leads to."""
    primary: bool


def is_drawn(kind: EntryKind) -> bool:
    """Whether a row has a mark above the chart."""
    return kind in _DRAWN


def flags(events: Sequence[tuple[float, Numbered]]) -> tuple[Flag, ...]:
    """Those that stand too near to each other are one: `14-19`; a row that the verdict rests on stays apart."""
    groups: list[list[tuple[float, Numbered]]] = []
    for at, one in sorted(events, key=lambda pair: (pair[0], pair[1].number)):
        if groups and at - groups[-1][0][0] < _NEAR_PX:
            groups[-1].append((at, one))
        else:
            groups.append([(at, one)])
    return tuple(_flag(group) for group in groups)


def _flag(group: Sequence[tuple[float, Numbered]]) -> Flag:
    numbers = sorted(one.number for _, one in group)
    primary = [pair for pair in group if pair[1].primary]
    at = primary[0][0] if primary else group[0][0]
    text = str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}\u2013{numbers[-1]}"
    return Flag(at=at, text=text, first=numbers[0], primary=bool(primary))

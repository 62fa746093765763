# SPDX-License-Identifier: Apache-2.0
"""What a rule answers."""

from typing import Literal

import msgspec

from tracer.units import format_bytes

MOST_OF_IT = 0.45
"""Of all growth: from here on a kind of memory is what grew. Fitted on recordings of single causes."""


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """A mechanism as a rule sees it."""

    name: str
    strength: Literal["likely", "possible"]
    share: float
    """Of the growth, how much it explains: of several the one that explains most is taken."""
    statement: str
    because: tuple[str, ...]
    against: tuple[str, ...] = ()
    """What speaks against it, or was not seen."""
    also: tuple[str, ...] = ()
    """Mechanisms that leave the same traces."""
    decide: tuple[str, ...] = ()
    """What to look at to tell these apart."""


def part(size_bytes: int, of_bytes: int) -> str:
    """`418 MiB of 431 MiB`."""
    return f"{format_bytes(size_bytes)} of {format_bytes(of_bytes)}"


def count(number: int, what: str) -> str:
    """`1 worker`, `4 workers`."""
    return f"{number} {what}{'' if number == 1 else 's'}"

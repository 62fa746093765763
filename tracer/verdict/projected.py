# SPDX-License-Identifier: Apache-2.0
"""Where a job that lived was going: what a report says of it."""

from typing import Literal

from msgspec import Struct

Unit = Literal["epoch", "step", "worker_start", "second"]
"""worker_start: DataLoader workers were started anew, which is a pass over the data, validation too."""


class Interval(Struct, frozen=True, kw_only=True):
    """A number and how sure it is: 95 times of 100 it is between `low` and `high`."""

    value: float
    low: float
    high: float | None
    """`None`: there is no end to it."""


class Projection(Struct, frozen=True, kw_only=True):
    """At the rate that was seen."""

    grows: bool | None
    """`None`: cannot be told."""
    unit: Unit
    growth_bytes: Interval | None = None
    """For each unit."""
    level_bytes: int | None = None
    """At the end, of what cannot be reclaimed."""
    limit_bytes: int | None = None
    limit_in_s: Interval | None = None
    limit_at: float | None = None
    """In the unit: the epoch, or the step."""
    epochs: int | None = None
    """So many there are to be, as the job says."""
    needed_bytes: Interval | None = None
    """For all of them."""
    statement: str

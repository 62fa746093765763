# SPDX-License-Identifier: Apache-2.0
"""What the document says of growth: a table that adds up to the limit, how fast it went, and how much time was left."""

from typing import Literal

import msgspec

PartKind = Literal[
    "process", "copies", "shared_memory", "kernel", "page_cache", "outside", "other", "unexplained", "unused"
]
"""copies: pages that a fork shared and that were written to since; other: anonymous memory of whoever is not of the
job, on a machine as a whole; unexplained: what the rest leaves of the usage; unused: what it leaves of the limit."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table."""

    kind: PartKind
    what: str
    """`rank 0`, `4 DataLoader workers`, `shared memory and tmpfs`."""
    pids: tuple[int, ...] = ()
    size_bytes: int
    grown_bytes: int | None = None
    """Since the picture begins. `None`: not known."""
    rate_bytes_per_s: int | None = None


class Staircase(msgspec.Struct, frozen=True, kw_only=True):
    """How memory grew from epoch to epoch, where whole epochs were told apart."""

    epochs: int
    """Whole ones that were looked at."""
    step_bytes: int
    """What one added, on average."""
    once: bool
    """It came once an epoch, always at the same place of it."""
    statement: str
    evidence: tuple[int, ...] = ()


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """Who held what at the kill. The parts add up to the limit, or to the usage where that has none."""

    limit_bytes: int | None = None
    usage_bytes: int
    since_ns: int
    """So long before the kill the picture begins: when the usage was about half of what it came to, or where a level
    that had been steady was left."""
    by: Literal["kernel_log", "samples"]
    """kernel_log: the kernel's own report at the kill; samples: the last look before it."""
    parts: tuple[Part, ...] = ()
    rate_bytes_per_s: int | None = None
    """Of all that cannot be reclaimed, at the end."""
    last_sample_ns: int | None = None
    """So long before the kill was the last look at the limit."""
    time_left_ns: int | None = None
    """How long the room that was left then would have lasted at that rate."""
    statement: str = ""
    staircase: Staircase | None = None

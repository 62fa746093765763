# SPDX-License-Identifier: Apache-2.0
"""The document that `oomtrace compare --json` prints."""

from typing import Literal

from msgspec import Struct

from tracer.verdict.model import Cause, Mechanism, Strength
from tracer.verdict.projected import Interval, Unit

COMPARISON_SCHEMA = "oomtrace.comparison/1"

Outcome = Literal["fixed", "reduced", "unchanged", "worse", "cannot_tell"]
Basis = Literal["growth", "peak", "limit", "none"]
"""growth: by how fast memory grows as training goes on; peak: by the most that was held, where it did not grow but
jumped, or the job was killed before it trained; limit: nothing but the limit is another; none: neither could be had."""


class Aligned(Struct, frozen=True, kw_only=True):
    """What is compared with what."""

    unit: Unit
    since: Literal["first_mark", "job_start"]
    known_by: Literal["log", "workers", "time"]
    statement: str


class Side(Struct, frozen=True, kw_only=True):
    """One of the two runs. Bytes are of what cannot be reclaimed: anonymous, shared, swapped and kernel memory."""

    recording: str | None = None
    command: tuple[str, ...] | None = None
    ranks: int = 0
    of: str
    """Whose memory it is: `cgroup /oomtrace/run-7f3`, `the job's processes`."""
    limit_bytes: int | None = None
    cause: Cause
    strength: Strength
    killed: bool
    """For want of host memory, as far as that is known."""
    status: str | None = None
    """As the job's own: `exit 0`, `signal 9 (SIGKILL)`, `running`."""
    ended_as_asked: bool = False
    """`run --until` or `--for` ended it."""
    headline: str = ""
    mechanism: Mechanism | None = None
    seconds: float
    """How long it was watched."""
    covered: float | None = None
    """How far it came in the unit, from where it is compared."""
    first_bytes: int | None = None
    """What it held there."""
    level_bytes: int | None = None
    """The median over the last third."""
    peak_bytes: int | None = None
    growth_bytes: Interval | None = None
    """For each unit."""
    time_to_limit_s: Interval | None = None
    """From the end at that rate."""
    series_bytes: tuple[int | None, ...] = ()
    """Evenly spaced over the longer one of the two."""
    parts: tuple["Part", ...] = ()


class Part(Struct, frozen=True, kw_only=True):
    """One kind of memory, at the beginning and at the end of what is compared."""

    what: str
    first_bytes: int
    last_bytes: int


class Need(Struct, frozen=True, kw_only=True):
    """What would have to be seen for an answer."""

    units: float | None = None
    """More of AFTER, in the unit."""
    seconds: float | None = None
    statement: str


class Comparison(Struct, frozen=True, kw_only=True):
    """The document."""

    schema: str = COMPARISON_SCHEMA
    outcome: Outcome
    basis: Basis
    statement: str
    """One sentence."""
    aligned: Aligned
    before: Side
    after: Side
    ratio: Interval | None = None
    """Growth of AFTER as a part of that of BEFORE."""
    left_at_most_bytes: int | None = None
    """`fixed`: less than so much growth for each unit is left."""
    left_at_most_share: float | None = None
    """The same as a part of what there was."""
    reasons: tuple[str, ...] = ()
    """Why it is so, or cannot be told."""
    need: Need | None = None
    differences: tuple[str, ...] = ()
    """What is not the same in the two runs but for memory: command, limit, ranks."""
    caveats: tuple[str, ...] = ()
    """What was not observed."""

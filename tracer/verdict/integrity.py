# SPDX-License-Identifier: Apache-2.0
"""The document that `oomtrace verify --json` prints: whether a recording is whole. Says nothing of the job in it."""

from typing import Literal

from msgspec import Struct

INTEGRITY_SCHEMA = "oomtrace.integrity/1"

State = Literal["whole", "unfinished", "damaged"]
"""unfinished: all that was written is there, but its tracer did not close it: it goes on, or was killed."""


class Begun(Struct, frozen=True, kw_only=True):
    """What its header says."""

    at: str | None = None
    version: str
    pid: int | None = None
    hostname: str | None = None
    boot_id: str | None = None
    kernel_release: str | None = None
    machine: str | None = None
    cpus: int | None = None
    cgroup_version: int | None = None


class Flaw(Struct, frozen=True, kw_only=True):
    """One place where something is wrong."""

    wrong: Literal["damaged", "missing", "repeated", "torn"]
    """damaged: lines that are not what was written; missing: numbers lack, and there is no trace of their lines;
    repeated: lines with numbers that had come already; torn: the end of the file is no end of a line."""
    line: int
    """Of the first, counted from 1; where there is no trace, of the line behind."""
    offset_bytes: int
    lines: int = 0
    size_bytes: int = 0
    first_seq: int | None = None
    """Numbers of the missing events; `null`: not known how many."""
    last_seq: int | None = None
    missing: int = 0
    after_ns: int | None = None
    """The events before it and behind it, on the monotonic clock and in UTC by the first reading of both clocks."""
    before_ns: int | None = None
    after_at: str | None = None
    before_at: str | None = None


class Integrity(Struct, frozen=True, kw_only=True):
    """The document."""

    schema: str = INTEGRITY_SCHEMA
    state: State
    statement: str
    """One sentence."""
    file: str
    format: str | None = None
    """`oomtrace.recording/1`; `null`: the header is damaged."""
    begun: Begun | None = None
    closed: bool
    """Whether the tracer said that it stopped watching."""
    size_bytes: int
    lines: int
    events: int
    """That were read."""
    missing: int = 0
    """Events, as far as that is known: what stood behind the last one that was read has no number."""
    gaps: int = 0
    damaged_lines: int = 0
    repeated_lines: int = 0
    unknown: int = 0
    """Events of a newer version, not understood: no damage."""
    torn: str | None = None
    flaws: tuple[Flaw, ...] = ()
    """In the order of the file."""
    flaws_left_out: int = 0
    first_at: str | None = None
    last_at: str | None = None
    seconds: float | None = None
    """From the first event to the last."""
    kinds: dict[str, int] = {}
    """How many events of each kind, the most frequent first."""
    verdict: str
    """What can still be said of the job."""

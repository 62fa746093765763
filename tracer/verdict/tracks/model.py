# SPDX-License-Identifier: Apache-2.0
"""What stands along time (CLOCK_MONOTONIC): processes, moments, spans, and what led from one moment to another."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from tracer.events import ProcessId
from tracer.verdict.model import EntryKind, Role

Facts = Mapping[str, str | int]
Part = Literal["victim", "culprit", "collateral"]


class Struct(msgspec.Struct, frozen=True, kw_only=True):
    """Base: immutable, keyword only."""


class Reading(Struct, frozen=True, kw_only=True):
    """What the clocks said at one moment."""

    monotonic_ns: int
    realtime_ns: int
    boottime_ns: int


class Actor(Struct, frozen=True, kw_only=True):
    """One process of the job."""

    id: ProcessId
    start_ns: int
    name: str
    """`rank 0 worker 2`: names of one rank stand together when they are sorted."""
    role: Role | None = None
    comm: str | None = None
    rank: int | None = None
    worker: int | None = None
    parent: ProcessId | None = None
    ns_pids: tuple[int, ...] | None = None
    command: str | None = None
    cgroup: str | None = None
    began_ns: int
    """Since when it is known to have been there."""
    ended_ns: int
    """Of one whose end was not seen, the end of the recording."""
    end: str | None = None
    """`signal 9 (SIGKILL)`, `exit 1`; `None`: not seen."""
    parts: tuple[Part, ...] = ()
    """What it is in the primary incident."""


class Moment(Struct, frozen=True, kw_only=True):
    """Something that happened."""

    at_ns: int
    kind: EntryKind | Literal["incident"]
    what: str
    actor: ProcessId | None = None
    """`None`: it happened to no process of the job alone."""
    facts: Facts = {}
    primary: bool = False
    evidence: tuple[int, ...] = ()
    """`seq` of events."""


class Span(Struct, frozen=True, kw_only=True):
    """Something that lasted, of a cgroup."""

    from_ns: int
    to_ns: int
    cgroup_id: int
    cgroup: str
    of_job: bool
    """The cgroup is the job's, one of its processes', or one that these lie in."""
    what: str
    facts: Facts = {}


class Flow(Struct, frozen=True, kw_only=True):
    """One moment led to another; both by their place among the moments."""

    cause: int
    effect: int


class Tracks(Struct, frozen=True, kw_only=True):
    """All of it but the samples."""

    host: str | None = None
    kernel: str | None = None
    readings: tuple[Reading, ...] = ()
    """In time order."""
    from_ns: int = 0
    to_ns: int = 0
    at_ns: int | None = None
    """Of the primary incident."""
    limit_cgroups: tuple[str, ...] = ()
    """Whose limit was hit in the primary incident; several where they cannot be told apart."""
    actors: tuple[Actor, ...] = ()
    moments: tuple[Moment, ...] = ()
    """In time order."""
    spans: tuple[Span, ...] = ()
    flows: tuple[Flow, ...] = ()

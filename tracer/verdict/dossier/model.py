# SPDX-License-Identifier: Apache-2.0
"""What a view needs to show a recording whole. Everything is bounded, and says what was left out."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from tracer.events import LoggedTasks
from tracer.verdict.model import Report

LayerKind = Literal["process", "group", "other_anonymous", "shared_memory", "rest"]
"""group: processes of one role together; other_anonymous: what the total has of it beside that of processes, such as
pages that forks shared and that were copied; rest: what the total has beside all others."""
Part = Literal["victim", "subject", "culprit", "trigger", "sender", "collateral"]
"""subject: the process that an incident is about in which nobody did anything to it."""


class Struct(msgspec.Struct, frozen=True, kw_only=True):
    """Base: immutable, keyword only."""


class Layer(Struct, frozen=True, kw_only=True):
    """One layer of a stack, from the bottom up."""

    kind: LayerKind
    who: str
    """`worker 1`, `6 other DataLoader workers`, `shared memory and tmpfs`."""
    pids: tuple[int, ...] = ()
    parts: tuple[Part, ...] = ()
    values_bytes: tuple[int, ...]
    """At each of the chart's moments: of processes their own anonymous memory, what forks share counted once."""


class Strip(Struct, frozen=True, kw_only=True):
    """How hard memory was to get, over even steps of a chart's time."""

    kind: Literal["reclaim", "pressure"]
    what: str
    values: tuple[float, ...]
    """reclaim: tasks that were stalled, on average; pressure: share of the time."""


class Epoch(Struct, frozen=True, kw_only=True):
    """Where an epoch is known to have been reached, by the job's log, or by DataLoader workers that begin anew."""

    at_ns: int
    text: str
    """`epoch 3`, `DataLoader workers, start 2`."""


class Chart(Struct, frozen=True, kw_only=True):
    """Memory over time, as layers that add up."""

    what: str
    """Whose: `cgroup /oomtrace-run-1`, `the machine`, `the job's processes`."""
    extent: Literal["whole", "end"]
    """Of the recording, or just the time before the incident."""
    from_ns: int
    to_ns: int
    moments_ns: tuple[int, ...]
    """Not evenly spaced: of each step the moment at which most was in use."""
    layers: tuple[Layer, ...]
    totals_bytes: tuple[int, ...]
    """The sum of all layers; where usage was read that is it, unless what was read of processes came to more."""
    beyond_bytes: int = 0
    """By how much what was read of processes came to more than what was read of the whole, for a part of the time."""
    limit_bytes: int | None = None
    strips: tuple[Strip, ...] = ()
    epochs: tuple[Epoch, ...] = ()


class Person(Struct, frozen=True, kw_only=True):
    """One process of the job in the order of the tree, and what became of it."""

    pid: int
    start_ns: int
    depth: int
    who: str
    comm: str | None = None
    ns_pids: tuple[int, ...] | None = None
    command: str | None = None
    known_by: str | None = None
    """How its role is known."""
    parts: tuple[Part, ...] = ()
    began_ns: int | None = None
    ended_ns: int | None = None
    fate: str
    """`signal 9 (SIGKILL)`, `exit 1`, `gone, how was not seen`, `running at the end`."""
    failed: bool = False
    peak_bytes: int | None = None
    """Of anonymous memory, pages that a fork shares among it."""
    left_out: int = 0
    """Processes below it that are not shown."""


class Family(Struct, frozen=True, kw_only=True):
    """The job's processes."""

    people: tuple[Person, ...]
    total: int

    @property
    def left_out(self) -> int:
        return self.total - len(self.people)


class Field(Struct, frozen=True, kw_only=True):
    """One field of an event as it was recorded."""

    name: str
    value: str
    meaning: str | None = None
    """`402 MiB`, `SIGKILL`."""


class Exhibit(Struct, frozen=True, kw_only=True):
    """An event that a statement rests on."""

    seq: int
    at_ns: int
    kind: str
    source: str
    fields: tuple[Field, ...]


class KernelLine(Struct, frozen=True, kw_only=True):
    """A record of the kernel's log."""

    seq: int
    at_ns: int
    stamp_usec: int | None
    """As printed."""
    text: str
    trusted: bool


class KernelReport(Struct, frozen=True, kw_only=True):
    """What the kernel's log said near the incident."""

    lines: tuple[KernelLine, ...] = ()
    left_out: int = 0
    tasks: LoggedTasks | None = None
    """The table of tasks of the record nearest to the incident."""
    page_bytes: int = 4096


class Watched(Struct, frozen=True, kw_only=True):
    """One hook."""

    hook: str
    attached: bool
    why_not: str | None = None


class Facts(Struct, frozen=True, kw_only=True):
    """About the recording itself."""

    rows: tuple[tuple[str, str], ...]
    """Label and value."""
    hooks: tuple[Watched, ...] = ()
    losses: tuple[tuple[str, int], ...] = ()
    """Of what kind, how many; empty: nothing was lost."""
    losses_known: bool = True
    """Whether the recording could say so."""
    events: tuple[tuple[str, int], ...] = ()
    """Of which kind, how many; most first."""


class Dossier(Struct, frozen=True, kw_only=True):
    """A report with what it rests on."""

    report: Report
    at_ns: int | None = None
    """Of the primary incident."""
    utc: Mapping[int, str]
    """Wall time of every moment that stands here."""
    charts: tuple[Chart, ...] = ()
    family: Family
    exhibits: Mapping[int, Exhibit]
    """By `seq`, of all that links, mechanism and timeline name as evidence; as many as are kept."""
    kernel: KernelReport
    facts: Facts

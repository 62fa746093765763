# SPDX-License-Identifier: Apache-2.0
"""What is read in texts alone, after the fact: lines of services and clusters, and where a line stands."""

from typing import Literal

import msgspec

from tracer.events.base import Event
from tracer.events.log import LogEvent
from tracer.events.training import TrainingLine

TextKind = Literal["kernel", "training", "mixed"]
"""What a text was given as; mixed: it has to tell by itself."""


class ReportedLine(Event, frozen=True, kw_only=True, gc=False):
    """What a service, a scheduler or a cluster says of processes that ended. Anyone may write such a line."""

    about: str
    """One of `tracer.logs.reports.KINDS`."""
    text: str
    by: str
    """Who says so: `systemd`, `earlyoom`, `slurm`, `kubernetes`, ..."""
    pid: int | None = None
    comm: str | None = None
    cgroup: str | None = None
    container: str | None = None
    """Its id."""
    unit: str | None = None
    slurm_job: str | None = None
    signal: int | None = None
    exit_code: int | None = None
    numbers: dict[str, int | float] = {}


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """An event and where it was read."""

    event: LogEvent | TrainingLine | ReportedLine
    file: int
    """Its place among the texts."""
    line: int
    """From 1; `column` likewise, in characters."""
    column: int = 1
    wall: str | None = None
    """The time before the text, as it was written."""
    wall_ns: int | None = None
    """The same since the epoch; as if of UTC and of 2000, where zone and year are not there."""
    zone_known: bool = False
    year_known: bool = False
    host: str | None = None


class Text(msgspec.Struct, frozen=True, kw_only=True):
    """One file, or what came by standard input."""

    name: str
    kind: TextKind
    lines: int = 0
    boot_clock: bool = False
    """It has times of `dmesg -T`, which drift from the true ones, most after the machine slept."""
    hints: frozenset[str] = frozenset()
    """What it is of, by words in it: `kubernetes`, `slurm`, `docker`, `ray`, `cgroup-v1`."""
    left_out: int = 0
    """Recognised lines beyond what is kept."""

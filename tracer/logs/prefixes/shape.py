# SPDX-License-Identifier: Apache-2.0
"""What stands before a text, taken apart, and the rules by which one kind of it is recognised."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from tracer.events import SaidBy
from tracer.logs.prefixes.walltime import WallTime, wall_time

FRAGMENT, OF_A_RECORD = 0, 1


@dataclass(slots=True)
class Line:
    """One line of a file."""

    text: str
    """What is left."""
    number: int = 0
    column: int = 1
    """Where the text begins, in characters from 1."""
    width: int = 0
    """Characters of the whole line."""
    wall: WallTime | None = None
    usec: int | None = None
    """The kernel's stamp."""
    seq: int | None = None
    said_by: SaidBy | None = None
    host: str | None = None
    writer: str | None = None
    """The container or file that the line was wrapped for: lines of one belong together."""
    forms: list[str] = field(default_factory=list)
    """Names of the rules that were met, outermost first."""
    depth: int = 0
    """How many of them stand before each record of a log, and not before each line of it."""
    partial: bool = False
    """The writer cut the line: its next one goes on with it."""
    fragment: bool = False
    """A part of another line, by the source's own word."""


Apply = Callable[[Line, re.Match[str]], bool]


class Prefix(NamedTuple):
    """How one kind of prefix is recognised."""

    name: str
    phase: int
    """A line has its prefixes in rising phases: what looks like one behind a later one is text."""
    pattern: re.Pattern[str]
    """Matched at the place; its work is bounded."""
    apply: Apply
    """Takes over what it says. False: that is none."""
    of_record: int = OF_A_RECORD


def takes_nothing(_line: Line, _match: re.Match[str]) -> bool:
    """A prefix that says nothing of use."""
    return True


def takes_time(line: Line, match: re.Match[str]) -> bool:
    """A time of day: the innermost that is one holds."""
    line.wall = wall_time(match.groupdict()) or line.wall
    return True


def takes_facility(line: Line, match: re.Match[str]) -> bool:
    """A syslog priority: facility 0 is the kernel's.

    Only the kernel's own buffer keeps others from using it; a syslog daemon takes what it is sent.
    """
    line.said_by = "name" if int(match["priority"]) >> 3 == 0 else "user"
    return True


def takes_stamp(line: Line, match: re.Match[str]) -> bool:
    """Seconds, and microseconds where they are there."""
    seconds, micros = match["seconds"], match.groupdict().get("micros")
    line.usec = int(seconds) * 1_000_000 + int(((micros or "") + "000000")[:6])
    return True


def takes_identifier(line: Line, match: re.Match[str]) -> bool:
    """`HOST IDENTIFIER[PID]: `, of which `kernel` is the kernel's."""
    parts = match.groupdict()
    line.host = parts.get("host") or line.host
    line.said_by = "name" if match["identifier"] == "kernel" and not parts.get("pid") else "user"
    return True

# SPDX-License-Identifier: Apache-2.0
"""What all families of lines share: the stamp of a record, escapes, and numbers within bounds."""

import re
from typing import Any, NamedTuple

from tracer.events import SaidBy, Source
from tracer.units import KIB

TEXT_CHARS = 1024
"""An event keeps this much of a record's text: the kernel's own bound of a record."""

PID = r"\d{1,10}"
KB = r"\d{1,16}"
"""Digits of a size in kB: 9007199254740988 (no limit) has 16, and 16 of them in bytes fit into 64 bits."""

_ESCAPE = re.compile(rb"\\x([0-9a-f]{2})")


class Stamp(NamedTuple):
    """What an event takes over from its record."""

    ts_ns: int
    log_usec: int | None = None
    log_seq: int | None = None
    trusted: bool = False
    source: Source = "text"
    said_by: SaidBy | None = None
    wall: str | None = None
    host: str | None = None
    log_line: int | None = None
    log_column: int | None = None

    def fields(self, text: str) -> dict[str, Any]:
        """As keyword arguments of a `LogEvent`."""
        return self._asdict() | {"text": text[:TEXT_CHARS]}


def bare(text: str) -> str:
    """A record's text without the line end that some readers leave on it."""
    return text.rstrip("\r\n")


def raw_name(text: str, stamp: Stamp) -> bytes:
    """The bytes of a comm or path as the kernel has them: escapes undone where the source is known to make them."""
    raw = text.encode("utf-8", "surrogateescape")
    if stamp.source != "kmsg":
        return raw
    return _ESCAPE.sub(lambda found: bytes((int(found[1], 16),)), raw)


def name(text: str, stamp: Stamp) -> str:
    """A comm or path for an event; bytes that are no UTF-8 are shown as `tracer.wire` shows those of a record."""
    return raw_name(text, stamp).decode("utf-8", "backslashreplace")


def first_line(text: str) -> str:
    """The first line of a record of several (memory.stat on 5.4 to 6.5), escaped or not."""
    return text.partition("\n")[0].partition("\\x0a")[0]


def kib(digits: str | None) -> int | None:
    """Bytes from the digits of a size in kB."""
    return None if digits is None else int(digits) * KIB


def number(digits: str | None) -> int | None:
    """An integer, if there is one."""
    return None if digits is None else int(digits)

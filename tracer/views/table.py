# SPDX-License-Identifier: Apache-2.0
"""Samples as a table for spreadsheets and data frames: CSV as RFC 4180 has it, UTF-8, one row a sample and subject.

What is not known, or is none of this subject's, is empty.
"""

import csv
from collections.abc import Callable, Iterable, Mapping
from typing import BinaryIO

from tracer.units import NS_PER_S
from tracer.verdict.legible import legible
from tracer.verdict.tracks import MEASURES, Row, Subject

_LEADS: Mapping[str, str] = {
    "time_utc": "when it was read, RFC 3339",
    "offset_s": "seconds from the primary incident; before it below 0",
    "monotonic_ns": "the same moment by CLOCK_MONOTONIC",
    "subject": "`process`, `cgroup`, `machine`, `reclaim`, `device`, `device_process`",
    "name": "`rank 0 worker 2`, the path of a cgroup, `GPU 0 (UUID)`",
    "pid": "the kernel's",
    "start_ns": "with `pid` it names a process for good: its start, CLOCK_BOOTTIME",
    "comm": "the process's own name, the last one that was seen",
    "role": "as in the verdict",
    "rank": "of it, or of the rank above it",
    "worker": "its number within one loader start",
}
COLUMNS: Mapping[str, str] = {**_LEADS, **MEASURES}
"""Every column in its order, and what it holds."""
_FORMULA = frozenset("=+-@\uff1d\uff0b\uff0d\uff20")
"""What a spreadsheet takes a cell for a formula by; also in full width."""


def write(
    rows: Iterable[Row], out: BinaryIO, *, utc: Callable[[int], str | None], incident_ns: int | None = None
) -> None:
    """Write row by row, in the order in which they come.

    Args:
        rows: samples.
        out: where to.
        utc: wall time of a monotonic one.
        incident_ns: from where offsets count; `None`: there are none.
    """
    writer = csv.writer(_Encoded(out))
    writer.writerow(COLUMNS)
    about: dict[int, tuple[object, ...]] = {}
    measures = tuple(MEASURES)
    last_ns, when = None, None
    for row in rows:
        subject = row.subject
        known = about.get(id(subject))  # one object for each subject, which lives as long as the rows come
        if known is None:
            known = about[id(subject)] = _about(subject)
        if row.at_ns != last_ns:
            last_ns, when = row.at_ns, utc(row.at_ns)
        offset = None if incident_ns is None else _seconds(row.at_ns - incident_ns)
        writer.writerow((when, offset, row.at_ns, *known, *map(row.values.get, measures)))


class _Encoded:
    """What the writer of the csv module writes to."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    def write(self, text: str) -> None:
        self._out.write(text.encode())


def _about(subject: Subject) -> tuple[object, ...]:
    return (
        subject.kind,
        _cell(subject.name),
        subject.pid,
        subject.start_ns,
        None if subject.comm is None else _cell(subject.comm),
        subject.role,
        subject.rank,
        subject.worker,
    )


def _cell(text: str) -> str:
    """A name as text, whatever it begins with: after an apostrophe no spreadsheet computes anything."""
    shown = legible(text)
    return f"'{shown}" if shown.lstrip(" '")[:1] in _FORMULA else shown


def _seconds(span_ns: int) -> str:
    sign = "-" if span_ns < 0 else ""
    whole, rest = divmod(abs(span_ns), NS_PER_S)
    return f"{sign}{whole}.{rest:09d}"

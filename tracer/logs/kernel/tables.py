# SPDX-License-Identifier: Apache-2.0
"""What a report says in many records: the task table, and the values of memory.stat. Bounded, whatever comes."""

import re
from collections.abc import Sequence
from heapq import nlargest

import msgspec

from tracer.events import LoggedStats, LoggedTask, LoggedTasks
from tracer.logs.kernel.shape import Stamp, name
from tracer.units import KIB

MOST_ROWS = 256
"""Of a table these are kept, those with most in memory."""
MOST_VALUES = 200

_HEAD = re.compile(r"\[ {0,3}pid {0,3}\](?P<columns>[\s\w()]{1,240})")
_ROW = re.compile(r"\[ {0,10}(?P<pid>\d{1,10}) {0,3}\] *(?P<rest>.*)", re.DOTALL)
_NAMES = {
    "uid": "uid", "tgid": "tgid", "total_vm": "total_vm_pages", "rss": "rss_pages", "rss_anon": "rss_anon_pages",
    "rss_file": "rss_file_pages", "rss_shmem": "rss_shmem_pages", "pgtables_bytes": "pgtables_bytes",
    "swapents": "swap_entries", "oom_score_adj": "oom_score_adj",
}  # fmt: skip
"""Columns of one number each. `nr_ptes`, `cpu`, `oom_adj` and a vendor's `nrss` are passed over."""
_COLUMNS = frozenset(_NAMES) | {"nr_ptes", "nr_pmds", "nr_puds", "cpu", "oom_adj", "nrss", "(01)nrss", "name"}

_STATS = re.compile(r"Memory cgroup stats for (?P<rest>.*)", re.DOTALL)
_VALUE = re.compile(r"[a-z0-9_()]{1,48} -?\d{1,18}")
_OLD_VALUE = re.compile(r"(?P<key>[a-z0-9_()]{1,48}):(?P<size>\d{1,16})KB")


class TaskTable:
    """A table, row by row."""

    def __init__(self, columns: Sequence[str], stamp: Stamp, text: str) -> None:
        self._columns = [column for column in columns if column != "name"]
        self._named = columns[-1:] == ["name"]
        self._stamp, self._text = stamp, text
        self._rows: list[tuple[int, LoggedTask]] = []
        self._count = 0
        self._rss_pages = 0

    def fits(self, text: str, stamp: Stamp) -> bool:
        """Whether it is a row with its name."""
        row = self._row(text, stamp)
        return row is not None and row.comm is not None

    def take(self, lines: Sequence[str], stamp: Stamp) -> bool:
        """Whether it was a row, which may be broken into several lines."""
        row = self._row(lines[0], stamp)
        if row is None:
            return False
        if len(lines) > 1:
            row = self._mended(row, lines, stamp)
        self._rss_pages = min(self._rss_pages + (row.rss_pages or 0), 1 << 62)
        self._rows.append((self._count, row))
        self._count += 1
        if len(self._rows) >= 2 * MOST_ROWS:
            self._thin()
        return True

    def _mended(self, row: LoggedTask, lines: Sequence[str], stamp: Stamp) -> LoggedTask:
        """Broken behind a number or within one: what both readings say."""
        if row.comm is not None:  # a name that goes on, or anything else
            return msgspec.structs.replace(row, comm=None)
        one, other = (self._row(sign.join(lines[:3]), stamp) for sign in ("", " "))
        if one is None or other is None:
            return one or other or row
        if one.comm is None or other.comm is None:
            return other if one.comm is None else one
        unlike = [name for name in LoggedTask.__struct_fields__ if getattr(one, name) != getattr(other, name)]
        return msgspec.structs.replace(one, **dict.fromkeys(unlike))

    def event(self) -> LoggedTasks:
        """The table so far."""
        self._thin()
        return LoggedTasks(
            rows=tuple(row for _, row in self._rows),
            others=self._count - len(self._rows),
            rss_pages=self._rss_pages,
            **self._stamp.fields(self._text),
        )

    def _row(self, text: str, stamp: Stamp) -> LoggedTask | None:
        found = _ROW.fullmatch(text)
        if found is None:
            return None
        columns = self._columns
        words = found["rest"].split(None, len(columns))
        numbers = words[: len(columns)]
        if not numbers or not all(_is_number(word) for word in numbers):
            return None
        values = {_NAMES[column]: int(word) for column, word in zip(columns, numbers, strict=False) if column in _NAMES}
        if len(numbers) < len(columns):
            values.pop(_NAMES.get(columns[len(numbers) - 1], ""), None)  # its last digits may be what was cut
        comm = words[len(columns)] if self._named and len(words) > len(columns) else None
        return LoggedTask(pid=int(found["pid"]), comm=None if comm is None else name(comm, stamp), **values)

    def _thin(self) -> None:
        largest = nlargest(MOST_ROWS, self._rows, key=lambda each: each[1].rss_pages or 0)
        self._rows = sorted(largest, key=lambda each: each[0])


class Stats:
    """The values of a cgroup, a line each."""

    def __init__(self, memcg: str, stamp: Stamp, text: str) -> None:
        self._memcg, self._stamp, self._text = memcg, stamp, text
        self._values: dict[str, int] = {}

    def fits(self, text: str, _stamp: Stamp) -> bool:
        """Whether it is one value."""
        return _VALUE.fullmatch(text.strip()) is not None

    def take(self, texts: Sequence[str], _stamp: Stamp) -> bool:
        """Whether it was values and nothing else, in one line or several."""
        text = "\n".join(texts)
        # A syslog daemon writes the line ends within a record as #012.
        lines = [line.strip() for line in text.replace("#012", "\n").split("\n")]
        while len(lines) > 1 and not _VALUE.fullmatch(lines[-1]):
            lines.pop()  # the kernel's record is full before the last value is whole
        if not all(_VALUE.fullmatch(line) for line in lines):
            return False
        for line in lines[: MOST_VALUES - len(self._values)]:
            key, _, value = line.partition(" ")
            self._values.setdefault(key, int(value))
        return True

    def event(self) -> LoggedStats:
        """The values so far."""
        return LoggedStats(memcg=name(self._memcg, self._stamp), values=self._values, **self._stamp.fields(self._text))


def table_at(text: str, stamp: Stamp) -> TaskTable | None:
    """A table that begins with this record."""
    head = _HEAD.match(text)
    if head is None or "total_vm" not in head["columns"]:
        return None
    within, between = (head["columns"].replace("\n", sign).split() for sign in ("", " "))
    return TaskTable(within if _COLUMNS.issuperset(within) else between, stamp, text)


def stats_at(text: str, stamp: Stamp) -> Stats | LoggedStats | None:
    """Values that begin with this record: an open list of 5.4 and newer, or all of them in one line of older ones."""
    found = _STATS.fullmatch(text)
    if found is None:
        return None
    first, newline, more = found["rest"].partition("\n")
    if not newline and not first.endswith(":"):
        return _in_one_line(first, stamp, text)
    stats = Stats((first if newline else found["rest"]).rstrip(": "), stamp, text)
    if newline and not stats.take([more], stamp):
        return None
    return stats


def _in_one_line(rest: str, stamp: Stamp, text: str) -> LoggedStats | None:
    # The path may hold anything: the values are behind the last `: `, or behind a `:` where a blank was lost.
    path, colon, values = rest.rpartition(": ")
    if not colon:
        path, colon, values = rest.partition(":")
    found = [match for word in values.split() if (match := _OLD_VALUE.fullmatch(word))]
    if not colon or not found:
        return None
    sizes = {match["key"]: int(match["size"]) * KIB for match in found[:MOST_VALUES]}
    return LoggedStats(memcg=name(path, stamp), values=sizes, **stamp.fields(text))


def _is_number(word: str) -> bool:
    digits = word.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) <= 18

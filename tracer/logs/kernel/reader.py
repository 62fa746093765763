# SPDX-License-Identifier: Apache-2.0
"""A kernel log from elsewhere, in chunks of bytes: events come out, where they stand in the file, and who says so."""

from collections.abc import Iterable

from tracer.events import LogEvent
from tracer.logs.kernel.feed import NearLines
from tracer.logs.kernel.journal import JournalBlocks
from tracer.logs.kernel.stream import Stream
from tracer.logs.prefixes import Line, has_markup, split, without_markup

AFTER = 400
"""Lines of a report that stand between two that tell something: registers, and Mem-Info of a machine of many nodes."""
MOST_STREAMS = 16
"""Writers whose lines are kept apart; of more the one that has been silent longest is given up."""
MARKUP_LINES = 64
_WIDE = (b"\xff\xfe", b"\xfe\xff")
_BEFORE_ALL = "\ufeff", "\\xff\\xfe", "\\xfe\\xff"


class KernelLogReader:
    """One file, or one stream. Chunks of a MiB are best; nothing depends on where they are cut."""

    def __init__(self) -> None:
        self._near = NearLines(AFTER)
        self._streams: dict[tuple[str | None, str | None], Stream] = {}
        self._journal = JournalBlocks()
        self._last_key: tuple[str | None, str | None] = (None, None)
        self._last_number = 0
        self._prefixed = False
        self._first = b""
        self._wide: bool | None = None
        """Whether it is UTF-16, as PowerShell writes: what the kernel says is found without its zeros."""

    def feed(self, chunk: bytes) -> list[LogEvent]:
        """What is known now. A record is known once the next one has begun."""
        if self._wide is None:
            chunk = self._first + chunk
            if len(chunk) < 2:
                self._first = chunk
                return []
            self._first, self._wide = b"", chunk[:2] in _WIDE
        return self._read(self._near.feed(chunk.translate(None, b"\0") if self._wide else chunk))

    def passes_over(self, data: bytes, count: int) -> bool:
        """Whether nothing is wanted of these lines, whole ones that have no needle: they are counted then."""
        return self._near.passes_over(data, count)

    def end(self) -> list[LogEvent]:
        """Nothing more will come."""
        first, self._first = self._first, b""
        events = self._read(self._near.feed(first)) + self._read(self._near.end())
        return events + self._flush()

    def _read(self, lines: Iterable[tuple[int, bytes]]) -> list[LogEvent]:
        events: list[LogEvent] = []
        for number, raw in lines:
            if number != self._last_number + 1:
                events += self._flush()
            self._last_number = number
            told = self._line(raw.decode("utf-8", "backslashreplace").rstrip("\r\n"), number)
            if told:
                events += told
                self._near.warm()
        return events

    def _line(self, text: str, number: int) -> list[LogEvent]:
        if number == 1:
            for mark in _BEFORE_ALL:
                text = text.removeprefix(mark)
        ended: list[Line] = []
        taken = self._journal.take(text, number, ended)
        events = [event for line in ended for event in self._push(line)]
        if taken:
            if not ended and not events:
                self._near.hold()  # a record has many lines there
            return events
        line = split(text, number)
        if not line.depth and has_markup(text):
            for part in without_markup(text)[:MARKUP_LINES]:
                events += self._push(split(part.replace("\u00a0", " "), number))
            return events
        if "\n" in line.text and line.forms[-1:] == ["json"]:
            for part in line.text.split("\n")[:MARKUP_LINES]:
                events += self._push(split(part, number))
            return events
        return events + self._push(line)

    def _push(self, line: Line) -> list[LogEvent]:
        if line.depth:
            self._prefixed = True
        elif self._prefixed and line.said_by is None:
            line.said_by = "user"  # where records have a prefix, a line without one is none of the kernel's
        if line.depth == 0 and line.writer == self._last_key[0]:
            key = self._last_key  # it may go on with what the last one began
        else:
            key = self._last_key = (line.writer, line.host)
        stream = self._streams.pop(key, None)
        events: list[LogEvent] = []
        if stream is None:
            stream = Stream()
            if len(self._streams) >= MOST_STREAMS:
                events += self._streams.pop(next(iter(self._streams))).flush()
        self._streams[key] = stream
        rows = stream.rows
        events += stream.push(line)
        if stream.rows > rows:
            self._near.warm()
        return events

    def _flush(self) -> list[LogEvent]:
        events = [event for line in self._journal.end() for event in self._push(line)]
        for stream in self._streams.values():
            events += stream.flush()
        self._streams.clear()
        return events

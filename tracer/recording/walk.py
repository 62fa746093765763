# SPDX-License-Identifier: Apache-2.0
"""One way through the lines of a recording: its events in order, and what is wrong between them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from tracer.events import AnyEvent
from tracer.recording.damage import MOST_PLACES, Damage, Place
from tracer.recording.line import MAX_LINE_BYTES, BadLine, LineDecoder, NotUnderstood

_TOO_LONG = b"\0"
"""Stands for what was read of a line that is too long. Whatever follows it, that is no event."""


class Line(NamedTuple):
    """A line without its newline. One that is too long lacks its start."""

    content: bytes
    whole: bool
    """Whether it had a newline."""
    end_bytes: int
    """Where in the file the next one begins."""


def lines_of(chunks: Iterable[bytes]) -> Iterator[Line]:
    """Each line, in bounded memory."""
    rest, end_bytes = b"", 0
    left_out_bytes = 0
    for chunk in chunks:
        if rest == _TOO_LONG and b"\n" not in chunk:
            left_out_bytes += len(chunk)
            continue
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            end_bytes += len(line) + 1 + left_out_bytes
            left_out_bytes = 0
            yield Line(line, True, end_bytes)
        if len(rest) > MAX_LINE_BYTES:
            left_out_bytes += len(rest) - len(_TOO_LONG)
            rest = _TOO_LONG
    if rest:
        yield Line(rest, False, end_bytes + len(rest) + left_out_bytes)


@dataclass(frozen=True)
class _Trouble:
    """Lines in a row that are no events, or come again."""

    place: Place
    torn: str

    def longer(self, size_bytes: int, torn: str) -> "_Trouble":
        place = replace(self.place, lines=self.place.lines + 1, size_bytes=self.place.size_bytes + size_bytes)
        return _Trouble(place, torn)


class Walk:
    """Yields the events; `damage` is complete at the end."""

    def __init__(self, chunks: Iterable[bytes], decoder: LineDecoder) -> None:
        self.damage = Damage()
        self.events = 0
        """That could be read."""
        self.lines = 0
        self.size_bytes = 0
        self._chunks = chunks
        self._decoder = decoder
        self._places: list[Place] = []
        self._places_left_out = 0
        self._damaged_lines = self._gaps = self._missing = self._duplicates = self._unknown = 0
        self._next_seq = 0
        self._last_ns: int | None = None
        self._bad: _Trouble | None = None
        self._again: Place | None = None

    def __iter__(self) -> Iterator[AnyEvent]:
        torn: str | None = None
        for line in lines_of(self._chunks):
            self.lines += 1
            start_bytes, self.size_bytes = self.size_bytes, line.end_bytes
            try:
                event: AnyEvent = self._decoder.decode(line.content)
            except NotUnderstood as other:
                self._unknown += self._in_order(other.seq, None, start_bytes)
            except BadLine:
                self._take_bad(line, start_bytes)
            else:
                if not line.whole:
                    torn = "the last line lacks its newline; its event is whole"
                if self._in_order(event.seq, event.ts_ns, start_bytes):
                    self.events += 1
                    yield event
                if torn is not None:
                    self._note(Place("torn", start_bytes, self.lines, after_ns=event.ts_ns))
        self._finish(torn)

    def _take_bad(self, line: Line, start_bytes: int) -> None:
        self._close_repeated()
        if not line.content and line.whole:
            torn = "an empty line"
        else:
            torn = "the last line is damaged" if line.whole else "the last line is cut"
        if self._bad is None:
            self._bad = _Trouble(Place("damaged", start_bytes, self.lines, after_ns=self._last_ns), torn)
        self._bad = self._bad.longer(line.end_bytes - start_bytes, torn)

    def _in_order(self, seq: int, ts_ns: int | None, start_bytes: int) -> bool:
        """Take note of the number of a line that is whole; whether it is a new one."""
        bad, self._bad = self._bad, None
        if bad is not None:
            self._damaged_lines += bad.place.lines
        if seq < self._next_seq:
            if bad is not None:
                self._note(replace(bad.place, before_ns=ts_ns))
            self._duplicates += 1
            again = self._again or Place("repeated", start_bytes, self.lines, after_ns=self._last_ns)
            size_bytes = self.size_bytes - start_bytes
            self._again = replace(again, lines=again.lines + 1, size_bytes=again.size_bytes + size_bytes)
            return False
        self._close_repeated()
        lacks = seq > self._next_seq
        if bad is not None or lacks:
            place = Place("missing", start_bytes, self.lines, after_ns=self._last_ns) if bad is None else bad.place
            if lacks:
                self._gaps += 1
                self._missing += seq - self._next_seq
                place = replace(place, first_seq=self._next_seq, last_seq=seq - 1)
            self._note(replace(place, before_ns=ts_ns))
        self._next_seq = seq + 1
        self._last_ns = ts_ns if ts_ns is not None else self._last_ns
        return True

    def _close_repeated(self) -> None:
        if self._again is not None:
            self._note(self._again)
            self._again = None

    def _note(self, place: Place) -> None:
        if len(self._places) < MOST_PLACES:
            self._places.append(place)
        else:
            self._places_left_out += 1

    def _finish(self, torn: str | None) -> None:
        self._close_repeated()
        if self._bad is not None:
            # What stands last is what a writer that was cut off leaves; what stands before it is not.
            torn = self._bad.torn
            self._damaged_lines += self._bad.place.lines - 1
            self._note(replace(self._bad.place, wrong="torn" if self._bad.place.lines == 1 else "damaged"))
        self.damage = Damage(
            torn=torn,
            damaged_lines=self._damaged_lines,
            gaps=self._gaps,
            missing=self._missing,
            duplicates=self._duplicates,
            unknown=self._unknown,
            places=tuple(self._places),
            places_left_out=self._places_left_out,
        )

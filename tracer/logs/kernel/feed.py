# SPDX-License-Identifier: Apache-2.0
"""A log as it comes, in chunks of bytes: its lines near to anything of a report. All else is searched and passed over.

Whether a line is near does not depend on how the chunks were cut: it is one of the `BEFORE` lines before a needle, or
of the `after` lines behind one. The latter are counted anew whenever a line told something.
"""

from collections.abc import Iterator, Mapping

from tracer.logs.chunks import WholeLines

LINE_BYTES = 16384
"""Of a line no more is looked at."""
BEFORE = 40
"""As many fields may stand before the text in `journalctl -o verbose`."""
_BEFORE_BYTES = 1 << 16

NEEDLES = (b"oom-k", b"oom_", b"Kill", b"ut of mem", b"NVRM: Xid")
"""In a report one of these is met before long."""
EARLY_BYTES = 4 << 20
EARLY_NEEDLES = (b"otal_vm", b"emory: usage", b"emory cgroup")
"""These are met in a part of a report, which is looked for in that much of a file: who sends parts sends no more."""
BYTES_NEEDLES = (b"111,111,109", b"111, 111, 109", b'"MESSAGE" : [')
"""`oom` in a text that the journal's JSON has as bytes, and such a text with a line for each; looked for beyond that
where the file is of the journal."""
_JOURNAL = (b'"__CURSOR"', b'"MESSAGE"')


class NearLines:
    """One file."""

    def __init__(self, after: int) -> None:
        self._after = after
        self._left = 0
        """Lines to be looked at, whatever they have."""
        self._number = 0
        """Of lines that were passed over or given."""
        self._tail = b""
        """The last lines that were passed over, for whoever needs what stands before a needle; they are counted."""
        self._whole = WholeLines(LINE_BYTES)
        self._offset = 0
        """Of what comes next, in the file; of lines that are longer than looked at as if they were not."""
        self._is_journal = False

    def warm(self) -> None:
        """The line that was given last told something: those behind it are wanted."""
        self._left = self._after

    def hold(self) -> None:
        """The line that was given last is to count for nothing: it belongs to the one before it."""
        self._left += 1

    def feed(self, chunk: bytes) -> Iterator[tuple[int, bytes]]:
        """Lines that end in this chunk: number from 1, and bytes without the end. A gap is in the numbers alone."""
        yield from self._lines(self._whole.feed(chunk))

    def end(self) -> Iterator[tuple[int, bytes]]:
        """The last line, which has no end."""
        yield from self._lines(self._whole.end())

    def passes_over(self, data: bytes, count: int) -> bool:
        """Whether none of these lines is near; somebody knows that they have no needle but those in bytes."""
        if self._left > 0:
            return False
        self._look_for_journal(data, max(EARLY_BYTES - self._offset, 0))
        if self._is_journal and any(needle in data for needle in BYTES_NEEDLES):
            return False
        self._offset += len(data)
        self._pass_over(data, count)
        return True

    def _lines(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        at, size = 0, len(data)
        hits = self._hits(data)
        while at < size:
            if self._left > 0:
                end = data.find(b"\n", at)
                self._number += 1
                self._left -= 1
                raw = data[at : min(end, at + LINE_BYTES)]
                if hits.next_at(at) < at + len(raw):
                    self._left = self._after
                yield self._number, raw
                at = end + 1
                continue
            hit = hits.next_at(at)
            if hit >= size:
                rest = data[at:] if at else data
                self._pass_over(rest, rest.count(b"\n"))
                return
            start = data.rfind(b"\n", at, hit) + 1 or at
            if hit - start >= LINE_BYTES:
                hits.skip_to(data.find(b"\n", hit) + 1)
                continue
            yield from self._before(data, at, start)
            self._left = self._after
            at = start

    def _hits(self, data: bytes) -> "_Hits":
        early = max(EARLY_BYTES - self._offset, 0)
        self._offset += len(data)
        self._look_for_journal(data, early)
        always = NEEDLES + BYTES_NEEDLES if self._is_journal else NEEDLES
        ends = dict.fromkeys(EARLY_NEEDLES + BYTES_NEEDLES, early) if early else {}
        return _Hits(data, ends | dict.fromkeys(always, len(data)))

    def _look_for_journal(self, data: bytes, early: int) -> None:
        if early and not self._is_journal:
            self._is_journal = any(-1 < data.find(mark) < early for mark in _JOURNAL)

    def _pass_over(self, data: bytes, count: int) -> None:
        self._number += count
        self._tail = _last_lines(self._tail + data if len(data) < _BEFORE_BYTES else data)

    def _before(self, data: bytes, at: int, start: int) -> Iterator[tuple[int, bytes]]:
        """The lines before a needle that nobody has seen."""
        passed = data[at:start]
        self._pass_over(passed, passed.count(b"\n"))
        lines, self._tail = self._tail.split(b"\n")[:-1], b""
        first = self._number - len(lines)
        for number, line in enumerate(lines, first + 1):
            yield number, line[:LINE_BYTES]


class _Hits:
    """Where the needles are in some bytes, each looked for once."""

    def __init__(self, data: bytes, ends: Mapping[bytes, int]) -> None:
        self._data = data
        self._ends = ends
        """The needles, and where each ceases to count."""
        self._next = dict.fromkeys(ends, -1)
        self._from = 0
        self._nearest = -1

    def next_at(self, at: int) -> int:
        """The first place from there on; the length of all: nowhere."""
        at = max(at, self._from)
        if self._nearest >= at:
            return self._nearest
        nearest = size = len(self._data)
        for needle, place in self._next.items():
            found = place
            if found < at:
                found = self._data.find(needle, at)
                found = self._next[needle] = found if 0 <= found < self._ends[needle] else size
            if found < nearest:  # noqa: PLR1730 - min() takes longer than all else here
                nearest = found
        self._nearest = nearest
        return nearest

    def skip_to(self, at: int) -> None:
        self._from = at


def _last_lines(data: bytes) -> bytes:
    """The last `BEFORE` of them, if they are not too long."""
    at = len(data)
    for _ in range(BEFORE + 1):
        at = data.rfind(b"\n", 0, at)
        if at < 0:
            break
    kept = data[at + 1 :]
    while len(kept) > _BEFORE_BYTES:
        kept = kept[kept.find(b"\n") + 1 :]
    return kept

# SPDX-License-Identifier: Apache-2.0
"""Of a text in blocks of lines: those that may say why a job ended, and those just before. All else is only counted."""

from collections.abc import Iterator, Sequence

from tracer.logs.sieve import Sifted, tells

LINE_BYTES = 4096
"""Of a line no more is looked at."""
BEFORE = 30
AFTER = 3
_BEFORE_BYTES = 1 << 14


class NearLines:
    """One text."""

    def __init__(self) -> None:
        self.number = 0
        """Of lines that were given or passed over."""
        self._behind = b""
        """Lines that were passed over last and are not in the tail yet: all that can be in it."""
        self._tail: list[bytes] = []
        self._after = 0

    def hold(self) -> None:
        """The next line is wanted, whatever it says."""
        self._after = max(self._after, 1)

    def feed(self, data: bytes, sifted: Sifted) -> Iterator[tuple[int, bytes]]:
        """Of lines with their ends those that are near: number from 1, and bytes without the end."""
        if self._after <= 0 and not sifted.telling:
            self._pass_over(data, sifted.lines)
            return
        lines = data.split(b"\n")
        lines.pop()
        hits = [at for at in sifted.telling if len(lines[at]) <= LINE_BYTES or tells(lines[at][:LINE_BYTES])]
        yield from self._near(lines, [*hits, len(lines)])

    def end(self) -> Iterator[tuple[int, bytes]]:
        """Of a log that just breaks off, its last lines."""
        yield from self._before()

    def _near(self, lines: Sequence[bytes], hits: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        at = next_hit = 0
        while at < len(lines):
            if hits[next_hit] < at:
                next_hit += 1
                continue
            if self._after <= 0 and hits[next_hit] > at:
                self._remember(lines[at : hits[next_hit]])
                self.number += hits[next_hit] - at
                at = hits[next_hit]
                continue
            if hits[next_hit] == at:
                yield from self._before()
                self._after = AFTER + 1
            self._behind, self._tail = b"", []
            self.number += 1
            self._after -= 1
            yield self.number, lines[at][:LINE_BYTES]
            at += 1

    def _pass_over(self, data: bytes, count: int) -> None:
        self.number += count
        if count >= BEFORE:
            self._behind = data
        else:
            self._remember(data.split(b"\n")[:-1])

    def _remember(self, lines: Sequence[bytes]) -> None:
        last = [line[:LINE_BYTES] for line in lines[-BEFORE:]]
        if len(last) < BEFORE:
            if self._behind:
                behind, self._behind = self._behind, b""
                self._remember(behind.split(b"\n")[:-1])
            last = [*self._tail, *last][-BEFORE:]
        self._behind = b""
        kept = 0
        for at in range(len(last) - 1, -1, -1):
            kept += len(last[at])
            if kept > _BEFORE_BYTES:
                last = last[at + 1 :]
                break
        self._tail = last

    def _before(self) -> Iterator[tuple[int, bytes]]:
        """The lines before this one that nobody has seen."""
        if self._behind:
            self._remember(self._behind.split(b"\n")[:-1])
        tail, self._tail = self._tail, []
        yield from enumerate(tail, self.number - len(tail) + 1)

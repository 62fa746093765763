# SPDX-License-Identifier: Apache-2.0
"""Of a text in blocks of lines: those that may say why a job ended, and those just before. All else is only counted."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tracer.logs.sieve import Sifted, tells

LINE_BYTES = 4096
"""Of a line no more is looked at."""
BEFORE = 30
AFTER = 3
_BEFORE_BYTES = 1 << 14


class Near(NamedTuple):
    """Lines that are near, one behind the other."""

    number: int
    """Of the first, from 1."""
    lines: Sequence[bytes]
    """Without their ends."""
    tells: bool
    """Whether there is one, and it has a fragment: of lines that have none a rule can take nothing."""


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

    def feed(self, data: bytes, sifted: Sifted) -> Iterator[Near]:
        """Of lines with their ends those that are near."""
        if self._after <= 0 and not sifted.telling:
            self._pass_over(data, sifted.lines)
            return
        lines = data.split(b"\n")
        lines.pop()
        hits = [at for at in sifted.telling if len(lines[at]) <= LINE_BYTES or tells(lines[at][:LINE_BYTES])]
        yield from self._near(lines, [*hits, len(lines)])

    def end(self) -> Iterator[Near]:
        """Of a log that just breaks off, its last lines."""
        yield from self._before()

    def _near(self, lines: Sequence[bytes], hits: Sequence[int]) -> Iterator[Near]:
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
            tells = hits[next_hit] == at
            if tells:
                yield from self._before()
                self._after = AFTER + 1
            self._behind, self._tail = b"", []
            self.number += 1
            self._after -= 1
            yield Near(self.number, (lines[at][:LINE_BYTES],), tells)
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

    def _before(self) -> Iterator[Near]:
        """The lines before this one that nobody has seen."""
        if self._behind:
            self._remember(self._behind.split(b"\n")[:-1])
        tail, self._tail = self._tail, []
        if tail:
            yield Near(self.number - len(tail) + 1, tail, tells=False)

# SPDX-License-Identifier: Apache-2.0
"""Of a text in chunks: the lines that may say why a job ended, and those just before. All else is only counted.

A chunk is searched for a few fragments of which every wording of `tracer.logs.training` and `tracer.logs.reports` has
one: of four or five bytes, since bytes.find is several times faster at these than at longer ones.
"""

from collections.abc import Iterator

from tracer.logs.chunks import WholeLines

LINE_BYTES = 4096
"""Of a line no more is looked at."""
BEFORE = 30
AFTER = 3
_BEFORE_BYTES = 1 << 14

NEEDLES = (
    b"illed", b"illin", b"emor", b"EMORY", b"OOM", b"oom", b"xit", b"ignal", b"SIG", b"xpect", b"raceb",
    b"/shm", b"alloc", b"ALLOC", b"nable", b"NCCL", b"nccl", b"peer", b"gloo", b"ilure", b"CANCE", b"ermin",
    b"ocal_", b"y ope", b"died", b"egfau", b"ancda", b"taLoa", b"traps", b"TERM_", b" code", b"rncod", b"vValu",
    b"dByte", b"Root ", b"UT_OF", b"dezvo",
)  # fmt: skip


class NearLines:
    """One text."""

    def __init__(self) -> None:
        self.number = 0
        """Of lines that were given or passed over."""
        self._whole = WholeLines(LINE_BYTES)
        self._tail: list[tuple[int, bytes]] = []
        self._after = 0

    def hold(self) -> None:
        """The next line is wanted, whatever it says."""
        self._after = max(self._after, 1)

    def feed(self, chunk: bytes) -> Iterator[tuple[int, bytes]]:
        """Lines that end in this chunk: number from 1, and bytes without the end."""
        yield from self._lines(self._whole.feed(chunk))

    def end(self) -> Iterator[tuple[int, bytes]]:
        """The last line, which has no end; and, of a log that just breaks off, those before it."""
        yield from self._lines(self._whole.end())
        tail, self._tail = self._tail, []
        yield from tail

    def _lines(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        next_of = dict.fromkeys(NEEDLES, -1)
        at, size = 0, len(data)
        nearest = -1
        while at < size:
            if nearest < at:
                for needle in NEEDLES:
                    if next_of[needle] < at:
                        place = data.find(needle, at)
                        next_of[needle] = size if place < 0 else place
                nearest = min(next_of.values())
            if self._after <= 0:
                start = data.rfind(b"\n", at, nearest) + 1 or at
                if nearest >= size:
                    start = size
                self._pass_over(data, at, start)
                at = start
                if at >= size:
                    break
            end = data.find(b"\n", at)
            if nearest <= end:
                yield from self._tail
                self._after = AFTER + 1
            self._tail.clear()
            self.number += 1
            self._after -= 1
            yield self.number, data[at : min(end, at + LINE_BYTES)]
            at = end + 1

    def _pass_over(self, data: bytes, at: int, end: int) -> None:
        if end <= at:
            return
        self.number += data.count(b"\n", at, end)
        lines: list[tuple[int, bytes]] = []
        stop, number = end - 1, self.number
        while len(lines) < BEFORE and stop > at and end - stop < _BEFORE_BYTES:
            start = data.rfind(b"\n", at, stop) + 1 or at
            lines.append((number, data[start : min(stop, start + LINE_BYTES)]))
            stop, number = start - 1, number - 1
        self._tail = [*self._tail, *reversed(lines)][-BEFORE:]

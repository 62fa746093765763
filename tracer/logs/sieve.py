# SPDX-License-Identifier: Apache-2.0
"""Whole lines of a text: which of them may say why a job ended. One search for all readers; nothing is looked at twice.

Most lines of a log differ in numbers alone, so lines are compared by their letters: of which it is known that they say
nothing is not searched again. Where no two lines are alike the letters are searched for the fragments all at once.
"""

from typing import NamedTuple

FRAGMENTS = (
    b"kill", b"emor", b"utofme", b"alloc", b"oom", b"signal", b"exit", b"code", b"termin", b"sigterm", b"caught",
    b"expect", b"timedout", b"unable", b"nyopen", b"ancdata", b"devshm", b"brupt", b"failure", b"nccl", b"bypeer",
    b"glootr", b"dbyte", b"recvv", b"dezvo", b"raceb", b"ocalrank", b"cancel", b"segfau", b"traps", b"nvrm", b"otalvm",
)  # fmt: skip
"""In the letters of every line that a rule of `tracer.logs` takes there is one of these."""
OF_KERNEL = (b"kill", b"oom", b"utofme", b"nvrm", b"otalvm", b"emor")
"""One of these is in whatever `tracer.logs.kernel.feed` looks for, but for what the journal's JSON has as bytes."""

_LOWER = bytes(range(256)).lower()
_NO_LETTERS = bytes(byte for byte in range(256) if not chr(byte).isascii() or not chr(byte).isalpha() and byte != 10)
_MOST_KNOWN = 10_000
_LONGEST_KNOWN = 400
_PLAIN_BLOCKS = 15
"""Where most lines were new, so many blocks are not taken apart."""


class Sifted(NamedTuple):
    """What is known of some lines."""

    count: int
    telling: list[int]
    """Those with a fragment, from 0."""
    of_kernel: bool
    """Whether the kernel's reader may find something."""


class Sieve:
    """One text."""

    def __init__(self) -> None:
        self._dull: set[bytes] = set()
        self._plain = 0

    def sift(self, data: bytes) -> Sifted:
        """Of lines with their ends."""
        letters = data.translate(_LOWER, _NO_LETTERS)
        if self._plain:
            self._plain -= 1
            return _searched(letters)
        lines = letters.split(b"\n")
        lines.pop()
        if self._dull.issuperset(lines):
            return Sifted(len(lines), [], of_kernel=False)
        new = set(lines).difference(self._dull)
        if len(new) * 2 > len(lines) and len(lines) > _PLAIN_BLOCKS:
            self._plain = _PLAIN_BLOCKS
            return _searched(letters)
        together = b"\n".join(new)
        fragments = [fragment for fragment in FRAGMENTS if fragment in together]
        telling = {line for line in new if any(fragment in line for fragment in fragments)}
        if len(self._dull) > _MOST_KNOWN:
            self._dull.clear()
        self._dull.update(line for line in new.difference(telling) if len(line) <= _LONGEST_KNOWN)
        if not telling:
            return Sifted(len(lines), [], of_kernel=False)
        of_kernel = any(fragment in OF_KERNEL for fragment in fragments)
        return Sifted(len(lines), [at for at, line in enumerate(lines) if line in telling], of_kernel)


def tells(line: bytes) -> bool:
    """Whether a line has a fragment."""
    letters = line.translate(_LOWER, _NO_LETTERS)
    return any(fragment in letters for fragment in FRAGMENTS)


def _searched(letters: bytes) -> Sifted:
    telling: set[int] = set()
    of_kernel = False
    for fragment in FRAGMENTS:
        place = letters.find(fragment)
        if place < 0:
            continue
        of_kernel = of_kernel or fragment in OF_KERNEL
        counted = line = 0
        while place >= 0:
            line += letters.count(b"\n", counted, place)
            telling.add(line)
            counted = letters.find(b"\n", place)
            place = letters.find(fragment, counted)
    return Sifted(letters.count(b"\n"), sorted(telling), of_kernel)

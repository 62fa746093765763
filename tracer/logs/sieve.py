# SPDX-License-Identifier: Apache-2.0
"""Whole lines of a text: which of them may say why a job ended. One search for all readers; nothing is looked at twice.

Most lines of a log differ in numbers alone, so lines are compared by their letters: of which it is known that they say
nothing is not searched again. Where no two lines are alike the letters are searched for the fragments all at once.
"""

from typing import NamedTuple

from tracer.logs.kernel.feed import EARLY_BYTES

ROUGH = (
    b"kill", b"oom", b"utofme", b"nvrm", b"otalvm", b"emor", b"alloc", b"signal", b"sigterm", b"exit", b"code",
    b"terminat", b"caught", b"unexpect", b"timedout", b"unable", b"manyopen", b"ancdata", b"devshm", b"abrupt",
    b"failure", b"nccl", b"bypeer", b"glootransport", b"sendbytes", b"recvv", b"dezvous", b"traceback", b"localrank",
    b"cancelled", b"segfault", b"traps",
)  # fmt: skip
"""What is looked for first, since these are few: one is in each of the others, and of `OF_KERNEL`."""
FRAGMENTS = (
    b"kill", b"taskoom", b"tasksoom", b"containeroom", b"systemoom", b"oomwhen", b"withoom",
    b"outofme", b"sharedmemory", b"memorylimit", b"memorypressure", b"lowonmemory", b"allocatememory", b"enoughmemory",
    b"memoryerror", b"duetomemory", b"resourcememory", b"memorymapping", b"allowedmemory", b"hostmemory",
    b"availablememory", b"memoryspace", b"freememory", b"toalloc", b"notalloc", b"badalloc", b"cudacalloc",
    b"cudamalloc", b"mallocofsize", b"allocfail", b"allocationfail", b"fallocate",
    b"signal", b"sigterm", b"exit", b"rorcode", b"urncode", b"terminat", b"caught", b"unexpect", b"timedout",
    b"unable", b"manyopen", b"ancdata", b"devshm", b"abrupt", b"failure", b"ncclerr", b"ncclsystem", b"ncclremote",
    b"ncclinternal", b"ncclunhandled", b"ncclinvalid", b"ncclcomm", b"ncclwatchdog", b"ncclop",
    b"bypeer", b"glootransport", b"sendbytes", b"recvv", b"rendezvousconn", b"traceback", b"localrank", b"cancelled",
    b"segfault", b"traps",
)  # fmt: skip
"""In the letters of every line that a rule of `tracer.logs.training` or `tracer.logs.reports` takes is one of these."""
OF_KERNEL = (b"kill", b"oom", b"utofme", b"nvrm")
"""One of these is in whatever `tracer.logs.kernel.feed` looks for, but for what the journal's JSON has as bytes."""
EARLY_OF_KERNEL = (b"otalvm", b"emor")
"""And of these in what it looks for in the beginning of a file."""

_JOB, _KERNEL, _EARLY = 1, 2, 4
_LOWER = bytes(range(256)).lower()
_NO_LETTERS = bytes(byte for byte in range(256) if not (chr(byte).isascii() and chr(byte).isalpha()) and byte != 10)
_MOST_KNOWN = 10_000
_LONGEST_KNOWN = 400
_FEW_LINES = 50
_PLAIN_BLOCKS = 15
"""Where most lines were new, so many blocks are not compared with what is known."""


class Sifted(NamedTuple):
    """What is known of some lines."""

    lines: int
    telling: list[int]
    """Those with a fragment, from 0."""
    of_kernel: bool
    """Whether the kernel's reader may find something."""


class Sieve:
    """One text."""

    def __init__(self) -> None:
        self._dull: set[bytes] = set()
        self._others: dict[bytes, int] = {}
        self._plain = 0
        self._early_left = EARLY_BYTES

    def sift(self, data: bytes) -> Sifted:
        """Of lines with their ends."""
        of_kernel = _KERNEL | _EARLY if self._early_left > 0 else _KERNEL
        self._early_left -= len(data)
        letters = data.translate(_LOWER, _NO_LETTERS)
        if self._plain:
            self._plain -= 1
            return _searched(letters, of_kernel)
        lines = letters.split(b"\n")
        lines.pop()
        if self._dull.issuperset(lines):
            return Sifted(len(lines), [], of_kernel=False)
        others = set(lines).difference(self._dull)
        new = others.difference(self._others)
        if len(new) * 2 > len(lines) > _FEW_LINES:
            self._plain = _PLAIN_BLOCKS
            return _searched(letters, of_kernel)
        known = {line: self._others[line] for line in others if line in self._others} | self._learn(new)
        telling = {line for line, of_whom in known.items() if of_whom & _JOB}
        return Sifted(
            len(lines),
            [at for at, line in enumerate(lines) if line in telling] if telling else [],
            any(of_whom & of_kernel for of_whom in known.values()),
        )

    def _learn(self, new: set[bytes]) -> dict[bytes, int]:
        """Of the new lines those that are not dull, and of whom they are."""
        together = b"\n".join(new)
        rough = [fragment for fragment in ROUGH if fragment in together]
        found = {}
        if rough:
            found = {line: _of_whom(line) for line in new if any(fragment in line for fragment in rough)}
            found = {line: of_whom for line, of_whom in found.items() if of_whom}
        if len(self._dull) + len(self._others) > _MOST_KNOWN:
            self._dull.clear()
            self._others.clear()
        for line in new:
            if len(line) <= _LONGEST_KNOWN:
                if line in found:
                    self._others[line] = found[line]
                else:
                    self._dull.add(line)
        return found


def tells(line: bytes) -> bool:
    """Whether a line has one of the fragments."""
    return bool(_of_whom(line.translate(_LOWER, _NO_LETTERS)) & _JOB)


def _of_whom(letters: bytes) -> int:
    return (
        _JOB * any(fragment in letters for fragment in FRAGMENTS)
        | _KERNEL * any(fragment in letters for fragment in OF_KERNEL)
        | _EARLY * any(fragment in letters for fragment in EARLY_OF_KERNEL)
    )


def _searched(letters: bytes, of_kernel: int) -> Sifted:
    """The lines are as good as all different: they are searched all at once, and looked at where something is."""
    candidates: dict[int, bytes] = {}
    for fragment in ROUGH:
        place = letters.find(fragment)
        counted = line = 0
        while place >= 0:
            line += letters.count(b"\n", counted, place)
            counted = letters.find(b"\n", place)
            candidates[line] = letters[letters.rfind(b"\n", 0, place) + 1 : counted]
            place = letters.find(fragment, counted)
    found = {line: _of_whom(text) for line, text in candidates.items()}
    telling = sorted(line for line, of_whom in found.items() if of_whom & _JOB)
    return Sifted(letters.count(b"\n"), telling, any(of_whom & of_kernel for of_whom in found.values()))

# SPDX-License-Identifier: Apache-2.0
"""Whole lines of a text: which of them may say why a job ended. One search for all readers; nothing is looked at twice.

Most lines of a log differ in numbers alone, so lines are compared by their letters: of which it is known that they say
nothing is not searched again. Where no two lines are alike the letters are searched for the fragments all at once.
"""

from typing import NamedTuple

from tracer.logs.kernel.feed import EARLY_BYTES

FRAGMENTS = (
    b"kill", b"taskoom", b"tasksoom", b"containeroom", b"systemoom", b"oomwhen", b"withoom",
    b"outofme", b"sharedmemory", b"memorylimit", b"memorypressure", b"lowonmemory", b"allocatememory", b"enoughmemory",
    b"memoryerror", b"duetomemory", b"resourcememory", b"memorymapping", b"allowedmemory", b"hostmemory",
    b"availablememory", b"memoryspace", b"freememory", b"toalloc", b"notalloc", b"badalloc", b"cudacalloc",
    b"cudamalloc", b"mallocofsize", b"allocfail", b"allocationfail", b"fallocate",
    b"closingsignal", b"viasignal", b"deathsignal", b"gotsignal", b"onsignal", b"withsignal", b"signalsig",
    b"sigterm", b"diedwith", b"exitcode", b"exitstatus", b"exitwithstatus", b"exitedcode", b"errorcode", b"returncode",
    b"terminatedwith", b"caught", b"edunexpect", b"asunexpect", b"errorunexpect", b"timedout",
    b"unable", b"manyopen", b"ancdata", b"devshm", b"abrupt", b"observedfail", b"failures", b"ncclerr", b"ncclsystem",
    b"ncclremote", b"ncclinternal", b"ncclunhandled", b"ncclinvalid", b"ncclcomm", b"ncclwatchdog", b"ncclop",
    b"bypeer", b"glootransport", b"sendbytes", b"recvv", b"rendezvousconn", b"tracebackmost", b"localrank",
    b"cancelled", b"segfaultat", b"traps",
)  # fmt: skip
"""In the letters of every line that a rule of `tracer.logs.training` or `tracer.logs.reports` takes is one of these."""
OF_KERNEL = (b"kill", b"oom", b"utofm", b"nvrm")
"""One of these is in whatever `tracer.logs.kernel.feed` looks for, but for what the journal's JSON has as bytes."""
EARLY_OF_KERNEL = (b"alvm", b"mory")
"""And of these in what it looks for in the beginning of a file."""
ROUGH = (
    *OF_KERNEL, *EARLY_OF_KERNEL,
    b"lloc", b"gnal", b"sigterm", b"diedwith", b"xit", b"errorcod", b"returncod", b"terminatedwith", b"caug",
    b"unexpect", b"timedout", b"unab", b"nyop", b"ancdata", b"vshm", b"brup", b"observedfail", b"failures", b"nccl",
    b"byp", b"glootransport", b"ndby", b"cvv", b"rendezvousconn", b"tracebackmos", b"localrank", b"cancelled",
    b"segfaultat", b"traps",
)  # fmt: skip
"""What is looked for first, since these are few: one is in each of the others.

Those parts of them that are found missing soonest, measured on text that was not searched before: long ones, and such
of four letters as are rare together.
"""

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
        together = b"\n".join(new) + b"\n"
        found = {together[start : together.find(b"\n", start)]: whom for start, whom in _found(together).items()}
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
    letters = line.translate(_LOWER, _NO_LETTERS)
    return any(fragment in letters for fragment in FRAGMENTS)


_BY_ROUGH = tuple(
    (rough, tuple(fragment for fragment in FRAGMENTS if rough in fragment),
     _KERNEL if rough in OF_KERNEL else _EARLY if rough in EARLY_OF_KERNEL else 0)
    for rough in ROUGH
)  # fmt: skip


def _found(letters: bytes) -> dict[int, int]:
    """Where a line begins that has something, and of whom it is."""
    found: dict[int, int] = {}
    for rough, fragments, of_whom in _BY_ROUGH:
        place = letters.find(rough)
        while place >= 0:
            start, end = letters.rfind(b"\n", 0, place) + 1, letters.find(b"\n", place)
            line = letters[start:end]
            whom = of_whom | _JOB if any(fragment in line for fragment in fragments) else of_whom
            if whom:
                found[start] = found.get(start, 0) | whom
            place = letters.find(rough, end)
    return found


def _searched(letters: bytes, of_kernel: int) -> Sifted:
    """The lines are as good as all different: they are searched all at once, and looked at where something is."""
    found = _found(letters)
    telling = []
    counted = line = 0
    for start in sorted(start for start, whom in found.items() if whom & _JOB):
        line += letters.count(b"\n", counted, start)
        counted = start
        telling.append(line)
    lines = line + letters.count(b"\n", counted)
    return Sifted(lines, telling, any(whom & of_kernel for whom in found.values()))

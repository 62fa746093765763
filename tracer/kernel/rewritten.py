# SPDX-License-Identifier: Apache-2.0
"""Functions of a library whose code some process has rewritten in its own memory: no probe may be put there.

The kernel writes a breakpoint over the first byte, and runs the *file's* instruction in its place: in a process that
has put a jump there (UCX hooks cuMemAlloc so, "bistro"), it then goes on in the middle of that jump and dies. A probe
is by inode, so that would be any process on the machine. One that hooks later finds the breakpoint.
"""

import os
from collections.abc import Iterator
from typing import NamedTuple

from tracer.pseudofiles import read_bytes

COMPARED_BYTES = 16
"""No instruction is longer; what differs behind the first one may as well be a hook."""
BREAKPOINTS = (b"\xcc", b"\xa0\x00\x20\xd4", b"\x00\x00\x20\xd4")
"""Of x86-64 (int3) and aarch64 (of uprobes, of debuggers): another tracer's, with which the kernel gets along."""
MAPS_BYTES = 8 << 20


class Mapped(NamedTuple):
    """A piece of the library with code in it, in one process."""

    pid: int
    address: int
    offset: int
    size: int


class Rewritten:
    """Looks into the memory of all processes that have a library mapped. **Slow**: it reads the mappings of all.

    Args:
        library: descriptor of the file; stays the caller's.
        proc_root: where /proc is.
    """

    def __init__(self, library: int, proc_root: str = "/proc") -> None:
        self._library = library
        self._proc_root = proc_root
        self._mapped = list(_mapped(proc_root, os.fstat(library).st_ino))

    def why(self, offset: int) -> str | None:
        """Why no probe may be put there; `None`: everyone runs what the file has there.

        Args:
            offset: in the file, where a function begins.
        """
        expected = os.pread(self._library, COMPARED_BYTES, offset)
        for mapped in self._mapped:
            within = offset - mapped.offset
            if not 0 <= within < mapped.size:
                continue
            size = min(COMPARED_BYTES, mapped.size - within)
            try:
                found = _memory(f"{self._proc_root}/{mapped.pid}/mem", mapped.address + within, size)
            except PermissionError:
                return f"whether process {mapped.pid} has hooked it cannot be read"
            except OSError:
                continue  # it has ended, or unmapped it
            if not _same(found, expected):
                return f"process {mapped.pid} has hooked it: it runs other code there than the file has"
        return None


def _memory(path: str, address: int, size: int) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(fd, size, address)
    finally:
        os.close(fd)


def _same(found: bytes, expected: bytes) -> bool:
    length = len(found)  # nothing: the memory is gone
    for point in BREAKPOINTS:
        if found.startswith(point):
            return found[len(point) :] == expected[len(point) : length]
    return found == expected[:length]


def _mapped(proc_root: str, inode: int) -> Iterator[Mapped]:
    """By inode alone: the device is another in /proc/PID/maps where a file system has devices of its own (btrfs)."""
    needle = b" %d " % inode
    for name in os.listdir(proc_root):
        if not name.isdigit():
            continue
        maps = read_bytes(f"{proc_root}/{name}/maps", MAPS_BYTES) or b""
        if needle not in maps:
            continue
        for line in maps.split(b"\n"):
            # 7f0-7f1 r-xp OFFSET DEVICE INODE PATH
            fields = line.split(None, 5)
            if len(fields) == 6 and fields[4].isdigit() and int(fields[4]) == inode and b"x" in fields[1]:
                begin, end = (int(number, 16) for number in fields[0].split(b"-"))
                yield Mapped(int(name), begin, int(fields[2], 16), end - begin)

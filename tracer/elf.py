# SPDX-License-Identifier: Apache-2.0
"""ELF images (64 bits, little-endian: x86-64 and aarch64), read piece by piece from a file or another process's memory.

Whoever wrote them may mean harm: every number is bounded, nothing is followed twice, what makes no sense is nothing.
"""

import os
import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

Read = Callable[[int, int], bytes]
"""Address and size to at most so many bytes."""

SYMBOL_BYTES = 24
DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_GNU_HASH = 4, 5, 6, 10, 0x6FFF_FEF5

PT_LOAD, PT_DYNAMIC = 1, 2
ET_EXEC = 2
MAX_TAGS = 256
_MAX_SEGMENTS = 64
_MAX_SYMBOLS = 1 << 16
_MAX_NAME_BYTES = 256
_MAX_NAMES_BYTES = 4 << 20
_FUNCTIONS = (2, 10)
"""STT_FUNC, STT_GNU_IFUNC."""
_HIDDEN = (1, 2)
"""STV_INTERNAL, STV_HIDDEN."""


class Segment(NamedTuple):
    """One program header."""

    kind: int
    flags: int
    offset: int
    address: int
    physical: int
    file_bytes: int
    memory_bytes: int


def read_segments(read: Read, base: int) -> tuple[int, list[Segment]] | None:
    """Kind of image and program headers of what begins at `base`; `None`: it is no image."""
    header = read(base, 64)
    if len(header) < 64 or header[:6] != b"\x7fELF\x02\x01":
        return None
    kind, offset, size, count = struct.unpack_from("<16xH14xQ14xHH", header)
    if size < 56:
        return None
    table = read(base + offset, size * min(count, _MAX_SEGMENTS))
    return kind, [Segment(*struct.unpack_from("<IIQQQQQ", table, at)) for at in range(0, len(table) - 55, size)]


def tags_of(dynamic: bytes) -> dict[int, int]:
    """DT_* to values, of a dynamic segment."""
    return dict(struct.iter_unpack("<qQ", dynamic[: min(len(dynamic) // 16, MAX_TAGS) * 16]))


def exported_functions(fd: int) -> dict[str, int]:
    """Functions that a library exports, with where in the file their code begins. Empty: it is no such library.

    As the dynamic linker finds them: section headers may be missing, and say nothing that binds.

    Args:
        fd: of the file; stays the caller's.
    """
    try:
        return dict(_exported(fd))
    except (OSError, ValueError, struct.error, OverflowError):
        return {}


def _exported(fd: int) -> Iterator[tuple[str, int]]:
    _, segments = read_segments(lambda at, size: os.pread(fd, size, at), 0) or (0, [])
    loads = [segment for segment in segments if segment.kind == PT_LOAD]

    def read(address: int, size: int) -> bytes:
        for load in loads:
            within = address - load.address
            if 0 <= within < load.file_bytes:
                return os.pread(fd, min(size, load.file_bytes - within), load.offset + within)
        return b""

    for dynamic in segments:
        if dynamic.kind != PT_DYNAMIC:
            continue
        tags = tags_of(os.pread(fd, min(dynamic.file_bytes, 16 * MAX_TAGS), dynamic.offset))
        names = read(tags[DT_STRTAB], min(tags.get(DT_STRSZ, 0), _MAX_NAMES_BYTES)) if DT_STRTAB in tags else b""
        symbols = read(tags[DT_SYMTAB], _count(read, tags) * SYMBOL_BYTES) if DT_SYMTAB in tags else b""
        for at in range(0, len(symbols) - SYMBOL_BYTES + 1, SYMBOL_BYTES):
            name_at, info, other, section, value, _ = struct.unpack_from("<IBBHQQ", symbols, at)
            if info & 0xF not in _FUNCTIONS or not info >> 4 or not section or other & 3 in _HIDDEN:
                continue
            name, end, _ = names[name_at : name_at + _MAX_NAME_BYTES].partition(b"\0")
            code = next(
                (load for load in loads if load.flags & 1 and 0 <= value - load.address < load.file_bytes), None
            )
            if name and end and code is not None:
                yield name.decode("ascii", "backslashreplace"), value - code.address + code.offset
        return


def _count(read: Read, tags: dict[int, int]) -> int:
    """How many symbols there are: only the tables by which they are looked up tell."""
    if DT_HASH in tags:
        (count,) = struct.unpack("<4xI", read(tags[DT_HASH], 8))
        return min(int(count), _MAX_SYMBOLS)
    if DT_GNU_HASH not in tags:
        return 0
    table = tags[DT_GNU_HASH]
    buckets, first, bloom, _ = struct.unpack("<IIII", read(table, 16))
    buckets_at = table + 16 + 8 * bloom
    raw = read(buckets_at, 4 * min(buckets, _MAX_SYMBOLS))
    last = max(struct.unpack(f"<{len(raw) // 4}I", raw[: len(raw) // 4 * 4]), default=0)
    if not first <= last < _MAX_SYMBOLS:
        return 0
    # Behind the last bucket's first symbol those that share it follow; the lowest bit ends them.
    chain = read(buckets_at + 4 * buckets + 4 * (last - first), 4 * (_MAX_SYMBOLS - last))
    for at in range(0, len(chain) - 3, 4):
        last += 1
        if chain[at] & 1:
            break
    return last

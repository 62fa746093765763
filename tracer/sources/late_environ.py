# SPDX-License-Identifier: Apache-2.0
"""Variables that a process set after its exec: read from its memory, since /proc/PID/environ shows only what exec gave.

`os.environ["RANK"] = "3"` calls putenv, which changes the array that libc's `environ` points to. That symbol is
looked up in the images that are mapped (ELF-64, little-endian: x86-64 and aarch64), through /proc/PID/mem. Whoever
is read goes on running: what changes meanwhile may come out torn. So a value counts only where it is whole, and
nothing here is proof of anything by itself. Needs the right to trace the process, as process_vm_readv(2) does.
"""

import os
import struct
from collections.abc import Collection, Iterator

from tracer.elf import (
    DT_GNU_HASH,
    DT_HASH,
    DT_STRTAB,
    DT_SYMTAB,
    ET_EXEC,
    MAX_TAGS,
    PT_DYNAMIC,
    PT_LOAD,
    SYMBOL_BYTES,
    Read,
    read_segments,
    tags_of,
)
from tracer.pseudofiles import read_bytes

MAX_VARIABLES = 2048
NAME_BYTES = 64
"""More than the longest allowed name, its `=` and its first characters."""
VALUE_BYTES = 256
MAX_IMAGES = 4
_MAPS_BYTES = 1 << 20
_PAGE_BYTES = 4096
_ARRAY_BYTES = 512
_MAX_CHAIN = 512
"""Symbols in one bucket of a hash table: a handful, in an image that is one."""
_NAMES = (b"environ", b"__environ")
_LIBC = (b"libc.so", b"libc-", b"ld-musl", b"libc.musl")


def read_late_environ(proc_root: str, pid: int, names: Collection[str]) -> dict[str, str] | None:
    """The named variables as the process has them now; `None`: not readable, or no libc whose symbol can be found."""
    try:
        fd = os.open(f"{proc_root}/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        maps = read_bytes(f"{proc_root}/{pid}/maps", _MAPS_BYTES)
        return None if maps is None else named_variables(_reader(fd), _images(maps), names)
    except (OSError, ValueError, struct.error, OverflowError):
        return None
    finally:
        os.close(fd)


def named_variables(read: Read, images: Collection[int], names: Collection[str]) -> dict[str, str] | None:
    """The variables with these names, of the environment that the first of the images with such a symbol points to."""
    for base in images:
        place = find_symbol(read, base)
        if place is None:
            continue
        array = _number(read(place, 8))
        if array:
            wanted = {name.encode(): name for name in names}
            return dict(_variables(read, array, wanted))
    return None


def find_symbol(read: Read, base: int) -> int | None:
    """Where `environ` lies of the ELF image that is mapped there; `None`: it defines none."""
    found = read_segments(read, base)
    if found is None:
        return None
    kind, segments = found
    loads = [segment for segment in segments if segment.kind == PT_LOAD]
    dynamic = next((segment for segment in segments if segment.kind == PT_DYNAMIC), None)
    if not loads or dynamic is None:
        return None
    # ET_EXEC is mapped where it says; all else is moved by this much.
    shift = 0 if kind == ET_EXEC else base - (loads[0].address & ~(_PAGE_BYTES - 1))
    tags = tags_of(read(shift + dynamic.address, min(dynamic.file_bytes, 16 * MAX_TAGS)))
    if DT_SYMTAB not in tags or DT_STRTAB not in tags:
        return None
    # glibc relocates these in place, musl leaves them as they are.
    moved = {tag: value if value >= base else value + shift for tag, value in tags.items()}
    for name in _NAMES:
        for index in _candidates(read, moved, name):
            symbol = read(moved[DT_SYMTAB] + index * SYMBOL_BYTES, SYMBOL_BYTES)
            if len(symbol) < SYMBOL_BYTES:
                break
            at, section, value = struct.unpack("<I2xHQ8x", symbol)
            if section and value and read(moved[DT_STRTAB] + at, len(name) + 1) == name + b"\0":
                return int(shift + value)
    return None


def _candidates(read: Read, tags: dict[int, int], name: bytes) -> Iterator[int]:
    """Indexes of symbols that may have this name, by the image's own hash table."""
    if DT_GNU_HASH in tags:
        yield from _by_gnu_hash(read, tags[DT_GNU_HASH], name)
    elif DT_HASH in tags:
        yield from _by_hash(read, tags[DT_HASH], name)


def _by_gnu_hash(read: Read, table: int, name: bytes) -> Iterator[int]:
    wanted = 5381
    for byte in name:
        wanted = (wanted * 33 + byte) & 0xFFFF_FFFF
    buckets, first, bloom, _ = struct.unpack("<IIII", read(table, 16))
    if not buckets:
        return
    bucket_at = table + 16 + 8 * bloom
    index = _number(read(bucket_at + 4 * (wanted % buckets), 4))
    chain_at = bucket_at + 4 * buckets
    for _ in range(_MAX_CHAIN):
        if index < first:
            return
        entry = _number(read(chain_at + 4 * (index - first), 4))
        if entry | 1 == wanted | 1:
            yield index
        if entry & 1:
            return
        index += 1


def _by_hash(read: Read, table: int, name: bytes) -> Iterator[int]:
    wanted = 0
    for byte in name:
        wanted = (wanted << 4) + byte
        wanted ^= (wanted >> 24) & 0xF0
        wanted &= 0x0FFF_FFFF
    buckets, chains = struct.unpack("<II", read(table, 8))
    if not buckets:
        return
    index = _number(read(table + 8 + 4 * (wanted % buckets), 4))
    for _ in range(min(chains, _MAX_CHAIN)):
        if not index:
            return
        yield index
        index = _number(read(table + 8 + 4 * (buckets + index), 4))


def _variables(read: Read, array: int, wanted: dict[bytes, str]) -> Iterator[tuple[str, str]]:
    for pointer in _pointers(read, array):
        # So much as tells the name, and the value only of those that are named.
        name, equals, value = read(pointer, NAME_BYTES).partition(b"=")
        if not equals or name not in wanted:
            continue
        if b"\0" not in value:
            value = read(pointer + len(name) + 1, VALUE_BYTES)
        text, end, _ = value.partition(b"\0")
        if end:
            yield wanted[name], text.decode("utf-8", "backslashreplace")


def _pointers(read: Read, array: int) -> Iterator[int]:
    """Up to the null pointer that ends the array."""
    for at in range(array, array + 8 * MAX_VARIABLES, _ARRAY_BYTES):
        part = read(at, _ARRAY_BYTES)
        for (pointer,) in struct.iter_unpack("<Q", _whole(part, 8)):
            if not pointer:
                return
            yield pointer
        if len(part) < _ARRAY_BYTES:
            return


def _reader(fd: int) -> Read:
    def read(address: int, size: int) -> bytes:
        if not 0 < address < 1 << 63 or size <= 0:
            return b""
        try:
            return os.pread(fd, size, address)
        except OSError:
            # What is asked for may begin within a mapping and end behind it.
            left = -address % _PAGE_BYTES
            try:
                return os.pread(fd, left, address) if 0 < left < size else b""
            except OSError:
                return b""

    return read


def _images(maps: bytes) -> list[int]:
    """Where the program and its libc begin: the program first, for it may have taken the symbol over."""
    program: list[int] = []
    libc: list[int] = []
    for line in maps.split(b"\n"):
        fields = line.split(None, 5)
        if len(fields) < 6 or fields[2] != b"00000000" or fields[1][:1] != b"r":
            continue
        base = int(fields[0].partition(b"-")[0], 16)
        if fields[5].rpartition(b"/")[2].startswith(_LIBC):
            libc.append(base)
        elif not program and fields[5].startswith(b"/"):
            program.append(base)
    return [*program, *libc][:MAX_IMAGES]


def _whole(raw: bytes, size: int) -> bytes:
    return raw[: len(raw) // size * size]


def _number(raw: bytes) -> int:
    return int.from_bytes(raw, "little")

# SPDX-License-Identifier: Apache-2.0
"""BPF maps from the parent: hash maps through bpf(2), arrays of counters through their memory map.

No libbpf: the system call is stable, and one less library to find on someone's cluster.
"""

import ctypes
import errno
import mmap
import os
import struct
from collections.abc import Iterator
from typing import Any

from tracer.kernel.bpfcalls import BPF_SYSCALL

_LOOKUP, _UPDATE, _DELETE, _NEXT_KEY = 1, 2, 3, 4
_NEW_OR_NOT, _NEW = 0, 1


class _Element(ctypes.Structure):
    """union bpf_attr of the four commands, include/uapi/linux/bpf.h."""

    _fields_ = (
        ("map_fd", ctypes.c_uint32),
        ("pad", ctypes.c_uint32),
        ("key", ctypes.c_uint64),
        ("value", ctypes.c_uint64),
        ("flags", ctypes.c_uint64),
    )


class HashMap:
    """A hash map with keys and values of fixed formats.

    Args:
        fd: of the map; stays the caller's.
        key: `struct` format of a key, of one number, or of one piece of bytes for what has several.
        value: `struct` format of a value.
    """

    def __init__(self, fd: int, key: str, value: str) -> None:
        self._fd, self._key, self._value = fd, struct.Struct(key), struct.Struct(value)
        self._libc = ctypes.CDLL(None, use_errno=True)

    def update(self, key: int, value: tuple[int, ...]) -> None:
        """Sets one entry.

        Raises:
            OSError: the map is full (E2BIG), or closed.
        """
        self._call(_UPDATE, self._key.pack(key), ctypes.create_string_buffer(self._value.pack(*value)))

    def insert(self, key: int, value: tuple[int, ...]) -> bool:
        """Sets an entry unless there is one already; whether there was none.

        Raises:
            OSError: the map is full (E2BIG), or closed.
        """
        try:
            self._call(_UPDATE, self._key.pack(key), ctypes.create_string_buffer(self._value.pack(*value)), _NEW)
        except FileExistsError:
            return False
        return True

    def delete(self, key: int | bytes) -> bool:
        """Whether it was there.

        Raises:
            OSError: the map is closed.
        """
        return self._found(_DELETE, self._key.pack(key), None)

    def lookup(self, key: int) -> tuple[int, ...] | None:
        """The value, `None` when there is none.

        Raises:
            OSError: the map is closed.
        """
        room = ctypes.create_string_buffer(self._value.size)
        return self._value.unpack(room.raw) if self._found(_LOOKUP, self._key.pack(key), room) else None

    def items(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """All entries, each once or, when others come and go meanwhile, perhaps not at all.

        Raises:
            OSError: the map is closed.
        """
        for key in self.keys():
            value = self.lookup(key)
            if value is not None:
                yield key, value

    def keys(self) -> list[Any]:
        """All keys, likewise.

        Raises:
            OSError: the map is closed.
        """
        keys: dict[Any, None] = {}
        key: bytes | None = None
        room = ctypes.create_string_buffer(self._key.size)
        # The kernel starts over from the first key when the last one is gone: a seen key ends the walk.
        while self._found(_NEXT_KEY, key, room) and (number := self._key.unpack(room.raw)[0]) not in keys:
            keys[number] = None
            key = room.raw
        return list(keys)

    def _found(self, command: int, key: bytes | None, value: "ctypes.Array[ctypes.c_char] | None") -> bool:
        try:
            self._call(command, key, value)
        except OSError as error:
            if error.errno == errno.ENOENT:
                return False
            raise
        return True

    def _call(
        self, command: int, key: bytes | None, value: "ctypes.Array[ctypes.c_char] | None", flags: int = _NEW_OR_NOT
    ) -> None:
        held = None if key is None else ctypes.create_string_buffer(key, len(key))
        element = _Element(
            map_fd=self._fd,
            key=0 if held is None else ctypes.addressof(held),
            value=0 if value is None else ctypes.addressof(value),
            flags=flags,
        )
        number = BPF_SYSCALL[os.uname().machine]
        if self._libc.syscall(number, command, ctypes.byref(element), ctypes.sizeof(element)) < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))


class PolledCounters:
    """An array of u64 that the programs only ever add to: one system call for each look at one.

    Args:
        fd: of the map; stays the caller's.
    """

    def __init__(self, fd: int) -> None:
        self._array = HashMap(fd, "=I", "=Q")

    def __getitem__(self, slot: int) -> int:
        found = self._array.lookup(slot)
        if found is None:
            raise IndexError(slot)
        return found[0]

    def close(self) -> None:
        """Nothing is held."""


class Counters:
    """An array of u64 that the programs only ever add to (BPF_F_MMAPABLE).

    Args:
        fd: of the map; stays the caller's.
        slots: how many numbers it has.

    Raises:
        OSError: it cannot be mapped.
    """

    def __init__(self, fd: int, slots: int) -> None:
        length = -(-slots * 8 // mmap.PAGESIZE) * mmap.PAGESIZE
        self._memory = mmap.mmap(fd, length, mmap.MAP_SHARED, mmap.PROT_READ)
        self._slots = memoryview(self._memory).cast("Q")

    def __getitem__(self, slot: int) -> int:
        return self._slots[slot]

    def close(self) -> None:
        """Lets go of the memory map."""
        self._slots.release()
        self._memory.close()

# SPDX-License-Identifier: Apache-2.0
"""Reads BPF records from perf buffers, one of each CPU: for kernels that have no ring buffer (before 5.8).

Layout (struct perf_event_mmap_page, include/uapi/linux/perf_event.h): one page with the producer's position at
1024 and the reader's, which is ours to write, at 1032; then the data, which wraps. An entry is a u32 of its type,
two u16 (the second is its size, a multiple of eight) and what the type says: of a sample a u32 of length and the
bytes of the program, of a loss a u64 of no interest here and one of how many.

Order. Each CPU's records lie in the order in which they were sent; those of several CPUs are joined by the time
that each begins with, which the program took before. All buffers are looked at twice: what was found at the first
look and what is no later than that goes out, in order of time; the rest, sent meanwhile, waits for the next round.
So a record never comes before one that was sent before its own program took its time: a fork before whatever the
child does. (Whatever caused a record of the first look had been sent by then, and the second look has it; a cause of
one from the second look was sent before that one's time, which is no later than the end of the first look.) The one
exception is a record of an interrupt that came while another record was being copied on that CPU: it becomes visible
with that one, perhaps a microsecond late. The ring buffer has one order for all CPUs, that of reservation; neither
is the order of time, by which a recording is read.

A CPU that is not online when the buffers are made has none, and none either once it was offline: what its programs
send is counted by them as dropped, as is what finds no room.
"""

import errno
import mmap
import os
import select
import sys
from collections import deque
from collections.abc import Iterator, Sequence

from tracer.kernel.bpfcalls import open_bpf_output
from tracer.kernel.maps import HashMap
from tracer.kernel.ringbuf import fence

_HEAD_AT, _TAIL_AT = 1024 // 8, 1032 // 8
_LOST, _SAMPLE = 2, 9
"""PERF_RECORD_LOST, PERF_RECORD_SAMPLE."""
_HEAD_BYTES = 8

_ONLINE = "/sys/devices/system/cpu/online"
_LEAST_BYTES, _MOST_BYTES = 64 * 1024, 512 * 1024
"""So much on each CPU anyone may lock (/proc/sys/kernel/perf_event_mlock_kb, one page more): no right is needed."""


def online_cpus(path: str = _ONLINE) -> tuple[int, ...]:
    """Numbers of the CPUs that are in use now.

    Raises:
        OSError: the kernel does not say.
    """
    with open(path, encoding="ascii") as file:
        spans = [part.partition("-") for part in file.read().strip().split(",") if part]
    return tuple(cpu for first, _, last in spans for cpu in range(int(first), int(last or first) + 1))


def size_each(ring_bytes: int, cpus: int, page_bytes: int) -> int:
    """Of one CPU's buffer: a power of two of pages; all together hold some four times what one ring buffer would.

    For a storm of kills may be one CPU's: 64 KiB are some 20 kills.
    """
    wanted = max(min(_LEAST_BYTES, ring_bytes), min(_MOST_BYTES, ring_bytes, 4 * ring_bytes // max(1, cpus)))
    return page_bytes << max(0, (wanted // page_bytes).bit_length() - 1)


class CpuBuffer:
    """The buffer of one CPU.

    Args:
        memory: one page, and the data; owned from here on.
    """

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory
        whole = memoryview(memory)
        self._positions = whole[: mmap.PAGESIZE].cast("Q")
        self._data = whole[mmap.PAGESIZE :]
        self._size_bytes = len(self._data)
        self.lost = 0
        """As the kernel tells it, which it does once there is room again."""
        self.torn = 0
        """Entries that are none: what follows them up to the producer's position is skipped."""

    def take(self) -> Iterator[bytes]:
        """What had been sent when this is called. Each is a copy, and its room is given back before the next."""
        head, position = self._positions[_HEAD_AT], self._positions[_TAIL_AT]
        fence()
        while position < head:
            start = self._copy(position, _HEAD_BYTES)
            kind, size = int.from_bytes(start[:4], sys.byteorder), int.from_bytes(start[6:], sys.byteorder)
            whole = head - position <= self._size_bytes and size % 8 == 0 and _HEAD_BYTES < size <= head - position
            body = self._copy(position + _HEAD_BYTES, size - _HEAD_BYTES) if whole else b""
            position = position + size if whole else head
            self.torn += not whole
            fence()
            self._positions[_TAIL_AT] = position
            if kind == _LOST and whole:
                self.lost += int.from_bytes(body[8:16], sys.byteorder)
            elif kind == _SAMPLE and whole:
                length = int.from_bytes(body[:4], sys.byteorder)
                self.torn += length > len(body) - 4
                # With its length a sample is filled up to eight bytes, which are counted in; records are whole eights.
                yield body[4 : 4 + (length & ~7)]

    def waiting(self) -> bool:
        """Whether there is anything."""
        return self._positions[_TAIL_AT] < self._positions[_HEAD_AT]

    def close(self) -> None:
        """Lets go of the memory."""
        self._positions.release()
        self._data.release()
        self._memory.close()

    def _copy(self, position: int, length: int) -> bytes:
        at = position % self._size_bytes
        first = bytes(self._data[at : at + length])
        return first + bytes(self._data[: length - len(first)])


class PerfBuffer:
    """The buffers of all CPUs, as one; read by one thread.

    Args:
        fd: of the map, which gets them; stays the caller's.
        cpus: that are to have one.
        bytes_each: of one buffer's data, a power of two of pages.

    Raises:
        OSError: one cannot be had.
    """

    def __init__(self, fd: int, cpus: Sequence[int], bytes_each: int) -> None:
        self._buffers: list[CpuBuffer] = []
        self._descriptors: list[int] = []
        self._held: list[bytes] = []
        """Sent between two looks."""
        self._ready: deque[bytes] = deque()
        self._poll = select.epoll()
        try:
            for cpu in cpus:
                self._open(HashMap(fd, "=I", "=I"), cpu, bytes_each)
        except BaseException:
            self.close()
            raise

    def fileno(self) -> int:
        """Readable when a record came since that was last told; not for as long as records are there: see `waiting`."""
        return self._poll.fileno()

    def waiting(self) -> bool:
        """Whether records are there. The descriptor may not say so again: whoever asks it takes the answer away."""
        return bool(self._ready) or any(buffer.waiting() for buffer in self._buffers)

    def records(self) -> Iterator[bytes]:
        """All that is there now, in the order that the module describes."""
        while self._ready or self._gather():
            yield self._ready.popleft()

    def lost(self, *, counted: int) -> int:
        """Records that the kernel says it lost, and places where there should have been one.

        Args:
            counted: by the programs themselves, of those that the kernel lost for want of room.
        """
        told, torn = sum(buffer.lost for buffer in self._buffers), sum(buffer.torn for buffer in self._buffers)
        return torn + max(0, told - counted)

    def close(self) -> None:
        """Lets go of all memory and descriptors."""
        self._poll.close()
        for buffer in self._buffers:
            buffer.close()
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._buffers, self._descriptors = [], []

    def _open(self, array: HashMap, cpu: int, bytes_each: int) -> None:
        try:
            descriptor = open_bpf_output(cpu)
        except OSError as error:
            if error.errno == errno.ENODEV:
                return  # gone since we looked
            raise
        self._descriptors.append(descriptor)
        self._buffers.append(CpuBuffer(mmap.mmap(descriptor, mmap.PAGESIZE + bytes_each)))
        self._poll.register(descriptor, select.EPOLLIN)
        try:
            array.update(cpu, (descriptor,))
        except OSError as error:
            if error.errno != errno.E2BIG:  # a number beyond what the map was made for: as good as offline
                raise

    def _gather(self) -> bool:
        """One round; whether there is anything."""
        first = [*self._held, *self._look()]
        if not first:
            return False
        last = max(map(_time, first))
        both = sorted([*first, *self._look()], key=_time)  # keeps the order of those that have one time
        count = next((at for at, record in enumerate(both) if _time(record) > last), len(both))
        self._ready.extend(both[:count])
        self._held = both[count:]
        return True

    def _look(self) -> Iterator[bytes]:
        for buffer in self._buffers:
            yield from buffer.take()


def _time(record: bytes) -> int:
    """What every record begins with (`reserve` in bpf/prelude.c)."""
    return int.from_bytes(record[:8], sys.byteorder)

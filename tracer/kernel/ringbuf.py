# SPDX-License-Identifier: Apache-2.0
"""Reads a BPF ring buffer through its memory map, without libbpf: copies of records, in order.

Layout (kernel/bpf/ringbuf.c): one page with the consumer's position, which is ours to write; one with the
producer's; then the data, mapped twice in a row so that no record wraps. A record is a u32 of length and
two flags, a u32 that is the kernel's own, and the data, in steps of eight bytes.
"""

import mmap
import os
import threading
from collections.abc import Iterator

_BUSY = 1 << 31
_DISCARDED = 1 << 30
_LENGTH = _DISCARDED - 1
_HEAD_BYTES = 8

_STRONGLY_ORDERED = os.uname().machine in ("x86_64", "i686")
_LOCK = threading.Lock()


class RingBuffer:
    """One ring buffer, read by one thread.

    Args:
        fd: of the map; stays the caller's, and is what to poll.
        size_bytes: of its data.

    Raises:
        OSError: it cannot be mapped.
    """

    def __init__(self, fd: int, size_bytes: int) -> None:
        page = mmap.PAGESIZE
        self._size_bytes = size_bytes
        self._own = mmap.mmap(fd, page, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE, offset=0)
        self._shared = mmap.mmap(fd, page + 2 * size_bytes, mmap.MAP_SHARED, mmap.PROT_READ, offset=page)
        # Native eight-byte access is one load or store; struct with "<Q" goes byte by byte and tears.
        self._consumer = memoryview(self._own).cast("Q")
        self._producer = memoryview(self._shared)[:page].cast("Q")
        self._heads = memoryview(self._shared)[page:].cast("I")
        self._data = memoryview(self._shared)[page:]
        self._fd = fd

    def fileno(self) -> int:
        """Readable when there are records."""
        return self._fd

    def waiting(self) -> bool:
        """Nothing that the descriptor would not tell: it is readable for as long as there are records."""
        return False

    def lost(self, *, counted: int) -> int:  # noqa: ARG002 - as a perf buffer is asked
        """None beside those that the programs count themselves: they know when there is no room."""
        return 0

    def records(self) -> Iterator[bytes]:
        """All that is there now. Each is a copy, and its room is given back before the next is looked at."""
        position = self._consumer[0]
        # Polling reports new data only once the reader has caught up: go on until it has.
        while position < self._producer[0]:
            fence()
            at = position % self._size_bytes
            head = self._heads[at // 4]
            if head & _BUSY:
                return  # reserved, not yet submitted; its submit wakes us
            fence()
            length = head & _LENGTH
            record = None if head & _DISCARDED else bytes(self._data[at + _HEAD_BYTES : at + _HEAD_BYTES + length])
            position += (_HEAD_BYTES + length + 7) & ~7
            fence()
            self._consumer[0] = position
            if record is not None:
                yield record

    def close(self) -> None:
        """Lets go of the memory maps, which hold the map as its descriptor does."""
        for view in (self._consumer, self._producer, self._heads, self._data):
            view.release()
        self._own.close()
        self._shared.close()


def fence() -> None:
    """Loads must not pass one another; Python has no fence, but its locks are one each way."""
    if not _STRONGLY_ORDERED:
        with _LOCK:
            pass
        with _LOCK:
            pass

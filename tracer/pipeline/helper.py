# SPDX-License-Identifier: Apache-2.0
"""A helper thread for what can block: reads that take another process's locks, and the disk."""

import collections
import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable

from tracer.events import Event
from tracer.units import NS_PER_S

Work = Callable[[], Event | None]

DEADLINE_NS = 2 * NS_PER_S
MAX_THREADS = 4
MAX_WAITING = 4096


class Helper:
    """Runs pieces of work one after the other in a thread of its own.

    A thread that is stuck in the kernel cannot be ended. It is left to itself, and another takes over,
    up to `MAX_THREADS`; they are daemons, so they keep no one from leaving.
    """

    def __init__(self, name: str, *, deadline_ns: int = DEADLINE_NS) -> None:
        self.refused = 0
        """Pieces of work for which there was no room."""
        self.overdue = 0
        """Pieces of work that did not end in time."""
        self.failed = 0
        self.submitted = self.ended = 0
        """Pieces of work that were taken in so far, and those of them that came to an end and were taken out."""
        self._name = name
        self._deadline_ns = deadline_ns
        self._waiting: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._done: collections.deque[Event | None] = collections.deque()
        self._threads: list[_Thread] = []
        self._fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)  # one, where a pipe has two: few may be open
        self._closed = False

    def fileno(self) -> int:
        """Readable when `take` has something."""
        return self._fd

    def submit(self, work: Work) -> bool:
        """Have it done, soon. Its result, if any, comes out of `take`. Whether there was room for it."""
        if self._closed or self._waiting.qsize() >= MAX_WAITING:
            self.refused += 1
            return False
        self.submitted += 1
        self._waiting.put(work)
        if not self._threads:
            self._start_thread()
        return True

    def take(self) -> list[Event]:
        """The results that are there."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._fd)
        taken: list[Event] = []
        while self._done:
            self.ended += 1
            result = self._done.popleft()
            if result is not None:
                taken.append(result)
        return taken

    def idle(self) -> bool:
        """Whether all work is done and taken, but for what is stuck."""
        return self.submitted - self.ended <= sum(thread.abandoned for thread in self._threads)

    def hangs(self, now_ns: int, longest_ns: int) -> bool:
        """Whether one piece of work takes longer than that: what waits behind it may wait for long."""
        return any(0 < thread.busy_since_ns < now_ns - longest_ns for thread in self._threads)

    def check(self, now_ns: int) -> None:
        """Replace a thread whose work is overdue."""
        for thread in self._threads:
            since_ns = thread.busy_since_ns
            if since_ns and not thread.abandoned and now_ns - since_ns > self._deadline_ns:
                self.overdue += 1
                thread.abandoned = True
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        if all(thread.abandoned for thread in self._threads) and not self._waiting.empty():
            self._start_thread()

    def close(self, *, patience_s: float = 0.2) -> None:
        """Take nothing more, and wait a moment for what is being done."""
        self._closed = True
        for _ in self._threads:
            self._waiting.put(None)
        deadline = time.monotonic() + patience_s
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if not any(thread.is_alive() for thread in self._threads):
            os.close(self._fd)
        # Else it stays open: a late thread must not write into whatever got its number.

    def _start_thread(self) -> None:
        if len(self._threads) < MAX_THREADS:
            thread = _Thread(self._name, self._waiting, self._finished)
            try:
                thread.start()
            except RuntimeError:  # no more threads for this user: `check` tries again
                return
            self._threads.append(thread)

    def _finished(self, result: Event | None, *, failed: bool) -> None:
        self.failed += failed
        self._done.append(result)
        os.eventfd_write(self._fd, 1)


class _Thread(threading.Thread):
    """Takes work until it is told to stop or was given up."""

    def __init__(self, name: str, waiting: "queue.SimpleQueue[Work | None]", finished: "Callable[..., None]") -> None:
        super().__init__(name=name, daemon=True)
        self.busy_since_ns = 0
        self.abandoned = False
        self._waiting = waiting
        self._finished = finished

    def run(self) -> None:
        while not self.abandoned:
            work = self._waiting.get()
            if work is None:
                return
            self.busy_since_ns = time.monotonic_ns()
            result, failed = None, False
            try:
                result = work()
            except Exception:  # noqa: BLE001 - counted; the thread must live on
                failed = True
            self.busy_since_ns = 0
            self._finished(result, failed=failed)

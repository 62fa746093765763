# SPDX-License-Identifier: Apache-2.0
"""/dev/kmsg to events, live from the moment it is opened, in this machine's monotonic time.

Only records of facility 0 become events: user space can write any other, and writes what it likes.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import final

from tracer.events import HookStatus, LogEvent, LogGap
from tracer.logs.kernel.devkmsg import KmsgRecord, parse_kmsg
from tracer.logs.kernel.live import LiveRecords
from tracer.logs.kernel.shape import Stamp
from tracer.sources.logclock import LogClock

RECORD_BYTES = 16 * 1024
"""More than any record (CONSOLE_EXT_LOG_MAX is 8 KiB): in a smaller buffer the record would be lost."""

RECORDS_A_READ = 4096
"""A writer that never pauses must not keep the caller in `read`."""


@dataclass(frozen=True)
class KernelLogUnreadable:
    """Why there is no kernel log to read."""

    why: str

    def status(self, ts_ns: int) -> HookStatus:
        """As the event that says so."""
        return HookStatus(ts_ns=ts_ns, source="tracer", hook="kmsg", attached=False, why_not=self.why)


@final
class KernelLogSource:
    """The kernel log from now on. `foreign` and `unparsed` count what did not become an event."""

    def __init__(self, fd: int, log_clock: LogClock, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self.foreign = 0
        """Records that user space wrote, whatever they say."""
        self.unparsed = 0
        """Reads that were no record."""
        self.lost = 0
        """Records that were overwritten before they were read."""
        self._fd = fd
        self._log_clock = log_clock
        self._clock = clock
        self._next_seq: int | None = None
        self._reports = LiveRecords()

    @classmethod
    def open(
        cls,
        path: str = "/dev/kmsg",
        *,
        clock: Callable[[], int] = time.monotonic_ns,
        debugfs: str = "/sys/kernel/debug",
        monotonic_shift_ns: int = 0,
    ) -> "KernelLogSource | KernelLogUnreadable":
        """Start at the end of the log, or say why not."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            return KernelLogUnreadable(_why_not(error, path))
        try:
            os.lseek(fd, 0, os.SEEK_END)
            # Some container runtimes put /dev/null or an empty file in its place, and dmesg_restrict
            # strikes at the first read only: an empty log says EAGAIN, all else is not one.
            is_log = parse_kmsg(os.read(fd, RECORD_BYTES)) is not None
            os.lseek(fd, 0, os.SEEK_END)
        except (BlockingIOError, BrokenPipeError):
            is_log = True  # nothing new, or overrun between the two calls
        except OSError as error:
            os.close(fd)
            return KernelLogUnreadable(_why_not(error, path))
        if not is_log:
            os.close(fd)
            return KernelLogUnreadable(f"{path}: is no kernel log")
        return cls(fd, LogClock(debugfs, monotonic_shift_ns=monotonic_shift_ns), clock)

    def fileno(self) -> int:
        return self._fd

    @property
    def offset_ns(self) -> int | None:
        """CLOCK_MONOTONIC minus printk's clock, as far as known."""
        return self._log_clock.offset_ns

    def calibrate(self, mark_ts_ns: int, log_usec: int) -> bool:
        """Take a mark and its own "Killed process" record as one instant; whether that was believable."""
        return self._log_clock.pair(mark_ts_ns, log_usec)

    def status(self, ts_ns: int) -> HookStatus:
        """As the event that says that the kernel log is read."""
        return HookStatus(ts_ns=ts_ns, source="tracer", hook="kmsg", attached=True)

    def read(self) -> list[LogEvent]:
        """What has come since; empty when nothing has."""
        # All arrivals first: the last of a batch knows the distance of the clocks best, and serves them all.
        records = list(self._records())
        return [event for record, overrun in records for event in self._events(record, overrun)]

    def _records(self) -> Iterator[tuple[KmsgRecord, bool]]:
        """What can be read now; each with whether others were overwritten just before it."""
        fresh = overrun = False
        for _ in range(RECORDS_A_READ):
            try:
                raw = os.read(self._fd, RECORD_BYTES)
            except BlockingIOError:
                break
            except BrokenPipeError:  # overwritten; the next record's number says how many
                overrun = True
                continue
            except OSError:  # EINVAL: a record longer than any should be. It is passed over, and its number missing.
                self.unparsed += 1
                continue
            if not raw:
                break
            record = parse_kmsg(raw)
            if record is None:
                self.unparsed += 1
                continue
            if not fresh:
                self._log_clock.refresh()
                fresh = True
            self._log_clock.arrived(self._clock(), record.usec)
            yield record, overrun
            overrun = False

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> "KernelLogSource":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _events(self, record: KmsgRecord, overrun: bool) -> list[LogEvent]:
        events: list[LogEvent] = []
        ts_ns = self._log_clock.monotonic_ns(record.usec)
        gap = self._gap(record, overrun)
        if gap:
            self.lost += gap
            self._reports.lost()
            events.append(LogGap(ts_ns=ts_ns, source="kmsg", log_usec=record.usec, log_seq=record.seq, lost=gap))
        if record.facility != 0:
            self.foreign += 1
            return events
        stamp = Stamp(ts_ns, record.usec, record.seq, trusted=True, source="kmsg")
        return [*events, *self._reports.push(record.text, stamp)]

    def _gap(self, record: KmsgRecord, overrun: bool) -> int:
        """How many records are missing before this one; 1 when all that is known is that there are some."""
        expected, self._next_seq = self._next_seq, record.seq + 1
        if expected is None:
            return int(overrun)
        return max(0, record.seq - expected)


def _why_not(error: OSError, path: str) -> str:
    reason = error.strerror or str(error)
    hint = ""
    if isinstance(error, PermissionError):
        hint = "; needs CAP_SYSLOG"
        with contextlib.suppress(OSError), open("/proc/sys/kernel/dmesg_restrict", encoding="ascii") as file:
            hint = "; needs CAP_SYSLOG (kernel.dmesg_restrict is on)" if file.read().strip() == "1" else hint
    return f"{path}: {reason}{hint}"

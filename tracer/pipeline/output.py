# SPDX-License-Identifier: Apache-2.0
"""What the job writes, on its way: the lines that matter become events, and nothing else of it is kept here."""

import os
import selectors
import time
from collections.abc import Callable

from tracer.events import TrainingLine
from tracer.job.copier import RESIZED
from tracer.job.tee import Channel, Tee
from tracer.logs.training import Thinning, TrainingReader
from tracer.pipeline.journal import Journal
from tracer.pipeline.ports import Reader
from tracer.units import NS_PER_S, format_bytes

COST_SHARE = 20
"""Looking through what a job writes costs at most this part of a core, but for a burst; the rest goes by unseen."""
BURST_NS = 3 * NS_PER_S
"""Of CPU time."""
READS_AT_ONCE = 4
PATIENCE_NS = 2 * NS_PER_S
"""So long is waited, once the job has ended, for a copy that does not move: a terminal may be held (Ctrl-S)."""
WAIT_S = 0.05


class Output:
    """Reads what the copier has read."""

    def __init__(
        self,
        tee: Tee,
        journal: Journal,
        resized: Callable[[], object],
        *,
        told: Callable[[TrainingLine], object] = lambda _: None,
        heard: Callable[[TrainingLine], object] = lambda _: None,
    ) -> None:
        """What it reads it records.

        Args:
            tee: where to read.
            journal: where to.
            resized: called when the job's terminal has got another size: nobody else tells the job.
            told: called with each line that is recorded.
            heard: called with each line that was recognised, also with those that are not recorded.
        """
        self._told, self._heard = told, heard
        self._tee = tee
        self._journal = journal
        self._resized = resized
        self._readers = {channel: TrainingReader(channel.stream) for channel in tee.channels}
        self._thinning = Thinning()
        self._missing: dict[Channel, int] = {}
        self._log_error = 0
        self._refused = self._refused_error = self._unseen = 0
        self._credit_ns, self._earned_ns = BURST_NS, time.monotonic_ns()

    def readers(self) -> list[Reader]:
        """The descriptors to wait for."""
        return [("the job's output", one.fileno(), lambda one=one: self._read(one)) for one in self._tee.channels]  # type: ignore[misc]

    def settle(self) -> None:
        """The job has ended: wait until the last that it wrote has gone its way, so that a report stands behind it."""
        channels = self._tee.channels
        for channel in channels:
            channel.ask()
        with selectors.DefaultSelector() as selector:
            for channel in channels:
                selector.register(channel.fileno(), selectors.EVENT_READ)
            moved_ns = time.monotonic_ns()
            while not all(channel.dry or channel.ended for channel in channels):
                selector.select(WAIT_S)
                gone = self._tee.is_gone()
                came = sum(self._read(channel) for channel in channels)
                now_ns = time.monotonic_ns()
                moved_ns = now_ns if came else moved_ns
                if not came and (gone or now_ns - moved_ns >= PATIENCE_NS):
                    break

    def finish(self) -> None:
        """What is left, and what was not seen."""
        for reader in self._readers.values():
            self._record(reader.end())
        for line in self._thinning.rest():
            self._journal.append(line)
        note = self._journal.note
        if self._unseen:
            note(f"{format_bytes(self._unseen)} of the job's output came too fast to be looked through")
        if self._refused:
            why = os.strerror(self._refused_error)
            note(f"{self._refused} bytes of the job's output could not be written where they were to go: {why}")
        if self.log_trouble is not None:
            note(f"the log of the job's output is not whole: {self.log_trouble}")

    @property
    def log_trouble(self) -> str | None:
        """What the log misses, and why; `None`: nothing."""
        missing = max(self._missing.values(), default=0)
        if not missing:
            return None
        why = os.strerror(self._log_error) if self._log_error else "its file system did not answer in time"
        return f"{missing} bytes are missing ({why})"

    def _read(self, channel: Channel) -> int:
        count = 0
        reader = self._readers[channel]
        for read in channel.read(READS_AT_ONCE):
            count += 1
            self._missing[channel] = read.missing
            if read.missing and not read.refused:
                self._log_error = read.error or self._log_error
            if read.refused:
                self._refused += read.refused
                self._refused_error = read.error
            if read.unseen:
                self._unseen += read.unseen
                reader.gap()
            if read.what == RESIZED:
                self._resized()
            elif read.data and self._affordable():
                began_ns = time.thread_time_ns()
                self._record(reader.feed(read.data, read.at_ns))
                self._credit_ns -= time.thread_time_ns() - began_ns
            elif read.data:
                self._unseen += len(read.data)
                reader.gap()
        return count

    def _affordable(self) -> bool:
        now_ns = time.monotonic_ns()
        earned_ns = (now_ns - self._earned_ns) // COST_SHARE
        self._credit_ns, self._earned_ns = min(BURST_NS, self._credit_ns + earned_ns), now_ns
        return self._credit_ns > 0

    def _record(self, lines: list[TrainingLine]) -> None:
        for line in lines:
            self._heard(line)
        for line in self._thinning.take(lines):
            self._append(line)

    def _append(self, line: TrainingLine) -> None:
        self._journal.append(line)
        self._told(line)

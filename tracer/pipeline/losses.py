# SPDX-License-Identifier: Apache-2.0
"""The counters of what was lost on its way: recorded when one moves, and at the end."""

import time

import msgspec

from tracer.events import LogGap, Losses
from tracer.pipeline.journal import Journal
from tracer.pipeline.ports import Kernel


class LossCounters:
    """The kernel's side of them, and what we count ourselves."""

    def __init__(self, ring: Kernel | None, journal: Journal) -> None:
        self._ring = ring
        self._journal = journal
        self._log_gaps = self._failed_reads = 0
        self._before: Losses | None = None

    def missed(self, gap: LogGap) -> None:
        """Records of the kernel's log were overwritten."""
        self._log_gaps += gap.lost

    def failed_read(self) -> None:
        """What a failed read had taken from the ring buffer is gone: a loss like any other."""
        self._failed_reads += 1

    def record(self, *, always: bool) -> None:
        """Record them if one has moved, or `always`."""
        ring, now_ns = self._ring, time.monotonic_ns()
        losses: Losses | None = Losses(ts_ns=now_ns, source="tracer")
        if ring is not None:
            losses = self._journal.attempt("the loss counters", lambda: ring.losses(now_ns), otherwise=None)
        if losses is None:
            return  # unknown is not zero: without this record nothing is proved
        unknown = losses.unknown + self._failed_reads
        losses = msgspec.structs.replace(losses, log_gaps=self._log_gaps, unknown=unknown, seq=0)
        before = self._before
        same = before is not None and msgspec.structs.replace(losses, ts_ns=before.ts_ns) == before
        nothing_lost = before is None and not (losses.total or losses.log_gaps or losses.reclaim)
        if always or not (same or nothing_lost):
            self._before = losses
            self._journal.append(losses)

# SPDX-License-Identifier: Apache-2.0
"""When NVML is asked, and what of its answers is recorded. Nothing here waits for one."""

import sys
from collections import deque
from collections.abc import Sequence

from tracer.events import GpuSample, GpuStatus, ProcessExited
from tracer.pipeline.journal import Journal
from tracer.pipeline.ports import Reader, Sources
from tracer.sources.gpu import Answer
from tracer.units import NS_PER_MS, NS_PER_S

SAMPLE_NS = NS_PER_S
DENSE_NS = 250 * NS_PER_MS
STAY_DENSE_NS = 2 * NS_PER_S
NEAR_FULL = 0.9
"""Of a device. Caching allocators stay there for hours, so this alone does not ask for more than four a second."""
COST_SHARE = 50
"""An answer that took T is followed by a pause of at least 50 T: while NVML asks the driver, calls of the job may wait
for the same locks."""
LONGEST_PAUSE_NS = 60 * NS_PER_S
RETRY_NS = 60 * NS_PER_S
"""NVML could not be asked: the driver may come back."""
FAILURE_GAP_NS = 50 * NS_PER_MS
"""Allocations may fail in storms, and a retry tells no more than the first one."""
MAX_PIDS = 400
"""So many fit into one request that is written whole or not at all (PIPE_BUF)."""
WHAT = "asking NVML"
NEVER_NS = sys.maxsize


class GpuWatch:
    """Asks for samples in time, and records what changed."""

    def __init__(self, sources: Sources, journal: Journal) -> None:
        self._source = sources.gpu
        self._why_none = sources.no_gpu
        self._journal = journal
        self._available: bool | None = None
        self._next_ns = 0
        self._asked_ns = 0
        self._pause_ns = 0
        self._dense_until_ns = 0
        self._again = False
        self._exited: deque[int] = deque(maxlen=MAX_PIDS)

    def arm(self, now_ns: int) -> None:
        """Say why nobody is asked, where that is so."""
        if self._why_none is not None:
            self._journal.append(self._why_none.status(now_ns))

    def readers(self) -> list[Reader]:
        """The descriptor on which answers come."""
        return [] if self._source is None else [(WHAT, self._source.fileno(), self.read)]

    def due_ns(self) -> int:
        """When `tick` is to be called next; an answer that is owed has its descriptor."""
        source = self._source
        return NEVER_NS if source is None or source.ended or source.busy or self._given_up() else self._next_ns

    def tick(self, now_ns: int) -> None:
        """Ask, if it is time."""
        source = self._source
        if source is None or source.ended or self._given_up():
            return
        late = source.late(now_ns)
        if late is not None:
            self._record(late)
        elif not source.busy and now_ns >= self._next_ns:
            self._ask(now_ns)

    def at_failure(self, now_ns: int) -> None:
        """An allocation failed, or a process was chosen by the OOM killer: what is used right now is worth most."""
        source = self._source
        if source is None:
            return
        self._dense_until_ns = now_ns + STAY_DENSE_NS
        if source.busy:
            self._again = True  # what is on its way may have been read before
        else:
            self._next_ns = min(self._next_ns, self._asked_ns + max(FAILURE_GAP_NS, self._pause_ns // 5))
            self.tick(now_ns)

    def at_exit(self, exited: ProcessExited) -> None:
        """A process ended: the driver's accounting may know what it used."""
        if exited.in_tree and self._source is not None:
            self._exited.append(exited.tgid)

    def read(self) -> int:
        """Record what was answered; how many answers there were."""
        source = self._source
        if source is None or self._given_up():
            return 0
        none: Sequence[Answer] = ()
        answers = self._journal.attempt(WHAT, source.read, otherwise=none)
        for answer in answers:
            if answer.status is not None:
                self._record(answer.status)
            for sample in answer.samples:
                self._journal.append_changed(("gpu", sample.uuid), sample)
            for peak in answer.peaks:
                self._journal.append(peak)
            if answer.took_ns:
                self._plan(answer.samples, answer.took_ns)
        if answers and self._again:
            self._again, self._next_ns = False, self._asked_ns + max(FAILURE_GAP_NS, self._pause_ns // 5)
        return len(answers)

    def hurry(self) -> None:
        """The job has ended: ask for the last time."""
        source = self._source
        if source is None or source.overdue or self._given_up():
            return
        if self._available is not False:  # not known yet: a short job shall have its sample too
            source.sample()
            if self._exited:
                source.peaks(self._exited)

    def idle(self) -> bool:
        """Whether nothing is worth waiting for."""
        source = self._source
        return source is None or not source.busy or source.overdue or self._given_up()

    def answers(self) -> bool:
        """Whether what it was asked is worth a longer wait: it has answered before."""
        return bool(self._available) and not self.idle()

    def finish(self, now_ns: int) -> None:
        """Say it where no answer ever came."""
        if self._source is not None and self._available is None:
            self._record(GpuStatus(ts_ns=now_ns, source="nvml", available=False, why_not="NVML had not answered yet"))

    def _ask(self, now_ns: int) -> None:
        assert self._source is not None
        self._asked_ns, self._next_ns = now_ns, now_ns + SAMPLE_NS
        self._source.sample()

    def _plan(self, samples: tuple[GpuSample, ...], took_ns: int) -> None:
        if any(map(near_full, samples)):
            self._dense_until_ns = max(self._dense_until_ns, self._asked_ns + STAY_DENSE_NS)
        dense = self._asked_ns < self._dense_until_ns
        self._pause_ns = min(COST_SHARE * took_ns, LONGEST_PAUSE_NS)
        period_ns = RETRY_NS if not self._available else DENSE_NS if dense else SAMPLE_NS
        self._next_ns = self._asked_ns + max(period_ns, self._pause_ns)

    def _record(self, status: GpuStatus) -> None:
        # One that never came up is asked again, rarely; the first answer has no samples yet.
        if self._journal.append_changed(("gpu",), status) and not status.available:
            self._next_ns = status.ts_ns + RETRY_NS
        self._available = status.available

    def _given_up(self) -> bool:
        return self._journal.gave_up(WHAT)


def near_full(sample: GpuSample) -> bool:
    """Whether little of the device is left."""
    used, total = sample.used_bytes, sample.total_bytes
    return used is not None and bool(total) and used + (sample.reserved_bytes or 0) >= NEAR_FULL * (total or 0)

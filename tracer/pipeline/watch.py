# SPDX-License-Identifier: Apache-2.0
"""The events of a run on their way from the sources into the recording, and what each of them sets off."""

import os
import time
from collections.abc import Callable, Sequence

from tracer.events import (
    Armed,
    CallWhy,
    CudaCall,
    CudaTotals,
    Disarmed,
    Event,
    HookStatus,
    LogGap,
    LoggedKill,
    OomGlimpse,
    OomMark,
    ProcessExeced,
    ProcessExited,
    ProcessForked,
    ProcessId,
    ProcessSeen,
    SignalSent,
    TrainingLine,
    process_id,
)
from tracer.pipeline.clocks import clock_now, cost_now
from tracer.pipeline.cuda import CudaWatch
from tracer.pipeline.foreign import ForeignSignals, is_foreign
from tracer.pipeline.gpu import GpuWatch
from tracer.pipeline.helper import Helper
from tracer.pipeline.inspection import Inspection
from tracer.pipeline.journal import Journal
from tracer.pipeline.losses import LossCounters
from tracer.pipeline.members import Members
from tracer.pipeline.ports import Reader, Sources
from tracer.pipeline.sampler import Sampler
from tracer.units import NS_PER_MS, NS_PER_S

MAX_READS = 256
CLOCK_NS = 10 * NS_PER_S
PENDING_NS = 20 * NS_PER_MS
REFUSED = frozenset({"host_alloc", "shm", "worker_raised"})
"""Lines (`TrainingLine.about`) that a process writes which was refused memory."""


class Watch:
    """Reads all sources without ever blocking or raising."""

    def __init__(self, sources: Sources, journal: Journal, inspector: Helper) -> None:
        self.members = Members()
        self.sampler = Sampler(sources, journal, self.members)
        self.gpu = GpuWatch(sources, journal)
        self.inspection = Inspection(sources.processes, journal, inspector, self.members)
        self.cuda = CudaWatch(sources, journal, inspector, self.members)
        self.inspection.cuda = self.cuda
        self.sampler.sampled = self.cuda.sampled
        self.sampler.shared = self.inspection.shm.used
        self.own_tgid = os.getpid()
        """What the kernel calls us."""
        self.more_readers: list[Reader] = []
        """Beside those of the sources."""
        self.withholds: Callable[[Event], bool] = is_foreign
        """Asked before anything is recorded: whether the event is left out. Whoever looks for processes while all
        are followed has itself asked instead, and may give an event back later."""
        self._sources = sources
        self._ring = sources.kernel or sources.glimpses
        self._journal = journal
        self._losses = LossCounters(self._ring, journal)
        self._foreign = ForeignSignals()
        self._marks: dict[int, int] = {}
        self._kills: dict[int, int] = {}
        self._marked: set[ProcessId] = set()
        self._next_clock_ns = 0

    def arm(self) -> None:
        """Say what watches, and that it does from now on."""
        kernel, log = self._sources.kernel, self._sources.log
        now_ns = time.monotonic_ns()
        if kernel is None:
            self._hook("bpf", attached=False, why_not=self._sources.why_no_kernel)
        for hook in self._ring.hooks if self._ring is not None else ():
            self._hook(hook.name, attached=hook.attached, why_not=hook.why_not)
        if self._sources.why_no_symbols is not None:
            self._hook("kallsyms", attached=False, why_not=self._sources.why_no_symbols)
        self._hook("kmsg", attached=log is not None, why_not=self._sources.why_no_log)
        if kernel is not None:
            took_ns, transport = kernel.start_to_armed_ns, kernel.transport
            self._journal.append(Armed(ts_ns=now_ns, source="tracer", start_to_armed_ns=took_ns, transport=transport))
        if self._sources.nodes is not None:
            self._journal.append(self._sources.nodes)
        self.gpu.arm(now_ns)
        self._journal.attempt("probing libcuda", self.cuda.begin, otherwise=None)

    def disarm(self) -> None:
        """Say that all was read until now."""
        if self._sources.kernel is not None and not self._journal.gave_up("the ring buffer"):
            self._journal.append(Disarmed(ts_ns=time.monotonic_ns(), source="tracer"))

    def readers(self) -> list[Reader]:
        """The descriptors to wait for."""
        ring, log = self._ring, self._sources.log
        readers: list[Reader] = [("the helper thread", self.inspection.fileno(), self.inspection.read)]
        readers.append(("the probing thread", self.cuda.fileno(), self.cuda.read))
        if ring is not None:
            readers.append(("the ring buffer", ring.fileno(), self._read_kernel))
        if log is not None:
            readers.append(("the kernel log", log.fileno(), self._read_log))
        return [*readers, *self.gpu.readers(), *self.more_readers]

    def read_all(self) -> int:
        """Read what is there, whether or not it was announced; how many events came."""
        return sum(read() for _, _, read in self.readers())

    def take(self, event: Event) -> None:
        """Record an event and do what it asks for."""
        if self.withholds(event) or self._foreign.is_too_many(event, self.own_tgid):
            return
        self._journal.append(event)
        self.inspection.at(event, self.members.apply(event), self.own_tgid)
        if isinstance(event, ProcessExited):
            self._journal.forget(process_id(event.tgid, event.start_ns))
            self._marked.discard(process_id(event.tgid, event.start_ns))
            self.gpu.at_exit(event)
            self.cuda.forget(process_id(event.tgid, event.start_ns))
        elif isinstance(event, CudaCall):
            if event.why == CallWhy.FAILED:
                self.gpu.at_failure(time.monotonic_ns())
        elif isinstance(event, ProcessExeced):
            self.cuda.forget(process_id(event.tgid, event.start_ns))
        elif isinstance(event, CudaTotals):
            self.cuda.totalled(event)
        elif isinstance(event, LogGap):
            self._losses.missed(event)
        elif isinstance(event, OomMark | LoggedKill):
            self._calibrate(event)

    def told(self, line: TrainingLine) -> None:
        """The job wrote that memory was refused: who reached which limit can be seen now, and soon not any more."""
        if line.about in REFUSED:
            now_ns = time.monotonic_ns()
            self.sampler.at_mark(now_ns, ours=True)
            self.inspection.look_again(now_ns)

    def due_ns(self) -> int:
        """When `tick` is to be called next."""
        due_ns = min(self.sampler.due_ns(), self._next_clock_ns, self.gpu.due_ns())
        look_ns = self.inspection.due_ns()
        due_ns = due_ns if look_ns is None else min(due_ns, look_ns)
        return min(due_ns, time.monotonic_ns() + PENDING_NS) if self.pending() else due_ns

    def pending(self) -> bool:
        """Whether more will come that no descriptor announces: stacks that are being symbolised."""
        ring = self._ring
        return ring is not None and not self._journal.gave_up("the ring buffer") and ring.pending

    def naming(self) -> bool:
        """Whether stacks of marks are still to get their names."""
        ring = self._ring
        return ring is not None and not self._journal.gave_up("the ring buffer") and ring.naming

    def dying(self) -> bool:
        """Whether one of the job was chosen by the OOM killer, and how it ended is still to be told."""
        return any(marked in self.members for marked in self._marked)

    def tick(self, now_ns: int) -> None:
        """Do what the time asks for."""
        if self.pending():
            self._read_kernel()
        self.inspection.tick(now_ns)
        self.gpu.tick(now_ns)
        if now_ns >= self.sampler.due_ns():
            self.inspection.look(*self.sampler.tick(now_ns))
            self.inspection.check(now_ns)
            self.cuda.tick(now_ns)
            self._losses.record(always=False)
        if now_ns >= self._next_clock_ns:
            self._next_clock_ns = now_ns + CLOCK_NS
            self._record_clock()

    def join(self, seen: ProcessSeen) -> None:
        """A process that ran already is one of the job's, and looked like this at first sight.

        A closer look comes at the next tick: whoever still searches must not be held up.
        """
        self._journal.append(seen)
        self.inspection.found(self.members.add(seen.tgid, seen.start_ns))

    def read_kernel(self) -> None:
        """Read the ring buffer until it is empty, or long enough."""
        for _ in range(MAX_READS):
            if not self._read_kernel():
                return

    def look_last(self) -> None:
        """The last samples."""
        self.sampler.finish(time.monotonic_ns())
        self.cuda.tick(time.monotonic_ns(), last=True)
        # Others are killed whenever they are: what the counts have in them by now is to be recorded as well.
        self._read_kernel()

    def finish(self) -> None:
        """What was lost and spent."""
        self._losses.record(always=True)
        if self.naming():
            self._journal.note("kernel stacks of the last OOM kills did not get their names in time")
        if self._foreign.left_out:
            self._journal.note(f"{self._foreign.left_out} signals between processes outside the job were not recorded")
        self._record_clock()
        self.gpu.finish(time.monotonic_ns())
        self.inspection.finish()

    def _read_kernel(self) -> int:
        ring = self._ring
        if ring is None or self._journal.gave_up("the ring buffer"):
            return 0
        events: Sequence[Event] | None = self._journal.attempt("the ring buffer", ring.read, otherwise=None)
        if events is None:
            self._losses.failed_read()
        return self._take_all(events or ())

    def _read_log(self) -> int:
        log = self._sources.log
        if log is None or self._journal.gave_up("the kernel log"):
            return 0
        none: Sequence[Event] = ()
        return self._take_all(self._journal.attempt("the kernel log", log.read, otherwise=none))

    def _take_all(self, events: Sequence[Event]) -> int:
        marks = {process_id(event.tgid, event.start_ns) for event in events if isinstance(event, OomMark)}
        self._marked |= marks
        # Victims may begin and end in this very batch, and are members only in between.
        ours = any(mark in self.members for mark in marks)
        for event in events:
            self.take(event)
            ours = ours or (isinstance(event, ProcessForked) and process_id(event.tgid, event.start_ns) in marks)
        if marks:
            self._journal.secure()
            self.gpu.at_failure(time.monotonic_ns())
            self.sampler.at_mark(time.monotonic_ns(), ours=ours)
        elif any(_is_evidence(event) for event in events):
            self._journal.flush()
        if self._sources.kernel is None and any(isinstance(event, LoggedKill | OomGlimpse) for event in events):
            self.sampler.at_mark(time.monotonic_ns(), ours=True)  # a victim is there to be seen for moments only
        return len(events)

    def _calibrate(self, event: OomMark | LoggedKill) -> None:
        # The kernel prints its line within microseconds of the mark: one instant, seen by both clocks.
        log = self._sources.log
        if isinstance(event, OomMark):
            pid = event.tid
            self._marks[pid] = event.ts_ns
        else:
            pid = event.pid
            if event.log_usec is not None:
                self._kills.setdefault(pid, event.log_usec)
        if log is not None and pid in self._marks and pid in self._kills:
            log.calibrate(self._marks.pop(pid), self._kills.pop(pid))

    def _record_clock(self) -> None:
        self._journal.append(clock_now())
        self._journal.append(cost_now(longest_scan_ns=self.sampler.longest_scan_ns, scans=self.sampler.scans))

    def _hook(self, name: str, *, attached: bool, why_not: str | None) -> None:
        status = HookStatus(
            ts_ns=time.monotonic_ns(),
            source="tracer",
            hook=name,
            attached=attached,
            why_not=None if attached else why_not,
        )
        self._journal.append(status)


def _is_evidence(event: Event) -> bool:
    """What a proof may rest on goes to the file at once."""
    if isinstance(event, ProcessExited):
        return bool(event.status or event.oom_marked)
    return isinstance(event, SignalSent) and bool(event.in_tree)

# SPDX-License-Identifier: Apache-2.0
"""The events of a run on their way from the sources into the recording, and what each of them sets off."""

import os
import time
from collections.abc import Callable, Sequence

import msgspec

from tracer.events import (
    Armed,
    Disarmed,
    Event,
    HookStatus,
    LogGap,
    LoggedKill,
    Losses,
    OomGlimpse,
    OomMark,
    ProcessExited,
    ProcessForked,
    ProcessId,
    ProcessLooked,
    ProcessOrphaned,
    ProcessSeen,
    SenderSeen,
    SignalInfo,
    SignalSent,
    TmpfsSample,
    TrainingLine,
    process_id,
)
from tracer.pipeline.clocks import clock_now, cost_now
from tracer.pipeline.error_files import ErrorFiles
from tracer.pipeline.helper import Helper
from tracer.pipeline.journal import Journal
from tracer.pipeline.looks import Looks
from tracer.pipeline.members import Member, Members
from tracer.pipeline.ports import Sources
from tracer.pipeline.sampler import Sampler
from tracer.pipeline.senders import Senders
from tracer.units import NS_PER_MS, NS_PER_S

MAX_FOREIGN_SIGNALS = 100
"""Recorded in one second."""
MAX_READS = 256
CLOCK_NS = 10 * NS_PER_S
SIGBUS, BUS_ADRERR = 7, 2
"""include/uapi/asm-generic/siginfo.h"""
PENDING_NS = 20 * NS_PER_MS
LOOK_AFTER_FORK_NS = 100 * NS_PER_MS
"""Until then a forked process is the image of its parent: most begin another program or are gone by
then, and a worker has given itself its name. One that begins a program is looked at once it has."""

Reader = tuple[str, int, Callable[[], int]]
"""What it is, its descriptor, and what to call when that is readable: returns how many events came."""


class Watch:
    """Reads all sources without ever blocking or raising."""

    def __init__(self, sources: Sources, journal: Journal, inspector: Helper) -> None:
        self.members = Members()
        self.sampler = Sampler(sources, journal, self.members)
        self._sources = sources
        self._ring = sources.kernel or sources.glimpses
        self._journal = journal
        self._inspector = inspector
        self._senders = Senders(sources.processes, inspector, self.members)
        self._log_gaps = 0
        self.own_tgid = os.getpid()
        """What the kernel calls us."""
        self._noise_second = self._noise = self._unrecorded = 0
        self._failed_reads = 0
        self._marks: dict[int, int] = {}
        self._kills: dict[int, int] = {}
        self._losses_before: Losses | None = None
        self._next_clock_ns = 0
        self._looks = Looks()
        self.more_readers: list[Reader] = []
        """Beside those of the sources."""
        self.error_files: ErrorFiles | None = None
        """What ranks leave behind; `None`: nobody's rights to read it with."""
        self._to_look_at: dict[ProcessId, tuple[int, Member]] = {}
        self.withholds: Callable[[Event], bool] = is_foreign
        """Asked before anything is recorded: whether the event is left out. Whoever looks for processes while all
        are followed has itself asked instead, and may give an event back later."""

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

    def disarm(self) -> None:
        """Say that all was read until now."""
        if self._sources.kernel is not None and not self._journal.gave_up("the ring buffer"):
            self._journal.append(Disarmed(ts_ns=time.monotonic_ns(), source="tracer"))

    def readers(self) -> list[Reader]:
        """The descriptors to wait for."""
        ring, log = self._ring, self._sources.log
        readers: list[Reader] = [("the helper thread", self._inspector.fileno(), self._read_inspected)]
        if ring is not None:
            readers.append(("the ring buffer", ring.fileno(), self._read_kernel))
        if log is not None:
            readers.append(("the kernel log", log.fileno(), self._read_log))
        return [*readers, *self.more_readers]

    def read_all(self) -> int:
        """Read what is there, whether or not it was announced; how many events came."""
        return sum(read() for _, _, read in self.readers())

    def take(self, event: Event) -> None:
        """Record an event and do what it asks for."""
        if self.withholds(event) or self._is_noise(event):
            return
        self._journal.append(event)
        member = self.members.apply(event)
        if member is not None:
            self._inspect(member, after_ns=_look_after_ns(event))
        if isinstance(event, ProcessForked):
            self._looks.forked(process_id(event.parent_tgid, event.parent_start_ns), time.monotonic_ns())
        elif isinstance(event, ProcessExited):
            self._to_look_at.pop(process_id(event.tgid, event.start_ns), None)
            self._looks.forget(process_id(event.tgid, event.start_ns))
            self._journal.forget(process_id(event.tgid, event.start_ns))
            if self.error_files is not None:
                self.error_files.ended(event)
        elif isinstance(event, LogGap):
            self._log_gaps += event.lost
        elif isinstance(event, OomMark | LoggedKill):
            self._calibrate(event)
        elif isinstance(event, SignalSent):
            self._senders.at(event, self.own_tgid)
            self._look_at_tmpfs(event)

    def _is_noise(self, event: Event) -> bool:
        """Whether it is one more of too many signals between processes that are none of the job's.

        Anyone may send himself thousands a second. The kernel's own SIGKILLs and what is sent to the tracer
        are told always: a verdict may rest on them.
        """
        if not isinstance(event, SignalSent) or event.in_tree or event.tgid == self.own_tgid:
            return False
        if event.info in {SignalInfo.PRIV, SignalInfo.FORCED}:
            return False
        second = event.ts_ns // NS_PER_S
        if second != self._noise_second:
            self._noise_second, self._noise = second, 0
        self._noise += 1
        self._unrecorded += self._noise > MAX_FOREIGN_SIGNALS
        return self._noise > MAX_FOREIGN_SIGNALS

    def due_ns(self) -> int:
        """When `tick` is to be called next."""
        due_ns = min(self.sampler.due_ns(), self._next_clock_ns)
        if self._to_look_at:  # in the order in which they are due
            due_ns = min(due_ns, next(iter(self._to_look_at.values()))[0])
        closer_ns = self._looks.due_ns()
        due_ns = due_ns if closer_ns is None else min(due_ns, closer_ns)
        return min(due_ns, time.monotonic_ns() + PENDING_NS) if self.pending() else due_ns

    def pending(self) -> bool:
        """Whether more will come that no descriptor announces: stacks that are being symbolised."""
        ring = self._ring
        return ring is not None and not self._journal.gave_up("the ring buffer") and ring.pending

    def naming(self) -> bool:
        """Whether stacks of marks are still to get their names."""
        ring = self._ring
        return ring is not None and not self._journal.gave_up("the ring buffer") and ring.naming

    def tick(self, now_ns: int) -> None:
        """Do what the time asks for."""
        if self.pending():
            self._read_kernel()
        self._look_at_the_forked(now_ns)
        for member in self._looks.due(now_ns):
            self._look_closer(member)
        if now_ns >= self.sampler.due_ns():
            for member in self.sampler.tick(now_ns):
                self._inspect(member)
            self._inspector.check(now_ns)
            self._record_losses(always=False)
        if now_ns >= self._next_clock_ns:
            self._next_clock_ns = now_ns + CLOCK_NS
            self._record_clock()

    def join(self, seen: ProcessSeen) -> None:
        """A process that ran already is one of the job's, and looked like this at first sight.

        A closer look comes at the next tick: whoever still searches must not be held up.
        """
        self._journal.append(seen)
        member = self.members.add(seen.tgid, seen.start_ns)
        if member is not None:
            self._inspect(member, after_ns=1)

    def read_kernel(self) -> None:
        """Read the ring buffer until it is empty, or long enough."""
        for _ in range(MAX_READS):
            if not self._read_kernel():
                return

    def hurry(self) -> None:
        """The end is near: look now at what was to be looked at soon."""
        self._look_at_the_forked(time.monotonic_ns() + LOOK_AFTER_FORK_NS)
        if self.error_files is not None:
            self.error_files.hurry()

    def look_last(self) -> None:
        """The last samples."""
        self.sampler.finish(time.monotonic_ns())
        # Others are killed whenever they are: what the counts have in them by now is to be recorded as well.
        self._read_kernel()

    def finish(self) -> None:
        """What was lost and spent."""
        self._record_losses(always=True)
        if self.naming():
            self._journal.note("kernel stacks of the last OOM kills did not get their names in time")
        if self._unrecorded:
            self._journal.note(f"{self._unrecorded} signals between processes outside the job were not recorded")
        self._record_clock()
        if self._inspector.overdue:
            self._journal.note(f"{self._inspector.overdue} look(s) at a process took too long and were given up")
        if self._inspector.refused:
            self._journal.note(f"{self._inspector.refused} process(es) came too fast to be looked at")

    def _read_kernel(self) -> int:
        ring = self._ring
        if ring is None or self._journal.gave_up("the ring buffer"):
            return 0
        events: Sequence[Event] | None = self._journal.attempt("the ring buffer", ring.read, otherwise=None)
        if events is None:
            # What a failed read had taken from the ring buffer is gone: a loss like any other.
            self._failed_reads += 1
        return self._take_all(events or ())

    def _read_log(self) -> int:
        log = self._sources.log
        if log is None or self._journal.gave_up("the kernel log"):
            return 0
        none: Sequence[Event] = ()
        return self._take_all(self._journal.attempt("the kernel log", log.read, otherwise=none))

    def _take_all(self, events: Sequence[Event]) -> int:
        marks = {process_id(event.tgid, event.start_ns) for event in events if isinstance(event, OomMark)}
        # Victims may begin and end in this very batch, and are members only in between.
        ours = any(mark in self.members for mark in marks)
        for event in events:
            self.take(event)
            ours = ours or (isinstance(event, ProcessForked) and process_id(event.tgid, event.start_ns) in marks)
        if marks:
            self._journal.secure()
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

    def _read_inspected(self) -> int:
        results = self._inspector.take()
        for event in results:
            files = self.error_files
            new = not isinstance(event, TrainingLine) or files is None or files.take(event)
            if isinstance(event, SenderSeen | TmpfsSample | TrainingLine) and new:
                self._journal.append(event)
            if not isinstance(event, ProcessSeen | ProcessLooked):
                continue
            if files is not None and isinstance(event, ProcessSeen):
                files.seen(event)
            identity = process_id(event.tgid, event.start_ns)
            if identity in self.members:
                kind = "seen" if isinstance(event, ProcessSeen) else "looked"
                self._journal.append_changed((kind, *identity), event)
            else:  # it has ended meanwhile: what it was is known now or never
                self._journal.append(event)
        return len(results)

    def _inspect(self, member: Member, *, after_ns: int = 0) -> None:
        if after_ns:
            self._to_look_at[member.id] = (time.monotonic_ns() + after_ns, member)
            return
        self._to_look_at.pop(member.id, None)
        self._looks.begin(member, time.monotonic_ns())
        self._submit(member, self._sources.processes.seen)

    def _look_closer(self, member: Member) -> None:
        if member.id in self.members:
            self._submit(member, self._sources.processes.looked)
        else:
            self._looks.forget(member.id)

    def _submit(self, member: Member, ask: Callable[[int], ProcessSeen | ProcessLooked | None]) -> None:
        tgid, wanted = member.tgid, member.id

        def look() -> Event | None:
            found = ask(tgid)
            # The pid may be someone else's by now.
            return found if found is not None and process_id(found.tgid, found.start_ns) == wanted else None

        self._inspector.submit(look)

    def _look_at_tmpfs(self, signal: SignalSent) -> None:
        """A mapping had no page to give: whether that was a full tmpfs can be seen now, and soon not any more."""
        if signal.signal != SIGBUS or signal.code != BUS_ADRERR or not signal.in_tree:
            return
        processes, tgid, parent = self._sources.processes, signal.tgid, signal.sender_parent_tgid
        self._inspector.submit(lambda: processes.tmpfs(tgid, tgid) or processes.tmpfs(parent, tgid))

    def _look_at_the_forked(self, now_ns: int) -> None:
        while self._to_look_at:
            due_ns, member = next(iter(self._to_look_at.values()))
            if due_ns > now_ns:
                return
            self._inspect(member)

    def _record_losses(self, *, always: bool) -> None:
        ring, now_ns = self._ring, time.monotonic_ns()
        losses: Losses | None = Losses(ts_ns=now_ns, source="tracer")
        if ring is not None:
            losses = self._journal.attempt("the loss counters", lambda: ring.losses(now_ns), otherwise=None)
        if losses is None:
            return  # unknown is not zero: without this record nothing is proved
        unknown = losses.unknown + self._failed_reads
        losses = msgspec.structs.replace(losses, log_gaps=self._log_gaps, unknown=unknown, seq=0)
        same = (
            self._losses_before is not None
            and msgspec.structs.replace(losses, ts_ns=self._losses_before.ts_ns) == self._losses_before
        )
        nothing_lost = self._losses_before is None and not (losses.total or losses.log_gaps or losses.reclaim)
        if always or not (same or nothing_lost):
            self._losses_before = losses
            self._journal.append(losses)

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


def is_foreign(event: Event) -> bool:
    """Whether it is of a process outside of the job, and sent only because all processes are followed for a while."""
    if isinstance(event, ProcessExited):
        return not event.in_tree and not event.oom_marked
    return isinstance(event, ProcessOrphaned) or (isinstance(event, ProcessForked) and not event.in_tree)


def _look_after_ns(event: Event) -> int:
    return LOOK_AFTER_FORK_NS if isinstance(event, ProcessForked) else int(isinstance(event, ProcessOrphaned))


def _is_evidence(event: Event) -> bool:
    """What a proof may rest on goes to the file at once."""
    if isinstance(event, ProcessExited):
        return bool(event.status or event.oom_marked)
    return isinstance(event, SignalSent) and bool(event.in_tree)

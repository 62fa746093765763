# SPDX-License-Identifier: Apache-2.0
"""Who of the job is looked at, and when: at its fork, its exec, some moments after; and what came of it.

Every look is made in the helper thread, since /proc may block.
"""

import time
from collections.abc import Callable

import msgspec

from tracer.events import (
    CodeLooked,
    Event,
    JobStarted,
    ProcessExited,
    ProcessForked,
    ProcessId,
    ProcessLooked,
    ProcessOrphaned,
    ProcessSeen,
    SenderSeen,
    ShmFilesSample,
    SignalSent,
    TmpfsSample,
    TrainingLine,
    process_id,
)
from tracer.events.signals import BUS_ADRERR, SIGBUS
from tracer.pipeline.cuda import CudaWatch
from tracer.pipeline.error_files import ErrorFiles
from tracer.pipeline.helper import Helper
from tracer.pipeline.journal import Journal
from tracer.pipeline.looks import Looks
from tracer.pipeline.members import Member, Members
from tracer.pipeline.ports import Processes
from tracer.pipeline.senders import Senders
from tracer.pipeline.shm import ShmWatch
from tracer.units import NS_PER_MS, NS_PER_S

LOOK_AFTER_FORK_NS = 100 * NS_PER_MS
"""Until then a forked process is the image of its parent: most begin another program or are gone by
then, and a worker has given itself its name. One that begins a program is looked at once it has."""

MOST_AGAIN = 256


class Inspection:
    """Asks the helper thread, and records what it found."""

    def __init__(self, processes: Processes, journal: Journal, helper: Helper, members: Members) -> None:
        self.error_files: ErrorFiles | None = None
        """What ranks leave behind; `None`: nobody's rights to read it with."""
        self.cuda: CudaWatch | None = None
        """Who is told what code a process has mapped."""
        self._processes = processes
        self._journal = journal
        self._helper = helper
        self._members = members
        self.shm = ShmWatch(processes, helper, members)
        self._senders = Senders(processes, helper, members)
        self._looks = Looks()
        self._found: dict[ProcessId, Member] = {}
        """Who is to be looked at for the first time at the next tick."""
        self._again_ns = -NS_PER_S
        self._first: dict[ProcessId, tuple[int, Member]] = {}
        """Who is some time after its fork, unless a program begins before: when, and at whom; in order of that time."""
        self._unseen: set[ProcessId] = set()
        """Whose first look is being made, or waits for its turn. The helper thread takes them out."""

    def fileno(self) -> int:
        """Readable when `read` has something."""
        return self._helper.fileno()

    def read(self) -> int:
        """Record what was found by now; how much that is."""
        results = self._helper.take()
        for event in results:
            self._record(event)
        return len(results)

    def at(self, event: Event, member: Member | None, own_tgid: int) -> None:
        """An event was recorded: have looked at what it is worth a look at.

        Args:
            member: who of the job has begun, or begun another program, with it.
            own_tgid: the tracer's, as the kernel calls it.
        """
        if isinstance(event, ProcessOrphaned):
            self.found(member)
        elif member is not None:
            held = isinstance(event, JobStarted) and not event.attached
            if not isinstance(event, ProcessForked):
                self.look(member, held=held)
            if isinstance(event, ProcessForked) or held:
                self._first[member.id] = (time.monotonic_ns() + LOOK_AFTER_FORK_NS, member)
        if isinstance(event, ProcessForked):
            self._looks.forked(process_id(event.parent_tgid, event.parent_start_ns), time.monotonic_ns())
        elif isinstance(event, ProcessExited):
            self._found.pop(process_id(event.tgid, event.start_ns), None)
            self._first.pop(process_id(event.tgid, event.start_ns), None)
            self._looks.forget(process_id(event.tgid, event.start_ns))
            if self.error_files is not None:
                self.error_files.ended(event)
        elif isinstance(event, SignalSent):
            self._senders.at(event, own_tgid)
            self._look_at_tmpfs(event)

    def found(self, member: Member | None) -> None:
        """One that ran already came to light: it is looked at at the next tick, whoever searches is not held up."""
        if member is not None:
            self._found[member.id] = member

    def look(self, *members: Member, held: bool = False) -> None:
        """Have some looked at for the first time, or as another program: now.

        Args:
            held: they are still the image of ours, whose command line is not theirs.
        """
        for member in members:
            self._found.pop(member.id, None)
            self._first.pop(member.id, None)
            self._looks.begin(member, time.monotonic_ns())
            self._see(member, held=held)
        for member in members:  # what is mapped takes longer to read, and is there to be read again
            if self.cuda is not None:
                self.cuda.look(member)

    def unseen(self) -> frozenset[ProcessId]:
        """Whose first look has not come to an end."""
        return frozenset(self._unseen).union(self._found)

    def look_again(self, now_ns: int) -> None:
        """Look at all now, at most once a second: something may have to do with what they set up for themselves."""
        if now_ns - self._again_ns >= NS_PER_S and len(self._members) <= MOST_AGAIN:
            self._again_ns = now_ns
            for member in self._members:
                self._submit(member, self._processes.looked)

    def due_ns(self) -> int | None:
        """When `tick` is to be called next; `None`: nothing is to come."""
        first_ns = 0 if self._found else next((due_ns for due_ns, _ in self._first.values()), None)
        return min((ns for ns in (first_ns, self._looks.due_ns()) if ns is not None), default=None)

    def tick(self, now_ns: int) -> None:
        """Look at those whose time has come."""
        self._look_at_the_due(now_ns)
        for member in self._looks.due(now_ns):
            if member.id in self._members:
                self._submit(member, self._processes.looked)
                if self.cuda is not None:
                    self.cuda.look(member)
            else:
                self._looks.forget(member.id)

    def check(self, now_ns: int) -> None:
        """Give up what takes too long."""
        self._helper.check(now_ns)

    def hurry(self) -> None:
        """The end is near: look now at what was to be looked at soon."""
        self._look_at_the_due(time.monotonic_ns() + LOOK_AFTER_FORK_NS)
        if self.error_files is not None:
            self.error_files.hurry()

    def finish(self) -> None:
        """Say what was not looked at."""
        if self._helper.overdue:
            self._journal.note(f"{self._helper.overdue} look(s) at a process took too long and were given up")
        if self._helper.refused:
            self._journal.note(f"{self._helper.refused} process(es) came too fast to be looked at")

    def _record(self, event: Event) -> None:
        files = self.error_files
        if isinstance(event, SenderSeen | TmpfsSample | ShmFilesSample):
            self._journal.append(event)
        elif isinstance(event, CodeLooked):
            if self.cuda is not None:
                self.cuda.take(event)
        elif isinstance(event, TrainingLine):
            if files is None or files.take(event):
                self._journal.append(event)
        elif isinstance(event, ProcessSeen | ProcessLooked):
            if files is not None and isinstance(event, ProcessSeen):
                files.seen(event)
            identity = process_id(event.tgid, event.start_ns)
            if identity in self._members:
                kind = "seen" if isinstance(event, ProcessSeen) else "looked"
                self._journal.append_changed((kind, *identity), event)
            else:  # it has ended meanwhile: what it was is known now or never
                self._journal.append(event)

    def _see(self, member: Member, *, held: bool) -> None:
        identity, seen, unseen = member.id, self._processes.seen, self._unseen

        def see(tgid: int) -> ProcessSeen | None:
            try:
                found = seen(tgid)
                return msgspec.structs.replace(found, cmdline=None, exe=None) if held and found is not None else found
            finally:
                unseen.discard(identity)

        unseen.add(identity)
        if not self._submit(member, see):
            unseen.discard(identity)

    def _submit(self, member: Member, ask: Callable[[int], ProcessSeen | ProcessLooked | None]) -> bool:
        tgid, wanted = member.tgid, member.id

        def look() -> Event | None:
            found = ask(tgid)
            # The pid may be someone else's by now.
            return found if found is not None and process_id(found.tgid, found.start_ns) == wanted else None

        return self._helper.submit(look)

    def _look_at_tmpfs(self, signal: SignalSent) -> None:
        """A mapping had no page to give: whether that was a full tmpfs can be seen now, and soon not any more."""
        if signal.signal != SIGBUS or signal.code != BUS_ADRERR or not signal.in_tree:
            return
        processes, tgid, parent = self._processes, signal.tgid, signal.sender_parent_tgid
        self._helper.submit(lambda: processes.tmpfs(tgid, tgid) or processes.tmpfs(parent, tgid))

    def _look_at_the_due(self, now_ns: int) -> None:
        due = [*self._found.values()]
        for due_ns, member in self._first.values():
            if due_ns > now_ns:
                break
            due.append(member)
        self.look(*due)

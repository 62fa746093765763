# SPDX-License-Identifier: Apache-2.0
"""Where we stand in the kernel's eyes: its own record of the job's first process, compared with what we know of it.

While the job is forked, the forks of all processes are followed. The one that is ours tells the kernel's pid of the
job and of the tracer and an exact start time, whatever pid and time namespaces we live in. Only where all that
agrees with /proc and with our clocks is the kernel's word taken for one about this job.
"""

import os
import select
import time
from dataclasses import dataclass

from tracer.events import Event, PidsOfProc, ProcessForked, TracerPlaced, process_id
from tracer.pipeline.foreign import is_foreign
from tracer.pipeline.journal import Journal
from tracer.pipeline.ports import Kernel, Sources
from tracer.pipeline.watch import Watch
from tracer.units import NS_PER_MS

DEADLINE_S = 2.0
"""The record is there before fork returns. A read that finds the machine busy may still come late."""
CLOCK_SLACK_NS = NS_PER_MS
"""The kernel stamps with a clock that may be read in any context: it is this much away from ours at most."""
PROC_OF_OTHERS = (
    "/proc is not that of the pid namespace that oomtrace lives in: nothing there was used; mount it there: "
    "mount -t proc proc /proc"
)


@dataclass(frozen=True)
class Place:
    """The job's first process, as the recording is to call it."""

    tgid: int
    start_ns: int | None
    """`None`: it could not be looked up at all."""
    proc_pid: int | None
    """By which /proc shows it; `None`: it does not, or that cannot be told."""
    to_track: bool
    """Whether the kernel has it under this pid, as far as known."""
    event: TracerPlaced | None = None
    """Where that is certain."""


class Placer:
    """Finds the record of the job's fork: `begin` before it, `find` after."""

    def __init__(self, sources: Sources, watch: Watch, journal: Journal) -> None:
        self._sources, self._watch, self._journal = sources, watch, journal
        self._own_pid = os.getpid()
        self._following = False
        self._forks: list[ProcessForked] = []
        self._began_ns = 0

    def begin(self) -> None:
        """Follow all forks from now on. Those of others are not recorded."""
        kernel = self._sources.kernel
        if kernel is None or self._sources.namespaces.own_pids is None:
            return
        self._watch.withholds = self._withholds
        self._began_ns = time.monotonic_ns()
        self._following = self._journal.attempt("following forks", lambda: _switch(kernel, on=True), otherwise=False)

    def find(self, job_pid: int) -> Place:
        """What the kernel calls the process that was just forked, else what is known without it."""
        fork = self._awaited(job_pid) if self._following else None
        pids = self._sources.pids
        event = why = None
        if fork is not None:
            if pids is not None:
                pids.in_use = True
            event, why = self._compare(fork)
        elif self._following:
            why = "no record of the job's first fork came"
        if fork is None or event is None:
            if pids is not None:
                pids.in_use = False
            if why is not None:
                self._journal.note(f"the kernel's records could not be told to be of this job: {why}")
            return self._without(job_pid, contradicted=fork is not None)
        self._watch.own_tgid = event.tgid
        self._watch.members.hidden = event.proc == "none"
        shown = {"same": job_pid, "own": job_pid, "initial": fork.tgid, "none": None}[event.proc]
        if shown is None:
            self._journal.note(PROC_OF_OTHERS)
        return Place(fork.tgid, fork.start_ns, shown, to_track=True, event=event)

    def _without(self, job_pid: int, *, contradicted: bool) -> Place:
        here = self._sources.namespaces
        if here.proc_above != 0 and here.own_pids is not False:
            # /proc may have this pid as well, and it is another process's.
            self._journal.note(PROC_OF_OTHERS)
            return Place(job_pid, None, None, to_track=False)
        start_ns = self._sources.processes.start_ns(job_pid)
        return Place(job_pid, start_ns, job_pid, to_track=not here.own_pids and not contradicted)

    def _compare(self, fork: ProcessForked) -> tuple[TracerPlaced | None, str | None]:
        here = self._sources.namespaces
        now_ns = time.monotonic_ns()
        if not self._began_ns - CLOCK_SLACK_NS <= fork.ts_ns <= now_ns + CLOCK_SLACK_NS:
            return None, "its clock is not ours; is there a time namespace?"
        event = TracerPlaced(
            ts_ns=now_ns,
            source="tracer",
            tgid=fork.parent_tgid,
            start_ns=fork.parent_start_ns,
            job_tgid=fork.tgid,
            job_start_ns=fork.start_ns,
            job_own_tgid=fork.own_tgid or 0,
            job_ns_level=fork.ns_level,
            proc=self._pids_of_proc(fork),
            monotonic_shift_ns=here.monotonic_shift_ns,
            boottime_shift_ns=here.boottime_shift_ns,
        )
        if event.proc == "none":
            return event, None
        start_ns = self._sources.processes.start_ns(fork.tgid)
        if start_ns is None:
            return None, "/proc does not show it"
        if process_id(fork.tgid, start_ns) != process_id(fork.tgid, fork.start_ns):
            return None, "its start by /proc is another one; is there a pid or time namespace?"
        return event, None

    def _pids_of_proc(self, fork: ProcessForked) -> PidsOfProc:
        here = self._sources.namespaces
        if not here.own_pids:
            return "same"
        if here.proc_above == 0:
            return "own"
        return "initial" if here.proc_above == fork.ns_level else "none"

    def _awaited(self, job_pid: int) -> ProcessForked | None:
        kernel, deadline = self._sources.kernel, time.monotonic() + DEADLINE_S
        assert kernel is not None
        try:
            while True:
                self._watch.read_all()
                found = [fork for fork in self._forks if fork.own_tgid == job_pid]
                left_s = deadline - time.monotonic()
                if found or left_s <= 0 or self._journal.gave_up("the ring buffer"):
                    return found[0] if len(found) == 1 else None
                select.select([kernel], [], [], min(left_s, 0.05))
        finally:
            self._journal.attempt("following forks", lambda: _switch(kernel, on=False), otherwise=False)

    def _withholds(self, event: Event) -> bool:
        foreign = is_foreign(event)
        if foreign and isinstance(event, ProcessForked) and event.own_parent_tgid == self._own_pid:
            self._forks.append(event)
        return foreign


def _switch(kernel: Kernel, *, on: bool) -> bool:
    kernel.follow_all(on=on)
    return on

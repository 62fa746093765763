# SPDX-License-Identifier: Apache-2.0
"""A job that runs already: arm, find its whole tree, watch it until it is gone or somebody wants no more.

Whatever goes wrong on our side, the job knows nothing of it: it is never signalled, stopped or waited for.
"""

import enum
import os
import signal
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from tracer.events import JobStarted, process_id
from tracer.job.launch import shun_oom_killer
from tracer.job.signals import ENDING, STOPPING, SignalInbox
from tracer.pipeline.error_files import ErrorFiles
from tracer.pipeline.finding import Finder
from tracer.pipeline.loop import Recorder
from tracer.pipeline.ports import Row, Sources
from tracer.pipeline.table import id_of, stands_below, tops_of
from tracer.recording import RecordingWriter
from tracer.sources.error_file import reader_for
from tracer.units import NS_PER_MS

LOOK_NS = 250 * NS_PER_MS
COST_SHARE = 50
"""A look that cost T of CPU time is followed by a pause of at least 50 T, as for samples."""
OWN_PIDS = (
    "oomtrace runs in a pid namespace of its own, where what ran before has no known pid for the kernel; "
    "attach from the host"
)


@dataclass(frozen=True)
class Target:
    """What is to be watched: processes with all below them, or a cgroup with all that is in it and below that."""

    processes: tuple[tuple[int, int], ...] = ()
    """(pid, start time): whoever has the pid later is not meant."""
    cgroup: str | None = None


@dataclass(frozen=True)
class Attachment:
    """What is to be watched, and what is known before."""

    target: Target
    notes: tuple[str, ...] = ()
    """What belongs among the caveats."""
    not_ours: Collection[int] = field(default_factory=tuple)
    """Pids of the tracer's own that may stand below the target."""
    ready: Callable[[int], None] | None = None
    """Called with the number of processes once they are under watch."""
    shuns_oom_killer: bool = False


class Ending(enum.Enum):
    """Why the watching came to its end."""

    GONE = "every process of it has ended"
    REMOVED = "its cgroup was removed"
    STOPPED = "the watching was ended"
    FAILED = "the watching failed"


class AttachedPipeline:
    """Watches one running job. For the main thread: it takes signals."""

    def __init__(self, attachment: Attachment, sources: Sources, writer: RecordingWriter) -> None:
        self._plan = attachment
        self._target = attachment.target
        sources = joinable(sources)
        self._sources = sources
        self._recorder = Recorder(sources, writer)
        self._journal = self._recorder.journal
        self._watch = self._recorder.watch
        self._not_ours = {os.getpid(), *attachment.not_ours}
        self._finder = Finder(sources, self._journal, self._watch, self._not_ours)
        self._watch.members.not_ours = self._not_ours
        # Nobody started the job for us: each file is read with the rights of the process whose it is.
        self._watch.inspection.error_files = ErrorFiles(
            lambda seen: reader_for(seen.tgid, seen.start_ns), self._recorder.inspect
        )
        self._cgroup_id: int | None = None
        self._ending: Ending | None = None
        self._next_look_ns = 0
        self._met_somebody = attachment.target.cgroup is None

    @property
    def alive(self) -> int:
        """How many processes of the job still run, as far as is known."""
        return len(self._watch.members)

    def run(self) -> Ending:
        """Watch it to its end, or until a signal says that it is enough."""
        for text in self._plan.notes:
            self._journal.note(text)
        self._recorder.guarded("arming", self._watch.arm)
        with SignalInbox() as inbox:
            if self._plan.shuns_oom_killer:
                shun_oom_killer()
            try:
                self._recorder.guarded("finding the job", self._find)
                actions = {inbox.fileno(): ("signals", lambda: self._take_signals(inbox))}
                self._recorder.guarded(
                    "the first looks", lambda: self._recorder.look_first(lambda: self._ending is not None, actions)
                )
                ready = self._plan.ready
                if ready is not None:
                    self._recorder.guarded("saying that it is ready", lambda: ready(self.alive))
                self._recorder.guarded("the loop", lambda: self._recorder.loop(self._is_over, actions))
                self._recorder.guarded("the end of the watch", self._finish)
            finally:
                self._recorder.close()
        return self._ending or Ending.FAILED

    def _find(self) -> None:
        path = self._target.cgroup
        if path is None:
            first, _ = self._target.processes[0]
            self._watch.sampler.watch(self._recorder.memory_cgroup_of(first))
            self._finder.find([self._started(*process) for process in self._without_those_below()])
            return
        self._cgroup_id = self._recorder.cgroup_id(path)
        self._watch.sampler.watch(path)
        self._look_into_the_cgroup(always=True)

    def _without_those_below(self) -> list[tuple[int, int]]:
        """The processes that were asked for, but for those that stand below another one of them."""
        rows = self._finder.table()
        wanted = {process_id(*process) for process in self._target.processes}
        return [process for process in self._target.processes if not stands_below(process[0], wanted, rows)]

    def _started(self, tgid: int, start_ns: int) -> JobStarted:
        path = self._recorder.memory_cgroup_of(tgid)
        return JobStarted(
            ts_ns=time.monotonic_ns(),
            source="proc",
            tgid=tgid,
            start_ns=start_ns,
            cgroup=path,
            cgroup_id=self._recorder.cgroup_id(path),
            attached=True,
        )

    def _look_into_the_cgroup(self, *, always: bool = False) -> None:
        """Take in whoever entered the cgroup from elsewhere: nothing else tells of them."""
        path, cgroups = self._target.cgroup, self._sources.cgroups
        if path is None:
            return
        nobody: Sequence[int] | None = ()
        inside = self._journal.attempt("the cgroup's processes", lambda: cgroups.processes(path), otherwise=nobody)
        if inside is None:
            self._ending = self._ending or Ending.REMOVED
            return
        new: list[Row] = []
        rows: dict[int, Row] = {}
        if self._strangers(inside):
            self._watch.read_kernel()  # of most of them a fork tells
            rows = self._finder.table()
            new = [rows[pid] for pid in self._strangers(inside) if pid in rows and not rows[pid].ended]
        if new or always:
            tops = tops_of(new, {member.id for member in self._watch.members}, rows)
            started = [self._started(row.tgid, row.start_ns) for row in tops]
            self._met_somebody = self._met_somebody or bool(started)
            self._finder.find(started, cgroup=path, cgroup_id=self._cgroup_id)

    def _strangers(self, inside: Iterable[int]) -> set[int]:
        return set(inside) - {member.tgid for member in self._watch.members} - self._not_ours

    def _is_over(self) -> bool:
        now_ns = time.monotonic_ns()
        if self._ending is None and now_ns >= self._next_look_ns:
            began_ns = time.thread_time_ns()
            self._look()
            self._next_look_ns = now_ns + max(LOOK_NS, COST_SHARE * (time.thread_time_ns() - began_ns))
        if self._ending is None and self._target.cgroup is None and not self.alive:
            self._ending = Ending.GONE
        return self._ending is not None

    def _look(self) -> None:
        self._look_into_the_cgroup()
        if self._sources.kernel is None:
            # Nobody tells of an end, and whoever started the job may let it stand as a zombie for as long as he likes.
            rows = self._finder.table()
            for member in self._watch.members:
                row = rows.get(member.tgid)
                if row is not None and row.ended and id_of(row) == member.id:
                    self._watch.sampler.look_at(member, time.monotonic_ns())  # a zombie still has its status
                    self._watch.sampler.lose(member, time.monotonic_ns())

    def _take_signals(self, inbox: SignalInbox) -> None:
        for number in inbox.take():
            if number in STOPPING:
                os.kill(os.getpid(), signal.SIGSTOP)  # Ctrl-Z: this process alone, and what it misses is counted
            if number in ENDING and self._ending is None:
                self._ending = Ending.STOPPED
                self._journal.note(f"{signal.Signals(number).name} to oomtrace ended the watching")

    def _finish(self) -> None:
        # A cgroup goes with the last of its processes, whose exits may not have been read yet.
        self._recorder.guarded("what ended the job", self._watch.read_kernel)
        if self.alive:
            count = f"{self.alive} processes" if self.alive > 1 else "1 process"
            self._journal.note(f"the watching ended before the job did: {count} of it still ran")
        elif not self._met_somebody:
            self._journal.note("no process was in that cgroup while it was watched")
        self._recorder.finish(time.monotonic_ns())


def joinable(sources: Sources) -> Sources:
    """The sources without those that could not be joined to what /proc shows of processes that ran before we did."""
    if sources.kernel is None or sources.namespaces.own_pids is False:
        return sources
    return replace(sources, kernel=None, why_no_kernel=OWN_PIDS)

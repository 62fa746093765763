# SPDX-License-Identifier: Apache-2.0
"""Finds a tree that runs already, so that no process of it is missed however it forks meanwhile.

The hooks come first and then the scan. A process that is not in the kernel's tree filter yet may fork and be gone
before /proc shows it; so forks and ends of *all* processes are sent for that time, and those of strangers are kept
here until it is known whose they are. The scan is repeated until nothing is new: then all that live are in the
filter, and their forks follow by themselves.

A parent that is gone takes the answer with it: /proc shows an orphan below whoever adopted it. So for that time
the kernel also tells whom each process leaves behind. What is found whole is the tree as it stands when all is
followed from: an orphan of before then is nobody's any more.
"""

import time
from collections.abc import Iterable, Sequence

from tracer.events import (
    Attached,
    Event,
    JobStarted,
    ProcessExited,
    ProcessForked,
    ProcessId,
    ProcessOrphaned,
    ProcessSeen,
    process_id,
)
from tracer.pipeline.journal import Journal
from tracer.pipeline.ports import Row, Sources
from tracer.pipeline.table import Sight, all_below, id_of
from tracer.pipeline.watch import Watch
from tracer.units import TICK_NS

MAX_PASSES = 64
"""Each pass finds only what was born below something that the one before had not found: a handful is usual."""
ENDLESS_NS = 1 << 63


class Finder:
    """Puts running processes and all below them under watch.

    Args:
        not_ours: pids that are never the job's: the tracer's own.
    """

    def __init__(self, sources: Sources, journal: Journal, watch: Watch, not_ours: Iterable[int] = ()) -> None:
        self._sources, self._journal, self._watch = sources, journal, watch
        self._not_ours = frozenset(not_ours)
        self._finding = False
        self._failed = False
        self._forget()
        watch.withholds = self.withholds

    def _forget(self) -> None:
        self._ours: dict[int, list[ProcessId]] = {}
        self._ended_ns: dict[ProcessId, int] = {}
        self._put: set[ProcessId] = set()
        self._to_put: dict[ProcessId, int] = {}
        self._told: set[ProcessId] = set()
        self._orphans: dict[ProcessId, ProcessOrphaned] = {}
        self._forks: dict[ProcessId, ProcessForked] = {}
        self._exits: dict[ProcessId, ProcessExited] = {}

    def table(self) -> dict[int, Row]:
        """All processes of the machine by pid, but for the tracer's own."""
        none: Sequence[Row] = ()
        rows = self._journal.attempt("scanning /proc", lambda: list(self._sources.processes.table()), otherwise=none)
        return {row.tgid: row for row in rows if row.tgid not in self._not_ours}

    def find(self, roots: Sequence[JobStarted], *, cgroup: str | None = None, cgroup_id: int | None = None) -> None:
        """Put these processes, which are told for the first time, and all below them under watch.

        Args:
            roots: as they are recorded.
            cgroup: that they stand in, where that was asked for, and its id.
        """
        lost_before = self._lost()
        self._finding, self._failed = True, self._sources.kernel is None
        self._follow_all(on=True)
        began_ns = time.monotonic_ns()
        for member in self._watch.members:
            self._is_ours(member.id)
        passes = 0
        try:
            self._begin(roots)
            passes = self._settle()
        finally:
            self._follow_all(on=False)
            self._watch.read_kernel()
            # What comes as late as this was seen by the last look. If not, something was missed.
            self._failed = bool(self._resolve() or self._to_put) or self._failed
            self._put_in()
            self._finding = False
            self._forget()
        now_ns = time.monotonic_ns()
        lost = self._journal.gave_up("the ring buffer") or self._lost() != lost_before
        attached = Attached(
            ts_ns=now_ns,
            source="tracer",
            began_ns=began_ns,
            processes=len(self._watch.members),
            complete=not (self._failed or lost or passes >= MAX_PASSES),
            passes=passes,
            cgroup=cgroup,
            cgroup_id=cgroup_id,
        )
        self._journal.append(attached)
        self._journal.flush()

    def withholds(self, event: Event) -> bool:
        """Whether an event is of a stranger, or of a process of which it is not known yet whose it is."""
        if isinstance(event, ProcessForked | ProcessOrphaned) and event.tgid in self._not_ours:
            return True
        if isinstance(event, ProcessForked):
            return self._keeps_fork(event) if self._finding else not event.in_tree
        if isinstance(event, ProcessOrphaned):
            return self._keeps_orphan(event) if self._finding else True
        if isinstance(event, ProcessExited):
            if self._finding:
                return self._keeps_exit(event)
            ours = process_id(event.tgid, event.start_ns) in self._watch.members
            return not (event.in_tree or event.oom_marked or ours)
        return False

    def _keeps_fork(self, event: ProcessForked) -> bool:
        child = process_id(event.tgid, event.start_ns)
        if event.in_tree:
            self._is_ours(child)
            self._told.add(child)
            return False
        if self._knows(process_id(event.parent_tgid, event.parent_start_ns)):
            self._is_ours(child)
            self._told.add(child)
            if child not in self._put:
                self._to_put[child] = event.start_ns
            return False
        self._forks[child] = event
        return True

    def _keeps_exit(self, event: ProcessExited) -> bool:
        process = process_id(event.tgid, event.start_ns)
        if not self._knows(process) and not event.in_tree:
            self._exits[process] = event
            return not event.oom_marked
        self._ended_ns[process] = event.ts_ns
        if process in self._put and not event.in_tree:
            self._take_out(process, event.start_ns)  # it had gone when it was put in
        return False

    def _keeps_orphan(self, event: ProcessOrphaned) -> bool:
        child = process_id(event.tgid, event.start_ns)
        if child in self._told:
            return True  # its fork was recorded, or whom it lost first
        if not self._knows(process_id(event.parent_tgid, event.parent_start_ns)):
            self._orphans.setdefault(child, event)
            return True
        self._told.add(child)
        if not self._knows(child):
            self._is_ours(child)
            self._to_put[child] = event.start_ns
        return False

    def _begin(self, roots: Sequence[JobStarted]) -> None:
        rows = self.table()
        for root in roots:
            process = process_id(root.tgid, root.start_ns)
            self._watch.take(root)
            self._is_ours(process)
            row = rows.get(root.tgid)
            if row is not None and id_of(row) == process:
                self._record(Sight(row, rows.get(row.parent_tgid)))
                if not row.ended:
                    self._to_put[process] = row.start_ns
        self._watch.read_kernel()
        # Who is gone and has no record of it ended before all was followed: how is not told any more.
        new = {process_id(root.tgid, root.start_ns) for root in roots}
        for member in self._watch.members:
            if member.id in new and member.id not in self._to_put:
                self._watch.sampler.lose(member, time.monotonic_ns())

    def _settle(self) -> int:
        """Look until nothing is new; how often that took."""
        for done in range(1, MAX_PASSES + 1):
            self._put_in()
            self._watch.read_kernel()
            found = self._resolve() + self._look()
            if not found and not self._to_put:
                self._watch.read_kernel()
                if not self._resolve() and not self._to_put:
                    return done
        return MAX_PASSES

    def _look(self) -> int:
        """One scan of /proc; how many it found."""
        rows = self.table()
        # While the table was read a parent may have ended and its pid be another's: then the kernel's word counts.
        self._watch.read_kernel()
        found = 0
        for sight in all_below(self._knows, rows):
            if sight.parent is not None and self._lives(id_of(sight.parent)):
                found += self._join(sight)
        return found

    def _resolve(self) -> int:
        """Whose the records are that were kept: how many turned out to be ours."""
        found = 0
        while True:
            ours = 0
            for orphan in [*self._orphans.values()]:
                ours += self._resolve_orphan(orphan)
            for fork in [*self._forks.values()]:
                ours += self._resolve_fork(fork)
            for exited in [*self._exits.values()]:
                ours += self._resolve_exit(exited)
            if not ours:
                return found
            found += ours

    def _resolve_fork(self, fork: ProcessForked) -> int:
        if not self._knows(process_id(fork.parent_tgid, fork.parent_start_ns)):
            return 0
        child = process_id(fork.tgid, fork.start_ns)
        del self._forks[child]
        return self._take_back(child, fork)

    def _resolve_orphan(self, orphan: ProcessOrphaned) -> int:
        child = process_id(orphan.tgid, orphan.start_ns)
        if child not in self._told and not self._knows(process_id(orphan.parent_tgid, orphan.parent_start_ns)):
            return 0
        del self._orphans[child]
        return self._take_back(child, orphan)

    def _take_back(self, child: ProcessId, event: ProcessForked | ProcessOrphaned) -> int:
        """Record what was kept, now that the parent is ours; whether that made the child ours."""
        known = self._knows(child)
        self._watch.take(event)
        self._take_exit(child)
        if child in self._ended_ns:
            self._watch.members.drop(child)
        return int(not known)

    def _resolve_exit(self, exited: ProcessExited) -> int:
        """A process that no look saw and that ended below one of ours: where it stood says its exit alone."""
        process = process_id(exited.tgid, exited.start_ns)
        if self._knows(process):
            self._take_exit(process)
            return 0
        parents = [
            parent
            for parent in self._ours.get(exited.parent_tgid, ())
            if self._ended_ns.get(parent, ENDLESS_NS) > exited.ts_ns and parent.start_tick <= process.start_tick
        ]
        if len(parents) != 1 or exited.tgid in self._not_ours:
            return 0
        self._is_ours(process)
        self._watch.join(
            ProcessSeen(
                ts_ns=exited.ts_ns,
                source="bpf",
                start_ns=exited.start_ns,
                tgid=exited.tgid,
                parent_tgid=exited.parent_tgid,
                parent_start_ns=_start_ns(parents[0]),
                comm=exited.comm,
            )
        )
        self._take_exit(process)
        return 1

    def _take_exit(self, process: ProcessId) -> None:
        exited = self._exits.pop(process, None)
        if exited is not None:
            self._to_put.pop(process, None)
            self._ended_ns[process] = exited.ts_ns
            if not exited.oom_marked:  # else it was recorded when it came
                self._watch.take(exited)
            else:
                self._watch.members.apply(exited)

    def _join(self, sight: Sight) -> int:
        if self._knows(sight.id):
            return 0
        self._is_ours(sight.id)
        self._to_put[sight.id] = sight.row.start_ns
        self._record(sight)
        self._take_exit(sight.id)
        return 1

    def _record(self, sight: Sight) -> None:
        row, parent = sight
        older = parent is not None and parent.start_ns <= row.start_ns
        self._watch.join(
            ProcessSeen(
                ts_ns=time.monotonic_ns(),
                source="proc",
                start_ns=row.start_ns,
                tgid=row.tgid,
                parent_tgid=row.parent_tgid,
                parent_start_ns=parent.start_ns if parent is not None and older else None,
                comm=row.comm,
            )
        )

    def _put_in(self) -> None:
        kernel = self._sources.kernel
        while self._to_put and kernel is not None:
            process, start_ns = self._to_put.popitem()
            if process in self._ended_ns:
                continue
            try:
                kernel.track_running(process.tgid, start_ns)
                self._put.add(process)
            except OSError as error:
                self._failed = True
                self._journal.note(f"not every process could be put under watch: {error.strerror}")
        self._to_put.clear()

    def _take_out(self, process: ProcessId, start_ns: int) -> None:
        kernel = self._sources.kernel
        if kernel is not None:
            self._journal.attempt("untracking", lambda: kernel.untrack(process.tgid, start_ns), otherwise=None)

    def _follow_all(self, *, on: bool) -> None:
        kernel = self._sources.kernel
        if kernel is None:
            return
        try:
            kernel.follow_all(on=on)
        except OSError as error:
            self._failed = True
            self._journal.note(f"not all forks could be followed: {error.strerror}")

    def _lost(self) -> int | None:
        kernel = self._sources.kernel
        if kernel is None:
            return None
        now_ns = time.monotonic_ns()
        losses = self._journal.attempt("the loss counters", lambda: kernel.losses(now_ns), otherwise=None)
        return None if losses is None else losses.total

    def _is_ours(self, process: ProcessId) -> None:
        if not self._knows(process):
            self._ours.setdefault(process.tgid, []).append(process)

    def _lives(self, process: ProcessId) -> bool:
        return self._knows(process) and process not in self._ended_ns

    def _knows(self, process: ProcessId) -> bool:
        return process in self._ours.get(process.tgid, ())


def _start_ns(process: ProcessId) -> int:
    return process.start_tick * TICK_NS

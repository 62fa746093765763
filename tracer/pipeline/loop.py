# SPDX-License-Identifier: Apache-2.0
"""From the sources into the recording while something is watched: what a job that we start and one that runs share."""

import select
import selectors
import time
from collections.abc import Callable, Mapping

from tracer.pipeline.helper import Helper, Work
from tracer.pipeline.journal import Journal
from tracer.pipeline.ports import Sources
from tracer.pipeline.watch import Watch
from tracer.recording import RecordingWriter
from tracer.units import NS_PER_MS, NS_PER_S

FIRST_LOOKS_NS = NS_PER_S
"""So long is waited at most for the first looks at what was found. One look may wait for a lock of the process."""
GRACE_NS = NS_PER_S
"""So long is read on at most once the job has ended."""
GRACE_FOR_LOOKS_NS = 5 * NS_PER_S
"""What the helper thread and NVML were asked by then is waited for longer, while the answers come, and so is the end of
whom the OOM killer chose: on a machine under load that takes its time."""
HANGS_NS = NS_PER_S
GRACE_FOR_STACKS_NS = 20 * NS_PER_S
"""A stack is part of a proof, and reading the kernel's symbols takes long on a slow machine: twice, where a kill came
just after the reading had begun."""
QUIET_NS = 60 * NS_PER_MS
"""Nothing new for so long: the sources are dry."""
QUIET_WITH_SURVIVORS_NS = 250 * NS_PER_MS
LONGEST_WAIT_NS = NS_PER_S

Action = tuple[str, Callable[[], object]]
"""What it is, and what to call when its descriptor is readable."""


class Recorder:
    """The watch with all that it needs, and the loop that keeps it going. Nothing here ever blocks for long."""

    def __init__(self, sources: Sources, writer: RecordingWriter) -> None:
        self._disk = Helper("oomtrace-disk")
        self._inspector = Helper("oomtrace-inspect")
        self._cgroups = sources.cgroups
        self.journal = Journal(writer, self._disk)
        self.watch = Watch(sources, self.journal, self._inspector)

    def inspect(self, work: Work) -> None:
        """Have something looked at in the helper thread; what it gives comes to the watch."""
        self._inspector.submit(work)

    def guarded(self, what: str, action: Callable[[], None]) -> None:
        """Do something that may fail; a failure is noted."""
        self.journal.attempt(what, action, otherwise=None)

    def memory_cgroup_of(self, tgid: int) -> str | None:
        """The memory cgroup of a process; `None`: it could not be told."""
        return self.journal.attempt("the job's cgroup", lambda: self._cgroups.memory_cgroup_of(tgid), otherwise=None)

    def cgroup_id(self, path: str | None) -> int | None:
        """What the kernel's records call a cgroup; `None`: it could not be told."""
        if path is None:
            return None
        return self.journal.attempt("the job's cgroup", lambda: self._cgroups.cgroup_id(path), otherwise=None)

    def look_first(self, enough: Callable[[], bool], actions: Mapping[int, Action]) -> None:
        """Sample and look at all that were found: of one that ends as soon as we say so, it is known what it was."""
        until_ns = time.monotonic_ns() + FIRST_LOOKS_NS
        inspection = self.watch.inspection
        self.watch.tick(time.monotonic_ns())
        wanted = inspection.unseen()

        def done() -> bool:
            return enough() or wanted.isdisjoint(inspection.unseen()) or time.monotonic_ns() >= until_ns

        self.loop(done, actions, until_ns=until_ns)
        inspection.read()

    def look_at_the_held(self) -> None:
        """A job that ends as soon as it runs: where it stood and what it had in its environment is known before."""
        inspection, until_ns = self.watch.inspection, time.monotonic_ns() + FIRST_LOOKS_NS
        answers = select.poll()
        answers.register(inspection, select.POLLIN)
        while inspection.unseen() and (left_ns := until_ns - time.monotonic_ns()) > 0:
            answers.poll(left_ns / NS_PER_MS)
            inspection.read()

    def loop(self, done: Callable[[], bool], actions: Mapping[int, Action], *, until_ns: int | None = None) -> None:
        """Read, record and sample until it is done.

        Args:
            done: looked at in each round.
            actions: by descriptor, beside the sources.
            until_ns: a round begins by then, at the latest.
        """
        watch, journal = self.watch, self.journal
        with selectors.DefaultSelector() as selector:
            found: dict[int, Action] = {fd: (what, read) for what, fd, read in watch.readers()}
            found.update(actions)
            for fd in found:
                selector.register(fd, selectors.EVENT_READ)
            while not done():
                for key, _ in selector.select(self._pause_s(until_ns)):
                    what, action = found[key.fd]
                    action()
                    if journal.gave_up(what):
                        selector.unregister(key.fd)
                now_ns = time.monotonic_ns()
                watch.tick(now_ns)
                journal.flush_if_due(now_ns)

    def finish(self, ended_ns: int) -> None:
        """The job's end, or that of watching it: what is still to come, and the end of the recording."""
        self._drain(ended_ns)
        self.watch.look_last()
        self.watch.disarm()
        self.watch.finish()
        self.journal.secure()

    def close(self) -> None:
        """Let go of the helper threads."""
        self.watch.cuda.close()
        self._inspector.close()
        self._disk.close()

    def _drain(self, ended_ns: int) -> None:
        """Read on until nothing comes any more: exits, log lines and stacks of the last moment."""
        quiet_since_ns = time.monotonic_ns()
        self.watch.read_all()
        self.watch.inspection.hurry()
        self.watch.gpu.hurry()
        asked = self._inspector.submitted
        with selectors.DefaultSelector() as selector:
            for what, fd, _ in self.watch.readers():
                if not self.journal.gave_up(what):
                    selector.register(fd, selectors.EVENT_READ)
            while True:
                selector.select(0.01)
                came = self.watch.read_all()
                now_ns = time.monotonic_ns()
                quiet_since_ns = now_ns if came else quiet_since_ns
                enough_ns = QUIET_WITH_SURVIVORS_NS if len(self.watch.members) else QUIET_NS
                idle = self._inspector.idle() and self.watch.gpu.idle()
                dry = now_ns - quiet_since_ns >= enough_ns and idle
                dry = dry and not self.watch.pending() and not self.watch.dying()
                if dry or now_ns - ended_ns >= self._patience_ns(now_ns, asked):
                    return
                if now_ns - ended_ns < GRACE_NS:
                    asked = self._inspector.submitted

    def _patience_ns(self, now_ns: int, asked: int) -> int:
        if self.watch.naming():
            return GRACE_FOR_STACKS_NS
        looking = self._inspector.ended < asked and not self._inspector.hangs(now_ns, HANGS_NS)
        return GRACE_FOR_LOOKS_NS if looking or self.watch.gpu.answers() or self.watch.dying() else GRACE_NS

    def _pause_s(self, until_ns: int | None) -> float:
        now_ns = time.monotonic_ns()
        due_ns = min(self.watch.due_ns(), now_ns + LONGEST_WAIT_NS)
        if until_ns is not None:
            due_ns = min(due_ns, until_ns)
        flush_ns = self.journal.due_ns()
        if flush_ns is not None:
            due_ns = min(due_ns, flush_ns)
        return max(0, due_ns - now_ns) / NS_PER_S

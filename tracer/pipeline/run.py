# SPDX-License-Identifier: Apache-2.0
"""One watched run: arm, start the job, the loop until it has ended, a short grace, the end of the recording.

Whatever goes wrong on our side, the job runs on and its exit status is kept.
"""

import os
import selectors
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from tracer.errors import CgroupUnavailable, OomtraceError
from tracer.events import JobEnded, JobStarted, OutputWatched, TrainingLine
from tracer.job.cgroup import JobCgroup
from tracer.job.control import JobControl
from tracer.job.identity import Caller
from tracer.job.launch import Job, StartFailure, hold, reset_oom_score_adj, shun_oom_killer
from tracer.job.signals import SignalInbox
from tracer.job.tee import Tee
from tracer.pipeline.error_files import ErrorFiles
from tracer.pipeline.loop import Action, Recorder
from tracer.pipeline.output import Output
from tracer.pipeline.placing import Place, Placer
from tracer.pipeline.ports import Sources
from tracer.pipeline.until import Ender, Until
from tracer.recording import RecordingWriter
from tracer.sources.error_file import UserReader


@dataclass(frozen=True)
class Plan:
    """What is to be run, and for whom."""

    argv: tuple[str, ...]
    recorded_argv: tuple[str, ...]
    """The same with secrets masked."""
    caller: Caller
    cgroup: JobCgroup | None = None
    """Made for the job; it is the caller of the pipeline who removes it."""
    notes: tuple[str, ...] = ()
    """What is known before the start and belongs among the caveats."""
    ready: Callable[[int], None] | None = None
    """Called with the job's pid once that runs under watch."""
    tee: Tee | None = None
    """What stands between the job and its output, ours to close; `None`: the job has that itself."""
    until: Until | None = None
    """When the job is to be ended by us."""
    say: Callable[[str], None] | None = None
    """Something for who waits before the terminal."""
    shuns_oom_killer: bool = False
    """Whether this process, for the rest of its life, is to be passed over where that is allowed."""


@dataclass(frozen=True)
class Outcome:
    """How the job ended."""

    status: int
    """Wait status."""
    failure: StartFailure | None = None
    """Its program never ran."""
    log_trouble: str | None = None
    """What the log of its output misses."""
    as_asked: bool = False
    """It was ended by us (`Plan.until`)."""

    @property
    def exit_code(self) -> int:
        """As a shell reports it: 128 + signal. 0 of one that we ended, as asked."""
        if self.as_asked:
            return 0
        code = os.waitstatus_to_exitcode(self.status)
        return 128 - code if code < 0 else code


class Pipeline:
    """Runs one job under watch. For the main thread: it takes signals."""

    def __init__(self, plan: Plan, sources: Sources, writer: RecordingWriter) -> None:
        self._plan = plan
        self._sources = sources
        self._recorder = Recorder(sources, writer)
        self._journal = self._recorder.journal
        self._watch = self._recorder.watch
        self._placer = Placer(sources, self._watch, self._journal)
        self._place: Place | None = None
        self._output: Output | None = None
        self._ender: Ender | None = None

    def run(self) -> Outcome:
        """Run the job to its end.

        Raises:
            OomtraceError: no process could be started; nothing of the job ran.
        """
        journal = self._journal
        for text in self._plan.notes:
            journal.note(text)
        self._recorder.guarded("arming", self._watch.arm)
        with SignalInbox() as inbox:
            self._recorder.guarded("following forks", self._placer.begin)
            job = self._hold()
            if self._plan.shuns_oom_killer:
                shun_oom_killer()
            control = JobControl(job, inbox, journal.note)
            self._make_ender(job)
            try:
                self._recorder.guarded("starting the watch over the job", lambda: self._prepare(job))
                control.start()
                if self._ender is not None:
                    self._ender.begin()
                self._recorder.guarded("saying that it is ready", lambda: self._say_ready(job))
                self._recorder.guarded("the loop", lambda: self._loop(job, control, inbox))
                # Whatever came of the loop: the job is waited for, and signals still reach it.
                self._wait(control, inbox)
                control.end()
                outcome = self._outcome(job)
                self._recorder.guarded("the end of the run", lambda: self._finish(outcome))
            finally:
                control.end()
                job.close()
                self._recorder.close()
                if self._plan.tee is not None:
                    self._plan.tee.close()
        return outcome

    def _hold(self) -> Job:
        tee, caller = self._plan.tee, self._plan.caller
        reader = UserReader(caller.uid, caller.gid, caller.groups)
        self._watch.inspection.error_files = ErrorFiles(lambda _: reader, self._recorder.inspect)
        if tee is None:
            return hold(self._plan.argv, caller)
        try:
            job = hold(self._plan.argv, caller, output=tee.for_the_job)
        except OomtraceError:
            tee.close()
            raise
        tee.let_go()
        self._output = Output(
            tee,
            self._journal,
            lambda: job.signal(signal.SIGWINCH),
            told=self._watch.told,
            heard=self._heard,
        )
        self._watch.more_readers += self._output.readers()
        self._journal.append(OutputWatched(ts_ns=time.monotonic_ns(), source="tracer"))
        return job

    def _make_ender(self, job: Job) -> None:
        if self._plan.until is not None:
            say = self._plan.say or self._journal.note
            self._ender = Ender(self._plan.until, job.signal, self._journal.append, say)
            self._journal.listener = self._ender.event

    def _heard(self, line: TrainingLine) -> None:
        if self._ender is not None:
            self._ender.line(line)

    def _look(self, control: JobControl) -> bool:
        ender = self._ender
        if ender is not None and not control.look():  # who has ended by itself was not ended by us
            self._journal.attempt("ending the job", lambda: ender.look(time.monotonic_ns()), otherwise=None)
        return control.look()

    def _outcome(self, job: Job) -> Outcome:
        asked = self._ender is not None and self._ender.asked
        outcome, output = Outcome(job.wait(), job.start_failure(), as_asked=asked), self._output
        if output is not None:
            self._recorder.guarded("the last of the job's output", output.settle)
            outcome = replace(outcome, log_trouble=output.log_trouble)
        unmet = None if self._ender is None else self._ender.unmet()
        if unmet is not None:
            self._journal.note(unmet)
        return outcome

    def _prepare(self, job: Job) -> None:
        plan, journal, sources = self._plan, self._journal, self._sources
        place = self._place = self._placer.find(job.pid)
        if plan.cgroup is not None:
            try:
                plan.cgroup.add(job.pid)
            except CgroupUnavailable as error:
                journal.note(f"the job runs without its limit: {error}")
        start_ns, shown = place.start_ns, place.proc_pid
        problem = None if shown is None else reset_oom_score_adj(shown, plan.caller)
        if problem is not None:
            journal.note(problem)
        if start_ns is None:
            journal.note("the job's first process could not be looked up: its tree is not known")
            return
        if place.to_track and sources.kernel is not None:
            tracked = journal.attempt("tracking the job", lambda: self._track(place.tgid, start_ns), otherwise=False)
            if tracked and place.event is not None:
                journal.append(place.event)
        own_path = None if plan.cgroup is None else plan.cgroup.path
        path = own_path if shown is None else self._recorder.memory_cgroup_of(shown)
        self._watch.sampler.watch(path)
        self._watch.take(
            JobStarted(
                ts_ns=time.monotonic_ns(),
                source="job",
                tgid=place.tgid,
                start_ns=start_ns,
                argv=plan.recorded_argv,
                uid=plan.caller.uid,
                cgroup=path,
                cgroup_id=self._recorder.cgroup_id(path),
                own_cgroup=plan.cgroup is not None and path == own_path,
            )
        )
        journal.flush()
        self._recorder.guarded("the first look at the job", self._recorder.look_at_the_held)

    def _track(self, tgid: int, start_ns: int) -> bool:
        assert self._sources.kernel is not None
        self._sources.kernel.track(tgid, start_ns)
        return True

    def _say_ready(self, job: Job) -> None:
        if self._plan.ready is not None:
            self._plan.ready(job.pid)

    def _loop(self, job: Job, control: JobControl, inbox: SignalInbox) -> None:
        actions: dict[int, Action] = {inbox.fileno(): ("signals", control.forward)}
        pidfd = job.fileno()
        if pidfd is not None:
            actions[pidfd] = ("the job", job.poll)
        self._recorder.loop(lambda: self._look(control), actions)

    def _wait(self, control: JobControl, inbox: SignalInbox) -> None:
        while not self._look(control):
            with selectors.DefaultSelector() as selector:
                selector.register(inbox.fileno(), selectors.EVENT_READ)
                selector.select(1.0)
            control.forward()

    def _finish(self, outcome: Outcome) -> None:
        now_ns = time.monotonic_ns()
        journal, place = self._journal, self._place
        if outcome.failure is not None:
            why = outcome.failure.why(self._plan.argv[0])
            journal.note(f"the job's program never ran: {self._plan.recorded_argv[0]}: {why}")
        if place is not None and place.start_ns is not None:
            self._watch.take(
                JobEnded(ts_ns=now_ns, source="job", tgid=place.tgid, start_ns=place.start_ns, status=outcome.status)
            )
        if self._output is not None:
            self._recorder.guarded("the end of the job's output", self._output.finish)
        self._recorder.finish(time.monotonic_ns())

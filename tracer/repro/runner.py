# SPDX-License-Identifier: Apache-2.0
"""Plays one scenario: sets up, runs the job under the very pipeline of `oomtrace run`, judges, compares, cleans up."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from tracer.errors import KernelUnavailable, PermissionDenied
from tracer.events import Header
from tracer.job.cgroup import Hierarchy, find_hierarchy
from tracer.job.identity import Caller, find_caller
from tracer.job.rlimits import raise_rlimits
from tracer.job.tee import LogFile, Tee
from tracer.pipeline import Outcome, Pipeline, Plan
from tracer.pipeline.clocks import header_now
from tracer.pipeline.machine import open_sources
from tracer.recording import RecordingWriter
from tracer.repro.expectations import Seen, declared, differences, found
from tracer.repro.interpreters import ROOT, torch_python
from tracer.repro.needs import GUEST_WORD, Machine, is_guest, missing
from tracer.repro.place import Place, changed, make_place, make_swap, shared_folder, sweep
from tracer.repro.replay import Ground, seen_in
from tracer.repro.scenario import Counters, Result, Scenario
from tracer.repro.workloads import stage
from tracer.sources.pressure import read_vmstat

WORKLOADS = os.path.dirname(os.path.abspath(stage.__file__))
GUEST_PATIENCE = 5
"""So many times longer everything may take in a machine that is emulated."""
MECHANISM = "mechanism"
"""The act that takes a Python with PyTorch."""
NOTHING = Counters(seen=0, lost=0, kernel=None)


class Interrupted(Exception):
    """Someone ended it: there is nothing to compare."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by signal {number}")
        self.signal = number


@dataclass(frozen=True)
class _Played:
    """What a scenario has left to be judged."""

    seen: Seen | None
    cannot: str | None
    """What a workload found to be missing."""


class _Files(NamedTuple):
    """Where its processes meet, and what is to be kept."""

    folder: str
    record: str | None
    log: str | None


def refuse(scenario: Scenario, *, proc_root: str = "/proc") -> None:
    """What uses a whole machine up is for a test VM alone.

    Raises:
        PermissionDenied: this is none.
    """
    if scenario.where == "guest" and not is_guest(proc_root):
        raise PermissionDenied(
            f"{scenario.name} uses the whole machine up",
            need=f"a test VM that scripts/vm has booted ({GUEST_WORD} on its kernel command line)",
        )


def play(
    scenario: Scenario, environ: Mapping[str, str], *, record: str | None = None, log: str | None = None
) -> Result:
    """Play it, and compare.

    Args:
        scenario: from the catalogue.
        environ: ours.
        record: where the recording is to be kept.
        log: where the job's output is to be kept; its lines that matter are then in the recording, too.

    Raises:
        OomtraceError: it is refused, or cannot be played for a reason that is not the machine's nature.
        Interrupted: by a signal.
    """
    refuse(scenario)
    begun_s = time.monotonic()
    hierarchy = find_hierarchy()
    why_not = missing((*scenario.needs, *(("swap",) if scenario.stage.swap else ())), Machine(hierarchy))
    if why_not is not None:
        return _result(scenario, _Played(None, why_not), begun_s)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(shared_folder())
        try:
            if scenario.stage.swap and is_guest():
                make_swap()
            if scenario.where == "guest":
                stack.enter_context(changed(scenario.stage.sysctls))
        except KernelUnavailable as error:
            return _result(scenario, _Played(None, str(error)), begun_s)
        played = _play(scenario, hierarchy, find_caller(environ), _Files(folder, record, log))
    return _result(scenario, played, begun_s)


def _play(scenario: Scenario, hierarchy: Hierarchy, caller: Caller, files: _Files) -> _Played:
    with contextlib.ExitStack() as stack:
        writer = stack.enter_context(_recording(files.record, header_now(cgroup_version=hierarchy.version), caller))
        # Until the job has run, a failure leaves no file behind.
        undo = stack.enter_context(contextlib.ExitStack())
        undo.callback(writer.discard)
        log = None if files.log is None else LogFile.create(files.log, caller)
        if log is not None:
            stack.callback(os.close, log.fd)
            undo.callback(log.discard)
        sources = stack.enter_context(open_sources())
        place = make_place(hierarchy, scenario.stage)
        leftover: tuple[int, ...] = ()
        try:
            environ = _environ(files.folder, place, hierarchy)
            with _beside(scenario, environ) as ready, _output_to_stderr():
                before = read_vmstat()
                plan = _plan(scenario, environ, place, ready)
                if log is not None:
                    plan = replace(plan, tee=Tee.start(log, plan.caller))
                outcome = Pipeline(plan, sources, writer).run()
                after = read_vmstat()
            kernel = place.kills()
            if scenario.where == "guest" and before is not None and after is not None:
                kernel = after.oom_kill - before.oom_kill
        finally:
            ids = _ids(place.directory)
            leftover = place.remove()
        _check(outcome)
        undo.pop_all()
        with writer.read_back() as recording:
            events = list(recording)
    sweep(events)
    cannot = _cannot(files.folder)
    if cannot is not None:
        return _Played(None, cannot)
    ground = Ground(place.base, ids, kernel, f"processes {leftover}" if leftover else None)
    return _Played(seen_in(events, scenario, ground), None)


def _result(scenario: Scenario, played: _Played, begun_s: float) -> Result:
    seen = played.seen
    unlike = () if seen is None else differences(scenario.expected, seen)
    return Result(
        scenario=scenario.name,
        outcome="not_applicable" if seen is None else "fail" if unlike else "pass",
        reason="; ".join(map(str, unlike)) or played.cannot,
        expected=declared(scenario.expected),
        found={} if seen is None else found(seen),
        counters=NOTHING if seen is None else seen.counters,
        kernel_release=os.uname().release,
        seconds=round(time.monotonic() - begun_s, 2),
    )


def _ids(directory: str) -> frozenset[int]:
    with contextlib.suppress(OSError):
        return frozenset({os.stat(directory).st_ino})
    return frozenset()


def _recording(path: str | None, header: Header, caller: Caller) -> RecordingWriter:
    if path is None:
        return RecordingWriter.anonymous(header)
    return RecordingWriter.create(path, header, uid=caller.uid, gid=caller.gid, groups=caller.groups)


def _environ(folder: str, place: Place, hierarchy: Hierarchy) -> dict[str, str]:
    return {
        "PATH": os.defpath + ":/usr/sbin:/sbin",
        "PYTHONPATH": ROOT,
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",  # of PyTorch: as much memory on any machine
        "REPRO_FOLDER": folder,
        "REPRO_CGROUP": place.directory,
        "REPRO_CGROUP_VERSION": str(hierarchy.version),
    }


def _command(words: tuple[str, ...]) -> tuple[str, ...]:
    if words[0] == MECHANISM:
        return (torch_python() or sys.executable, "-s", WORKLOADS, *words)
    # Not -I: the program imports its neighbours. The folder that comes first in its path is its own.
    return (sys.executable, "-s", "-S", WORKLOADS, *words)


def _plan(scenario: Scenario, environ: Mapping[str, str], place: Place, ready: Callable[[int], None]) -> Plan:
    argv = _command(scenario.act)
    # As ourselves: an interpreter in root's home is one that no caller could start.
    ourselves = Caller(
        uid=os.getuid(),
        gid=os.getgid(),
        groups=tuple(os.getgroups()),
        environ=environ,
        rlimits=raise_rlimits(),
    )
    return Plan(
        argv=argv,
        recorded_argv=argv,
        caller=ourselves,
        cgroup=place,
        ready=ready,
        shuns_oom_killer=True,
    )


@contextlib.contextmanager
def _beside(scenario: Scenario, environ: Mapping[str, str]) -> Iterator[Callable[[int], None]]:
    """Who acts beside the job, and who steps in when it takes far too long; what gets the job's pid."""
    patience_s = scenario.seconds * (GUEST_PATIENCE if is_guest() else 1)
    with contextlib.ExitStack() as stack:
        watchdog = _start(("watchdog", str(patience_s)), environ, stdin=subprocess.PIPE)
        stack.callback(_end, watchdog)
        tell = watchdog.stdin
        assert tell is not None
        if scenario.actor is not None:
            actor = _start(scenario.actor, environ, stdin=subprocess.PIPE)
            stack.callback(_end, actor)
            assert actor.stdin is not None
            stack.callback(actor.stdin.close)  # by which it knows that all is over
        try:
            yield lambda pid: print(pid, file=tell, flush=True)
        finally:
            with contextlib.suppress(OSError, ValueError):
                tell.write("done\n")
                tell.close()


def _start(words: tuple[str, ...], environ: Mapping[str, str], *, stdin: int) -> "subprocess.Popen[str]":
    try:
        return subprocess.Popen(
            _command(words), env=environ, stdin=stdin, stdout=sys.stderr, text=True, cwd="/", start_new_session=True
        )
    except OSError as error:
        raise KernelUnavailable(f"the workload cannot be started: {error.strerror}") from error


def _end(process: "subprocess.Popen[str]") -> None:
    """It has done its part by now, or never will."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=5 * (GUEST_PATIENCE if is_guest() else 1))
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def _output_to_stderr() -> Iterator[None]:
    """What the job prints must not come between the lines of our own document."""
    sys.stdout.flush()
    saved = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)


def _check(outcome: Outcome) -> None:
    """Whether there is anything to compare."""
    if outcome.failure is not None:
        raise KernelUnavailable(f"the workload cannot be started: {outcome.failure.why(sys.executable)}")
    if os.WIFSIGNALED(outcome.status) and os.WTERMSIG(outcome.status) in {signal.SIGINT, signal.SIGHUP}:
        raise Interrupted(os.WTERMSIG(outcome.status))


def _cannot(folder: str) -> str | None:
    with contextlib.suppress(OSError), open(f"{folder}/cannot", encoding="utf-8") as file:
        return file.read()
    return None

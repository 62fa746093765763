# SPDX-License-Identifier: Apache-2.0
"""One tiny real kill in a memory cgroup of its own, and one control: judged as any run is, compared with the kernel.

Touches nothing but that cgroup, and removes it, however it ends.
"""

import contextlib
import os
import secrets
import sys
from collections.abc import Mapping

from tracer import __version__
from tracer.doctor.model import Selftest
from tracer.errors import CgroupUnavailable, KernelUnavailable
from tracer.events import Header
from tracer.job.cgroup import Hierarchy, JobCgroup, Limits, find_hierarchy
from tracer.job.identity import Caller, find_caller
from tracer.job.limits import make_cgroup
from tracer.job.signals import FORWARDED
from tracer.pipeline import Outcome, Pipeline, Plan
from tracer.pipeline.clocks import header_now
from tracer.pipeline.machine import open_sources
from tracer.recording import RecordingWriter
from tracer.repro.comparisons import Counted, Ended, compare_control, compare_kill
from tracer.repro.workloads import grow
from tracer.sources.pressure import read_pressure, read_vmstat
from tracer.units import MIB
from tracer.verdict.judge import judge

LIMIT_BYTES = 32 * MIB
KILL_MIB, CONTROL_MIB = 64, 4
"""Twice the limit, and no more even if the limit should not hold; and well below it."""
PATIENCE_S = 5.0
_COUNTERS = {1: "memory.oom_control", 2: "memory.events"}


class Interrupted(Exception):
    """Someone ended it: there is nothing to compare."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by signal {number}")
        self.signal = number


def selftest(environ: Mapping[str, str], *, record: str | None = None) -> Selftest:
    """Both runs and all comparisons.

    Args:
        environ: ours.
        record: where the recording of the kill is to be kept.

    Raises:
        OomtraceError: no cgroup can be made here, the kernel cannot be watched, or the recording not written.
        Interrupted: by a signal.
    """
    hierarchy = find_hierarchy()
    caller = find_caller(environ)
    kill = _run(hierarchy, KILL_MIB, caller, record)
    control = _run(hierarchy, CONTROL_MIB, caller, None)
    primary = kill.verdict.incidents[kill.verdict.primary]
    return Selftest(
        version=__version__,
        kernel_release=os.uname().release,
        cgroup_version=hierarchy.version,
        comparisons=(*compare_kill(kill, LIMIT_BYTES), *compare_control(control)),
        caveats=tuple(dict.fromkeys((*primary.caveats, *kill.verdict.caveats))),
        recording=record,
    )


def _run(hierarchy: Hierarchy, size_mib: int, caller: Caller, record: str | None) -> Ended:
    with contextlib.ExitStack() as stack:
        writer = stack.enter_context(_recording(record, header_now(cgroup_version=hierarchy.version), caller))
        # Until the workload has run, a failure leaves no file behind.
        undo = stack.enter_context(contextlib.ExitStack())
        undo.callback(writer.discard)
        sources = stack.enter_context(open_sources(need_kernel=True))
        cgroup = _make(hierarchy, caller.environ)
        try:
            before = read_vmstat()
            outcome = Pipeline(_plan(cgroup, size_mib), sources, writer).run()
            after = read_vmstat()
            kills = _counted(cgroup, hierarchy)
        finally:
            cgroup.remove(patience_s=PATIENCE_S)
        _check(outcome)
        undo.pop_all()
        with writer.read_back() as recording:
            verdict = judge(list(recording), recording=recording.path).verdict
    machine = None if before is None or after is None else after.oom_kill - before.oom_kill
    return Ended(verdict=verdict, status=outcome.status, cgroup=cgroup.path or "", counted=Counted(kills, machine))


def _check(outcome: Outcome) -> None:
    """Whether there is anything to compare."""
    if outcome.failure is not None:
        raise KernelUnavailable(f"the workload cannot be started: {outcome.failure.why(sys.executable)}")
    if os.WIFSIGNALED(outcome.status) and os.WTERMSIG(outcome.status) in FORWARDED:
        raise Interrupted(os.WTERMSIG(outcome.status))


def _recording(path: str | None, header: Header, caller: Caller) -> RecordingWriter:
    if path is None:
        return RecordingWriter.anonymous(header)
    return RecordingWriter.create(path, header, uid=caller.uid, gid=caller.gid, groups=caller.groups)


def _make(hierarchy: Hierarchy, environ: Mapping[str, str]) -> JobCgroup:
    token = f"selftest-{secrets.token_hex(4)}"
    try:
        return make_cgroup(hierarchy, token, Limits(memory_bytes=LIMIT_BYTES, swap_bytes=0), environ=environ)
    except CgroupUnavailable as error:
        if read_pressure().swap_total_bytes != 0:
            # Swapped out where it should be killed, it would show nothing.
            raise CgroupUnavailable(
                f"{error}; boot with swapaccount=1, or swapoff -a for as long as this takes"
            ) from error
    return make_cgroup(hierarchy, token, Limits(memory_bytes=LIMIT_BYTES), environ=environ)


def _plan(cgroup: JobCgroup, size_mib: int) -> Plan:
    argv = (sys.executable, "-I", "-S", os.path.abspath(grow.__file__), "--mib", str(size_mib))
    # As ourselves, and with an empty environment: an interpreter in root's home is one that no caller could start.
    ourselves = Caller(uid=os.getuid(), gid=os.getgid(), groups=tuple(os.getgroups()), environ={"PATH": os.defpath})
    return Plan(argv=argv, recorded_argv=argv, caller=ourselves, cgroup=cgroup)


def _counted(cgroup: JobCgroup, hierarchy: Hierarchy) -> int | None:
    """OOM kills in the cgroup, by its own file; `None`: no count (before 4.13), or none any more (systemd's scope)."""
    with contextlib.suppress(OSError, ValueError):
        with open(f"{hierarchy.directory(cgroup.path or '')}/{_COUNTERS[hierarchy.version]}", encoding="ascii") as file:
            words = [line.split() for line in file]
        return next((int(line[1]) for line in words if line[:1] == ["oom_kill"]), None)
    return None

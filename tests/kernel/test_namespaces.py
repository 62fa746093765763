# SPDX-License-Identifier: Apache-2.0
"""`oomtrace run` in pid and time namespaces of its own, and over jobs that make some: real kills, the right pids."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernel.running import begun, said
from tests.waiting import wait_for
from tracer.events import Header, JobStarted, LoggedKill, ProcessForked, ProcessSeen, TracerPlaced
from tracer.recording import read_recording

MIB = 1 << 20
LIMITED = ("--memory-max", "64M", "--swap-max", "0")
PIDS = ("unshare", "--pid", "--fork", "--kill-child")
CONTAINER = (*PIDS, "--mount-proc")
TIME = ("unshare", "--time", "--boottime", "1000", "--monotonic", "500", "--fork", "--kill-child")
USER = ("unshare", "--user", "--map-root-user")
JOB = r"""
import os, sys, time
eater = os.fork()
if eater == 0:
    print(os.getpid(), flush=True)
    while len(sys.argv) > 1 and not os.path.exists(sys.argv[1]):
        time.sleep(0.01)
    kept = []
    while True:
        kept.append(bytes([1]) * (1 << 20))
_, status = os.waitpid(eater, 0)
for _ in range(3):
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
sys.exit(9 if status == 9 else 1)
"""


@pytest.fixture
def job(oomtrace, does_not_apply):
    """Runs a job below a command that makes namespaces: one child of it is killed, and says its own pid before."""

    def run(within=(), inside=(), **kwargs):
        for prefix in (within, inside):
            if prefix and subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode:
                does_not_apply(f"{' '.join(prefix)} is not possible")
        return oomtrace(*inside, sys.executable, "-S", "-c", JOB, within=within, options=LIMITED, **kwargs)

    return run


def placed(run):
    [event] = run.events(TracerPlaced)
    return event


def doubts(run):
    """Caveats about pids and clocks; kills elsewhere on this machine are told as well."""
    return [caveat for caveat in run.verdict["caveats"] if "namespace" in caveat or "could not" in caveat]


def assert_proved(run):
    """The kill is proved, and its pids are the kernel's: the kernel's own log is the witness."""
    [forked] = [e for e in run.events(ProcessForked) if e.tgid == run.primary["victim"]["pid"]]
    said_by_kernel = {event.pid for event in run.events(LoggedKill)}
    own_pid = int(run.out.split()[0])

    assert run.code == 9
    assert (run.primary["cause"], run.primary["strength"]) == ("host_oom_cgroup", "proved")
    assert [run.links[number] for number in (1, 2, 3, 4)] == ["present"] * 4
    assert forked.ns_tgid == own_pid
    assert not said_by_kernel or forked.tgid in said_by_kernel
    assert run.primary["victim"]["ns_pids"][-1] == own_pid
    assert all(event.in_tree for event in run.events(ProcessForked))


@pytest.mark.parametrize(
    "within, level, proc",
    [
        (CONTAINER, 1, "own"),
        ((*CONTAINER, *CONTAINER), 2, "own"),
        (PIDS, 1, "initial"),
        ((*CONTAINER, *PIDS), 2, "none"),
    ],
    ids=["container", "container in a container", "proc of the host", "proc of neither"],
)
def test_in_a_pid_namespace_of_its_own_the_proof_is_whole(job, within, level, proc):
    run = job(within)
    event, [started] = placed(run), run.events(JobStarted)
    children = [e for e in run.events(ProcessForked) if e.parent_tgid == started.tgid]

    assert_proved(run)
    assert (event.job_ns_level, event.proc) == (level + outer_level(), proc)
    assert (started.tgid, event.job_start_ns) == (event.job_tgid, started.start_ns)
    assert event.job_own_tgid < started.tgid
    assert run.events(Header)[0].pid < event.tgid
    assert len(children) == 4
    assert bool(doubts(run)) == (proc == "none")
    assert {e.tgid for e in run.events(ProcessSeen)} <= {started.tgid, *(e.tgid for e in children)}
    assert bool(run.events(ProcessSeen)) == (proc != "none")


def outer_level():
    """Of these tests, which may run in a container themselves."""
    status = Path("/proc/self/status").read_text()
    number = os.stat("/proc/self/ns/pid").st_ino
    return 0 if number == 0xEFFFFFFC else len(status.partition("NSpid:")[2].partition("\n")[0].split())


def test_outside_of_all_namespaces_the_kernel_is_asked_as_well(job):
    run = job()
    event, [started] = placed(run), run.events(JobStarted)

    assert_proved(run)
    assert (event.tgid, event.proc) == (run.events(Header)[0].pid, "same")
    assert (event.job_tgid, event.job_own_tgid) == (started.tgid, started.tgid)
    assert run.primary["victim"]["ns_pids"] == [run.primary["victim"]["pid"]]


@pytest.mark.parametrize("within", [TIME, (*TIME, *CONTAINER)], ids=["time", "time and pid"])
def test_in_a_time_namespace_records_and_proc_are_of_one_clock(job, within):
    run = job(within)
    event, header = placed(run), run.events(Header)[0]

    assert_proved(run)
    assert (event.monotonic_shift_ns, event.boottime_shift_ns) == (500_000_000_000, 1_000_000_000_000)
    assert all(header.ts_ns <= e.ts_ns <= header.ts_ns + 60_000_000_000 for e in run.events(ProcessForked))
    assert {e.start_ns // 10_000_000 for e in run.events(ProcessSeen)} & {event.job_start_ns // 10_000_000}
    assert doubts(run) == []


@pytest.mark.parametrize(
    "within, levels", [((), 2), (CONTAINER, 4)], ids=["tracer outside", "tracer in one, job two levels deeper"]
)
def test_a_job_that_makes_namespaces_is_told_with_its_pids_at_each_level(oomtrace, tmp_path, within, levels):
    inside = (*CONTAINER, *CONTAINER) if within else CONTAINER
    go, path = tmp_path / "go", tmp_path / "run.oomtrace"
    process = oomtrace.start(*inside, sys.executable, "-S", "-c", JOB, go, within=within, options=LIMITED)

    def eater_was_seen():
        # It was looked at, and not only its launcher: the last of the line to be forked.
        events = list(read_recording(path)) if begun(path) else []
        forks = [e.tgid for e in events if isinstance(e, ProcessForked)]
        return len(forks) > len(inside) // len(CONTAINER) and forks[-1] in {
            e.tgid for e in events if isinstance(e, ProcessSeen)
        }

    wait_for(eater_was_seen, "the process that is to be killed to be looked at")
    go.touch()
    run = oomtrace.finish(process)
    ns_pids = run.primary["victim"]["ns_pids"]

    assert_proved(run)
    assert ns_pids[0] == run.primary["victim"]["pid"]
    assert len(ns_pids) == levels
    said = " ".join(run.err.split())
    assert f"pid {ns_pids[-1]} in its pid namespace is pid {ns_pids[0]} on the host" in said


def test_in_a_container_a_signal_that_was_passed_on_is_told_to_be_from_its_sender(oomtrace, tmp_path):
    ready = tmp_path / "ready"
    script = "trap 'exit 9' TERM; : > trapped; while :; do sleep 0.02; done"
    process = oomtrace.start("sh", "-c", script, within=CONTAINER, options=("--ready-file", str(ready)))
    wait_for(lambda: said(ready) and (tmp_path / "trapped").exists(), "the job to run")
    tracer = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())

    os.kill(tracer, signal.SIGTERM)
    run = oomtrace.finish(process)

    assert run.code == 9
    assert placed(run).tgid == tracer
    assert (run.primary["cause"], run.primary["sender"]["kind"]) == ("sigterm", "outside")
    assert run.primary["sender"]["pid"] == os.getpid()


def test_a_job_in_a_container_that_comes_through_is_proved_to_be_unharmed(oomtrace):
    run = oomtrace("sh", "-c", "(exit 0); exit 0", within=CONTAINER)

    assert (run.code, run.primary["cause"], run.primary["strength"]) == (0, "exited", "proved")


@pytest.mark.parametrize("more", [("--pid", "--fork", "--mount-proc"), ("--pid", "--fork")], ids=["own proc", "host's"])
def test_where_the_kernel_cannot_be_watched_and_pids_differ_only_counts_tell_of_kills(job, more):
    run = job((*USER, *more, "--kill-child"))

    assert run.code == 9
    assert run.events(TracerPlaced) == []
    kills = [incident for incident in run.verdict["incidents"] if incident["cause"].startswith("host_oom")]
    assert {incident["proof"][0]["rung"] for incident in kills} <= {"cgroup_counters"}
    assert run.primary["strength"] != "proved"
    assert any("pid namespace" in caveat for caveat in run.verdict["caveats"])
    assert any("nothing there was used" in caveat for caveat in run.verdict["caveats"]) == (len(more) == 2)

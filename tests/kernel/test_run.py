# SPDX-License-Identifier: Apache-2.0
"""`oomtrace run` as a person uses it: real jobs, real kills in a cgroup of the run's own, real reports."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.checkout import ROOT
from tests.kernel.running import said
from tests.waiting import DEADLINE_S, SLOWER, wait_for
from tracer.events import JobStarted, ProcessForked, ProcessSeen
from tracer.job.cgroup import NAME_PREFIX, find_hierarchy
from tracer.recording import read_recording

DATALOADER = ROOT / "tracer" / "repro" / "workloads" / "dataloader.py"
HOG = (sys.executable, "-S", "-c", "x = []\nwhile True: x.append(bytes([1]) * (1 << 20))")


@pytest.fixture(autouse=True)
def no_cgroup_is_left(can_trace, tmp_path):
    yield
    assert left_cgroups(tmp_path) == []


def left_cgroups(folder):
    """The cgroups that were made for the runs recorded in a folder, and are still there: others are none of ours."""
    hierarchy = find_hierarchy()
    events = [event for path in folder.glob("*.oomtrace") for event in read_recording(path)]
    made = [event.cgroup for event in events if isinstance(event, JobStarted) and event.own_cgroup]
    return [path for path in map(Path, map(hierarchy.directory, made)) if path.exists()]


def test_a_worker_that_outgrows_the_limit_is_proved_to_be_killed_for_it(oomtrace):
    run = oomtrace(sys.executable, DATALOADER, "--rate-mib", 120, options=("--memory-max", "256M", "--swap-max", "0"))

    victim = run.primary["victim"]
    assert run.code == 1
    assert (run.primary["cause"], run.primary["strength"]) == ("host_oom_cgroup", "proved")
    assert [run.links[number] for number in (1, 2, 3, 4)] == ["present"] * 4
    assert (victim["comm"], victim["role"], victim["rank"], victim["worker"]) == (
        "pt_data_worker",
        "dataloader_worker",
        0,
        2,
    )
    assert run.primary["limit"]["limit_bytes"] == 256 << 20
    assert NAME_PREFIX in run.primary["limit"]["cgroup"]
    assert f"DataLoader worker (pid {victim['pid']}) is killed by signal: Killed." in run.err
    assert "Killed by the kernel" in run.err


def test_the_same_job_without_the_growth_is_no_kill(oomtrace):
    run = oomtrace(
        sys.executable, DATALOADER, "--steady", "--seconds", 1, options=("--memory-max", "256M", "--swap-max", "0")
    )

    assert run.code == 0
    assert (run.primary["cause"], run.primary["strength"]) == ("exited", "proved")
    assert "done after" in run.out


def test_a_job_whose_own_process_is_killed_gives_137(oomtrace):
    run = oomtrace(*HOG, options=("--memory-max", "64M", "--swap-max", "0"))

    assert run.code == 128 + signal.SIGKILL
    assert (run.primary["cause"], run.primary["strength"]) == ("host_oom_cgroup", "proved")
    assert run.verdict["job"]["pid"] == run.primary["victim"]["pid"]


@pytest.mark.parametrize(
    "job, code, cause",
    [
        (("true",), 0, "exited"),
        (("false",), 1, "exited"),
        (("sh", "-c", "exit 77"), 77, "exited"),
        (("sh", "-c", "kill -9 $$"), 137, "sigkill"),
        (("sh", "-c", "kill -TERM $$"), 143, "sigterm"),
        ((sys.executable, "-S", "-c", "import ctypes; ctypes.string_at(0)"), 139, "crash"),
    ],
    ids=str,
)
def test_a_job_that_no_oom_killer_ended_is_never_called_an_oom_kill(oomtrace, job, code, cause):
    run = oomtrace(*job)

    assert (run.code, run.primary["cause"]) == (code, cause)


@pytest.mark.parametrize(
    "command, code, said",
    [("no-such-command-anywhere", 127, "command not found"), ("/etc/passwd", 126, "Permission denied")],
)
def test_a_command_that_cannot_be_run_is_told_in_one_line_and_not_recorded(oomtrace, tmp_path, command, code, said):
    process = oomtrace.start(command, options=("--memory-max", "64M"))
    out, err = process.communicate(timeout=60 * SLOWER)

    assert (process.returncode, out, err) == (code, "", f"oomtrace: {command}: {said}\n")
    assert list(tmp_path.iterdir()) == []


def test_no_process_of_the_job_is_missed_from_its_first_fork_on(oomtrace):
    run = oomtrace("sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23; do (:); done")

    [started] = run.events(JobStarted)
    children = [event for event in run.events(ProcessForked) if event.parent_tgid == started.tgid]
    assert len({event.tgid for event in children}) == 23
    assert {event.tgid for event in run.events(ProcessSeen)} >= {started.tgid}


def test_the_jobs_output_and_input_are_untouched(oomtrace):
    process = oomtrace.start("sh", "-c", "cat; echo err >&2", stdin=subprocess.PIPE)
    process.stdin.write("through\n")
    process.stdin.close()
    process.stdin = None
    run = oomtrace.finish(process)

    assert run.out == "through\n"
    assert run.err.startswith("err\n\n")


def test_the_job_stands_in_its_cgroup_and_the_tracer_does_not(oomtrace):
    run = oomtrace("sh", "-c", "cat /proc/self/cgroup; echo; cat /proc/$PPID/cgroup", options=("--memory-max", "64M"))

    jobs, tracers = run.out.split("\n\n")
    assert NAME_PREFIX in jobs
    assert NAME_PREFIX not in tracers
    assert run.events(JobStarted)[0].own_cgroup


def test_the_job_inherits_no_descriptor_of_the_tracer(oomtrace):
    run = oomtrace("sh", "-c", "ls -l /proc/self/fd")

    assert "bpf" not in run.out
    assert "kmsg" not in run.out
    assert ".oomtrace" not in run.out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_to_the_tracer_reaches_the_job(oomtrace, tmp_path, number):
    ready = tmp_path / "ready"
    name = signal.Signals(number).name.removeprefix("SIG")
    job = ("sh", "-c", f"trap 'exit 9' {name}; : > trapped; while :; do sleep 0.02; done")
    process = oomtrace.start(*job, options=("--ready-file", str(ready)))
    wait_for(lambda: said(ready) and (tmp_path / "trapped").exists(), "the job to run")

    process.send_signal(number)
    run = oomtrace.finish(process)

    assert run.code == 9
    assert not run.primary["cause"].startswith("host_oom")


def test_a_tracer_that_is_killed_leaves_the_job_running_and_a_readable_recording(oomtrace, tmp_path):
    job = ("sh", "-c", "while ! [ -e go ]; do sleep 0.02; done; : > done")
    process = oomtrace.start(*job, options=("--ready-file", str(tmp_path / "ready")))
    wait_for(lambda: said(tmp_path / "ready"), "the job to run")

    process.kill()
    process.wait(DEADLINE_S)
    (tmp_path / "go").touch()

    wait_for((tmp_path / "done").exists, "the job to go on")
    run = oomtrace.finish(process)
    assert any("no end" in caveat for caveat in run.verdict["caveats"])
    assert run.verdict["job"]["status"] == "running"


def test_what_is_left_running_in_the_cgroup_is_named_and_not_ended(oomtrace, tmp_path):
    job = (
        "sh",
        "-c",
        "setsid sh -c 'echo $$ > left; exec sleep 60' >/dev/null 2>&1 & while ! [ -s left ]; do sleep 0.02; done",
    )
    run = oomtrace(*job, options=("--memory-max", "64M"))
    left = int((tmp_path / "left").read_text())
    [cgroup] = left_cgroups(tmp_path)
    try:
        assert Path(f"/proc/{left}").exists()
        assert any(f"{left} (sleep 60)" in caveat and "still ran" in caveat for caveat in run.verdict["caveats"])
    finally:
        os.kill(left, signal.SIGKILL)
        wait_for(lambda: not (cgroup / "cgroup.procs").read_text(), "it to be gone")
        cgroup.rmdir()


def test_a_worker_that_outlives_its_killed_parent_for_a_moment_leaves_no_cgroup_behind(oomtrace, tmp_path):
    # As DataLoader workers do, which look after their parent every few seconds. This one is gone by the report.
    worker = "while ! [ -s report ]; do sleep 0.05; done"
    job = f"({worker}) >/dev/null 2>&1 & exec {shlex.join(HOG)}"
    run = oomtrace("sh", "-c", job, options=("--memory-max", "64M", "--swap-max", "0", "--report", "report"))

    assert run.code == 128 + signal.SIGKILL
    assert any("still ran" in caveat for caveat in run.verdict["caveats"])
    assert left_cgroups(tmp_path) == []


def test_what_a_killed_tracer_left_is_removed_by_the_next_run(oomtrace, tmp_path):
    ready, options = tmp_path / "ready", ("--memory-max", "64M")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = oomtrace.start("sleep", "600", options=(*options, "--ready-file", str(ready)), **quiet)
    wait_for(lambda: said(ready), "the job to run")
    process.kill()
    process.wait(DEADLINE_S)
    [cgroup] = left_cgroups(tmp_path)
    (tmp_path / "run.oomtrace").rename(tmp_path / "first.oomtrace")

    oomtrace("true", options=options)
    assert cgroup.exists(), "its job runs on"
    (tmp_path / "run.oomtrace").unlink()
    os.kill(int(ready.read_text()), signal.SIGKILL)
    wait_for(lambda: not (cgroup / "cgroup.procs").read_text(), "the job to be gone")
    oomtrace("true", options=options)

    assert not cgroup.exists()


def test_oom_score_adj_of_the_job_is_what_it_would_be_without_us(oomtrace):
    before = Path("/proc/self/oom_score_adj").read_text()

    assert oomtrace("cat", "/proc/self/oom_score_adj").out == before


def test_the_tracer_is_passed_over_by_the_oom_killer_where_it_may_ask_for_that(oomtrace):
    before = Path("/proc/self/oom_score_adj").read_text().strip()
    both = oomtrace("sh", "-c", "cat /proc/$PPID/oom_score_adj /proc/self/oom_score_adj").out.split()

    assert both == ["-1000" if may_shun_oom_killer() else before, before]


def may_shun_oom_killer():
    script = "with open('/proc/self/oom_score_adj', 'w') as file: file.write('-1000')"
    return subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, check=False).returncode == 0


def test_a_limit_that_lets_nothing_run_starts_no_job(oomtrace, tmp_path):
    process = oomtrace.start("touch", "started", options=("--swap-max", "0", "--memory-max", "1"))
    process.communicate(timeout=60 * SLOWER)

    # Refused before anything is made: a page rounds it to nothing, and no program starts in that.
    assert process.returncode == 2
    assert list(tmp_path.iterdir()) == []

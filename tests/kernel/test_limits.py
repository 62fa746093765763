# SPDX-License-Identifier: Apache-2.0
"""`--memory-max` and `--swap-max` on the running kernel: where the cgroup stands, what holds there, what is left."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.checkout import ROOT
from tests.kernel.running import said
from tests.waiting import SLOWER, wait_for
from tracer.events import JobStarted
from tracer.job.cgroup import NAME_PREFIX, find_hierarchy, memory_path
from tracer.job.systemd import is_booted

HOG = (sys.executable, "-S", "-c", "x = []\nwhile True: x.append(bytes([1]) * (1 << 20))")
MIB = 1 << 20


@pytest.fixture
def waiting(oomtrace, tmp_path):
    """Starts a run whose job waits; the folder of the job's cgroup, and the rest of the run as a function."""

    def start(*options):
        ready, go = tmp_path / "ready", tmp_path / "go"
        job = ("sh", "-c", f"while ! [ -e {shlex.quote(str(go))} ]; do sleep 0.02; done")
        process = oomtrace.start(*job, options=(*options, "--ready-file", str(ready)))
        wait_for(lambda: said(ready) or process.poll() is not None, "the job to run")
        hierarchy = find_hierarchy()
        path = memory_path(hierarchy, int(ready.read_text()))

        def finish():
            go.touch()
            return oomtrace.finish(process)

        return path, Path(hierarchy.directory(path)), finish

    return start


def value(folder, v2, v1):
    file = folder / v2 if (folder / v2).exists() else folder / v1
    return file.read_text().strip()


def test_the_cgroup_stands_below_what_surrounds_the_caller_and_is_gone_afterwards(waiting):
    own = find_hierarchy()
    path, folder, finish = waiting("--memory-max", "64M")
    surrounds = own.own_path if own.version == 1 and not is_booted() else os.path.dirname(own.own_path)

    assert os.path.basename(path).startswith(NAME_PREFIX)
    assert f"{path}/".startswith(surrounds.rstrip("/") + "/")
    assert int(value(folder, "memory.max", "memory.limit_in_bytes")) == 64 * MIB
    run = finish()
    wait_for(lambda: not folder.exists(), "the cgroup to be gone")
    [started] = run.events(JobStarted)
    assert (started.cgroup, started.own_cgroup) == (path, True)


def test_max_gives_a_cgroup_of_its_own_without_a_limit(waiting):
    path, folder, finish = waiting("--memory-max", "max")
    limit = value(folder, "memory.max", "memory.limit_in_bytes")
    run = finish()

    assert limit == "max" or int(limit) > 1 << 60
    assert os.path.basename(path).startswith(NAME_PREFIX)
    assert run.primary["cause"] == "exited"


def test_swap_has_a_limit_of_its_own_where_the_kernel_counts_it(waiting, does_not_apply):
    hierarchy = find_hierarchy()
    names = ("memory.swap.max", "memory.memsw.limit_in_bytes")
    if hierarchy.version == 1 and not os.path.exists(f"{hierarchy.mount}/{names[1]}"):
        does_not_apply("this kernel does not count swap")
    _, folder, finish = waiting("--memory-max", "64M", "--swap-max", "16M")
    limit = int(value(folder, *names))
    finish()

    assert limit == (16 if hierarchy.version == 2 else 64 + 16) * MIB


def test_a_limit_further_out_still_holds(oomtrace, memory_cgroup, tmp_path):
    memory_cgroup.limit(384 * MIB)
    inner = memory_cgroup.child("caller")
    command = [sys.executable, "-m", "tracer", "run", "--record", str(tmp_path / "run.oomtrace")]
    command += ["--memory-max", "2G", "--swap-max", "0", "--", *HOG]
    into = f'echo $$ > {shlex.quote(str(inner.path / "cgroup.procs"))} && exec "$@"'
    process = subprocess.Popen(
        ["sh", "-c", into, "sh", *command],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    run = oomtrace.finish(process)

    assert run.code == 137
    assert (run.primary["cause"], run.primary["strength"]) == ("host_oom_cgroup", "proved")
    assert run.primary["limit"]["cgroup"].endswith(f"/{memory_cgroup.path.name}")
    assert run.primary["limit"]["limit_bytes"] == 384 * MIB


def test_cgroups_that_the_job_made_below_its_own_are_removed_with_it(oomtrace):
    hierarchy = find_hierarchy()
    job = f"""
import os, sys
sys.path.insert(0, {str(ROOT)!r})
from tracer.job.cgroup import find_hierarchy
h = find_hierarchy()
os.makedirs(h.directory(h.own_path + "/of the job/deeper"))
print(h.own_path)
"""
    run = oomtrace(sys.executable, "-c", job, options=("--memory-max", "256M"))

    folder = Path(hierarchy.directory(run.out.strip()))
    assert NAME_PREFIX in folder.name
    wait_for(lambda: not folder.exists(), "the cgroup to be gone")
    assert not any("cannot remove" in caveat for caveat in run.verdict["caveats"])


def test_a_limit_above_the_ram_is_said_to_be_vain_and_the_job_runs(oomtrace):
    run = oomtrace("echo", "ran", options=("--memory-max", "1000T"))

    assert (run.code, run.out) == (0, "ran\n")
    assert "more than the RAM of this machine" in run.err.splitlines()[0]
    assert any("more than the RAM" in caveat for caveat in run.verdict["caveats"])


@pytest.mark.parametrize(
    "setup, says",
    [
        ("mount -t tmpfs none /sys/fs/cgroup", "no memory controller is mounted"),
        ("mount --bind {mount} {mount} && mount -o remount,bind,ro {mount}", "limit the container as a whole"),
    ],
    ids=["no memory controller", "read-only"],
)
def test_where_no_cgroup_can_be_made_the_job_does_not_start_and_one_line_says_why(
    oomtrace, tmp_path, can_trace, does_not_apply, setup, says
):
    hierarchy = find_hierarchy()
    if is_booted():
        does_not_apply("systemd makes the cgroup, and it is not in our mount namespace")
    script = f'{setup.format(mount=hierarchy.mount)} && exec "$@"'
    command = [sys.executable, "-m", "tracer", "run", "--memory-max", "64M", "--", "touch", "started"]
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", *command],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60 * SLOWER,
        check=False,
    )

    assert done.returncode == 5, done.stderr
    line, following = done.stderr.splitlines()
    assert line.startswith("oomtrace: ")
    assert says in line
    assert following == "try: sudo oomtrace doctor"
    assert list(tmp_path.iterdir()) == []

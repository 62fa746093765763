# SPDX-License-Identifier: Apache-2.0
"""`oomtrace selftest` with its real kill: what it compares, what it says when something is wrong, what it leaves."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.checkout import ROOT
from tests.kernel.test_doctor import packages_of_bcc, within
from tests.waiting import SLOWER
from tracer.job.cgroup import find_hierarchy
from tracer.pipeline import Outcome
from tracer.repro import selftest as module
from tracer.repro.selftest import Interrupted, selftest

ENVIRON = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "COLUMNS": "80"}


@pytest.fixture(autouse=True)
def made(can_trace, monkeypatch):
    """The folders of the cgroups that are made in this process; none is there afterwards."""
    folders, make_cgroup = [], module.make_cgroup

    def noted(hierarchy, *arguments, **more):
        cgroup = make_cgroup(hierarchy, *arguments, **more)
        folders.append(Path(hierarchy.directory(cgroup.path)))
        return cgroup

    monkeypatch.setattr(module, "make_cgroup", noted)
    yield folders
    assert [folder for folder in folders if folder.exists()] == []


def oomtrace(*arguments, prefix=(), cwd="/"):
    command = [*prefix, sys.executable, "-m", "tracer", *map(str, arguments)]
    return subprocess.run(
        command, cwd=cwd, env=ENVIRON, capture_output=True, text=True, timeout=60 * SLOWER, check=False
    )


def test_a_kill_and_a_control_agree_with_the_kernels_own_counters(tmp_path):
    path = tmp_path / "kill.oomtrace"
    done = oomtrace("selftest", "--json", "--record", path)
    document = json.loads(done.stdout)
    killed = {one["what"]: one["found"] for one in document["comparisons"] if one["run"] == "kill"}
    control = {one["what"]: one["found"] for one in document["comparisons"] if one["run"] == "control"}

    assert (done.returncode, done.stderr) == (0, "")
    assert (killed["cause"], killed["strength"], killed["OOM kills in its cgroup"]) == (
        "host_oom_cgroup",
        "proved",
        "1",
    )
    assert (control["cause"], control["OOM kills in its cgroup"]) == ("exited", "0")
    assert not Path(find_hierarchy().directory(killed["whose limit"])).exists()
    assert json.loads(oomtrace("report", "--json", path).stdout)["incidents"][0]["cause"] == "host_oom_cgroup"


def test_a_person_is_told_so_and_no_recording_is_kept(tmp_path):
    done = oomtrace("selftest", cwd=tmp_path)

    assert done.returncode == 0
    assert done.stdout.startswith("One real kill and one control: all agree\n")
    assert list(tmp_path.iterdir()) == []


def test_a_kill_that_does_not_come_is_told(monkeypatch):
    monkeypatch.setattr(module, "KILL_MIB", module.CONTROL_MIB)
    result = selftest({})
    wrong = {one.what for one in result.comparisons if not one.agrees}

    assert not result.agrees
    assert {"cause", "OOM kills in its cgroup", "child, by its parent", "whose limit"} <= wrong
    assert {one.run for one in result.comparisons if not one.agrees} == {"kill"}


def test_a_control_that_is_killed_is_told(monkeypatch):
    monkeypatch.setattr(module, "CONTROL_MIB", module.KILL_MIB)
    wrong = {(one.run, one.what) for one in selftest({}).comparisons if not one.agrees}

    assert {("control", "cause"), ("control", "OOM kills in its cgroup"), ("control", "exit status")} <= wrong
    assert {run for run, _ in wrong} == {"control"}


def pipeline_that(end):
    class Pipeline:
        def __init__(self, *_):
            pass

        def run(self):
            return end()

    return Pipeline


def test_an_interrupt_leaves_neither_cgroup_nor_recording(monkeypatch, made, tmp_path):
    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "Pipeline", pipeline_that(interrupt))
    with pytest.raises(KeyboardInterrupt):
        selftest({}, record=str(tmp_path / "kill.oomtrace"))

    assert len(made) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_signal_that_ended_the_workload_ends_the_selftest(monkeypatch, made):
    monkeypatch.setattr(module, "Pipeline", pipeline_that(lambda: Outcome(status=signal.SIGTERM)))
    with pytest.raises(Interrupted) as stopped:
        selftest({})

    assert stopped.value.signal == signal.SIGTERM
    assert len(made) == 1


def test_where_the_kernel_cannot_be_watched_nothing_is_made():
    done = oomtrace("selftest", prefix=within(f"mount -t tmpfs none {packages_of_bcc()}"))

    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr.startswith("oomtrace: BPF loader failed at import: ")
    assert done.stderr.endswith("\ntry: sudo oomtrace doctor\n")

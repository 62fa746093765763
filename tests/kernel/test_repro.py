# SPDX-License-Identifier: Apache-2.0
"""Scenarios of the catalogue as `oomtrace repro` plays them here; what they expect stands in their declarations."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.checkout import ROOT
from tests.waiting import SLOWER, has_ended, wait_for
from tracer.events import JobStarted, TrainingLine
from tracer.job.cgroup import find_hierarchy, memory_path
from tracer.recording import read_recording

QUICK = (
    "memcg-grandparent",
    "page-cache",
    "shm-full",
    "kernel-pipes",
    "already-dying",
    "pod",
    "pidns-init",
    "hostile-names",
    "kill-9",
    "exit-137",
)
ENVIRON = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "COLUMNS": "80"}
# In a process of its own: who plays shuns the OOM killer, and its children would as well.
PLAYER = """
import os, sys
import msgspec
from tracer.repro.catalogue import by_name
from tracer.repro.runner import play
scenario = msgspec.structs.replace(by_name()[sys.argv[1]], **eval(sys.argv[2]))
print(msgspec.json.encode(play(scenario, os.environ, record=sys.argv[3])).decode())
"""


@pytest.fixture
def played(can_trace, tmp_path):
    """Runs something that plays a scenario; afterwards nothing of that is left."""
    recording = tmp_path / "played.oomtrace"
    shared = tmp_path / "shared"
    shared.mkdir()

    def run(*command):
        return subprocess.run(
            [sys.executable, *map(str, command)], cwd="/", env=ENVIRON | {"TMPDIR": str(shared)},
            capture_output=True, text=True, timeout=90 * SLOWER, check=False,
        )  # fmt: skip

    run.recording, run.shared = recording, shared
    yield run
    assert list(shared.iterdir()) == []
    for started in (event for event in read_recording(recording) if isinstance(event, JobStarted)):
        assert not folder_of(started.cgroup).exists()


def folder_of(cgroup):
    """The scenario's own, also where the job began in one below it."""
    return Path(find_hierarchy().directory(cgroup.removesuffix("/job")))


def changed(played, name, fields):
    return json.loads(played("-c", PLAYER, name, fields, played.recording).stdout)


@pytest.mark.parametrize("name", QUICK)
def test_the_verdict_is_as_declared(played, name, does_not_apply):
    done = played("-m", "tracer", "repro", name, "--json", "--record", played.recording)
    result = json.loads(done.stdout)
    if result["outcome"] == "not_applicable":
        does_not_apply(result["reason"])

    assert (result["outcome"], result["reason"], done.returncode) == ("pass", None, 0)


def test_a_recording_is_kept_and_says_the_same(played):
    done = played("-m", "tracer", "repro", "memcg-leaf", "--record", played.recording)
    report = json.loads(played("-m", "tracer", "report", "--json", played.recording).stdout)

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("pass  memcg-leaf")
    assert report["incidents"][report["primary"]]["cause"] == "host_oom_cgroup"


def test_the_jobs_output_is_kept_seen_and_recorded(played, tmp_path):
    log = tmp_path / "job.log"
    done = played("-m", "tracer", "repro", "worker-cache", "--json", "--record", played.recording, "--log", log)
    lines = [event for event in read_recording(played.recording) if isinstance(event, TrainingLine)]

    assert json.loads(done.stdout)["outcome"] == "pass"
    assert "is killed by signal: Killed" in log.read_text()
    assert log.read_text().splitlines()[-1] in done.stderr
    assert "worker_killed" in {line.about for line in lines}


def test_a_verdict_that_is_not_as_declared_fails_and_says_what(played):
    wrong = "dict(expected=msgspec.structs.replace(by_name()['exit-137'].expected, cause=('sigkill',), killed=(1, 1)))"
    result = changed(played, "exit-137", wrong)

    assert result["outcome"] == "fail"
    assert "cause: expected sigkill, found exited" in result["reason"]
    assert "killed for want of memory: expected 1, found 0" in result["reason"]


def test_a_job_that_takes_far_too_long_is_ended(played):
    result = changed(played, "kill-9", "dict(actor=None, seconds=1)")

    assert (result["outcome"], result["found"]["status"]) == ("fail", "signal 9")
    assert "sender_comm: expected 'killer'" in result["reason"]


def test_the_job_is_ended_with_a_player_that_was_killed(can_trace, tmp_path):
    command = [sys.executable, "-c", PLAYER, "kill-9", "dict(actor=None)", str(tmp_path / "run.oomtrace")]
    player = subprocess.Popen(command, cwd="/", env=ENVIRON | {"TMPDIR": str(tmp_path)}, start_new_session=True)
    try:
        wait_for(lambda: list(tmp_path.glob("*/pid")) or player.poll() is not None, "the job to run")
        job = int(next(tmp_path.glob("*/pid")).read_text())
        path = memory_path(find_hierarchy(), job)
    finally:
        os.kill(player.pid, signal.SIGKILL)
        player.wait()

    wait_for(lambda: has_ended(job), "the job to be ended")
    # Empty, it is what any later run removes.
    procs = folder_of(path) / "cgroup.procs"
    with contextlib.suppress(FileNotFoundError):
        wait_for(lambda: not procs.read_text(), "the cgroup to become empty")
        procs.parent.rmdir()

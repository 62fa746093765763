# SPDX-License-Identifier: Apache-2.0
"""Real signals from outside the job: which program sent them, who stands above it, in which cgroup it was."""

import shutil
import subprocess

import pytest

from tests.kernel.running import said
from tests.waiting import wait_for
from tracer.events import SenderSeen

pytestmark = pytest.mark.kernel


@pytest.fixture
def ended_by(oomtrace, tmp_path):
    """Runs a job that does nothing, and has a program send it a signal."""

    def run(*command):
        ready = tmp_path / "ready"
        process = oomtrace.start("sleep", "600", options=("--ready-file", str(ready)))
        wait_for(lambda: said(ready) or process.poll() is not None, "the job to run")
        sender = subprocess.Popen([*command, ready.read_text().strip()], stdin=subprocess.PIPE)
        try:
            return oomtrace.finish(process)
        finally:
            sender.communicate(b"\n")

    return run


def test_a_kill_that_is_gone_at_once_is_told_with_the_shells_above_it(ended_by):
    run = ended_by("bash", "-c", 'bash -c "/bin/kill -9 $0; read -r"; :')
    sender = run.primary["sender"]

    assert (run.primary["cause"], run.primary["strength"]) == ("sigkill", "proved")
    assert (sender["comm"], sender["kind"], sender["trade"]) == ("kill", "outside", None)
    assert [one["comm"] for one in sender["ancestors"]][:2] == ["bash", "bash"]
    assert sender["cgroup"] is not None
    assert "below" in run.err


@pytest.mark.parametrize("signal", ["9", "15"])
def test_a_program_that_is_an_oom_daemon_is_told_to_be_one(ended_by, tmp_path, signal):
    daemon = tmp_path / "earlyoom"
    shutil.copy("/bin/bash", daemon)
    run = ended_by(daemon, "-c", f"kill -{signal} $0; read -r")
    sender = run.primary["sender"]

    assert (run.primary["cause"], run.primary["strength"]) == ("userspace_oom_daemon", "proved")
    assert (sender["kind"], sender["trade"], sender["program"]) == ("daemon", "oom_daemon", "earlyoom")
    assert sender["known_by"] == f"its program {daemon}"
    assert len(run.events(SenderSeen)) == 1


def test_a_program_that_only_calls_itself_an_oom_daemon_is_none(ended_by):
    run = ended_by("bash", "-c", "printf earlyoom >/proc/$$/comm; kill -9 $0; read -r")

    assert (run.primary["cause"], run.primary["sender"]["comm"]) == ("sigkill", "earlyoom")
    assert run.primary["sender"]["kind"] == "outside"

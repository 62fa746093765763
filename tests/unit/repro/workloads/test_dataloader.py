# SPDX-License-Identifier: Apache-2.0
"""The DataLoader job in small looks and fails as the large one does."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.architecture.checkout import ROOT

PROGRAM = ROOT / "tracer" / "repro" / "workloads" / "dataloader.py"
SMALL = ("--dataset-mib", "1", "--worker-mib", "1", "--rate-mib", "1", "--cap-mib", "4")
DEADLINE_S = 30


@pytest.fixture
def job():
    """Starts one; what is left of it is ended."""
    started = []

    def start(*options):
        started.append(
            subprocess.Popen(
                [sys.executable, "-S", str(PROGRAM), *SMALL, *options],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={"PATH": os.environ["PATH"]},
            )
        )
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            for child in psutil.Process(process.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):  # ended meanwhile, as a sibling's end may make it
                    child.kill()
            process.kill()
        process.communicate()


def workers_of(process, count):
    """The processes that have given themselves a worker's name, once there are so many."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        assert time.monotonic() < deadline
        children = psutil.Process(process.pid).children(recursive=True)
        found = [child for child in children if comm(child.pid) == "pt_data_worker"]
        if len(found) == count:
            return found


def lives(process):
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def comm(pid):
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return None


@pytest.mark.parametrize("leak", [(), ("--steady",)])
def test_without_a_limit_round_it_it_ends_well(job, leak):
    process = job("--seconds", "0.5", *leak)
    out, err = process.communicate(timeout=DEADLINE_S)

    assert (process.returncode, err) == (0, "")
    assert "rank 0: done after" in out


def test_from_outside_it_looks_like_torchrun_with_a_dataloader(job):
    process = job("--ranks", "2", "--workers", "3", "--seconds", "60")
    workers = workers_of(process, 6)

    ranks = {worker.ppid() for worker in workers}
    environs = sorted((psutil.Process(rank).environ() for rank in ranks), key=lambda environ: environ["RANK"])
    assert [(e["RANK"], e["LOCAL_RANK"], e["WORLD_SIZE"]) for e in environs] == [("0", "0", "2"), ("1", "1", "2")]
    assert all("TORCHELASTIC_RUN_ID" in environ for environ in environs)
    assert all(os.getsid(rank) == rank for rank in ranks)
    assert all(os.getsid(worker.pid) == worker.ppid() for worker in workers)
    assert {psutil.Process(rank).ppid() for rank in ranks} == {process.pid}


def test_a_worker_that_is_killed_takes_its_rank_and_the_others_with_it(job):
    process = job("--ranks", "2", "--seconds", "60")
    workers = workers_of(process, 8)
    os.kill(workers[5].pid, signal.SIGKILL)

    _, err = process.communicate(timeout=DEADLINE_S)

    assert process.returncode == 1
    assert f"RuntimeError: DataLoader worker (pid {workers[5].pid}) is killed by signal: Killed. \n" in err
    assert "failed (exitcode: 1)" in err
    deadline = time.monotonic() + DEADLINE_S
    while left := [worker for worker in workers if lives(worker)]:
        assert time.monotonic() < deadline, f"still there: {left}"
        time.sleep(0.01)


def test_a_launcher_that_is_told_to_end_ends_all(job):
    process = job("--seconds", "60")
    workers_of(process, 4)
    process.terminate()

    process.communicate(timeout=DEADLINE_S)

    assert process.returncode == 1


def test_no_worker_begins_before_all_are_there():
    started_fd, start_fd = os.pipe()
    go_fd, hold_fd = os.pipe()
    environ = {"PATH": os.environ["PATH"], "RANK": "0", "DATALOADER_BARRIER": f"{start_fd},{go_fd}"}
    command = [sys.executable, "-S", str(PROGRAM), *SMALL, "--workers", "2", "--seconds", "1"]
    rank = subprocess.Popen(command, env=environ, pass_fds=(start_fd, go_fd), stdout=subprocess.PIPE, text=True)
    try:
        said = b""
        while len(said) < 2:
            said += os.read(started_fd, 2)
        # Nobody let them begin: the rank's time passes without a batch.
        assert rank.wait(DEADLINE_S) == 0
        assert "done after 0 steps" in rank.stdout.read()
    finally:
        for fd in (started_fd, start_fd, go_fd, hold_fd):
            os.close(fd)
        rank.kill()
        rank.communicate()

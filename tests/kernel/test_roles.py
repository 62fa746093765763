# SPDX-License-Identifier: Apache-2.0
"""Who is who in real trees: every start method, workers without a name, ranks that number themselves or die at once."""

import sys
from pathlib import Path

import pytest

from tests.architecture.checkout import ROOT
from tests.waiting import SLOWER
from tracer.attribution.roles import assign, describe
from tracer.attribution.tree import Tree
from tracer.recording import read_recording

DATALOADER = ROOT / "tracer" / "repro" / "workloads" / "dataloader.py"
LIGHT = ("--ranks", 2, "--workers", 2, "--steady", "--dataset-mib", 1, "--worker-mib", 1)
SPAWNS = """
import ctypes, multiprocessing, os, sys, time

def worker():
    ctypes.CDLL(None).prctl(15, b"pt_data_worker", 0, 0, 0)
    time.sleep(60)

def rank(number, seconds):
    os.environ.update(RANK=str(number), LOCAL_RANK=str(number), WORLD_SIZE="2", HF_TOKEN="s3cr3t")
    children = [multiprocessing.get_context("fork").Process(target=worker) for _ in range(2)]
    for child in children:
        child.start()
    time.sleep(seconds)
    for child in children:
        child.kill()
        child.join()

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    ranks = [context.Process(target=rank, args=(number, float(sys.argv[1]))) for number in range(2)]
    for one in ranks:
        one.start()
    for one in ranks:
        one.join()
"""
SHORT_LIVES = """
import os, subprocess, sys
end = "import os, time; time.sleep(float(os.environ['LIVES'])); os.kill(os.getpid(), 9)"
ranks = [
    subprocess.Popen([sys.executable, "-S", "-c", end], env=os.environ | {"RANK": str(n), "LOCAL_RANK": str(n)})
    for n in range(8)
]
for one in ranks:
    one.wait()
"""


def told(run) -> list[str]:
    """What each process of the job is said to be."""
    tree = Tree.of(read_recording(run.path))
    roles = assign(tree)
    return sorted(describe(role, tree.members[identity].comm) for identity, role in roles.items())


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_launcher_ranks_and_workers_are_told_with_every_start_method(oomtrace, method):
    run = oomtrace(sys.executable, DATALOADER, *LIGHT, "--start-method", method, "--seconds", 3 * SLOWER)
    helpers = {"fork": [], "spawn": ["resource tracker"], "forkserver": ["forkserver", "resource tracker"]}[method]
    of_ranks = ("DataLoader worker 0", "DataLoader worker 1", *helpers)
    expected = [
        "launcher",
        *(name for rank in range(2) for name in (f"rank {rank}", *(f"{w} of rank {rank}" for w in of_ranks))),
    ]

    assert run.code == 0, run.err
    assert told(run) == sorted(expected)


def test_workers_without_a_name_are_told_by_their_signal_handlers(oomtrace):
    run = oomtrace(sys.executable, DATALOADER, *LIGHT, "--unnamed", "--seconds", 5 * SLOWER)

    assert run.code == 0, run.err
    workers = [f"DataLoader worker {worker} of rank {rank}" for rank in range(2) for worker in range(2)]
    assert told(run) == sorted(["launcher", "rank 0", "rank 1", *workers])


def test_ranks_that_set_their_variables_themselves_are_told_from_their_memory(oomtrace, tmp_path):
    script = tmp_path / "spawns.py"
    script.write_text(SPAWNS)
    run = oomtrace(sys.executable, script, str(3 * SLOWER))

    assert run.code == 0, run.err
    workers = [f"DataLoader worker {worker} of rank {rank}" for rank in range(2) for worker in range(2)]
    assert told(run) == sorted(["launcher", "rank 0", "rank 1", "resource tracker", *workers])
    assert b"s3cr3t" not in Path(run.path).read_bytes()


def test_ranks_that_die_within_a_second_are_all_known(oomtrace):
    run = oomtrace(sys.executable, "-c", SHORT_LIVES, more_environ={"LIVES": str(0.7 * SLOWER)})

    assert told(run) == ["launcher", *(f"rank {rank}" for rank in range(8))]

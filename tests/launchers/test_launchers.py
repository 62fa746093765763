# SPDX-License-Identifier: Apache-2.0
"""One worker of one rank leaks under each launcher: who is who, what came first, and who ended the others."""

import signal
import subprocess
from pathlib import Path

import pytest

from tests.launchers.conftest import WORKLOADS
from tests.waiting import SLOWER
from tracer.verdict.story import Story

pytestmark = pytest.mark.timeout(120 * SLOWER)

HERE = Path(__file__).parent
JOB_S = 60 * SLOWER
# The other rank goes on for a few seconds where its launcher does not end it.
TRAINING = (
    WORKLOADS / "dataloader.py", "--workers", 2, "--dataset-mib", 8, "--worker-mib", 4, "--rate-mib", 100,
    "--seconds", 6, "--cap-mib", 4000, "--leaking-rank", 1,
)  # fmt: skip
# Where the launcher itself needs much memory there is more to fill.
FASTER = ("--rate-mib", 400, "--seconds", 30)
A_WORKER = ("--leaking-worker", 1)
ITSELF = ("--leaking-worker", -1)
SYSTEM_PYTHON = "/usr/bin/python3"
ACCELERATE = (
    "--multi_gpu", "--num_processes", 2, "--num_machines", 1, "--mixed_precision", "no", "--dynamo_backend", "no",
)  # fmt: skip


class Launcher:
    """How one of them is called, and what is known of its ranks."""

    def __init__(self, program, *words, variable, kind, python=(), limit="200M", more=(), environ=None):
        self.program, self.words, self.variable, self.kind = program, words, variable, kind
        self.python, self.limit, self.more, self.environ = python, limit, more, environ or {}


LAUNCHERS = {
    "openmpi": Launcher(
        "mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-np", 2,
        variable="OMPI_COMM_WORLD_RANK", kind="mpi", python=(SYSTEM_PYTHON,),
    ),
    "mpich": Launcher(
        "mpiexec.hydra", "-n", 2, variable="PMI_RANK", kind="mpi", python=(SYSTEM_PYTHON,)
    ),
    "accelerate": Launcher(
        "accelerate", "launch", *ACCELERATE, variable="RANK", kind="accelerate", limit="900M", more=FASTER,
    ),
    "deepspeed": Launcher(
        "deepspeed", "--num_gpus", 2,
        variable="RANK", kind="deepspeed", limit="900M", more=FASTER, environ={"DS_ACCELERATOR": "cpu"},
    ),
    "horovod": Launcher(
        "horovodrun", "--gloo", "-np", 2, "--network-interfaces", "lo",
        variable="HOROVOD_RANK", kind="horovod", limit="300M", python=(SYSTEM_PYTHON,),
    ),
}  # fmt: skip


@pytest.fixture
def launched(oomtrace, installed, tmp_path):
    """Runs the small job under a launcher; leftovers of what the launcher starts must not hold a pipe."""

    def run(name, *more):
        launcher = LAUNCHERS[name]
        program = installed(launcher.program)
        if name == "horovod" and "[X] Gloo" not in said_by(program, "--check-build"):
            pytest.skip("this Horovod has no Gloo")
        command = (program, *launcher.words, *launcher.python, *TRAINING, *launcher.more, *more)
        options = ("--memory-max", launcher.limit)
        with (tmp_path / "out").open("w") as out:
            process = oomtrace.start(*command, options=options, more_environ=launcher.environ, stdout=out, stderr=out)
            try:
                return oomtrace.finish(process, patience_s=JOB_S)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGTERM)
                process.wait(JOB_S)
                raise

    return run


def said_by(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def roles_of(run, name):
    return [role for role in Story(run.events(object)).roles.values() if role.name == name]


def collateral(run):
    return [one["how"] for one in run.primary["collateral"]]


def assert_one_kill(run, role, rank, worker):
    victim = run.primary["victim"]

    assert [(one["cause"], one["strength"]) for one in run.verdict["incidents"]] == [("host_oom_cgroup", "proved")]
    assert (victim["role"], victim["rank"], victim["worker"]) == (role, rank, worker)


@pytest.mark.parametrize("name", LAUNCHERS)
def test_a_leaking_worker_is_named_and_all_else_is_its_collateral(launched, name):
    run = launched(name, *A_WORKER)
    ranks = sorted(roles_of(run, "rank"), key=lambda role: role.rank)

    assert_one_kill(run, "dataloader_worker", 1, 1)
    assert [(rank.rank, rank.local_rank, rank.world_size) for rank in ranks] == [(0, 0, 2), (1, 1, 2)]
    assert {rank.known_by for rank in ranks} == {f"{LAUNCHERS[name].variable} in the environment it was started with"}
    assert {role.launcher for role in roles_of(run, "launcher")} == {LAUNCHERS[name].kind}
    assert collateral(run)[0].startswith("rank 1: exit 1")
    assert all(" from " in how for how in collateral(run) if "signal" in how)
    assert run.code != 0


@pytest.mark.parametrize(("name", "sent"), [("openmpi", "SIGTERM) from launcher"), ("mpich", "SIGKILL) from hydra_")])
def test_when_a_rank_is_killed_its_launcher_ends_the_others_and_is_named(launched, name, sent):
    run = launched(name, *ITSELF, "--rate-mib", 1, "--seconds", 60)

    assert_one_kill(run, "rank", 1, None)
    assert [how for how in collateral(run) if how.startswith("rank 0: ") and sent in how]


@pytest.mark.parametrize("strategy", ["ddp", "ddp_spawn"])
def test_ranks_of_lightning_are_known_whichever_way_it_starts_them(oomtrace, python_with, strategy):
    python = python_with("lightning")
    environ = {"OMP_NUM_THREADS": "1"}
    job = (python, HERE / "lightning_job.py", strategy)
    run = oomtrace(*job, options=("--memory-max", "2200M"), more_environ=environ)
    victim = run.primary["victim"]

    assert (run.primary["cause"], run.primary["strength"]) == ("host_oom_cgroup", "proved")
    assert (victim["role"], victim["local_rank"]) == ("dataloader_worker", 1)
    assert sorted(role.local_rank for role in roles_of(run, "rank")) == [0, 1]
    assert sorted({how.partition(":")[0] for how in collateral(run)}) in (
        ["rank 0", "rank 1"],
        ["launcher", "local rank 0", "local rank 1"],
    )


def test_actors_of_ray_are_ranks_by_what_they_set_themselves(oomtrace, python_with):
    python = python_with("ray")
    environ = {"RAY_memory_monitor_refresh_ms": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    job = (python, HERE / "ray_job.py", TRAINING[0].parent, *TRAINING[1:], *FASTER, *A_WORKER)
    run = oomtrace(*job, options=("--memory-max", "1800M"), more_environ=environ)

    assert_one_kill(run, "dataloader_worker", 1, run.primary["victim"]["worker"])
    assert sorted(role.rank for role in roles_of(run, "rank")) == [0, 1]
    assert {role.known_by for role in roles_of(run, "rank")} == {"RANK in its memory, which it set itself"}
    assert [role.service for role in roles_of(run, "launcher")] == ["raylet"]

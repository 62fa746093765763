# SPDX-License-Identifier: Apache-2.0
"""What stands between a launcher and its ranks, as real launchers have it: daemons of a node, shells, Python."""

import pytest

from tests.unit.attribution.jobs import PYTHON, ROOT, SPAWN, TRAIN, Job
from tracer.attribution.roles.names import OWN_NAMES

TASK = {"SLURM_PROCID": "1", "SLURM_LOCALID": "1", "SLURM_NODEID": "0", "SLURM_NTASKS": "2", "SLURM_STEP_ID": "0"}
STEP = ("slurmstepd: [7.0]",)


def step(task: dict[str, str], name: str = "slurmstepd") -> Job:
    """A daemon that has retitled itself, so that its variables are gone; and what it started."""
    job = Job("slurmd")
    job.start(5, ROOT, STEP, None, name)
    job.start(10, 5, TRAIN, task)
    job.fork(11, 10, "pt_data_worker")
    return job


def test_a_task_is_one_though_what_its_daemon_was_given_cannot_be_read() -> None:
    job = step(TASK)

    assert ("slurmstepd", "rank 1", "DataLoader worker 0 of rank 1") == tuple(job.told[pid] for pid in (5, 10, 11))
    assert ("slurm", "SLURM_PROCID of a step with several tasks") == (job.roles[5].launcher, job.roles[10].known_by)


@pytest.mark.parametrize(
    "changes", [{"SLURM_STEP_ID": "4294967291"}, {"SLURM_NTASKS": "1"}, {"SLURM_PROCID": ""}, {"SLURM_PROCID": "2"}]
)
def test_what_the_daemon_starts_otherwise_is_no_rank(changes: dict[str, str]) -> None:
    assert step(TASK | changes).roles[10].name == "job"


def test_below_another_program_whose_variables_cannot_be_read_nobody_is_a_task() -> None:
    assert step(TASK, "bash").roles[10].name == "job"


def test_what_a_task_starts_is_no_task_of_its_own() -> None:
    job = step(TASK)
    job.start(12, 10, (PYTHON, "evaluate.py"), TASK)

    assert "a process of rank 1" == job.told[12]


MPI = {"PMI_RANK": "1", "PMI_SIZE": "2"}


def test_a_task_that_is_told_its_rank_through_pmi_has_its_place_from_slurm() -> None:
    role = step(TASK | MPI).roles[10]

    assert ("PMI_RANK in the environment it was started with", 1, 1, 0, 2) == (
        role.known_by,
        role.rank,
        role.local_rank,
        role.node_rank,
        role.world_size,
    )


@pytest.mark.parametrize("changes", [{"SLURM_PROCID": "0"}, {"SLURM_STEP_ID": "4294967291"}, {"SLURM_NTASKS": "1"}])
def test_a_rank_that_another_launcher_numbered_has_no_place_from_slurm(changes: dict[str, str]) -> None:
    role = step(TASK | MPI | changes).roles[10]

    assert (1, None, None, 2) == (role.rank, role.local_rank, role.node_rank, role.world_size)


def horovod(*root: str) -> Job:
    """Each rank below a shell, which is below a Python process that the launcher began through multiprocessing."""
    job = Job(*root)
    for rank in range(2):
        given = {"HOROVOD_RANK": f"{rank}", "HOROVOD_LOCAL_RANK": f"{rank}", "HOROVOD_SIZE": "2"}
        job.start(5 + rank, ROOT, SPAWN, {})
        job.start(10 + rank, 5 + rank, ("/bin/sh", "-c", f"env HOROVOD_RANK={rank} python3 train.py"), {})
        job.start(20 + rank, 10 + rank, TRAIN, given)
    return job


def test_what_horovod_begins_each_rank_through_is_the_launcher_and_the_shell_is_not() -> None:
    job = horovod(PYTHON, "/bin/horovodrun", "-np", "2")

    assert ("launcher", "launcher", "a process", "rank 0", "rank 1") == tuple(
        job.told[pid] for pid in (ROOT, 5, 10, 20, 21)
    )
    assert ("horovod", True, "stands between horovodrun and a rank") == (
        job.roles[5].launcher,
        job.roles[5].below_launcher,
        job.roles[5].known_by,
    )


def test_below_a_program_that_is_no_launcher_by_name_a_python_in_between_is_none() -> None:
    job = horovod(PYTHON, "drive.py")

    assert {job.roles[pid].name for pid in (ROOT, 5, 6)} == {"job"}
    assert ("rank 0", "rank 1") == (job.told[20], job.told[21])


def test_a_python_in_between_that_starts_several_ranks_is_the_one_that_started_them() -> None:
    job = Job(PYTHON, "/bin/horovodrun", "-np", "2")
    job.start(5, ROOT, SPAWN, {})
    for rank in range(2):
        job.start(10 + rank, 5, TRAIN, {"HOROVOD_RANK": f"{rank}", "HOROVOD_SIZE": "2"})

    assert ("launcher", "launcher", "rank 0", "rank 1") == tuple(job.told[pid] for pid in (ROOT, 5, 10, 11))
    assert "started a process with a rank in its environment" == job.roles[5].known_by


@pytest.mark.parametrize("name", [name for name in OWN_NAMES if "." not in name])
def test_a_daemon_of_a_node_is_called_by_its_name(name: str) -> None:
    job = Job("/bin/bash", "run.sh")
    job.start(5, ROOT, (f"/usr/bin/{name}",), {})

    assert (name, "launcher") == (job.told[5], job.roles[5].name)

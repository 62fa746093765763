# SPDX-License-Identifier: Apache-2.0
"""Each launcher's job as it looks from outside, who is who in it, and what must not be said."""

import pytest

from tests.unit.attribution.jobs import PYTHON, ROOT, SPAWN, TRACKER, TRAIN, Job, torchrun

A_PROCESS = "a process"


def test_torchrun() -> None:
    job = Job(PYTHON, "/bin/torchrun", "train.py", comm="torchrun")
    for rank in range(2):
        job.start(10 + rank, ROOT, TRAIN, torchrun(rank))
        job.fork(20 + rank, 10 + rank, "pt_data_worker")
    job.name(ROOT, "pt_elastic")

    assert {
        ROOT: "launcher",
        10: "rank 0",
        11: "rank 1",
        20: "DataLoader worker 0 of rank 0",
        21: "DataLoader worker 0 of rank 1",
    } == job.told
    found = job.roles
    assert ("torch_elastic", None) == (found[ROOT].launcher, found[ROOT].rank)
    assert (1, 1, 0, 2, 0) == (
        found[11].rank,
        found[11].local_rank,
        found[11].node_rank,
        found[11].world_size,
        found[11].restart,
    )


def test_what_torchrun_starts_without_a_rank_is_none() -> None:
    job = Job(PYTHON, "/bin/torchrun", "train.py", comm="pt_elastic")
    job.start(10, ROOT, TRAIN, torchrun(0))
    job.start(11, ROOT, ("/bin/hostname",), {})
    job.fork(12, ROOT, seen=False)

    assert (A_PROCESS, A_PROCESS) == (job.told[11], job.told[12])


def test_the_agents_restart_is_told_of_its_ranks() -> None:
    job = Job("torchrun")
    for attempt in range(2):
        job.start(10 + attempt, ROOT, TRAIN, torchrun(0) | {"TORCHELASTIC_RESTART_COUNT": f"{attempt}"})

    assert [("rank", 0, 0), ("rank", 0, 1)] == [(r.name, r.rank, r.restart) for r in map(job.roles.get, (10, 11)) if r]


def test_a_pod_whose_variables_number_the_node_makes_no_rank_of_torchrun() -> None:
    pod = {"RANK": "1", "WORLD_SIZE": "2", "PET_NNODES": "2", "PET_NODE_RANK": "1"}
    job = Job("torchrun", environ=pod)

    assert {ROOT: "launcher"} == job.told
    for rank in (8, 9):
        job.start(rank, ROOT, TRAIN, pod | torchrun(rank, 16) | {"LOCAL_RANK": f"{rank - 8}", "GROUP_RANK": "1"})
    assert {ROOT: "launcher", 8: "rank 8", 9: "rank 9"} == job.told


@pytest.mark.parametrize(
    ("root", "kind"),
    [
        ((PYTHON, "-m", "torch.distributed.run", "train.py"), "torch_elastic"),
        ((PYTHON, "-m", "torch.distributed.launch", "train.py"), "torch_elastic"),
        ((PYTHON, "/opt/bin/accelerate", "launch", "train.py"), "accelerate"),
        ((PYTHON, "-u", "-m", "accelerate.commands.launch", "train.py"), "accelerate"),
    ],
)
def test_a_launcher_is_known_by_its_command_line_while_it_has_no_ranks(root: tuple[str, ...], kind: str) -> None:
    assert ("launcher", kind) == (Job(*root).roles[ROOT].name, Job(*root).roles[ROOT].launcher)


@pytest.mark.parametrize(
    "root",
    [
        (PYTHON, "train.py", "torchrun"),
        (PYTHON, "-c", "import torch.distributed.run", "torchrun"),
        (PYTHON, "train.py", "-m", "torch.distributed.run"),
        ("/bin/cat", "torchrun"),
        (PYTHON,),
        (PYTHON, "-m"),
        ("",),
    ],
)
def test_an_argument_that_names_a_launcher_makes_none(root: tuple[str, ...]) -> None:
    assert "job" == Job(*root).roles[ROOT].name


def test_deepspeed_has_a_runner_and_a_launcher_per_node() -> None:
    job = Job(PYTHON, "/bin/deepspeed", "train.py", comm="deepspeed")
    job.start(5, ROOT, (PYTHON, "-u", "-m", "deepspeed.launcher.launch", "--world_info=x", "train.py"), {})
    for rank in range(2):
        given = {"RANK": f"{rank}", "LOCAL_RANK": f"{rank}", "WORLD_SIZE": "2", "CROSS_RANK": "0", "LOCAL_SIZE": "2"}
        job.start(10 + rank, 5, (*TRAIN, f"--local_rank={rank}"), given)

    assert {ROOT: "launcher", 5: "DeepSpeed's launcher", 10: "rank 0", 11: "rank 1"} == job.told
    assert ("deepspeed", 0) == (job.roles[5].launcher, job.roles[11].node_rank)


def lightning(*, read: bool = True, node: str = "0") -> Job:
    """Rank 0 is the script itself: it sets its variables and starts the other ranks."""
    job = Job(*TRAIN)
    given = {"LOCAL_RANK": "1", "NODE_RANK": node, "WORLD_SIZE": "2"}
    job.start(11, ROOT, TRAIN, given)
    if read:
        job.look(ROOT, environ=given | {"LOCAL_RANK": "0"})
    job.look(11, environ=given)
    for loader in (ROOT, 11):
        job.fork(loader + 20_000, loader, "pt_data_worker", seen=False)
        job.name(loader + 20_000, "pt_data_worker")
    return job


def test_lightnings_first_rank_is_its_launcher_too_and_trains() -> None:
    assert {
        ROOT: "rank 0",
        11: "rank 1",
        ROOT + 20_000: "DataLoader worker 0 of rank 0",
        20_011: "DataLoader worker 0 of rank 1",
    } == lightning().told
    assert "LOCAL_RANK in its memory, which it set itself" == lightning().roles[ROOT].known_by


def test_lightnings_first_rank_is_not_guessed_from_the_others() -> None:
    job = lightning(read=False)

    assert ("launcher", "lightning", None) == (job.roles[ROOT].name, job.roles[ROOT].launcher, job.roles[ROOT].rank)
    assert "DataLoader worker 0" == job.told[ROOT + 20_000]


def test_on_another_node_lightnings_global_rank_is_not_known() -> None:
    job = lightning(node="1")

    assert ("local rank 1", None) == (job.told[11], job.roles[11].rank)
    assert "DataLoader worker 0 of local rank 1" == job.told[20_011]


def spawned(ranks: int = 2) -> Job:
    job = Job(*TRAIN)
    job.start(9, ROOT, TRACKER, {})
    for rank in range(ranks):
        job.start(10 + rank, ROOT, SPAWN, {})
    return job


def test_mp_spawn_makes_ranks_of_those_that_set_their_variables() -> None:
    job = spawned()
    for rank in range(2):
        job.look(10 + rank, environ={"RANK": f"{rank}", "WORLD_SIZE": "2"})
        job.fork(20 + rank, 10 + rank, "pt_data_worker")

    assert {
        ROOT: "launcher",
        9: "resource tracker",
        10: "rank 0",
        11: "rank 1",
        20: "DataLoader worker 0 of rank 0",
        21: "DataLoader worker 0 of rank 1",
    } == job.told
    assert "multiprocessing" == job.roles[ROOT].launcher


def test_mp_spawn_without_variables_gives_nobody_a_number() -> None:
    assert {A_PROCESS, "resource tracker"} == set(spawned().told.values())


def test_several_spawned_alike_that_opened_a_gpu_are_ranks_without_a_number() -> None:
    job = spawned()
    for pid in (10, 11):
        job.look(pid, devices=("nvidia0", "nvidia1"))
        job.fork(pid + 10, pid, "pt_data_worker")

    assert ("launcher", "rank", "rank", "DataLoader worker 0") == tuple(job.told[pid] for pid in (ROOT, 10, 11, 20))
    assert "it opened /dev/nvidia0, as others did that were started with it" == job.roles[10].known_by


def test_one_that_opened_a_gpu_may_be_anything() -> None:
    job = spawned()
    job.look(10, devices=("nvidia0",))
    job.look(11, devices=())
    job.start(12, ROOT, ("/usr/bin/nvidia-smi",), {})
    job.look(12, devices=("nvidia0",))

    assert (A_PROCESS, A_PROCESS, "nvidia-smi") == tuple(job.told[pid] for pid in (10, 11, 12))


def test_workers_that_a_gpu_rank_spawned_are_no_ranks() -> None:
    job = Job("torchrun")
    job.start(10, ROOT, TRAIN, torchrun(0))
    for pid in (11, 12):
        job.start(pid, 10, SPAWN, torchrun(0))
        job.look(pid, devices=("nvidia0",))

    assert {"a process of rank 0"} == {job.told[pid] for pid in (11, 12)}


def test_rays_actors_are_ranks_by_what_they_set_themselves() -> None:
    worker = (PYTHON, "/site/ray/_private/workers/default_worker.py")
    job = Job(PYTHON, "drive.py")
    job.start(5, ROOT, ("/site/ray/core/src/ray/gcs/gcs_server",), {})
    job.start(6, ROOT, ("/site/ray/core/src/ray/raylet/raylet",), {})
    job.start(7, ROOT, (PYTHON, "-u", "/site/ray/_private/log_monitor.py"), {})
    for rank in range(2):
        job.start(10 + rank, 6, worker, {"RAY_JOB_ID": "01"})
        job.look(
            10 + rank, environ={"RANK": f"{rank}", "LOCAL_RANK": "0", "NODE_RANK": f"{rank}"}, comm="ray::RayTrainWo"
        )
    job.start(12, 6, worker, {"RAY_JOB_ID": "01"})
    job.look(12, environ={"RAY_JOB_ID": "01"}, comm="ray::IDLE")

    assert {
        ROOT: A_PROCESS,
        5: "Ray's control store",
        6: "raylet",
        7: "Ray's log monitor",
        10: "rank 0",
        11: "rank 1",
        12: A_PROCESS,
    } == job.told


@pytest.mark.parametrize("through_a_shell", [False, True])
def test_horovodrun(through_a_shell: bool) -> None:
    job = Job(PYTHON, "/bin/horovodrun", "-np", "2", comm="horovodrun")
    for rank in range(2):
        given = {"HOROVOD_RANK": f"{rank}", "HOROVOD_LOCAL_RANK": f"{rank}", "HOROVOD_SIZE": "2"}
        above = ROOT
        if through_a_shell:
            above = 5 + rank
            job.start(above, ROOT, ("/bin/bash", "-c", "HOROVOD_RANK=0 python train.py"), {})
        job.start(10 + rank, above, TRAIN, given)

    assert ("launcher", "rank 0", "rank 1") == tuple(job.told[pid] for pid in (ROOT, 10, 11))
    assert not through_a_shell or (A_PROCESS, A_PROCESS) == (job.told[5], job.told[6])


def test_mpi_has_a_launcher_and_a_proxy_on_each_node() -> None:
    job = Job("mpirun", "-np", "2")
    job.start(5, ROOT, ("hydra_pmi_proxy",), {})
    for rank in range(2):
        job.start(10 + rank, 5, TRAIN, {"PMI_RANK": f"{rank}", "PMI_SIZE": "2", "MPI_LOCALRANKID": f"{rank}"})

    assert {ROOT: "launcher", 5: "hydra_pmi_proxy", 10: "rank 0", 11: "rank 1"} == job.told
    assert (1, 2) == (job.roles[11].local_rank, job.roles[11].world_size)


def test_an_agent_that_mpirun_started_on_each_node_is_no_rank() -> None:
    job = Job("mpirun")
    for node in range(2):
        task = {"OMPI_COMM_WORLD_RANK": f"{node}", "OMPI_COMM_WORLD_SIZE": "2"}
        job.start(5 + node, ROOT, ("torchrun", "train.py"), task)
        assert "elastic agent" == job.told[5 + node]
        job.start(10 + node, 5 + node, TRAIN, task | torchrun(node))

    assert {ROOT: "launcher", 5: "elastic agent", 6: "elastic agent", 10: "rank 0", 11: "rank 1"} == job.told


TASK = {"SLURM_PROCID": "3", "SLURM_LOCALID": "1", "SLURM_NODEID": "1", "SLURM_NTASKS": "4", "SLURM_STEP_ID": "0"}


def test_a_task_of_srun_is_a_rank() -> None:
    job = Job(*TRAIN, environ=TASK)
    job.fork(10, ROOT, "pt_data_worker")

    assert {ROOT: "rank 3", 10: "DataLoader worker 0 of rank 3"} == job.told
    assert (1, 1, 4) == (job.roles[ROOT].local_rank, job.roles[ROOT].node_rank, job.roles[ROOT].world_size)


@pytest.mark.parametrize(
    "changes", [{"SLURM_STEP_ID": "4294967291"}, {"SLURM_STEP_ID": ""}, {"SLURM_NTASKS": "1"}, {"SLURM_NTASKS": "3"}]
)
def test_a_batch_script_and_a_single_task_are_no_ranks(changes: dict[str, str]) -> None:
    assert {ROOT: A_PROCESS} == Job(*TRAIN, environ=TASK | changes).told


def test_what_srun_numbers_is_the_agent_where_torchrun_numbers_ranks() -> None:
    job = Job("torchrun", environ=TASK)
    job.start(10, ROOT, TRAIN, TASK | torchrun(6, 8))

    assert {ROOT: "launcher", 10: "rank 6"} == job.told


def test_a_shell_with_a_task_above_torchrun_is_no_rank() -> None:
    job = Job("/bin/bash", "run.sh", environ=TASK)
    job.start(9, ROOT, ("torchrun",), TASK)
    job.start(10, 9, TRAIN, TASK | torchrun(6, 8))

    assert {ROOT: A_PROCESS, 9: "launcher", 10: "rank 6"} == job.told


def test_a_rank_that_starts_others_with_numbers_of_their_own_stays_one() -> None:
    job = Job("torchrun")
    job.start(10, ROOT, TRAIN, torchrun(0))
    job.start(11, 10, (PYTHON, "evaluate.py"), torchrun(0) | {"RANK": "1", "LOCAL_RANK": "0"})

    assert {ROOT: "launcher", 10: "rank 0", 11: "rank 1"} == job.told


def test_an_agent_that_was_given_a_rank_is_none_once_it_has_started_some() -> None:
    job = Job(PYTHON, "start_nodes.py")
    job.start(9, ROOT, (PYTHON, "/bin/torchrun"), {"RANK": "0", "LOCAL_RANK": "0"}, "torchrun")
    job.start(10, 9, TRAIN, torchrun(0))

    assert {ROOT: "launcher", 9: "elastic agent", 10: "rank 0"} == job.told


def test_below_a_task_nobody_is_another_rank() -> None:
    job = Job(*TRAIN, environ=TASK)
    job.start(10, ROOT, TRAIN, TASK)

    assert {ROOT: "rank 3", 10: "a process of rank 3"} == job.told


def test_a_shell_with_a_rank_stands_before_the_python_that_is_meant() -> None:
    job = Job("torchrun", "--no-python", "run.sh")
    job.start(10, ROOT, ("/bin/bash", "run.sh"), torchrun(0))
    job.start(11, 10, ("/bin/mkdir", "out"), torchrun(0))
    job.start(12, 10, TRAIN, torchrun(0))
    job.fork(13, 12, "pt_data_worker")

    assert ("a process of rank 0", "rank 0", "DataLoader worker 0 of rank 0") == tuple(
        job.told[pid] for pid in (10, 12, 13)
    )


def test_a_shell_that_runs_several_scripts_is_the_rank_itself() -> None:
    job = Job("torchrun", "--no-python", "run.sh")
    job.start(10, ROOT, ("/bin/bash", "run.sh"), torchrun(0))
    for pid in (11, 12):
        job.start(pid, 10, TRAIN, torchrun(0))

    assert "rank 0" == job.told[10]
    assert {"a process of rank 0"} == {job.told[11], job.told[12]}


def test_a_loop_of_a_shell_is_a_launcher_of_its_own() -> None:
    job = Job("/bin/bash", "run.sh")
    for rank in range(2):
        job.start(10 + rank, ROOT, TRAIN, {"RANK": f"{rank}", "WORLD_SIZE": "2"})
    job.look(ROOT, environ={"RANK": "1", "WORLD_SIZE": "2"})

    assert {ROOT: "launcher", 10: "rank 0", 11: "rank 1"} == job.told


def test_a_script_that_sets_its_own_environment_in_a_loop_is_no_rank() -> None:
    job = Job(PYTHON, "start.py")
    for rank in range(2):
        job.start(10 + rank, ROOT, TRAIN, {"RANK": f"{rank}", "LOCAL_RANK": f"{rank}"})
    job.look(ROOT, environ={"RANK": "1", "LOCAL_RANK": "1"})

    assert {ROOT: "launcher", 10: "rank 0", 11: "rank 1"} == job.told

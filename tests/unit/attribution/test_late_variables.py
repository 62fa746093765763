# SPDX-License-Identifier: Apache-2.0
"""Variables that were set after exec: whose they are is told only where a parent cannot have set them."""

from tests.unit.attribution.jobs import FORKSERVER, PYTHON, ROOT, SPAWN, TRAIN, Job, torchrun
from tracer.attribution.roles import describe


def test_a_script_that_sets_its_own_rank_is_that_rank() -> None:
    job = Job(*TRAIN)
    job.look(ROOT, environ={"RANK": "0", "WORLD_SIZE": "1"})
    job.fork(10, ROOT, "pt_data_worker")

    assert {ROOT: "rank 0", 10: "DataLoader worker 0 of rank 0"} == job.told
    assert "RANK in its memory, which it set itself" == job.roles[ROOT].known_by


def test_a_shell_above_it_is_no_launcher() -> None:
    job = Job("/bin/sh", "-c", "python train.py; true")
    job.start(10, ROOT, TRAIN, {})
    job.look(10, environ={"RANK": "0"})

    assert ("a process of rank 0", "rank 0") != (job.told[ROOT], job.told[10])
    assert ("a process", "rank 0") == (job.told[ROOT], job.told[10])


def test_what_exec_gave_counts_more_than_what_was_set_later() -> None:
    job = Job("torchrun")
    job.start(10, ROOT, TRAIN, torchrun(0))
    job.look(10, environ=torchrun(0) | {"RANK": "5"})

    assert "rank 0" == job.told[10]


def test_a_title_that_wiped_the_environment_leaves_the_memory_to_be_read() -> None:
    job = Job(*TRAIN)
    job.start(10, ROOT, SPAWN, {})
    job.start(11, ROOT, SPAWN, {})
    for pid, rank in ((10, 0), (11, 1)):
        job.look(pid, environ={"RANK": f"{rank}"}, comm=f"ray::rank{rank}")

    assert ("rank 0", "rank 1") == (job.told[10], job.told[11])


def test_where_exec_could_not_be_read_memory_proves_nothing_of_who_set_it() -> None:
    job = Job(*TRAIN)
    job.start(10, ROOT, (PYTHON, "eval.py"), None)
    job.look(10, environ={"RANK": "0"})

    assert "a process" == job.told[10]


def test_forked_children_that_number_themselves_are_ranks() -> None:
    job = Job(*TRAIN)
    for rank in range(2):
        job.fork(10 + rank, ROOT)
        job.look(10 + rank, environ={"RANK": f"{rank}", "LOCAL_RANK": f"{rank}"})

    assert {ROOT: "launcher", 10: "rank 0", 11: "rank 1"} == job.told


def test_a_forked_child_has_what_its_parent_had_set() -> None:
    job = Job(*TRAIN)
    job.fork(10, ROOT)
    job.look(10, environ={"RANK": "3"})
    job.look(ROOT, environ={"RANK": "3"})

    assert {ROOT: "rank 3", 10: "a process of rank 3"} == job.told


def test_one_forked_child_may_have_it_from_its_parent_before_that_was_looked_at() -> None:
    job = Job(*TRAIN)
    job.look(ROOT, environ={})
    job.fork(10, ROOT)
    job.look(10, environ={"RANK": "3"})

    assert {ROOT: "a process", 10: "a process"} == job.told


def test_one_forked_child_whose_parent_has_none_later_set_it_itself() -> None:
    job = Job(*TRAIN)
    job.fork(10, ROOT)
    job.look(10, environ={"RANK": "3"})
    job.look(ROOT, environ={})

    assert "rank 3" == job.told[10]
    assert "a process" == job.told[ROOT], "one child that numbers itself makes no launcher"


def test_a_worker_speaks_for_who_loads_through_it() -> None:
    job = Job(*TRAIN)
    for pid in (10, 11):
        job.fork(pid, ROOT, "pt_data_worker")
        job.look(pid, environ={"RANK": "3", "WORLD_SIZE": "4"})

    assert {ROOT: "rank 3", 10: "DataLoader worker 0 of rank 3", 11: "DataLoader worker 1 of rank 3"} == job.told
    assert "RANK in the memory of a DataLoader worker that it started" == job.roles[ROOT].known_by


def test_workers_that_do_not_agree_speak_for_nobody() -> None:
    job = Job(*TRAIN)
    for rank in range(2):
        job.fork(10 + rank, ROOT, "pt_data_worker")
        job.look(10 + rank, environ={"RANK": f"{rank}"})

    assert {ROOT: "a process", 10: "DataLoader worker 0", 11: "DataLoader worker 1"} == job.told


def test_a_worker_that_set_a_rank_itself_is_none_and_speaks_for_nobody() -> None:
    job = Job(*TRAIN)
    job.fork(10, ROOT, "pt_data_worker")
    job.look(10, environ={"RANK": "3"})
    job.look(ROOT, environ={})

    assert {ROOT: "a process", 10: "DataLoader worker 0"} == job.told


def test_a_worker_of_a_forkserver_speaks_for_the_rank_above_that() -> None:
    job = Job(*TRAIN)
    job.start(9, ROOT, FORKSERVER, {"RANK": "1"})
    job.fork(10, 9, "pt_data_worker")
    job.look(10, environ={"RANK": "1"})

    assert {ROOT: "rank 1", 9: "forkserver of rank 1", 10: "DataLoader worker 0 of rank 1"} == job.told


def test_spawned_workers_have_their_ranks_environment_and_are_no_ranks() -> None:
    job = Job(*TRAIN)
    job.look(ROOT, environ={"RANK": "0"})
    for pid in (10, 11):
        job.start(pid, ROOT, SPAWN, {"RANK": "0"})
        assert "a process of rank 0" == job.told[pid], "before it has a name"
    job.name(10, "pt_data_worker")
    job.name(11, "pt_data_worker")

    assert {ROOT: "rank 0", 10: "DataLoader worker 0 of rank 0", 11: "DataLoader worker 1 of rank 0"} == job.told


def test_a_spawned_child_is_no_rank_though_its_parents_memory_was_not_read() -> None:
    job = Job(*TRAIN)
    job.start(10, ROOT, SPAWN, {"RANK": "3"})

    assert "a process" == job.told[10]
    job.name(10, "pt_data_worker")
    assert {ROOT: "rank 3", 10: "DataLoader worker 0 of rank 3"} == job.told


def test_spawned_children_whose_parent_numbered_them_one_by_one_are_ranks() -> None:
    job = Job(*TRAIN)
    for rank in range(3):
        job.start(10 + rank, ROOT, SPAWN, {"RANK": f"{rank}"})
    job.look(ROOT, environ={"RANK": "2"})

    assert {ROOT: "launcher", 10: "rank 0", 11: "rank 1", 12: "rank 2"} == job.told


def test_workers_of_a_forkserver_belong_to_the_rank_that_started_it() -> None:
    job = Job(*TRAIN)
    job.start(9, ROOT, FORKSERVER, {"RANK": "1"})
    for pid in (10, 11):
        job.fork(pid, 9, "pt_data_worker")
        job.look(pid, environ={"RANK": "1"})
    job.look(ROOT, environ={"RANK": "1"})

    assert {
        ROOT: "rank 1",
        9: "forkserver of rank 1",
        10: "DataLoader worker 0 of rank 1",
        11: "DataLoader worker 1 of rank 1",
    } == job.told


def test_a_helper_that_a_rank_started_has_its_variables_and_is_no_rank() -> None:
    job = Job(*TRAIN)
    job.look(ROOT, environ={"RANK": "0"})
    job.start(10, ROOT, ("/usr/bin/ffmpeg",), {"RANK": "0"})
    job.look(10, environ={"RANK": "0"})

    assert {ROOT: "rank 0", 10: "a process of rank 0"} == job.told


def test_a_helper_is_no_rank_where_its_parents_memory_could_not_be_read() -> None:
    job = Job(*TRAIN)
    job.start(10, ROOT, ("/usr/bin/ffmpeg",), {"RANK": "0"})

    assert {ROOT: "a process", 10: "a process"} == job.told
    mpi = Job("/usr/bin/starter")
    mpi.start(10, ROOT, ("/opt/simulate",), {"PMI_RANK": "0"})
    assert {ROOT: "launcher", 10: "rank 0"} == mpi.told


def test_a_wiped_environment_of_the_parent_proves_no_difference() -> None:
    job = Job(*TRAIN)
    job.start(10, ROOT, TRAIN, None)
    job.start(11, 10, ("/usr/bin/ffmpeg",), {"RANK": "0"})

    assert "a process" == job.told[11]
    job.look(10, environ={"RANK": "0"})
    assert "a process" == job.told[11]


def test_variables_of_an_earlier_program_are_not_those_of_the_next() -> None:
    job = Job(*TRAIN)
    job.start(10, ROOT, TRAIN, {})
    job.look(10, environ={"RANK": "4"})
    assert "rank 4" == job.told[10]
    job.scene.items.append(job.scene.items[0])  # the tree takes one root only
    job.start(10, ROOT, ("/bin/true",), {})

    assert "a process" == job.told[10]


def test_a_process_in_a_ranks_session_belongs_to_it() -> None:
    job = Job("torchrun")
    for rank in range(2):
        job.start(10 + rank, ROOT, TRAIN, torchrun(rank))
    job.start(20, ROOT, (PYTHON, "orphan.py"), {})
    last = job.scene.items[-1]
    job.scene.seen(20, ROOT, "python3", {}, session_id=11)

    assert last is not None
    assert "a process of rank 1" == job.told[20]
    job.scene.seen(20, ROOT, "python3", {}, session_id=ROOT)
    assert "a process" == job.told[20]


def test_a_launcher_in_a_ranks_session_has_no_rank_itself() -> None:
    job = Job("torchrun")
    job.start(11, ROOT, TRAIN, torchrun(1))
    job.start(20, ROOT, ("mpirun",), {})
    job.scene.seen(20, ROOT, "mpirun", {}, session_id=11)

    assert ("launcher", None) == (job.told[20], job.roles[20].rank)


def test_threads_that_load_are_told_of_their_host() -> None:
    job = Job("torchrun")
    job.start(10, ROOT, TRAIN, torchrun(0))
    job.look(10, threads=("pt_data_pin", "pt_nccl_watchdg"))
    assert ("pin_memory_thread",) == job.roles[10].hosts
    job.look(10, threads=("pt_thread_data_",))

    assert ("pin_memory_thread", "dataloader_threads") == job.roles[10].hosts
    assert "rank 0" == describe(job.roles[10], None)

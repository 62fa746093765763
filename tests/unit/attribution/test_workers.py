# SPDX-License-Identifier: Apache-2.0
"""DataLoader workers without a name of PyTorch's, what must not pass for one, and when a number is not given."""

import pytest

from tests.unit.attribution.jobs import FORKSERVER, ROOT, SPAWN, TRAIN, Job, torchrun
from tracer.attribution.roles.evidence import mask_of
from tracer.units import NS_PER_S

INT, CHLD = 2, 17
LOADS = mask_of(INT, CHLD)
WORKER = mask_of(INT, 7, 8, 11, 15)


def rank() -> Job:
    job = Job("torchrun")
    job.start(10, ROOT, TRAIN, torchrun(0))
    return job


@pytest.mark.parametrize("worker", [WORKER, WORKER & ~mask_of(INT), WORKER | mask_of(CHLD), WORKER | mask_of(12, 34)])
def test_a_forked_worker_is_known_by_its_signal_handlers(worker: int) -> None:
    job = rank()
    job.look(10, caught=LOADS)
    for pid in (11, 12):
        job.fork(pid, 10)
        job.look(pid, caught=worker)

    assert ["DataLoader worker 0 of rank 0", "DataLoader worker 1 of rank 0"] == [job.told[pid] for pid in (11, 12)]
    assert "the signal handlers of a DataLoader worker" == job.roles[11].known_by


def test_names_of_pytorch_2_3_say_nothing_and_handlers_do() -> None:
    job = rank()
    job.look(10, caught=LOADS, comm="pt_main_thread")
    job.fork(11, 10, "pt_main_thread")
    job.fork(12, 10, "pt_main_thread")
    job.look(11, caught=WORKER)
    job.look(12, caught=LOADS)

    assert ("rank 0", "DataLoader worker 0 of rank 0", "a process of rank 0") == tuple(
        job.told[pid] for pid in (10, 11, 12)
    )


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_handlers_are_told_with_every_start_method(method: str) -> None:
    job = rank()
    job.look(10, caught=LOADS)
    if method == "spawn":
        job.start(12, 10, SPAWN, torchrun(0))
    else:
        job.start(11, 10, FORKSERVER, torchrun(0))
        job.look(11, caught=mask_of(CHLD))
        job.fork(12, 11)
    job.look(12, caught=WORKER)

    assert "DataLoader worker 0 of rank 0" == job.told[12]


@pytest.mark.parametrize(
    ("loader", "child"),
    [
        (LOADS, LOADS),  # a plain child
        (LOADS, WORKER & ~mask_of(15)),  # faulthandler in part
        (LOADS, mask_of(4, 6, 7, 8, 11, 15)),  # faulthandler, and a handler of SIGTERM
        (LOADS, (1 << 64) - 1),  # Go
        (LOADS, mask_of(1, 2, 3, 4, 7, 8, 11, 15)),  # Java
        (WORKER | mask_of(CHLD), WORKER),  # the parent has them already
        (LOADS | mask_of(15), WORKER),
        (mask_of(INT), WORKER),  # the parent loads nothing
        (0, WORKER),
        (None, WORKER),
        (LOADS, None),
    ],
)
def test_other_handlers_make_no_worker(loader: int | None, child: int | None) -> None:
    job = rank()
    job.look(10, caught=loader)
    job.fork(11, 10)
    job.look(11, caught=child)

    assert "a process of rank 0" == job.told[11]


def test_below_a_forkserver_it_is_the_rank_that_must_load() -> None:
    job = rank()
    job.look(10, caught=mask_of(INT))
    job.start(11, 10, FORKSERVER, torchrun(0))
    job.look(11, caught=mask_of(CHLD))
    job.fork(12, 11)
    job.look(12, caught=WORKER)

    assert "a process of rank 0" == job.told[12]


def test_another_program_with_these_handlers_is_no_worker() -> None:
    job = rank()
    job.look(10, caught=LOADS)
    job.start(11, 10, ("/usr/bin/julia",), torchrun(0))
    job.look(11, caught=WORKER)

    assert "a process of rank 0" == job.told[11]


def test_what_a_worker_forks_has_its_name_and_is_none() -> None:
    job = rank()
    job.fork(11, 10, "pt_data_worker")
    job.fork(12, 11)
    job.start(13, 11, ("/usr/bin/ffmpeg",), torchrun(0))

    assert "DataLoader worker 0 of rank 0" == job.told[11]
    assert {"a process of rank 0"} == {job.told[12], job.told[13]}


def test_what_a_launcher_forks_has_its_name_and_is_none() -> None:
    job = Job("torchrun", comm="pt_elastic")
    job.fork(10, ROOT)
    job.start(11, ROOT, ("/bin/nvidia-smi",), {})

    assert ("a process", "nvidia-smi") == (job.told[10], job.told[11])


def test_after_a_worker_that_died_before_it_had_a_name_no_number_is_given() -> None:
    job = rank()
    job.fork(11, 10, "pt_data_worker")
    job.fork(12, 10, seen=False)
    job.scene.exit(12, 9)
    job.fork(13, 10, "pt_data_worker")

    assert [0, None] == [job.roles[pid].worker for pid in (11, 13)]


def test_a_first_worker_that_died_before_it_had_a_name_shifts_no_number() -> None:
    job = rank()
    job.fork(11, 10, seen=False)
    job.scene.exit(11, 9)
    job.fork(12, 10, "pt_data_worker")

    assert job.roles[12].worker is None


def test_a_nameless_child_of_long_ago_is_no_worker_of_this_start() -> None:
    job = rank()
    job.fork(11, 10, seen=False)
    job.scene.exit(11, 0)
    job.scene.pass_time(NS_PER_S)
    job.fork(12, 10, "pt_data_worker")

    assert 0 == job.roles[12].worker


def test_a_child_that_lives_on_without_a_name_is_no_worker() -> None:
    job = rank()
    job.fork(11, 10)
    job.fork(12, 10, "pt_data_worker")
    assert job.roles[12].worker is None, "it may still take the name"
    job.scene.pass_time(2 * NS_PER_S)
    job.look(11, comm="python3")

    assert 0 == job.roles[12].worker


def test_spawned_workers_take_their_names_late_and_keep_their_places() -> None:
    job = rank()
    for pid in (11, 12, 13):
        job.start(pid, 10, SPAWN, torchrun(0))
    job.name(12, "pt_data_worker")
    job.name(13, "pt_data_worker")

    assert [None, None] == [job.roles[pid].worker for pid in (12, 13)]
    job.name(11, "pt_data_worker")
    assert [0, 1, 2] == [job.roles[pid].worker for pid in (11, 12, 13)]


def test_a_child_with_a_name_of_its_own_is_no_worker() -> None:
    job = rank()
    job.fork(11, 10, "prefetcher")
    job.fork(12, 10, "pt_data_worker")

    assert 0 == job.roles[12].worker

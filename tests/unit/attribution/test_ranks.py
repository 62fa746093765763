# SPDX-License-Identifier: Apache-2.0
"""Which variable or name makes a role, when a worker has a number, and how roles are put in words."""

import itertools

import msgspec
import pytest

from tests.unit.verdict.scenes import LAUNCHER, RANK, WORKERS, Scene, start_of
from tracer.attribution.roles import Role, assign, describe, short
from tracer.attribution.tree import Tree
from tracer.events import ProcessForked, ProcessSample, ProcessSeen
from tracer.units import NS_PER_MS

RANK_NAMES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "HOROVOD_RANK")
MORE_NAMES = ("LOCAL_RANK", "GROUP_RANK", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")
WORKER = "pt_data_worker"


def roles(scene: Scene, *, forks_complete: bool = True) -> dict[int, Role]:
    return {i.tgid: role for i, role in assign(Tree.of(scene.events), forks_complete=forks_complete).items()}


def child(
    environ: dict[str, str] | None, above: dict[str, str] | None = None, comm: str = "python3"
) -> dict[int, Role]:
    """A launcher of any name with one child, and their environments."""
    scene = Scene()
    scene.begin()
    scene.items = [event for event in scene.items if getattr(event, "comm", "") != "pt_elastic"]
    scene.seen(LAUNCHER, 1, "sh", {} if above is None else above)
    scene.fork(RANK, LAUNCHER, comm=comm)
    scene.seen(RANK, LAUNCHER, comm, environ)
    return roles(scene)


@pytest.mark.parametrize("name", [*RANK_NAMES, "LOCAL_RANK"])
def test_each_launchers_variable_makes_a_rank_and_its_parent_a_launcher(name: str) -> None:
    found = child({name: "7"})

    assert ("rank", f"{name} in the environment it was started with") == (found[RANK].name, found[RANK].known_by)
    assert found[RANK].rank == (None if name == "LOCAL_RANK" else 7)
    assert "launcher" == found[LAUNCHER].name
    assert found[LAUNCHER].known_by == "started a process with a rank in its environment"


@pytest.mark.parametrize(("first", "second"), [*itertools.pairwise(RANK_NAMES)])
def test_of_several_variables_the_first_wins(first: str, second: str) -> None:
    assert 1 == child({first: "1", second: "2"})[RANK].rank
    assert 2 == child({first: "x", second: "2"})[RANK].rank


@pytest.mark.parametrize("name", [*RANK_NAMES, *MORE_NAMES])
def test_a_rank_differs_from_its_parent_in_one_of_these(name: str) -> None:
    above = {"RANK": "0", **dict.fromkeys((*RANK_NAMES, *MORE_NAMES), "0")}

    assert "rank" == child({**above, name: "1"}, above)[RANK].name
    assert "rank" != child(above, above)[RANK].name
    assert "rank" != child({**above, "SLURM_PROCID": "1"}, above)[RANK].name


@pytest.mark.parametrize("environ", [{}, {"RANK": ""}, {"SLURM_PROCID": "1"}, {"GROUP_RANK": "1"}, None])
def test_without_a_rank_variable_nobody_is_made_a_rank(environ: dict[str, str] | None) -> None:
    found = child(environ)

    assert ("job", "job") == (found[RANK].name, found[LAUNCHER].name)


def test_an_unreadable_environment_of_the_parent_proves_no_difference() -> None:
    scene = Scene()
    scene.begin()
    scene.items = [event for event in scene.items if getattr(event, "comm", "") != "pt_elastic"]
    scene.fork(RANK, LAUNCHER)
    scene.seen(RANK, LAUNCHER, "python3", {"RANK": "1"})

    assert "job" == roles(scene)[RANK].name


def test_the_environment_of_the_last_exec_that_could_be_read_counts() -> None:
    scene = Scene()
    scene.begin()
    scene.seen(LAUNCHER, 1, "sh", {})
    scene.fork(RANK, LAUNCHER)
    for environ in ({"RANK": "1"}, {"RANK": "2"}, None):
        scene.seen(RANK, LAUNCHER, "python3", environ)

    assert 2 == roles(scene)[RANK].rank


@pytest.mark.parametrize(
    ("value", "number"),
    [("0", 0), ("007", 7), ("123456789", 123456789), ("1234567890", None), ("٣", None), ("-1", None), ("1.0", None)],
)
def test_a_rank_is_a_number_of_at_most_nine_digits(value: str, number: int | None) -> None:
    found = child({"RANK": value, "LOCAL_RANK": "0"})[RANK]

    assert ("rank", number) == (found.name, found.rank)
    assert (found.known_by or "").startswith("LOCAL_RANK" if number is None else "RANK")


@pytest.mark.parametrize("comm", ["pt_elastic", "torchrun", "deepspeed", "mpirun", "mpiexec", "orterun", "horovodrun"])
def test_launchers_are_known_by_name_too(comm: str) -> None:
    found = child({}, comm=comm)[RANK]

    assert ("launcher", f"named {comm}") == (found.name, found.known_by)


def test_a_rank_with_a_launchers_name_is_a_rank() -> None:
    assert "rank" == child({"RANK": "0"}, comm="torchrun")[RANK].name


@pytest.mark.parametrize("comm", ["pt_data_worker", "pt_multiprocess"])
def test_workers_are_known_by_name(comm: str) -> None:
    found = child({}, comm=comm)[RANK]

    assert ("dataloader_worker", f"named {comm}", 0) == (found.name, found.known_by, found.worker)


def test_a_worker_is_known_by_the_last_name_of_that_kind() -> None:
    scene = Scene()
    scene.job()
    pid = WORKERS[0]
    for comm in ("pt_multiprocess", "renamed"):
        scene.add(ProcessSample(ts_ns=scene.now_ns, start_ns=start_of(pid), tgid=pid, comm=comm))

    assert "named pt_multiprocess" == roles(scene)[pid].known_by


def test_where_forks_may_be_missing_no_worker_has_a_number() -> None:
    scene = Scene()
    scene.job()

    assert {None} == {roles(scene, forks_complete=False)[pid].worker for pid in WORKERS}


def paced(*pauses_ms: int, ended: dict[int, int] | None = None) -> list[int | None]:
    """Numbers of workers that a rank forked at these pauses; `ended`: which one ended before which fork."""
    scene = Scene()
    scene.begin()
    scene.fork(RANK, LAUNCHER)
    pids = range(1000, 1001 + len(pauses_ms))
    for place, (pid, pause_ms) in enumerate(zip(pids, (1, *pauses_ms), strict=True)):
        scene.pass_time((pause_ms - 1) * NS_PER_MS)
        for one, before in (ended or {}).items():
            if before == place:
                scene.pass_time(NS_PER_MS)
                scene.exit(1000 + one, 0)
                scene.pass_time(-NS_PER_MS)
        scene.fork(pid, RANK, comm=WORKER)
    found = roles(scene)
    return [found[pid].worker for pid in pids]


def test_workers_are_numbered_in_the_order_of_their_forks() -> None:
    assert [0, 1, 2] == paced(5, 5)


def test_a_worker_that_was_seen_before_its_fork_was_recorded_keeps_its_place() -> None:
    scene = Scene()
    scene.begin()
    scene.fork(RANK, LAUNCHER)
    scene.seen(1001, RANK, WORKER, None)
    scene.fork(1000, RANK, comm=WORKER)
    scene.fork(1001, RANK, comm=WORKER)

    assert [0, 1] == [roles(scene)[pid].worker for pid in (1000, 1001)]


def test_a_first_pause_of_more_than_a_quarter_of_a_second_may_be_another_start() -> None:
    assert [0, 1] == paced(250)
    assert [0, None, None] == paced(251, 1)


def test_a_pause_is_long_by_the_longest_before_it() -> None:
    assert [0, 1, 2] == paced(50, 250)
    assert [0, 1, 2, None] == paced(5, 100, 501)
    assert [0, 1, None] == paced(5, 101)
    assert [0, 1, None] == paced(50, 251)
    assert [0, 1, 2, 3] == paced(50, 5, 250)
    assert [0, 1, 2, 3] == paced(90, 440, 2000)
    assert [0, 1, 2, None] == paced(5, 60, 301)


def test_a_start_begins_anew_once_all_earlier_workers_have_ended() -> None:
    assert [0, 1, 0, 1] == paced(1, 5, 1, ended={0: 2, 1: 2})
    assert [0, 1, 2, 3] == paced(1, 5, 1, ended={0: 2})
    assert [0, 1, 2, 3] == paced(1, 5, 1, ended={1: 2})
    assert [0, 1, 0] == paced(1, 900, ended={0: 2, 1: 2})
    assert [0, None, 0, 1] == paced(900, 900, 1, ended={0: 2, 1: 2})


def test_the_pace_of_a_start_is_its_own() -> None:
    assert [0, 1, 0, None] == paced(90, 10, 300, ended={0: 2, 1: 2})
    assert [0, 1, 2, 0, None] == paced(90, 440, 10, 300, ended={0: 3, 1: 3, 2: 3})


def test_workers_of_which_no_fork_was_recorded_have_no_number() -> None:
    scene = Scene()
    scene.job()
    later = WORKERS[3] + 1
    scene.seen(later, RANK, WORKER, None, parent_start_ns=start_of(RANK))
    found = roles(scene)

    assert ("dataloader_worker", None) == (found[later].name, found[later].worker)
    assert [0, 1, 2, 3] == [found[pid].worker for pid in WORKERS]


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_those_that_began_after_a_worker_of_which_no_fork_was_recorded_have_no_number(lost: int) -> None:
    """Which would be one too low: nobody counted the one that is missing."""
    scene = Scene()
    scene.job()
    parents = {pid: start_of(RANK) for pid in WORKERS}
    scene.items = [
        msgspec.structs.replace(event, parent_start_ns=parents[event.tgid])
        if isinstance(event, ProcessSeen) and event.tgid in parents
        else event
        for event in scene.items
        if not (isinstance(event, ProcessForked) and event.tgid == WORKERS[lost])
    ]
    found = roles(scene)

    assert [*range(lost), *[None] * (4 - lost)] == [found[pid].worker for pid in WORKERS]


def test_only_workers_have_numbers_and_each_parent_has_its_own() -> None:
    scene = Scene()
    scene.job()
    scene.fork(300, RANK, comm="helper")
    scene.fork(301, LAUNCHER, comm="python3")
    scene.fork(302, 301, comm=WORKER)
    found = roles(scene)

    assert (None, 0, 3) == (found[300].worker, found[302].worker, found[WORKERS[3]].worker)


@pytest.mark.parametrize(
    ("role", "comm", "told", "column"),
    [
        (Role(name="dataloader_worker", rank=1, worker=2), "x", "DataLoader worker 2 of rank 1", "worker 2"),
        (Role(name="dataloader_worker", rank=1), "x", "DataLoader worker of rank 1", "worker"),
        (Role(name="dataloader_worker", worker=2), "x", "DataLoader worker 2", "worker 2"),
        (Role(name="rank", rank=3), "x", "rank 3", "rank 3"),
        (Role(name="rank"), "x", "rank", "rank"),
        (Role(name="launcher"), "x", "launcher", "launcher"),
        (Role(name="launcher", rank=1), "x", "launcher", "launcher"),
        (Role(name="job", rank=1), "sh", "'sh' of rank 1", "sh"),
        (Role(name="job"), "sh", "'sh'", "sh"),
        (Role(name="job", rank=1), None, "a process of rank 1", "?"),
        (None, "sh", "'sh'", "sh"),
        (None, None, "a process", "?"),
    ],
)
def test_a_role_is_told_in_a_sentence_and_in_a_column(
    role: Role | None, comm: str | None, told: str, column: str
) -> None:
    assert (told, column) == (describe(role, comm), short(role, comm))

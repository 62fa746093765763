# SPDX-License-Identifier: Apache-2.0
"""Roles come from the environment given to exec, then from names; a role is never guessed."""

import pytest

from tests.unit.verdict.scenes import LAUNCHER, RANK, WORKERS, Scene, identity
from tracer.attribution.roles import Role, assign, describe
from tracer.attribution.tree import Tree
from tracer.units import NS_PER_S


def roles(scene: Scene) -> dict[int, Role]:
    return {i.tgid: role for i, role in assign(Tree.of(scene.events)).items()}


def test_launcher_rank_and_numbered_workers() -> None:
    scene = Scene()
    scene.job()
    found = roles(scene)

    assert "launcher" == found[LAUNCHER].name
    assert ("rank", 0) == (found[RANK].name, found[RANK].rank)
    assert [("dataloader_worker", 0, n) for n in range(4)] == [
        (found[pid].name, found[pid].rank, found[pid].worker) for pid in WORKERS
    ]
    assert found[RANK].known_by == "RANK in the environment it was started with"


def test_a_rank_variable_that_the_whole_pod_has_makes_no_rank_of_the_launcher() -> None:
    scene = Scene()
    scene.begin()
    scene.seen(LAUNCHER, 1, "torchrun", {"RANK": "0"})
    scene.fork(RANK, LAUNCHER)
    scene.seen(RANK, LAUNCHER, "python3", {"RANK": "0", "LOCAL_RANK": "0", "TORCHELASTIC_RUN_ID": "x"})
    found = roles(scene)

    assert ("launcher", "rank") == (found[LAUNCHER].name, found[RANK].name)


def test_a_single_process_with_a_rank_is_the_rank() -> None:
    scene = Scene()
    scene.begin()
    scene.items = [event for event in scene.items if getattr(event, "comm", "") != "pt_elastic"]
    scene.seen(LAUNCHER, 1, "python3", {"RANK": "3"})

    assert ("rank", 3) == (roles(scene)[LAUNCHER].name, roles(scene)[LAUNCHER].rank)


def test_children_inherit_the_rank_but_are_none() -> None:
    scene = Scene()
    scene.job()
    scene.fork(500, RANK)
    scene.seen(500, RANK, "evaluate", {"RANK": "0", "LOCAL_RANK": "0", "TORCHELASTIC_RUN_ID": "x"})

    assert ("job", 0) == (roles(scene)[500].name, roles(scene)[500].rank)


@pytest.mark.parametrize("value", ["", "x", "-1", "1e3", "٣", "9" * 400])
def test_a_rank_that_is_no_number_is_unknown(value: str) -> None:
    scene = Scene()
    scene.job()
    scene.seen(RANK, LAUNCHER, "python3", {"RANK": value, "LOCAL_RANK": "0"})
    rank = roles(scene)[RANK].rank

    assert rank is None or value.isdigit()


def test_an_unreadable_environment_gives_no_rank() -> None:
    scene = Scene()
    scene.begin()
    scene.fork(RANK, LAUNCHER)
    scene.seen(RANK, LAUNCHER, "python3", None)

    assert "job" == roles(scene)[RANK].name


def test_workers_of_the_next_epoch_are_numbered_anew() -> None:
    scene = Scene()
    scene.job()
    for pid in WORKERS:
        scene.exit(pid, 0, comm="pt_data_worker")
    scene.pass_time(NS_PER_S)
    scene.fork(600, RANK, comm="pt_data_worker")
    scene.fork(601, RANK, comm="pt_data_worker")

    assert [0, 1] == [roles(scene)[pid].worker for pid in (600, 601)]


def test_a_second_loader_beside_the_first_gets_no_numbers() -> None:
    scene = Scene()
    scene.job()
    scene.pass_time(60 * NS_PER_S)
    scene.fork(600, RANK, comm="pt_data_worker")

    assert roles(scene)[600].worker is None
    assert [0, 1, 2, 3] == [roles(scene)[pid].worker for pid in WORKERS]


def test_a_name_alone_makes_no_role_outside_the_tree() -> None:
    scene = Scene()
    scene.job()
    scene.fork(700, 699, comm="pt_data_worker")

    assert 700 not in roles(scene)


def test_words_for_people() -> None:
    assert "DataLoader worker 2 of rank 0" == describe(Role(name="dataloader_worker", rank=0, worker=2), "x")
    assert "rank 3" == describe(Role(name="rank", rank=3), "python3")
    assert "'sh'" == describe(None, "sh")
    assert identity(LAUNCHER).tgid == LAUNCHER

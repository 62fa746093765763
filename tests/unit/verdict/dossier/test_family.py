# SPDX-License-Identifier: Apache-2.0
"""The processes in the order of their tree, each with its part and its fate; of very many those that matter."""

from tests.unit.verdict.dossier.test_chart import dossier_of
from tests.unit.verdict.scenes import LAUNCHER, RANK, WORKERS, Scene
from tracer.units import NS_PER_S
from tracer.verdict.dossier.family import MOST_PEOPLE


def test_each_stands_below_who_forked_it():
    scene = Scene()
    scene.job()
    scene.kill()

    people = dossier_of(scene.finish(1 << 8)).family.people

    assert [(one.pid, one.depth) for one in people] == [(LAUNCHER, 0), (RANK, 1), *((pid, 2) for pid in WORKERS)]


def test_the_fate_of_each_is_told():
    scene = Scene()
    scene.job()
    scene.grow()
    scene.kill()
    scene.pass_time(NS_PER_S)
    scene.exit(RANK, 1 << 8)

    people = {one.pid: one for one in dossier_of(scene.finish(1 << 8)).family.people}

    assert people[WORKERS[2]].fate == "killed by the kernel, signal 9 (SIGKILL)"
    assert {"victim", "culprit"} <= set(people[WORKERS[2]].parts)
    assert people[RANK].fate == "exit 1"
    assert "collateral" in people[RANK].parts
    assert people[WORKERS[0]].fate == "running at the end"
    assert people[WORKERS[0]].parts == ()
    assert people[WORKERS[2]].peak_bytes == 402 << 20


def test_who_exited_by_itself_is_nobodys_victim():
    scene = Scene()
    scene.job()
    scene.pass_time(NS_PER_S)
    scene.exit(RANK, 1 << 8)

    parts = [part for one in dossier_of(scene.finish(1 << 8)).family.people for part in one.parts]

    assert "subject" in parts
    assert "victim" not in parts


def test_of_very_many_the_victim_stays_with_all_above_it_and_the_others_are_counted():
    scene = Scene()
    scene.job()
    for pid in range(50_000, 51_000):
        scene.fork(pid, RANK)
    scene.fork(60_000, 50_999)
    scene.kill(60_000)

    family = dossier_of(scene.finish(1 << 8)).family

    assert family.total == 1_007
    assert len(family.people) <= MOST_PEOPLE
    assert {LAUNCHER, RANK, 50_999, 60_000} <= {one.pid for one in family.people}
    assert sum(one.left_out for one in family.people) == family.left_out


def test_a_chain_deeper_than_all_that_is_shown_is_no_trouble():
    scene = Scene()
    scene.job()
    parent = RANK
    for pid in range(50_000, 50_400):
        scene.fork(pid, parent)
        parent = pid
    scene.kill(parent)

    family = dossier_of(scene.finish(1 << 8)).family

    assert len(family.people) <= MOST_PEOPLE
    assert family.left_out

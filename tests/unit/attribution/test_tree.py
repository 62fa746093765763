# SPDX-License-Identifier: Apache-2.0
"""The tree is folded from forks, by identity and never by pid alone."""

from tests.unit.verdict.scenes import LAUNCHER, RANK, WORKERS, Scene, identity, start_of
from tracer.attribution.tree import Tree
from tracer.events import ProcessGone
from tracer.units import NS_PER_S


def tree(scene: Scene) -> Tree:
    return Tree.of(scene.events)


def test_members_descend_from_the_root_by_recorded_forks() -> None:
    scene = Scene()
    scene.job()

    assert {identity(pid) for pid in (LAUNCHER, RANK, *WORKERS)} == set(tree(scene).members)


def test_a_chain_runs_from_the_root_down() -> None:
    scene = Scene()
    scene.job()
    chain = tree(scene).chain(identity(WORKERS[3]))

    assert chain is not None
    assert [LAUNCHER, RANK, WORKERS[3]] == [m.id.tgid for m in chain]


def test_floored_and_exact_start_times_are_one_process() -> None:
    scene = Scene()
    scene.job()
    scene.sample(RANK, 10)
    member = tree(scene).members[identity(RANK)]

    assert 1 == len(member.samples)
    assert start_of(RANK) == member.start_ns


def test_a_process_is_not_named_after_another_thread_of_it() -> None:
    scene = Scene()
    scene.job()
    scene.mark(RANK, RANK, tid=RANK + 1, comm="pt_data_worker")
    scene.signal(RANK, 15, tid=RANK + 1, comm="raylet")
    scene.exit(RANK, 9, tid=RANK + 1, comm="pt_gloo_runloop")

    assert ("python3",) == tree(scene).members[identity(RANK)].comms
    scene.exit(RANK, 9, comm="renamed")
    assert ("python3", "renamed") == tree(scene).members[identity(RANK)].comms


def test_a_reused_pid_is_another_process() -> None:
    scene = Scene()
    scene.job()
    scene.exit(RANK, 0)
    scene.exit(RANK, 9, start_ns=start_of(RANK) + NS_PER_S)

    assert 0 == (tree(scene).members[identity(RANK)].exit or scene.items[0]).status  # type: ignore[union-attr]


def test_a_child_of_an_unknown_parent_is_no_member() -> None:
    scene = Scene()
    scene.begin()
    scene.fork(WORKERS[0], RANK)
    found = tree(scene)

    assert identity(WORKERS[0]) not in found.members
    assert found.chain(identity(WORKERS[0])) is None
    assert found.processes[identity(WORKERS[0])].claimed


def test_processes_that_claim_each_other_as_parents_do_not_hang_the_fold() -> None:
    scene = Scene()
    scene.begin()
    scene.fork(RANK, WORKERS[0])
    scene.fork(WORKERS[0], RANK)

    assert {identity(LAUNCHER)} == set(tree(scene).members)


def test_a_pid_alone_is_found_only_while_it_lived() -> None:
    scene = Scene()
    scene.job()
    scene.pass_time(NS_PER_S)
    scene.exit(RANK, 0)
    found = tree(scene)

    assert found.alive_at(RANK, scene.now_ns - 1) is not None
    assert found.alive_at(RANK, scene.now_ns + 60 * NS_PER_S) is None
    assert found.alive_at(RANK, 0) is None


def test_a_missing_process_has_an_end_but_no_exit() -> None:
    scene = Scene()
    scene.job()
    scene.add(ProcessGone(ts_ns=scene.now_ns, tgid=RANK, start_ns=start_of(RANK)))
    member = tree(scene).members[identity(RANK)]

    assert member.exit is None
    assert member.end_ns == scene.now_ns


def test_without_forks_a_parent_at_first_sight_makes_a_member() -> None:
    scene = Scene()
    scene.begin()
    scene.seen(RANK, LAUNCHER, "python3", {}, parent_start_ns=start_of(LAUNCHER))
    scene.seen(RANK, 1, "python3", {}, parent_start_ns=1)
    found = tree(scene)

    assert identity(RANK) in found.members
    assert not found.forks_recorded(identity(RANK))


def test_a_parent_known_by_its_pid_alone_makes_no_member() -> None:
    scene = Scene()
    scene.begin()
    scene.seen(RANK, LAUNCHER, "python3", {})

    assert identity(RANK) not in tree(scene).members

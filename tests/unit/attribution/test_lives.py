# SPDX-License-Identifier: Apache-2.0
"""What the tree keeps of a process: its first fork and exit, its names, when it was there, and who stands above it."""

import pytest

from tests.unit.verdict.scenes import LAUNCHER, RANK, WORKERS, Scene, identity, start_of
from tracer.attribution.tree import MAX_DEPTH, Tree
from tracer.events import JobEnded, JobStarted, ProcessExeced, ProcessGone, ProcessSample, SignalInfo
from tracer.units import NS_PER_MS, NS_PER_S, TICK_NS

SIGHT_LAG_NS = 1 * NS_PER_S
LOG_LAG_NS = 5 * NS_PER_S


def job() -> Scene:
    scene = Scene()
    scene.job()
    scene.pass_time(NS_PER_S)
    return scene


def tree(scene: Scene) -> Tree:
    return Tree.of(scene.events)


def alive(scene: Scene, pid: int, at_ns: int) -> bool:
    found = tree(scene).alive_at(pid, at_ns)
    assert found is None or found.id.tgid == pid
    return found is not None


def test_the_first_fork_exit_end_and_disappearance_count() -> None:
    scene = job()
    at_ns = scene.now_ns
    for status in (1, 2):
        scene.fork(RANK, WORKERS[0] if status == 2 else LAUNCHER)
        scene.exit(RANK, status, in_tree=status % 2)
        scene.add(ProcessGone(ts_ns=scene.now_ns, tgid=RANK, start_ns=start_of(RANK)))
        scene.add(JobEnded(ts_ns=scene.now_ns, tgid=LAUNCHER, start_ns=start_of(LAUNCHER), status=status))
    found = tree(scene)
    rank, root = found.members[identity(RANK)], found.members[identity(LAUNCHER)]

    assert rank.exit is not None
    assert rank.gone is not None
    assert root.ended is not None
    assert (1, at_ns + NS_PER_MS, 1) == (rank.exit.status, rank.gone.ts_ns, root.ended.status)
    assert identity(LAUNCHER) == rank.parent
    assert at_ns + NS_PER_MS == rank.end_ns


def test_the_first_start_of_a_job_is_the_root() -> None:
    scene = job()
    scene.add(JobStarted(ts_ns=scene.now_ns, tgid=RANK, start_ns=start_of(RANK)))

    assert identity(LAUNCHER) == tree(scene).root


def test_names_are_kept_first_to_last_without_repetition() -> None:
    scene = Scene()
    scene.begin()
    for comm in ("a", "a", "b", "a", None):
        scene.add(ProcessSample(ts_ns=scene.now_ns, start_ns=start_of(RANK), tgid=RANK, comm=comm))
    found = tree(scene).processes[identity(RANK)]

    assert (("a", "b", "a"), "a") == (found.comms, found.comm)
    scene.fork(RANK, LAUNCHER, comm="last")
    assert "last" == tree(scene).members[identity(RANK)].comm
    scene.add(ProcessSample(ts_ns=0, start_ns=start_of(700), tgid=700))
    assert tree(scene).processes[identity(700)].comm is None


@pytest.mark.parametrize("in_tree", [0, 1])
def test_the_kernels_filter_claims_a_process_by_any_of_its_records(in_tree: int) -> None:
    by_signal, by_exit, by_either = Scene(), Scene(), Scene()
    by_signal.signal(RANK, 15, in_tree=in_tree)
    by_exit.exit(RANK, 0, in_tree=in_tree)
    by_either.signal(RANK, 15, in_tree=1)
    by_either.signal(RANK, 15, in_tree=in_tree)
    by_either.exit(RANK, 0, in_tree=in_tree)
    by_exit.signal(RANK, 15, in_tree=0, info=SignalInfo.PRIV)

    assert [bool(in_tree), bool(in_tree), True] == [
        tree(scene).processes[identity(RANK)].claimed for scene in (by_signal, by_exit, by_either)
    ]


def test_forks_and_execs_are_the_filters_records_too() -> None:
    scene = Scene()
    scene.begin()
    scene.fork(RANK, LAUNCHER)
    pid = WORKERS[0]
    scene.add(ProcessExeced(ts_ns=scene.now_ns, cpu=0, start_ns=start_of(pid), tgid=pid, old_tid=pid, comm="x"))

    assert [True, True, False] == [tree(scene).processes[identity(p)].claimed for p in (RANK, pid, LAUNCHER)]


def test_a_process_began_at_its_fork_else_when_it_was_first_seen() -> None:
    scene = Scene()
    scene.begin()
    at_ns = scene.now_ns
    scene.seen(RANK, LAUNCHER, "x", None, parent_start_ns=start_of(LAUNCHER))
    scene.pass_time(NS_PER_S)
    scene.seen(RANK, LAUNCHER, "x", None, parent_start_ns=start_of(LAUNCHER))
    scene.exit(700, 0)
    assert at_ns == tree(scene).members[identity(RANK)].began_ns
    assert tree(scene).processes[identity(700)].began_ns is None
    scene.fork(RANK, LAUNCHER)
    assert scene.now_ns == tree(scene).members[identity(RANK)].began_ns


def test_an_end_is_an_exit_before_a_disappearance() -> None:
    scene = job()
    scene.add(ProcessGone(ts_ns=scene.now_ns - 5, tgid=RANK, start_ns=start_of(RANK)))
    scene.exit(RANK, 0)

    assert scene.now_ns == tree(scene).members[identity(RANK)].end_ns
    assert tree(scene).members[identity(WORKERS[0])].end_ns is None


def test_a_pid_is_alive_from_its_fork_to_some_seconds_after_its_exit() -> None:
    scene = job()
    scene.fork(500, RANK)
    began_ns = scene.now_ns
    scene.pass_time(NS_PER_S)
    scene.exit(500, 0)
    ended_ns = scene.now_ns

    assert [False, True, True, False] == [
        alive(scene, 500, at_ns) for at_ns in (began_ns - 1, began_ns, ended_ns + LOG_LAG_NS, ended_ns + LOG_LAG_NS + 1)
    ]
    assert alive(scene, RANK, ended_ns + 3600 * NS_PER_S)


def test_a_pid_that_was_only_seen_may_have_lived_a_second_before() -> None:
    scene = Scene()
    scene.begin()
    scene.pass_time(NS_PER_S)
    scene.seen(RANK, LAUNCHER, "x", None, parent_start_ns=start_of(LAUNCHER))
    at_ns = scene.now_ns

    assert [True, False] == [alive(scene, RANK, at_ns - SIGHT_LAG_NS - late) for late in (0, 1)]


def test_the_job_itself_is_alive_from_whenever_on() -> None:
    assert alive(job(), LAUNCHER, 0)
    scene = job()
    scene.items = [event for event in scene.items if getattr(event, "comm", "") != "pt_elastic"]
    assert alive(scene, LAUNCHER, 0)


def test_a_pid_that_two_had_within_the_lag_is_neithers() -> None:
    scene = job()
    scene.exit(WORKERS[0], 0)
    scene.pass_time(NS_PER_S)
    again = start_of(WORKERS[0]) + TICK_NS
    first = scene.items[-1].ts_ns
    scene.fork(WORKERS[0], RANK)
    scene.items[-1] = type(scene.items[-1])(
        **{**{f: getattr(scene.items[-1], f) for f in scene.items[-1].__struct_fields__}, "start_ns": again}
    )

    assert alive(scene, WORKERS[0], first)
    assert not alive(scene, WORKERS[0], scene.now_ns)
    assert alive(scene, WORKERS[0], first + LOG_LAG_NS + 1)


def test_a_pid_outside_the_tree_is_not_alive_in_it() -> None:
    scene = job()
    scene.exit(700, 0, in_tree=1)

    assert not alive(scene, 700, scene.now_ns)


def test_who_stands_above_whom() -> None:
    found = tree(job())
    ids = [identity(pid) for pid in (LAUNCHER, RANK, *WORKERS)]
    above = {(0, n) for n in range(1, 6)} | {(1, n) for n in range(2, 6)}

    assert above == {(a, b) for a in range(6) for b in range(6) if found.is_ancestor(ids[a], ids[b])}
    assert not found.is_ancestor(ids[0], identity(700))
    assert not found.is_ancestor(identity(700), ids[0])


def test_members_are_in_fork_order_each_after_its_parent() -> None:
    scene = job()
    scene.fork(500, WORKERS[0])
    scene.fork(501, RANK)
    order = [member.tgid for member in tree(scene).members]

    assert [LAUNCHER, RANK, WORKERS[0], 500, *WORKERS[1:], 501] == order
    assert (*map(identity, WORKERS), identity(501)) == tree(scene).members[identity(RANK)].children


def test_a_branch_under_another_one_is_no_part_of_it() -> None:
    scene = job()
    scene.fork(500, LAUNCHER)
    scene.fork(501, 500)
    found = tree(scene)

    assert found.is_ancestor(identity(500), identity(501))
    assert not found.is_ancestor(identity(RANK), identity(501))
    assert not found.is_ancestor(identity(500), identity(WORKERS[0]))


def test_a_job_of_which_nothing_else_is_known_has_one_member() -> None:
    scene = Scene()
    scene.add(JobStarted(ts_ns=1, tgid=LAUNCHER, start_ns=start_of(LAUNCHER)))
    alone = tree(scene)

    assert [identity(LAUNCHER)] == list(alone.members)
    assert [LAUNCHER] == [member.id.tgid for member in alone.chain(identity(LAUNCHER)) or ()]
    assert {} == Tree.of([]).members
    assert Tree.of([]).chain(identity(LAUNCHER)) is None
    assert Tree.of([]).alive_at(LAUNCHER, 1) is None


def test_a_root_that_its_own_child_claims_to_have_forked_does_not_hang_the_fold() -> None:
    scene = job()
    scene.fork(LAUNCHER, RANK)

    assert 6 == len(tree(scene).members)


def test_forks_are_recorded_where_each_of_the_line_was() -> None:
    scene = job()
    scene.seen(500, RANK, "x", None, parent_start_ns=start_of(RANK))
    scene.fork(501, 500)
    found = tree(scene)

    assert [True, True, False, False] == [found.forks_recorded(identity(p)) for p in (LAUNCHER, WORKERS[0], 500, 501)]


def test_a_chain_deeper_than_any_job_is_cut_off() -> None:
    scene = Scene()
    scene.begin()
    parent = LAUNCHER
    for pid in range(100_000, 100_000 + MAX_DEPTH):
        scene.fork(pid, parent)
        parent = pid
    found = tree(scene)

    assert [4096, 4096] == [len(found.chain(identity(pid)) or ()) for pid in (parent - 1, parent)]
    assert MAX_DEPTH == 4096


def test_start_times_are_as_exact_as_any_source_knew_them() -> None:
    scene = Scene()
    scene.begin()
    scene.seen(RANK, LAUNCHER, "x", None)
    floored = tree(scene).processes[identity(RANK)].start_ns
    scene.exit(RANK, 0)
    scene.sample(RANK, 5)

    assert (start_of(RANK) // TICK_NS * TICK_NS, start_of(RANK)) == (
        floored,
        tree(scene).processes[identity(RANK)].start_ns,
    )

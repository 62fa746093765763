# SPDX-License-Identifier: Apache-2.0
"""Processes in words and in the document."""

from typing import Any

import pytest

from tests.unit.verdict.scenes import LAUNCHER, RANK, WORKERS, Scene, identity, start_of
from tracer.events import ProcessExeced, ProcessSample
from tracer.units import MIB, NS_PER_S
from tracer.verdict import people
from tracer.verdict.kills import Kill, find_kills
from tracer.verdict.story import Story

VICTIM, HELPER = WORKERS[2], 300


def job() -> Scene:
    scene = Scene()
    scene.job()
    scene.fork(HELPER, LAUNCHER, comm="helper")
    scene.pass_time(NS_PER_S)
    return scene


def story(scene: Scene) -> Story:
    return Story(scene.events)


def test_names_of_processes_with_and_without_a_role() -> None:
    facts = story(job())
    ids = [identity(pid) for pid in (VICTIM, RANK, HELPER, 4242)]

    assert ["worker 2", "rank 0", f"helper {HELPER}", "? 4242"] == [people.short(facts, i) for i in ids]
    assert f"'helper' (pid {HELPER})" == people.describe(facts, ids[2])
    assert "A process (pid 4242)" == people.subject(facts, ids[3])


def test_a_worker_is_told_with_its_rank_where_there_are_several() -> None:
    scene = job()
    scene.fork(500, LAUNCHER)
    scene.seen(500, LAUNCHER, "python3", {"RANK": "1"})
    scene.fork(501, 500, comm="pt_data_worker")
    scene.fork(502, LAUNCHER, comm="pt_data_worker")
    facts = story(scene)

    assert ["r0 worker 2", "r1 worker 0", "worker 0", "rank 1"] == [
        people.short(facts, identity(pid)) for pid in (VICTIM, 501, 502, 500)
    ]


def test_a_long_line_is_told_by_its_ends() -> None:
    scene = Scene()
    scene.begin()
    parent = LAUNCHER
    for pid in range(1000, 1006):
        scene.fork(pid, parent, comm="c")
        parent = pid
    facts = story(scene)

    assert "launcher 41200 > c 1000 > c 1001 > c 1002 > c 1003 > c 1004" == people.lineage(facts, identity(1004))
    assert "launcher 41200 > c 1000 > ... > c 1003 > c 1004 > c 1005" == people.lineage(facts, identity(1005))
    assert people.lineage(facts, identity(4242)) is None


def killed(scene: Scene, pid: int = VICTIM, **marked: Any) -> Kill:
    scene.kill(pid, **marked)
    (kill,) = find_kills(story(scene)).kills
    return kill


def test_a_victims_memory_is_that_at_the_mark() -> None:
    scene = job()
    scene.sample(VICTIM, 1)
    kill = killed(scene, shmem_rss_bytes=7, swap_bytes=9, comm="marked")
    found = people.process(story(scene), kill.id, kill)

    assert (402 * MIB, 5 * MIB, 7, 9) == (
        found.rss_anon_bytes,
        found.rss_file_bytes,
        found.rss_shmem_bytes,
        found.swap_bytes,
    )
    assert ("marked", "dataloader_worker", "named pt_data_worker", 0, 2) == (
        found.comm,
        found.role,
        found.role_known_by,
        found.rank,
        found.worker,
    )
    assert start_of(VICTIM) == found.start_ns


def test_without_a_mark_the_logs_sizes_are_told() -> None:
    scene = Scene()
    scene.begin(hooks=())
    scene.sample(LAUNCHER, 1)
    scene.log_kill(LAUNCHER)
    (kill,) = find_kills(story(scene)).kills
    found = people.process(story(scene), kill.id, kill)

    assert (402 * MIB, 5 * MIB, 0, None) == (
        found.rss_anon_bytes,
        found.rss_file_bytes,
        found.rss_shmem_bytes,
        found.swap_bytes,
    )


def test_others_memory_is_that_of_their_last_sample_since_the_last_exec() -> None:
    def memory(scene: Scene) -> int | None:
        return people.process(story(scene), identity(HELPER)).rss_anon_bytes

    def execed(scene: Scene) -> None:
        scene.add(
            ProcessExeced(ts_ns=scene.now_ns, cpu=0, start_ns=start_of(HELPER), tgid=HELPER, old_tid=HELPER, comm="x")
        )

    scene = job()
    assert memory(scene) is None
    for mib in (1, 2):
        scene.sample(HELPER, mib)
        scene.pass_time(1)
    assert 2 * MIB == memory(scene)
    execed(scene)
    assert memory(scene) is None
    scene.sample(HELPER, 3)
    assert 3 * MIB == memory(scene)
    scene.pass_time(1)
    execed(scene)
    assert memory(scene) is None


@pytest.mark.parametrize(
    ("levels", "path"),
    [
        ([(0, "own", 0), (1, "run", 0), (2, "", 0)], "/run/own"),
        ([(0, "own", 0), (1, "run", 0)], "/seen"),
        ([(0, "own", 0), (2, "", 0)], "/seen"),
        ([(1, "run", 0), (2, "", 0)], "/seen"),
        ([(0, "own", 1), (1, "", 0)], "/seen"),
        ([], "/seen"),
    ],
)
def test_a_cgroup_is_told_by_its_names_only_where_all_of_them_were_recorded(
    levels: list[tuple[int, str, int]], path: str
) -> None:
    scene = job()
    for cgroup in ("/old", "/seen", None):
        scene.seen(VICTIM, RANK, "pt_data_worker", None, cgroup=cgroup)
    scene.oom_signal(VICTIM, VICTIM)
    mark = scene.mark(VICTIM, VICTIM)
    for depth, name, cut in levels:
        scene.level(mark, depth, name=name, cgroup_id=depth, events_local_oom=0, name_cut=cut)
    scene.stack(mark)
    (kill,) = find_kills(story(scene)).kills

    assert path == people.process(story(scene), kill.id, kill).cgroup
    assert "/seen" == people.process(story(scene), kill.id).cgroup
    assert people.process(story(scene), identity(HELPER)).cgroup is None


@pytest.mark.parametrize(
    ("level", "inner", "told"), [(0, VICTIM, (VICTIM,)), (1, 12, (VICTIM, 12)), (2, 12, (VICTIM, 12))]
)
def test_pids_of_inner_namespaces_are_told_as_far_as_they_are_known(
    level: int, inner: int, told: tuple[int, ...]
) -> None:
    scene = job()
    kill = killed(scene, ns_level=level, ns_tgid=inner)

    assert told == people.process(story(scene), kill.id, kill).ns_pids
    assert (VICTIM,) == people.process(story(scene), kill.id).ns_pids
    assert people.process(story(scene), identity(LAUNCHER)).ns_pids is None
    assert people.process(story(scene), identity(4242)).ns_pids is None
    for ns_pids in ((1, 2), (1, 2, 3), None):
        scene.seen(VICTIM, RANK, "pt_data_worker", None, ns_pids=ns_pids)
    assert (1, 2, 3) == people.process(story(scene), kill.id, kill).ns_pids


def test_who_was_allocating_is_the_victim_a_known_process_or_a_stranger() -> None:
    own, known, stranger = (job() for _ in range(3))
    kills = [killed(own), killed(known, trigger=RANK), killed(stranger, trigger=4242, trigger_comm="x")]
    found = [people.trigger(story(scene), kill) for scene, kill in zip((own, known, stranger), kills, strict=True)]
    unmarked = Kill(id=identity(VICTIM), start_ns=1, at_ns=1, status="not_observed", why="")

    assert [(VICTIM, 402 * MIB), (RANK, None), (4242, None)] == [(t.pid, t.rss_anon_bytes) for t in found if t]
    assert ["dataloader_worker", "rank", "outside"] == [t.role for t in found if t]
    assert ("x", start_of(4242)) == ((last := found[2]) and last.comm, last and last.start_ns)
    assert people.trigger(story(own), unmarked) is None


def test_a_process_of_which_nothing_is_known_is_outside() -> None:
    scene = job()
    scene.add(ProcessSample(ts_ns=scene.now_ns, start_ns=start_of(500), tgid=500, comm="else"))
    scene.exit(501, 0, in_tree=1)
    unknown, sampled, claimed = (people.process(story(scene), identity(pid)) for pid in (4242, 500, 501))

    assert ("outside", None, None) == (unknown.role, unknown.comm, unknown.start_ns)
    assert ("outside", "else", None) == (sampled.role, sampled.comm, sampled.rank)
    assert "job" == claimed.role

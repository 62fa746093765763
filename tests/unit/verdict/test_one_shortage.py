# SPDX-License-Identifier: Apache-2.0
"""How many incidents: a group is one however long the kernel took for it, and who did not grow is said not to have."""

import pytest

from tests.unit.verdict.scenes import KILL_STACK, RANK, WORKERS, Scene, primary
from tracer.units import MIB, NS_PER_S
from tracer.verdict.judge import judge
from tracer.verdict.model import Report

GROUP_STACK = ("mark_oom_victim", "__oom_kill_process", "oom_kill_memcg_member", "mem_cgroup_scan_tasks",
               "oom_kill_process", "out_of_memory", "mem_cgroup_out_of_memory")  # fmt: skip
EVERYONE = (*WORKERS, RANK)


def killed_slowly(stack: tuple[str, ...], gap_ns: int, *, triggers: tuple[int, ...] = (RANK,) * 5) -> Report:
    scene = Scene()
    scene.job()
    for number, (pid, trigger) in enumerate(zip(EVERYONE, triggers, strict=True)):
        scene.kill(pid, trigger, stack if number else KILL_STACK)
        scene.pass_time(gap_ns)
    return judge(scene.finish())


@pytest.mark.parametrize("gap_ns", [NS_PER_S // 1000, NS_PER_S // 2, NS_PER_S * 9 // 10])
def test_a_group_that_takes_seconds_to_kill_is_one_incident(gap_ns: int) -> None:
    verdict = killed_slowly(GROUP_STACK, gap_ns).verdict

    assert [set(EVERYONE)] == [{victim.pid for victim in incident.victims} for incident in verdict.incidents]


def test_kills_of_one_thread_that_are_no_group_are_told_apart() -> None:
    assert 3 == len(killed_slowly(KILL_STACK, NS_PER_S // 2 + 1).verdict.incidents)


def test_groups_that_other_threads_killed_are_told_apart() -> None:
    triggers = (RANK, RANK, RANK, WORKERS[3], WORKERS[3])
    told = killed_slowly(GROUP_STACK, NS_PER_S * 9 // 10, triggers=triggers).verdict.incidents

    assert [3, 2] == [len(incident.victims) for incident in told]


def test_a_group_and_one_killed_long_after_it_are_two_incidents() -> None:
    scene = Scene()
    scene.job()
    for pid in WORKERS[:3]:
        scene.kill(pid, WORKERS[0], GROUP_STACK)
    scene.pass_time(5 * NS_PER_S)
    scene.kill(WORKERS[3], WORKERS[0], GROUP_STACK)

    assert [3, 1] == [len(incident.victims) for incident in judge(scene.finish()).verdict.incidents]


@pytest.mark.parametrize(("victim_mib", "innocent"), [(50, True), (57, True), (60, False), (200, False)])
def test_a_victim_that_hardly_grew_while_others_grew_alike_is_said_to_be_innocent(
    victim_mib: int, innocent: bool
) -> None:
    scene = Scene()
    scene.job()
    for step in range(6):
        scene.pass_time(NS_PER_S)
        scene.sample(RANK, 50)
        for pid in WORKERS:
            scene.sample(pid, 50 + 60 * step)
    scene.kill(RANK, WORKERS[0], anon_rss_bytes=victim_mib * MIB)
    found = primary(judge(scene.finish()))

    assert found.culprit is None
    assert found.growth is not None
    assert found.growth.startswith("4 DataLoader workers alike")
    assert innocent == any("it was not that which grew" in caveat for caveat in found.caveats)


def test_a_victim_of_which_one_figure_is_known_is_not_called_innocent() -> None:
    scene = Scene()
    scene.job()
    scene.items = [event for event in scene.items if getattr(event, "tgid", None) != RANK]
    for step in range(6):
        scene.pass_time(NS_PER_S)
        for pid in WORKERS:
            scene.sample(pid, 50 + 60 * step)
    scene.kill(RANK, WORKERS[0], anon_rss_bytes=50 * MIB)

    assert not any("which grew" in caveat for caveat in primary(judge(scene.finish())).caveats)


def test_whoever_triggered_it_is_no_sender() -> None:
    for incident in killed_slowly(GROUP_STACK, 1).verdict.incidents:
        assert (None, RANK) == (incident.sender, incident.trigger and incident.trigger.pid)

# SPDX-License-Identifier: Apache-2.0
"""An incident of the OOM killer: which victims are of it, who grew, and what its headline and summary say."""

from typing import Any

import msgspec
import pytest

from tests.unit.verdict.marks import OTHER, TRIGGER, VICTIM, begun, decided, incident, marked, shot
from tests.unit.verdict.scenes import DYING_STACK, KILL_STACK, RANK, WORKERS, Scene, primary
from tracer.events import Header, OomLevel
from tracer.units import MIB, NS_PER_MS, NS_PER_S
from tracer.verdict.judge import judge

GROUP_STACK = (*KILL_STACK[:2], "oom_kill_memcg_member", *KILL_STACK[2:])


def both(scene: Scene, gap_ns: int, **levels: Any) -> int:
    """How many incidents two kills make, so long one after the other."""
    for pid in (VICTIM, OTHER):
        scene.oom_signal(pid, pid)
        mark = scene.mark(pid, pid)
        scene.levels(mark, **(levels if pid == OTHER else {}))
        scene.stack(mark)
        scene.pass_time(gap_ns)
    return len([i for i in judge(scene.finish(0)).verdict.incidents if i.cause.startswith("host_oom")])


def test_kills_within_a_second_for_one_limit_are_one_incident() -> None:
    assert 1 == both(begun(), NS_PER_S)
    assert 2 == both(begun(), NS_PER_S + 1)
    assert 2 == both(begun(), 1, owners=(0,), oom=(1, 0, 0))


def test_kills_of_one_limit_count_from_the_first_of_them() -> None:
    scene = begun()
    for pid in WORKERS[:3]:
        scene.oom_signal(pid, pid)
        mark = scene.mark(pid, pid)
        scene.levels(mark)
        scene.stack(mark)
        scene.pass_time(NS_PER_S * 6 // 10)

    assert [2, 1] == [len(i.victims) for i in judge(scene.finish(0)).verdict.incidents]


def test_a_sharer_is_of_the_same_incident_though_its_limit_was_not_seen() -> None:
    scene = begun()
    scene.kill(VICTIM, TRIGGER)
    scene.oom_signal(OTHER, TRIGGER)
    scene.exit(OTHER, 9)
    found = incident(scene)

    assert [VICTIM, OTHER] == [victim.pid for victim in found.victims]
    assert f"(pid {VICTIM})" in found.summary
    assert ("Of the other 1 victims, the kill of 1 was not seen in full.",) == found.caveats
    assert " and 1 more within" in found.summary
    assert "because cgroup /run-7f3 reached its limit" in found.summary


def test_other_victims_are_told_with_the_time_in_which_they_were_killed() -> None:
    scene = begun()
    for pid in WORKERS[:3]:
        scene.kill(pid)
        scene.pass_time(100 * NS_PER_MS)

    assert "UTC, and 2 more within 206 ms, because" in incident(scene).summary


def test_of_the_other_victims_it_is_told_how_many_were_not_seen_to_die_of_it() -> None:
    scene = begun()
    scene.kill(VICTIM)
    scene.kill(WORKERS[0])
    scene.kill(WORKERS[1], status=0)
    scene.oom_signal(WORKERS[3], WORKERS[3])
    scene.stack(scene.mark(WORKERS[3], WORKERS[3]))
    scene.log_decision(WORKERS[3])
    found = incident(scene)

    assert ("Of the other 3 victims, 2 were not seen to die of it.",) == found.caveats
    assert " and 1 more within" in found.summary


def test_what_is_not_known_of_the_first_victim_is_not_counted_among_the_others() -> None:
    scene = begun()
    marked(scene)
    scene.log_decision(VICTIM)
    scene.pass_time(NS_PER_MS)
    scene.kill(OTHER)
    found = incident(scene)

    assert [VICTIM, OTHER] == [victim.pid for victim in found.victims]
    assert () == found.caveats


@pytest.mark.parametrize("members", [(VICTIM,), (OTHER,), (VICTIM, OTHER)])
def test_an_oom_group_is_told_if_any_victim_was_a_member(members: tuple[int, ...]) -> None:
    scene = begun()
    for pid in (VICTIM, OTHER):
        scene.kill(pid, pid, GROUP_STACK if pid in members else KILL_STACK)

    assert any("memory.oom.group is set" in caveat for caveat in incident(scene).caveats)


def test_without_members_no_oom_group_is_told() -> None:
    scene = begun()
    scene.kill(VICTIM)

    assert () == incident(scene).caveats


def two_killed(depth: int, *, stack: tuple[str, ...] = (), owners: tuple[int, ...] = (1,), both: bool = True) -> Scene:
    """With memory.oom.group set so many levels above the victims; whose limit it was, if any, is said by `owners`."""
    scene = begun()
    for pid in (VICTIM, OTHER) if both else (VICTIM,):
        scene.oom_signal(pid, TRIGGER)
        mark = scene.mark(pid, TRIGGER)
        # Without counts two full levels cannot be told apart.
        counts = [int(each in owners) if len(owners) < 2 else None for each in range(3)]
        scene.levels(mark, owners=owners, oom=counts)  # type: ignore[arg-type]
        scene.stack(mark, stack or ("?",))
        scene.log_decision(pid, oom_memcg="/run-7f3" if owners == (1,) else None)
        scene.log_kill(pid, memcg=bool(owners))
        scene.exit(pid, 9, oom_marked=1)
    scene.items = [
        msgspec.structs.replace(each, oom_group=int(each.depth == depth)) if isinstance(each, OomLevel) else each
        for each in scene.items
    ]
    return scene


def tells_of_a_group(scene: Scene) -> bool:
    return any("memory.oom.group is set" in caveat for caveat in incident(scene).caveats)


@pytest.mark.parametrize(("depth", "told"), [(0, True), (1, True), (2, False)])
def test_without_stacks_an_oom_group_is_told_where_it_was_set_no_higher_than_the_limit(depth: int, told: bool) -> None:
    assert told == tells_of_a_group(two_killed(depth))


def test_of_one_victim_no_group_is_told() -> None:
    assert not tells_of_a_group(two_killed(0, both=False))


@pytest.mark.parametrize(("depth", "told"), [(0, True), (1, False), (2, False)])
def test_where_two_limits_may_have_been_hit_the_lower_one_bounds_the_group(depth: int, told: bool) -> None:
    assert told == tells_of_a_group(two_killed(depth, owners=(0, 1), stack=KILL_STACK))


def test_where_no_limit_is_known_no_group_is_told() -> None:
    assert not tells_of_a_group(two_killed(0, owners=(), stack=KILL_STACK))


def test_for_the_machines_memory_an_oom_group_may_be_set_on_any_level() -> None:
    machine = (*KILL_STACK[:4], "__alloc_pages_slowpath")

    assert tells_of_a_group(two_killed(1, stack=machine, owners=()))


def test_a_summary_says_when_and_how_much_where_that_is_known() -> None:
    scene, unknown = begun(), begun()
    scene.kill(VICTIM)
    marked(unknown)
    unknown.items = [event for event in unknown.items if not isinstance(event, Header)]

    assert incident(scene).summary == (
        f"DataLoader worker 2 of rank 0 (pid {VICTIM}) died at 14:13:40.006 UTC "
        "because cgroup /run-7f3 reached its limit: 512 MiB of 512 MiB."
    )
    assert incident(unknown).summary == (
        f"DataLoader worker of rank 0 (pid {VICTIM}) died: a cgroup limit was hit; which one could not be seen."
    )


def test_a_machine_wide_kill_is_told_by_what_ran_out() -> None:
    scene = begun()
    scene.oom_signal(VICTIM, TRIGGER)
    marked(scene, (*KILL_STACK[:4], "__alloc_pages_slowpath"))
    scene.log_decision(VICTIM, oom_memcg=None)

    assert incident(scene).summary.endswith("UTC: the whole machine was out of memory.")
    assert "Killed by the kernel: the machine ran out of host RAM" not in incident(scene).headline


def test_a_limit_that_only_the_log_names_is_told_without_figures() -> None:
    scene = begun()
    scene.oom_signal(VICTIM, TRIGGER)
    scene.levels(marked(scene), owners=(), oom=(0, 0, 0))
    scene.log_decision(VICTIM)

    assert incident(scene).summary.endswith("UTC because cgroup /run-7f3 reached its limit.")


def test_where_workers_grew_alike_they_are_named_and_else_the_culprit() -> None:
    one, alike = Scene(), Scene()
    one.job()
    one.grow()
    alike.job()
    for mib in (50, 90):
        alike.pass_time(NS_PER_S)
        for pid in WORKERS:
            alike.sample(pid, mib)
    for scene in (one, alike):
        scene.kill(WORKERS[2], anon_rss_bytes=90 * MIB)

    leading = Scene()
    leading.job()
    for pid, mib in zip(WORKERS, (110, 90, 50, 50), strict=True):
        leading.sample(pid, mib)
    leading.kill(WORKERS[0], anon_rss_bytes=110 * MIB)

    assert (True, None) == (incident(leading).culprit is not None, incident(leading).growth)
    assert (True, None) == (incident(one).culprit is not None, incident(one).growth)
    assert (None, True) == (incident(alike).culprit, "4 DataLoader workers alike" in (incident(alike).growth or ""))


def test_shared_memory_of_the_cgroup_whose_limit_it_was_is_told() -> None:
    scene = begun()
    for mib in (1, 301):
        scene.cgroup_sample(77, "/run-7f3", shmem_bytes=mib * MIB)
        scene.pass_time(NS_PER_S)
    scene.kill(VICTIM, anon_rss_bytes=50 * MIB)

    assert "shared memory and tmpfs of the cgroup: 300 MiB more" in (incident(scene).growth or "")


@pytest.mark.parametrize(
    ("constraint", "words"),
    [
        (0, "Probably killed by the kernel: the machine ran out of host RAM"),
        (1, "Probably killed by the kernel: host RAM of its cpuset ran out"),
        (2, "Probably killed by the kernel: host RAM of its memory policy ran out"),
        (None, "Probably killed by the kernel for want of host RAM"),
    ],
)
def test_a_headline_says_what_ran_out_and_how_sure_that_is(constraint: int | None, words: str) -> None:
    scene = begun()
    decided(scene, constraint=constraint, trigger_tid=VICTIM)
    scene.oom_signal(VICTIM, VICTIM)
    scene.stack(scene.mark(VICTIM, VICTIM), (*KILL_STACK[:4], "__alloc_pages_slowpath"))

    assert words == incident(scene).headline


def test_a_headline_of_what_is_proved_has_no_perhaps() -> None:
    scene, absent = begun(), shot(status=0)
    scene.kill(VICTIM)

    assert "Killed by the kernel: host RAM ran out at a cgroup limit" == incident(scene).headline
    assert "Perhaps killed by the kernel: host RAM ran out at a cgroup limit" == incident(absent).headline


def test_an_operators_kill_was_on_nobodys_allocation() -> None:
    scene = begun()
    scene.kill(VICTIM, VICTIM, (*KILL_STACK[:4], "moom_callback"))
    found = primary(judge(scene.finish()))

    assert "Killed by the kernel: an operator asked for an OOM kill" == found.headline
    assert "at an operator's request" in found.proof[0].statement
    assert found.trigger is None


def test_a_mark_of_the_dying_is_no_incident() -> None:
    scene = begun()
    scene.stack(scene.mark(VICTIM, TRIGGER), DYING_STACK)
    scene.exit(VICTIM, 9, oom_marked=1)
    scene.exit(RANK, 1 << 8)

    assert not any(i.cause.startswith("host_oom") for i in judge(scene.finish()).verdict.incidents)

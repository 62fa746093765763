# SPDX-License-Identifier: Apache-2.0
"""What the kernel's counters make of a verdict: a difference that nothing explains is told, and weakens some claims."""

import msgspec
import pytest

from tests.unit.verdict.counted import (
    FIRST,
    SECOND,
    THIRD,
    begun,
    counter,
    ended,
    figures,
    group_kill,
    reconciled,
)
from tests.unit.verdict.scenes import RANK, changed, primary, without
from tracer.events import AnyEvent, Armed, CgroupSample, Disarmed, Header, HookStatus, VmstatSample
from tracer.units import NS_PER_S
from tracer.verdict.incident import Case
from tracer.verdict.judge import judge
from tracer.verdict.story import Story


def test_a_kill_that_was_seen_is_what_both_counters_say() -> None:
    scene = begun()
    scene.kill(FIRST)
    events = ended(scene, job=1, machine=1)

    found = reconciled(events)
    assert found.agree
    assert (1, 1, 0, 0, 0) == figures(events, "job")
    assert (1, 1, 0, 0, 0) == figures(events, "machine")
    assert "the kernel counted 1 OOM kill in the job's cgroup: 1 seen, 0 lost" == found.statement
    assert found == judge(events).verdict.reconciliation


def test_that_nothing_was_counted_is_said_in_one_line() -> None:
    events = ended(begun(), job=0, machine=0, status=0)

    assert "the kernel counted no OOM kills in the job's cgroup" == reconciled(events).statement
    assert "proved" == primary(judge(events)).strength


def test_a_double_count_is_not_assumed_where_its_signal_would_have_been_seen() -> None:
    scene = begun()
    group_kill(scene, again=False)
    events = ended(scene, job=5, machine=5)

    assert 1 == counter(events, "job").unexplained
    assert not reconciled(events).agree
    [caveat] = [c for c in judge(events).verdict.caveats if "not explained" in c]
    assert "The kernel counted 5 OOM kills in the job's cgroup; 4 were seen: 1 is not explained." == caveat


def test_who_shared_the_victims_memory_died_and_is_not_counted() -> None:
    scene = begun()
    scene.kill(FIRST, RANK)
    scene.oom_signal(SECOND, RANK)
    scene.exit(SECOND, 9)
    events = ended(scene, job=1, machine=1)

    assert (1, 1, 0, 0, 0) == figures(events, "machine")
    assert 1 == counter(events, "job").not_counted
    assert 2 == len(primary(judge(events)).victims)


def test_what_is_missing_in_the_jobs_cgroup_is_told_once() -> None:
    scene = begun()
    for count in (0, 3):
        scene.cgroup_sample(1, "/", oom_kill=count)
        scene.pass_time(NS_PER_S)
    events = ended(scene, job=3, machine=3)

    assert [3, 3, 3] == [one.unexplained for one in reconciled(events).counters]
    assert 1 == sum("not explained" in caveat for caveat in judge(events).verdict.caveats)


def test_an_exit_without_kills_is_not_proved_against_a_count() -> None:
    of_job = ended(begun(), job=1, machine=1, status=0)
    incident = primary(judge(of_job))

    assert "likely" == incident.strength
    assert "1 OOM kill in the job's cgroup" in incident.caveats[0]


@pytest.mark.parametrize(
    ("version", "job", "sure"), [(2, 0, True), (1, 0, False), (2, None, False)], ids=["v2", "v1", "not read"]
)
def test_a_count_of_the_machine_concerns_the_job_unless_its_own_cgroup_has_all_of_it(
    *, version: int, job: int | None, sure: bool
) -> None:
    events = changed(ended(begun(), job=0, machine=1, status=0), Header, cgroup_version=version)
    if job is None:
        events = without(events, CgroupSample)
    report = judge(events)

    assert ("proved" if sure else "likely") == primary(report).strength
    assert any("1 OOM kill on the machine; 0 were seen: 1 is not explained" in c for c in report.verdict.caveats)


def test_losses_are_no_excuse_for_an_exit_without_kills() -> None:
    events = ended(begun(), job=1, machine=1, status=0, oom_mark=1)

    assert 0 == counter(events, "job").unexplained
    assert "proved" != primary(judge(events)).strength
    assert any("counted 1 OOM kill" in caveat for caveat in primary(judge(events)).caveats)


@pytest.mark.parametrize(("machine", "strength"), [(1, "proved"), (0, "likely")])
def test_a_kill_that_the_machine_did_not_count_is_not_proved(machine: int, strength: str) -> None:
    scene = begun()
    scene.grow()
    scene.kill(THIRD)
    events = ended(scene, job=None, machine=machine)
    report = judge(without(events, CgroupSample))

    assert strength == primary(report).strength
    assert (machine == 0) == any("of these it did not count" in caveat for caveat in report.verdict.caveats)


def test_a_count_of_more_kills_does_not_weaken_one_that_was_seen() -> None:
    scene = begun()
    scene.grow()
    scene.kill(THIRD)
    report = judge(ended(scene, job=4, machine=9))

    assert "proved" == primary(report).strength
    assert 2 == sum("not explained" in caveat for caveat in report.verdict.caveats)


def unwatched(events: list[AnyEvent]) -> list[AnyEvent]:
    return [
        msgspec.structs.replace(e, attached=False) if isinstance(e, HookStatus) else e
        for e in without(without(events, Armed), Disarmed)
    ]


def test_without_bpf_the_kills_of_others_are_not_missed() -> None:
    events = unwatched(ended(begun(), job=0, machine=7, status=0))

    assert not reconciled(events).watched
    assert reconciled(events).agree
    assert not any("not explained" in caveat for caveat in judge(events).verdict.caveats)


def test_without_bpf_the_log_is_what_the_counters_are_compared_with() -> None:
    def told(*, logged: bool) -> str:
        scene = begun()
        if logged:
            scene.log_kill(FIRST)
        return reconciled(unwatched(ended(scene, job=1, machine=1))).statement

    assert "the kernel counted 1 OOM kill in the job's cgroup: 1 by its log, and nothing else watched it" == (
        told(logged=True)
    )
    assert told(logged=False).startswith(
        "the kernel counted 1 OOM kill in the job's cgroup, and nothing else watched it"
    )


def test_without_any_counter_there_is_nothing_to_say() -> None:
    scene = begun()
    scene.kill(FIRST)
    events = without(without(ended(scene, job=1, machine=1), CgroupSample), VmstatSample)

    assert Case(Story(events)).counters is None
    assert judge(events).verdict.reconciliation is None

# SPDX-License-Identifier: Apache-2.0
"""Kills that only a count tells of: named where it can be nobody else, never proved, and never a kill -9 beside it."""

from typing import Any

import msgspec
import pytest

from tests.unit.verdict.scenes import LAUNCHER, RANK, WORKERS, Scene, changed, primary, start_of, statuses
from tracer.events import (
    AnyEvent,
    CgroupSample,
    Header,
    HookStatus,
    JobEnded,
    Losses,
    ProcessGone,
    ProcessSample,
    VmstatSample,
)
from tracer.units import MIB, NS_PER_MS, NS_PER_S
from tracer.verdict.incident import strength
from tracer.verdict.judge import judge
from tracer.verdict.model import Incident, Link, Rung, Strength

LIMIT = 512 * MIB


class Unwatched(Scene):
    """A job without BPF, with the count of its cgroup."""

    kills = 0

    def start(self, *, own: bool = True, log: bool = False, counts: bool = True) -> None:
        self.counts = counts
        self.begin(hooks=(), own_cgroup=own)
        if not log:
            self.items = [e for e in self.items if not (isinstance(e, HookStatus) and e.hook == "kmsg")]
            self.items = [msgspec.structs.replace(e, seq=n) for n, e in enumerate(self.items)]
        self.look()
        self.sample(LAUNCHER, 8)

    def child(self, pid: int, parent: int = LAUNCHER, anon_mib: int = 8) -> None:
        parent_start_ns = start_of(parent) // 10_000_000 * 10_000_000
        self.seen(pid, parent, "python3", {}, parent_start_ns=parent_start_ns)
        self.sample(pid, anon_mib)

    def look(self, **more: Any) -> None:
        """A reading of the count."""
        self.add(VmstatSample(ts_ns=self.now_ns, source="pressure", oom_kill=700 + self.kills))
        values = {"usage_bytes": 500 * MIB, "limit_bytes": LIMIT, "failcnt": 9 * self.kills, "oom_kill": self.kills}
        if self.counts:
            self.cgroup_sample(77, "/oomtrace/run-7f3", **{**values, **more})
        self.pass_time(NS_PER_MS)

    def gone(self, pid: int) -> None:
        start_ns = start_of(pid) // 10_000_000 * 10_000_000
        self.add(ProcessGone(ts_ns=self.now_ns, source="proc", tgid=pid, start_ns=start_ns))

    def zombie(self, pid: int, status: int) -> None:
        start_ns = start_of(pid) // 10_000_000 * 10_000_000
        self.add(
            ProcessSample(ts_ns=self.now_ns, source="proc", tgid=pid, start_ns=start_ns, state="Z", exit_status=status)
        )

    def over(self, status: int, *, counted: int = 0) -> list[AnyEvent]:
        """The job's end, and the last reading of the count."""
        self.pass_time(200 * NS_PER_MS)
        self.kills += counted
        self.add(JobEnded(ts_ns=self.now_ns, source="job", tgid=LAUNCHER, start_ns=start_of(LAUNCHER), status=status))
        self.pass_time(NS_PER_MS)
        self.look()
        self.add(Losses(ts_ns=self.now_ns, source="tracer"))
        return self.events


def alone(mib: int = 480, **start: Any) -> Unwatched:
    """One process, which grew to that."""
    scene = Unwatched()
    scene.start(**start)
    scene.pass_time(NS_PER_S)
    scene.sample(LAUNCHER, mib)
    scene.look()
    return scene


def verdict(events: list[AnyEvent]) -> Incident:
    return primary(judge(events))


def test_the_only_process_that_ended_while_the_count_rose_by_one_is_likely_its_victim() -> None:
    found = verdict(alone().over(9, counted=1))

    assert ("host_oom_cgroup", "likely") == (found.cause, found.strength)
    assert found.victim is not None
    assert LAUNCHER == found.victim.pid
    assert ["not_observed", "not_observed", "present", "present", "not_observed"] == statuses(found)
    assert ["cgroup_counters", "cgroup_counters", "proc", "wait_status", None] == [k.rung for k in found.proof]


def test_on_v2_the_level_whose_own_count_of_ooms_rose_is_the_limit_and_still_nothing_is_proved() -> None:
    scene = alone()
    events = scene.over(9, counted=1)
    events = [
        msgspec.structs.replace(e, oom_local=int((e.oom_kill or 0) > 0)) if isinstance(e, CgroupSample) else e
        for e in events
    ]
    found = verdict(events)

    assert ["not_observed", "present", "present", "present"] == statuses(found)[:4]
    assert "likely" == found.strength


def test_a_kill_by_hand_with_no_count_is_no_oom_kill() -> None:
    found = verdict(alone().over(9))

    assert "inconclusive" == found.cause
    assert ("its cgroup counted no OOM kill", "cgroup_counters") == (found.proof[1].statement, found.proof[1].rung)


def test_a_job_that_is_killed_by_hand_while_a_child_is_killed_for_memory_is_not_the_victim() -> None:
    scene = Unwatched()
    scene.start()
    scene.child(RANK, anon_mib=450)
    scene.gone(RANK)
    found = verdict(scene.over(9, counted=1))

    assert ("host_oom_cgroup", "possible") == (found.cause, found.strength)
    assert [RANK] == [victim.pid for victim in found.victims]


def test_a_job_that_is_killed_by_hand_while_an_unseen_child_is_killed_for_memory_is_not_the_victim() -> None:
    found = verdict(alone(mib=2).over(9, counted=1))

    assert ("possible", None, ()) == (found.strength, found.victim, found.victims)
    assert "whom it killed was not seen" in found.summary
    assert 1 == len(judge(alone(mib=2).over(9, counted=1)).verdict.incidents)
    assert str(LAUNCHER) in found.summary


def test_of_several_that_ended_none_is_named_where_their_memory_does_not_tell_them_apart() -> None:
    scene = Unwatched()
    scene.start()
    for pid in WORKERS[:2]:
        scene.child(pid, anon_mib=200)
    for pid in WORKERS[:2]:
        scene.gone(pid)
    found = verdict(scene.over(1 << 8, counted=1))

    assert ("possible", None) == (found.strength, found.victim)


def forked_from_a_large_parent(mib: int) -> Unwatched:
    """A child that holds what its parent holds, which is the same memory, and so much more."""
    scene = Unwatched()
    scene.start()
    scene.child(RANK, anon_mib=200)
    scene.child(WORKERS[0], anon_mib=200 + mib)
    return scene


@pytest.mark.parametrize(("mib", "named"), [(10, False), (300, True)])
def test_one_that_only_vanished_is_named_if_nobody_unseen_can_have_held_more(*, mib: int, named: bool) -> None:
    scene = forked_from_a_large_parent(mib)
    scene.gone(WORKERS[0])
    found = verdict(scene.over(1 << 8, counted=1))

    assert named == (found.victim is not None)
    assert found.strength == ("likely" if named else "possible")


def test_one_that_is_known_to_have_died_of_sigkill_is_named_however_little_it_held_of_its_own() -> None:
    scene = forked_from_a_large_parent(10)
    scene.zombie(WORKERS[0], 9)

    assert verdict(scene.over(1 << 8, counted=1)).victim is not None


@pytest.mark.parametrize(("when", "named"), [("before", False), ("dead before", True), ("after", True)])
def test_beside_one_of_unknown_memory_that_lived_then_nobody_is_named(*, when: str, named: bool) -> None:
    scene = Unwatched()
    scene.start()
    scene.child(WORKERS[0], anon_mib=480)
    if when != "after":
        scene.seen(RANK, LAUNCHER, "python3", {}, parent_start_ns=start_of(LAUNCHER))
    if when == "dead before":
        scene.zombie(RANK, 0)
    scene.pass_time(NS_PER_S)
    scene.look()
    scene.zombie(WORKERS[0], 9)
    scene.kills += 1
    scene.look()
    scene.pass_time(NS_PER_S)
    if when == "after":
        scene.seen(RANK, LAUNCHER, "python3", {}, parent_start_ns=start_of(LAUNCHER))

    assert named == (verdict(scene.over(1 << 8)).victim is not None)


def test_with_a_gap_in_the_recording_nobody_is_named() -> None:
    events = alone().over(9, counted=1)
    gap = [msgspec.structs.replace(e, seq=e.seq + (e.seq > 3)) for e in events]

    assert ("possible", None) == (verdict(gap).strength, verdict(gap).victim)


def test_a_process_that_is_smaller_than_the_job_s_first_one_which_lived_then_was_not_chosen() -> None:
    scene = alone(mib=300)
    scene.child(WORKERS[0], anon_mib=100)
    scene.zombie(WORKERS[0], 9)

    assert verdict(scene.over(1 << 8, counted=1)).victim is None


def test_a_process_that_is_smaller_than_one_that_lives_on_was_not_chosen() -> None:
    scene = Unwatched()
    scene.start()
    scene.child(WORKERS[0], anon_mib=100)
    scene.child(WORKERS[1], anon_mib=300)
    scene.zombie(WORKERS[0], 9)
    found = verdict(scene.over(1 << 8, counted=1))

    assert ("possible", None) == (found.strength, found.victim)


def test_a_dead_process_that_nobody_had_waited_for_shows_how_it_died() -> None:
    scene = Unwatched()
    scene.start()
    scene.child(WORKERS[0], anon_mib=400)
    scene.pass_time(NS_PER_S)
    scene.kills = 1
    scene.zombie(WORKERS[0], 9)
    scene.look()
    scene.gone(WORKERS[0])
    scene.pass_time(20 * NS_PER_S)
    found = verdict(scene.over(1 << 8))

    assert ("host_oom_cgroup", "likely") == (found.cause, found.strength)
    assert [WORKERS[0]] == [victim.pid for victim in found.victims]
    assert ("not_observed", "present") == (found.proof[2].status, found.proof[3].status)
    assert 400 * MIB == found.victims[0].rss_anon_bytes
    assert "proc" == found.proof[3].rung


@pytest.mark.parametrize("status", [1 << 8, 15, 11])
def test_who_ended_in_another_way_is_not_the_victim(status: int) -> None:
    incidents = judge(alone().over(status, counted=1)).verdict.incidents
    (found,) = (incident for incident in incidents if incident.cause.startswith("host_oom"))

    assert ("possible", ()) == (found.strength, found.victims)
    assert (status == 1 << 8) == (len(incidents) == 1), "its own end is told beside it"


def test_a_kill_that_was_counted_after_the_jobs_end_is_told_beside_that() -> None:
    scene = alone()
    scene.over(15)
    scene.pass_time(NS_PER_S)
    scene.look()
    scene.pass_time(NS_PER_S)
    scene.kills = 1
    scene.look()

    assert ["sigterm", "host_oom_cgroup"] == [i.cause for i in judge(scene.events).verdict.incidents]


def test_what_a_count_tells_is_never_proved_whatever_else_is_present() -> None:
    def of(rung: Rung) -> Strength:
        return strength([Link(link=n, name="", status="present", statement="", rung=rung) for n in (1, 2, 3, 4)], ())

    assert ["proved", "likely", "likely", "likely"] == [
        of("bpf"), of("kernel_log"), of("cgroup_counters"), of("proc"),
    ]  # fmt: skip


def test_in_a_cgroup_that_others_share_only_who_held_most_of_it_is_likely() -> None:
    most, less = verdict(alone(480, own=False).over(9, counted=1)), verdict(alone(200, own=False).over(9, counted=1))

    assert ("likely", LAUNCHER) == (most.strength, most.victim.pid if most.victim else None)
    assert ("possible", None) == (less.strength, less.victim)
    assert any("others may live there" in caveat for caveat in less.caveats)


def test_a_kill_in_a_shared_cgroup_while_the_job_ends_well_is_no_incident_of_the_job() -> None:
    assert "exited" == verdict(alone(own=False).over(0, counted=1)).cause


def test_what_was_counted_before_the_job_began_is_none_of_it() -> None:
    scene = Unwatched()
    scene.kills = 5
    scene.start(own=False)
    scene.sample(LAUNCHER, 480)

    assert "inconclusive" == verdict(scene.over(9)).cause


def test_without_cgroups_the_machines_count_and_a_death_by_sigkill_are_possible_and_no_more() -> None:
    found = verdict(alone(counts=False).over(9, counted=1))

    assert ("host_oom_unknown_scope", "possible") == (found.cause, found.strength)
    assert "exited" == verdict(alone(counts=False).over(0, counted=1)).cause


def test_what_the_log_tells_is_not_told_again_by_the_count() -> None:
    scene = alone(log=True)
    scene.log_decision(LAUNCHER)
    scene.log_kill(LAUNCHER)
    report = judge(scene.over(9, counted=1))

    assert ["host_oom_cgroup"] == [incident.cause for incident in report.verdict.incidents]
    assert "kernel_log" == primary(report).proof[0].rung


def test_whom_nothing_saw_but_the_log_is_named_by_it_if_the_job_s_own_cgroup_counted_it() -> None:
    def logged(*, own: bool = True, contained: bool = False, **more: Any) -> Incident:
        scene = alone(mib=2, log=True, own=own)
        scene.items[0] = msgspec.structs.replace(scene.items[0], own_pid_namespace=contained)
        scene.log_decision(777, **more)
        scene.items[-1] = msgspec.structs.replace(scene.items[-1], task_memcg="/oomtrace/run-7f3")
        scene.log_kill(777, **more)
        return verdict(scene.over(137 << 8 if own else 9, counted=1))

    found = logged()
    assert ("likely", [777]) == (found.strength, [victim.pid for victim in found.victims])
    assert ("kernel_log", "present") == (found.proof[0].rung, found.proof[2].status)
    assert "how it ended was not seen" == found.proof[3].statement
    assert "who was killed is not known" == logged(trusted=False).proof[3].statement
    assert ("possible", ()) == (logged(trusted=False).strength, logged(trusted=False).victims)
    assert () == logged(own=False).victims
    # In a container the log's pids are other processes there.
    assert ("possible", ()) == (logged(contained=True).strength, logged(contained=True).victims)


def test_a_group_kill_counts_its_first_victim_twice() -> None:
    events = alone().over(9, counted=2)
    events = [
        msgspec.structs.replace(e, oom_group_kill=int((e.oom_kill or 0) > 0)) if isinstance(e, CgroupSample) else e
        for e in events
    ]

    assert [LAUNCHER] == [victim.pid for victim in verdict(events).victims]


def test_where_bpf_watched_no_count_makes_an_incident() -> None:
    scene = Scene()
    scene.job()
    scene.cgroup_sample(77, "/oomtrace/run-7f3", oom_kill=0)
    scene.pass_time(NS_PER_S)
    scene.cgroup_sample(77, "/oomtrace/run-7f3", oom_kill=1)

    assert "exited" == verdict(scene.finish(1 << 8)).cause


def test_readings_too_far_apart_name_nobody() -> None:
    scene = alone()
    scene.pass_time(60 * NS_PER_S)

    assert verdict(scene.over(9, counted=1)).victim is None


def test_in_another_cgroup_of_v1_it_cannot_be_who_was_counted() -> None:
    scene = Unwatched()
    scene.start()
    start_ns = start_of(LAUNCHER) // 10_000_000 * 10_000_000
    scene.seen(WORKERS[0], LAUNCHER, "python3", {}, parent_start_ns=start_ns, cgroup_id=99)
    scene.sample(WORKERS[0], 480)
    scene.zombie(WORKERS[0], 9)
    events = changed(scene.over(1 << 8, counted=1), Header, cgroup_version=1)

    assert verdict(events).victim is None
    assert verdict(changed(events, Header, cgroup_version=2)).victim is not None


def test_what_watched_is_said() -> None:
    assert ("cgroup v1 files", "/proc") == judge(changed(alone().over(0), Header, cgroup_version=1)).verdict.watched_by

# SPDX-License-Identifier: Apache-2.0
"""The kernel's counters against what was seen, to the unit."""

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
    kill_elsewhere,
    read,
    reconciled,
)
from tests.unit.verdict.scenes import (
    DYING_STACK,
    KILL_STACK,
    LAUNCHER,
    RANK,
    WORKERS,
    Scene,
    changed,
    start_of,
    without,
)
from tracer.events import AnyEvent, Armed, Header, OomLevel
from tracer.units import NS_PER_MS, NS_PER_S
from tracer.verdict.incident import Case
from tracer.verdict.model import Counter
from tracer.verdict.story import Story


@pytest.mark.parametrize("again", [True, False])
def test_a_groups_first_victim_is_counted_twice_unless_it_is_dead_by_then(*, again: bool) -> None:
    scene = begun()
    group_kill(scene, again=again)
    count = 4 + again
    events = ended(scene, job=count, machine=count)

    assert (count, 4, int(again), 0, 0) == figures(events, "job")
    assert (count, 4, int(again), 0, 0) == figures(events, "machine")
    assert again == ("1 counted twice" in reconciled(events).statement)


def test_a_double_count_may_be_where_signals_were_lost_and_a_group_was_killed() -> None:
    group, plain = begun(), begun()
    group_kill(group, again=False)
    plain.kill(FIRST)
    of_group = changed(ended(group, job=5, machine=5, signal_sent=1), OomLevel, oom_group=1)
    of_one = ended(plain, job=2, machine=2, signal_sent=1)

    assert 0 == counter(of_group, "job").unexplained
    assert ("1 may have been counted twice, as the first of a group",) == counter(of_group, "job").explained_by
    assert 1 == counter(of_one, "job").unexplained


def test_the_teardown_of_a_pid_namespace_is_no_double_count() -> None:
    scene = begun()
    scene.kill(FIRST, RANK)
    scene.oom_signal(FIRST, RANK, result=1, sender_flags=4)
    events = ended(scene, job=1, machine=1)

    assert (1, 1, 0, 0, 0) == figures(events, "job")


def test_a_second_signal_among_those_who_share_memory_may_be_a_count_or_not() -> None:
    def events(count: int) -> list[AnyEvent]:
        scene = begun()
        scene.kill(FIRST, RANK)
        scene.oom_signal(SECOND, RANK)
        scene.oom_signal(FIRST, RANK, result=1)
        return ended(scene, job=count, machine=count)

    assert [0, 0, 1] == [counter(events(count), "job").unexplained for count in (1, 2, 3)]
    assert 1 == counter(events(1), "job").maybe


def test_a_mark_of_the_dying_is_not_counted() -> None:
    def dying(count: int) -> list[AnyEvent]:
        scene = begun()
        scene.stack(scene.mark(FIRST, RANK), DYING_STACK)
        scene.exit(FIRST, 9, oom_marked=1)
        return ended(scene, job=count, machine=count)

    assert (0, 0, 0, 0, 0) == figures(dying(0), "machine")
    assert 1 == counter(dying(1), "machine").unexplained


def test_who_had_a_sigkill_already_is_counted_where_the_kill_path_was_taken() -> None:
    scene = begun()
    scene.signal(FIRST, 9, sender_tgid=7, sender_tid=7, sender_start_ns=1)
    scene.oom_signal(FIRST, RANK, result=2)
    mark = scene.mark(FIRST, RANK)
    scene.levels(mark)
    scene.stack(mark, KILL_STACK)
    events = ended(scene, job=1, machine=1)

    assert (1, 0, 1, 0, 0) == figures(events, "job")


def test_kills_elsewhere_count_on_the_machine_alone() -> None:
    scene = begun()
    scene.kill(FIRST)
    kill_elsewhere(scene)
    kill_elsewhere(scene)
    events = ended(scene, job=1, machine=2)

    assert (1, 1, 0, 0, 0) == figures(events, "job")
    assert (2, 2, 0, 0, 0) == figures(events, "machine")
    assert "1 OOM kill in the job's cgroup: 1 seen, 0 lost; 2 OOM kills on the machine: 2 seen" in (
        reconciled(events).statement
    )


def test_lost_marks_explain_as_many_counts_and_no_more() -> None:
    def lossy(count: int, lost: int) -> tuple[int, int]:
        scene = begun()
        scene.kill(FIRST)
        found = counter(ended(scene, job=count, machine=count, oom_mark=lost), "machine")
        return found.lost, found.unexplained

    assert [(0, 0), (1, 0), (2, 0), (2, 1)] == [lossy(count, 2) for count in (1, 2, 3, 4)]


def test_a_lost_mark_whose_kill_is_known_by_its_signal_is_not_counted_as_lost_too() -> None:
    def recovered(count: int) -> tuple[int, int, int, int, int]:
        scene = begun()
        scene.oom_signal(FIRST, FIRST)
        scene.exit(FIRST, 9, oom_marked=1)
        return figures(ended(scene, job=count, machine=count, oom_mark=1), "machine")

    assert (1, 1, 0, 0, 0) == recovered(1)
    assert (2, 1, 0, 0, 1) == recovered(2)


def test_events_that_are_missing_from_the_recording_explain_as_many() -> None:
    scene = begun()
    scene.kill(FIRST)
    scene.kill(SECOND)
    events = [e for e in ended(scene, job=2, machine=2) if getattr(e, "tgid", 0) != FIRST]

    assert 0 == counter(events, "machine").unexplained
    assert "missing from the recording" in counter(events, "machine").explained_by[0]
    assert 1 == counter(without(events, Armed), "job").unexplained


@pytest.mark.parametrize(("version", "count"), [(2, 1), (1, 0)])
def test_v1_counts_what_was_in_this_very_cgroup_and_v2_all_below(version: int, count: int) -> None:
    scene = begun()
    scene.kill(FIRST)
    events = changed(ended(scene, job=count, machine=1), Header, cgroup_version=version)

    assert (count, count, 0, 0, 0) == figures(events, "job")
    assert {1: "memory.oom_control", 2: "memory.events"}[version] == counter(events, "job").file


def test_a_hierarchy_that_counts_locally_is_known_by_its_count() -> None:
    scene = begun()
    scene.kill(FIRST)
    events = ended(scene, job=0, machine=1)

    assert 0 == counter(events, "job").unexplained
    assert "memory_localevents" in counter(events, "job").explained_by[0]


def test_kills_outside_of_the_readings_are_none_of_theirs() -> None:
    scene = Scene()
    scene.begin(own_cgroup=False)
    for pid in WORKERS:
        scene.fork(pid, LAUNCHER)
    scene.kill(FIRST)
    scene.pass_time(NS_PER_S)
    read(scene, job=5, machine=50)
    scene.pass_time(NS_PER_S)
    scene.kill(SECOND)
    scene.pass_time(NS_PER_S)
    read(scene, job=6, machine=51)
    scene.pass_time(NS_PER_S)
    scene.kill(THIRD)
    events = changed(scene.finish(), OomLevel, events_oom_kill=None)

    assert (1, 1, 0, 0, 0) == figures(events, "job")
    assert (1, 1, 0, 0, 0) == figures(events, "machine")


def test_a_kill_while_a_counter_was_being_read_may_be_in_it_or_not() -> None:
    def at_the_end(count: int) -> Counter:
        scene = begun()
        scene.pass_time(NS_PER_S)
        read(scene, machine=900 + count)
        scene.now_ns -= 20 * NS_PER_MS  # it came out of the ring buffer after the reading, from before its stamp
        scene.kill(FIRST)
        scene.pass_time(NS_PER_S)
        return counter(scene.finish(), "machine")

    assert [0, 0, 1] == [at_the_end(count).unexplained for count in (0, 1, 2)]
    assert 1 == at_the_end(0).maybe


def test_what_was_recorded_before_a_reading_is_in_it_however_soon() -> None:
    scene = begun()
    scene.kill(FIRST)
    read(scene, job=1, machine=901)

    assert (1, 1, 0, 0, 0) == figures(scene.finish(), "machine")


def test_a_counter_that_went_with_its_cgroup_is_known_by_what_it_said_at_the_last_mark() -> None:
    scene = begun()
    scene.kill(FIRST)
    scene.pass_time(NS_PER_S)
    mark = scene.mark(SECOND, SECOND)
    scene.oom_signal(SECOND, SECOND)
    for depth, (name, cgroup_id) in enumerate((("worker", 78), ("run-7f3", 77), ("", 1))):
        scene.level(mark, depth, name=name, cgroup_id=cgroup_id, events_oom_kill=4, events_local_oom=0)
    scene.stack(mark)
    scene.exit(SECOND, 9, oom_marked=1)
    events = scene.finish()

    assert (4, 2, 0, 0, 2) == figures(events, "job")


def test_a_counter_that_was_not_read_again_says_nothing_of_later_kills() -> None:
    scene = begun()
    scene.kill(FIRST)
    events = changed(scene.finish(), OomLevel, events_oom_kill=None)

    assert (0, 0, 0, 0, 0) == figures(events, "job")


@pytest.mark.parametrize("hidden", ["stack", "levels"])
def test_a_kill_whose_cgroups_are_not_known_may_be_counted_there(hidden: str) -> None:
    def events(count: int) -> list[AnyEvent]:
        scene = begun()
        if hidden == "levels":
            scene.oom_signal(FIRST, FIRST)
            scene.stack(scene.mark(FIRST, FIRST))
            scene.exit(FIRST, 9, oom_marked=1)
        else:
            kill_elsewhere(scene, all_levels=False)
        return ended(scene, job=count, machine=1)

    assert [0, 0, 1] == [counter(events(count), "job").unexplained for count in (0, 1, 2)]
    assert (1, 1, 0, 0, 0) == figures(events(0), "machine")


def test_a_process_with_the_pid_of_a_victim_is_another() -> None:
    scene = begun()
    scene.kill(FIRST, RANK)
    scene.oom_signal(FIRST, RANK, result=1, start_ns=start_of(FIRST) + NS_PER_S)

    assert 0 == counter(ended(scene, job=1, machine=1), "job").counted_again


def test_who_had_a_sigkill_already_and_was_not_killed_once_more_is_not_counted() -> None:
    scene = begun()
    scene.oom_signal(FIRST, RANK, result=2)
    scene.stack(scene.mark(FIRST, RANK), DYING_STACK)
    events = ended(scene, job=0, machine=0)

    assert (0, 0, 0, 0, 0) == figures(events, "machine")


def test_where_counts_are_local_that_of_the_machine_concerns_the_job() -> None:
    scene = begun()
    scene.kill(FIRST)
    events = ended(scene, job=0, machine=2)

    assert ("the kernel counted 2 OOM kills on the machine, and 1 were seen",) == Case(Story(events)).unexplained


def test_what_was_counted_before_the_kernel_was_watched_is_said_to_be() -> None:
    scene = Scene()
    for count in (840, 900):
        read(scene, machine=count)
        scene.pass_time(NS_PER_S)
    scene.begin()
    read(scene, machine=901)
    scene.kill(FIRST)
    events = ended(scene, job=None, machine=2)

    found = counter(events, "machine")
    assert (2, 1, 0) == (found.counted, found.seen, found.unexplained)
    assert ("it was read before the kernel was watched",) == found.explained_by

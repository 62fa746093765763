# SPDX-License-Identifier: Apache-2.0
"""What came first: which of several things that went wrong started the failure, and which could not have."""

from typing import Any

import pytest

from tests.unit.verdict.scenes import LAUNCHER, RANK, WORKERS, Scene, primary, start_of
from tracer.events import JobStarted, ProcessExeced, ProcessSeen
from tracer.units import NS_PER_S
from tracer.verdict.judge import judge
from tracer.verdict.model import Report

HELPER, CHILD = 300, 301
OUTSIDE = {"sender_tgid": 7, "sender_tid": 7, "sender_start_ns": 1}
OTHERS = {"sender_tgid": 8, "sender_tid": 8, "sender_start_ns": 1}


def by(pid: int) -> dict[str, int]:
    return {"sender_tgid": pid, "sender_tid": pid, "sender_start_ns": start_of(pid)}


def job() -> Scene:
    """With a helper of the launcher's that has no part in the training, and a child of the helper's."""
    scene = Scene()
    scene.job()
    scene.fork(HELPER, LAUNCHER, comm="helper")
    scene.fork(CHILD, HELPER, comm="child")
    scene.pass_time(NS_PER_S)
    return scene


def struck(scene: Scene, pid: int, number: int = 9, **sent: Any) -> None:
    """A signal, and the end by it a second later."""
    scene.signal(pid, number, **(sent or OUTSIDE))
    scene.pass_time(NS_PER_S)
    scene.exit(pid, number)


def first(events: list[Any]) -> tuple[str, int | None]:
    incident = primary(judge(events))
    return incident.cause, incident.victim.pid if incident.victim is not None else None


def causes(report: Report) -> list[str]:
    return [incident.cause for incident in report.verdict.incidents]


def test_of_two_kills_of_a_job_that_came_through_the_first_is_told() -> None:
    scene = job()
    for pid in WORKERS[:2]:
        scene.kill(pid)
        scene.pass_time(5 * NS_PER_S)

    assert ("host_oom_cgroup", WORKERS[0]) == first(scene.finish(0))


def test_a_kill_from_outside_of_a_job_that_came_through_is_not_what_is_asked_about() -> None:
    scene = job()
    struck(scene, WORKERS[0])

    assert ("exited", LAUNCHER) == first(scene.finish(0))


@pytest.mark.parametrize("pid", [LAUNCHER, RANK, WORKERS[0]])
def test_a_blow_to_the_training_from_outside_is_the_first_failure(pid: int) -> None:
    scene = job()
    struck(scene, pid)
    if pid != LAUNCHER:
        scene.exit(RANK, 1 << 8)

    assert ("sigkill", pid) == first(scene.finish(9, root_exit=pid != LAUNCHER))


def test_the_job_itself_counts_though_it_has_no_part_in_a_training() -> None:
    scene = Scene()
    scene.begin()
    struck(scene, LAUNCHER, 9)
    scene.items = [e for e in scene.items if getattr(e, "comm", "") != "pt_elastic"]

    assert ("sigkill", LAUNCHER) == first(scene.finish(root_exit=False))


def test_what_was_sent_first_comes_first_whatever_exited_first() -> None:
    scene = job()
    scene.signal(WORKERS[1], 9, **OUTSIDE)
    scene.pass_time(1)
    scene.signal(WORKERS[0], 9, **OTHERS)
    scene.exit(WORKERS[0], 9)
    scene.pass_time(1)
    scene.exit(WORKERS[1], 9)

    assert ("sigkill", WORKERS[1]) == first(scene.finish())


@pytest.mark.parametrize(("after_ns", "cause"), [(60 * NS_PER_S, "host_oom_cgroup"), (60 * NS_PER_S + 1, "sigkill")])
def test_a_helpers_oom_kill_fails_a_job_within_a_minute(after_ns: int, cause: str) -> None:
    scene = job()
    at_ns = scene.now_ns
    scene.kill(HELPER, comm="helper")
    scene.now_ns = at_ns + after_ns - 1
    scene.signal(LAUNCHER, 9, **OUTSIDE)
    scene.now_ns = at_ns + after_ns
    scene.exit(LAUNCHER, 9)

    assert cause == first(scene.finish(root_exit=False))[0]


def test_an_old_oom_kill_of_a_helper_and_a_worker_may_have_failed_the_job() -> None:
    scene = job()
    scene.kill(HELPER, comm="helper")
    scene.kill(WORKERS[0])
    scene.pass_time(3600 * NS_PER_S)
    struck(scene, RANK)

    assert ("host_oom_cgroup", HELPER) == first(scene.finish())


def plain() -> Scene:
    """A job that is a shell and its command, with no part in any training."""
    scene = Scene()
    scene.begin()
    scene.items = [event for event in scene.items if not isinstance(event, ProcessSeen)]
    scene.fork(HELPER, LAUNCHER, comm="helper")
    scene.pass_time(NS_PER_S)
    return scene


def test_the_end_of_a_shell_is_its_own_where_its_command_died_long_before() -> None:
    scene = plain()
    struck(scene, HELPER, 11)
    scene.pass_time(60 * NS_PER_S)
    scene.exit(LAUNCHER, 3 << 8, comm="sh")

    assert ("exited", LAUNCHER) == first(scene.finish(root_exit=False))


def test_a_shell_that_its_command_killed_was_killed() -> None:
    scene = plain()
    struck(scene, LAUNCHER, **by(HELPER))

    assert ("sigkill", LAUNCHER) == first(scene.finish(root_exit=False))


@pytest.mark.parametrize("sender", [by(HELPER), OUTSIDE])
def test_a_process_whose_line_of_forks_is_not_known_did_not_fail_the_job(sender: dict[str, int]) -> None:
    scene = plain()
    struck(scene, 500, 11, **sender)
    scene.exit(LAUNCHER, 139 << 8, comm="sh")

    assert ("exited", LAUNCHER) == first(scene.finish(root_exit=False))


def test_a_helpers_old_oom_kill_is_told_where_nothing_else_happened() -> None:
    scene = job()
    scene.kill(HELPER, comm="helper")
    scene.pass_time(3600 * NS_PER_S)
    scene.exit(RANK, 1 << 8)

    assert ("host_oom_cgroup", HELPER) == first(scene.finish())


def test_a_helpers_oom_kill_counts_while_the_job_runs() -> None:
    scene = job()
    scene.kill(HELPER, comm="helper")
    scene.pass_time(3600 * NS_PER_S)
    struck(scene, WORKERS[0])

    assert ("host_oom_cgroup", HELPER) == first(scene.finish(root_exit=False))


@pytest.mark.parametrize(
    ("pid", "number", "status", "after_ns", "repeated"),
    [
        (HELPER, 11, 139 << 8, 5 * NS_PER_S, True),
        (HELPER, 11, 139 << 8, 0, True),
        (HELPER, 11, 139 << 8, 5 * NS_PER_S + 1, False),
        (HELPER, 11, 139 << 8, -1, False),
        (HELPER, 11, 138 << 8, NS_PER_S, False),
        (CHILD, 11, 139 << 8, NS_PER_S, False),
        (HELPER, 11, 1 << 8, NS_PER_S, False),
    ],
)
def test_a_shell_that_repeats_the_signal_of_its_last_command_failed_of_that(
    pid: int, number: int, status: int, after_ns: int, repeated: bool
) -> None:
    scene = job()
    struck(scene, pid, number)
    scene.pass_time(after_ns)
    scene.exit(LAUNCHER, status)

    assert (("crash", pid) if repeated else ("exited", LAUNCHER)) == first(scene.finish(root_exit=False))


def test_a_signal_that_ended_the_shell_is_no_repetition() -> None:
    scene = job()
    struck(scene, HELPER, 11)
    struck(scene, LAUNCHER, 9)

    assert ("sigkill", LAUNCHER) == first(scene.finish(root_exit=False))


@pytest.mark.parametrize(
    ("sender", "victim", "heavy"),
    [
        (HELPER, WORKERS[0], True),
        (CHILD, RANK, True),
        (HELPER, LAUNCHER, True),
        (CHILD, HELPER, False),
        (HELPER, CHILD, False),
        (RANK, WORKERS[0], False),
        (LAUNCHER, RANK, False),
        (WORKERS[0], WORKERS[1], False),
    ],
)
def test_a_blow_from_within_counts_before_an_oom_kill_only_if_the_sender_has_no_part_in_the_training(
    sender: int, victim: int, heavy: bool
) -> None:
    scene = job()
    struck(scene, victim, **by(sender))
    scene.kill(WORKERS[3])

    assert (("sigkill", victim) if heavy else ("host_oom_cgroup", WORKERS[3])) == first(
        scene.finish(root_exit=victim != LAUNCHER)
    )


@pytest.mark.parametrize(("victim", "counts"), [(WORKERS[0], True), (RANK, True), (HELPER, True), (CHILD, False)])
def test_tidying_up_is_told_where_nothing_else_happened_to_those_with_a_part_in_it(victim: int, counts: bool) -> None:
    scene = job()
    struck(scene, victim, **by(LAUNCHER))

    assert (("sigkill", victim) if counts else ("exited", LAUNCHER)) == first(scene.finish())


@pytest.mark.parametrize(("pid", "status", "counts"), [(RANK, 1 << 8, True), (RANK, 0, False), (HELPER, 1 << 8, False)])
def test_a_rank_that_failed_by_itself_failed_the_job(pid: int, status: int, counts: bool) -> None:
    scene = job()
    scene.exit(pid, status)
    scene.pass_time(NS_PER_S)

    assert ("exited", pid if counts else LAUNCHER) == first(scene.finish())


def test_a_blow_from_outside_comes_before_a_rank_that_had_failed_by_itself() -> None:
    scene = job()
    scene.exit(WORKERS[1], 1 << 8)
    scene.pass_time(NS_PER_S)
    struck(scene, RANK)

    assert ("sigkill", RANK) == first(scene.finish())


@pytest.mark.parametrize(("number", "pid"), [(9, WORKERS[0]), (15, WORKERS[0]), (9, LAUNCHER), (15, LAUNCHER)])
def test_a_watchdog_of_the_job_ends_what_is_left_because_a_rank_had_failed(number: int, pid: int) -> None:
    scene = job()
    scene.exit(RANK, 1 << 8)
    scene.pass_time(NS_PER_S)
    struck(scene, pid, number, **by(HELPER))
    report = judge(scene.finish(root_exit=pid != LAUNCHER))

    assert ["exited"] == causes(report)
    assert primary(report).exit_code == 1
    assert pid in {one.pid for one in primary(report).collateral}


def test_a_watchdog_that_ends_a_rank_before_another_one_fails_ended_the_job() -> None:
    scene = job()
    struck(scene, WORKERS[0], **by(HELPER))
    scene.exit(RANK, 1 << 8)

    assert ("sigkill", WORKERS[0]) == first(scene.finish())


def test_a_watchdogs_blow_counts_where_the_job_had_begun_again_after_a_failure() -> None:
    scene = job()
    scene.exit(RANK, 1 << 8)
    scene.fork(RANK + 1, LAUNCHER)
    scene.add(
        ProcessExeced(
            ts_ns=scene.now_ns, cpu=0, start_ns=start_of(RANK + 1), tgid=RANK + 1, old_tid=RANK + 1, comm="python3"
        )
    )
    scene.seen(RANK + 1, LAUNCHER, "python3", {"RANK": "0", "LOCAL_RANK": "0", "TORCHELASTIC_RUN_ID": "x"})
    scene.pass_time(NS_PER_S)
    struck(scene, RANK + 1, **by(HELPER))

    assert ("sigkill", RANK + 1) == first(scene.finish())


def test_while_the_job_runs_the_first_death_is_told_and_no_tidying_up() -> None:
    scene = job()
    struck(scene, CHILD, **by(LAUNCHER))
    struck(scene, HELPER)
    struck(scene, CHILD + 1)
    scene.fork(302, LAUNCHER)
    struck(scene, 302)

    assert ("sigkill", HELPER) == first(scene.finish(root_exit=False))


def test_while_the_job_runs_the_first_death_is_that_by_the_first_signal() -> None:
    scene = job()
    scene.fork(302, LAUNCHER)
    scene.signal(HELPER, 9, **OUTSIDE)
    scene.pass_time(1)
    struck(scene, 302)
    scene.pass_time(1)
    scene.exit(HELPER, 9)

    assert ("sigkill", HELPER) == first(scene.finish(root_exit=False))


def test_while_the_job_runs_and_nothing_happened_no_end_is_told() -> None:
    assert ("inconclusive", LAUNCHER) == first(job().finish(root_exit=False))


def blow(*struck_ones: tuple[int, int, dict[str, int]]) -> int | None:
    """Who is told of one blow: each (process, ns since the first, sender)."""
    scene = job()
    at_ns = scene.now_ns
    for pid, after_ns, sender in struck_ones:
        scene.now_ns = at_ns + after_ns
        scene.signal(pid, 9, **sender)
        scene.exit(pid, 9)
    return first(scene.finish())[1]


def test_of_one_blow_the_uppermost_is_told() -> None:
    assert RANK == blow((WORKERS[0], 0, OUTSIDE), (RANK, NS_PER_S, OUTSIDE))
    assert LAUNCHER == blow((WORKERS[0], 0, OUTSIDE), (RANK, 1, OUTSIDE), (LAUNCHER, 2, OUTSIDE))
    assert WORKERS[0] == blow((WORKERS[0], 0, OUTSIDE), (WORKERS[1], 1, OUTSIDE))
    assert RANK == blow((RANK, 0, OUTSIDE), (WORKERS[0], 1, OUTSIDE))


def test_of_one_blow_by_a_helper_a_child_of_the_root_is_told_though_it_has_no_part_in_the_training() -> None:
    scene = job()
    scene.fork(302, LAUNCHER)
    scene.fork(303, 302)
    scene.fork(304, 303, comm="pt_data_worker")
    for pid in (304, 303, 302):
        scene.signal(pid, 9, **by(HELPER))
        scene.exit(pid, 9)
        scene.pass_time(1)

    assert ("sigkill", 302) == first(scene.finish())


def test_a_blow_long_before_by_the_same_sender_is_another_one() -> None:
    scene = job()
    scene.fork(302, LAUNCHER)
    scene.fork(304, 302, comm="pt_data_worker")
    struck(scene, 302, **by(HELPER))
    scene.pass_time(5 * NS_PER_S)
    struck(scene, 304, **by(HELPER))

    assert ("sigkill", 304) == first(scene.finish())


def test_a_later_blow_or_another_sender_is_not_the_same_blow() -> None:
    assert WORKERS[0] == blow((WORKERS[0], 0, OUTSIDE), (RANK, NS_PER_S + 1, OUTSIDE))
    assert WORKERS[0] == blow((WORKERS[0], 0, OUTSIDE), (RANK, 1, OTHERS))
    assert WORKERS[0] == blow((WORKERS[0], 0, OUTSIDE), (WORKERS[1], NS_PER_S, OUTSIDE), (RANK, NS_PER_S + 1, OUTSIDE))


def test_kills_by_the_kernel_are_no_blow_of_one_sender() -> None:
    scene = job()
    scene.kill(WORKERS[0])
    scene.oom_signal(RANK, RANK)
    mark = scene.mark(RANK, RANK)
    scene.levels(mark, owners=(0,), oom=(1, 0, 0))
    scene.stack(mark)
    scene.exit(RANK, 9)

    assert ("host_oom_cgroup", WORKERS[0]) == first(scene.finish())


def test_without_a_start_of_the_job_nothing_is_told_of_it() -> None:
    events = [event for event in job().finish() if not isinstance(event, JobStarted)]
    report = judge(events)

    assert (["inconclusive"], None) == (causes(report), report.verdict.job)

# SPDX-License-Identifier: Apache-2.0
"""Ends that are no OOM kill: signals with their senders, crashes, plain exits, and ends that nobody saw."""

import pytest

from tests.unit.verdict.scenes import LAUNCHER, RANK, WORKERS, Scene, changed, primary, start_of
from tracer.events import Header, ProcessGone, SignalInfo
from tracer.units import NS_PER_S
from tracer.verdict.judge import judge


def test_a_job_that_kills_itself_is_named_as_its_own_killer() -> None:
    scene = Scene()
    scene.begin()
    scene.signal(LAUNCHER, 9)
    incident = primary(judge(scene.finish(status=9)))

    assert ("sigkill", "proved") == (incident.cause, incident.strength)
    assert incident.sender is not None
    assert (LAUNCHER, "self") == (incident.sender.pid, incident.sender.kind)


def test_sigkill_from_outside_names_the_sender() -> None:
    scene = Scene()
    scene.begin()
    scene.signal(LAUNCHER, 9, sender_tgid=812, sender_tid=812, sender_start_ns=9, sender_comm="slurmstepd")
    incident = primary(judge(scene.finish(status=9)))

    assert incident.sender is not None
    assert ("slurmstepd", "outside") == (incident.sender.comm, incident.sender.kind)
    assert "slurmstepd" in incident.headline


def test_sigkill_that_nobody_was_seen_to_send_is_inconclusive() -> None:
    scene = Scene()
    scene.begin()
    incident = primary(judge(scene.finish(status=9)))

    assert "inconclusive" == incident.cause
    assert incident.strength != "proved"


@pytest.mark.parametrize("number", [6, 7, 11])
def test_a_fault_is_a_crash(number: int) -> None:
    scene = Scene()
    scene.begin()
    scene.signal(LAUNCHER, number, code=1)
    incident = primary(judge(scene.finish(status=number | 0x80)))

    assert ("crash", "proved", number) == (incident.cause, incident.strength, incident.signal)


def test_the_kernels_own_sigkill_without_a_mark_is_not_an_oom_kill() -> None:
    scene = Scene()
    scene.begin()
    scene.signal(LAUNCHER, 9, info=SignalInfo.PRIV, code=128)
    incident = primary(judge(scene.finish(status=9)))

    assert "kernel_sigkill_other" == incident.cause


@pytest.mark.parametrize("code", [0, 1, 3, 137, 255])
def test_a_plain_exit_is_one_proved_incident_with_its_status(code: int) -> None:
    scene = Scene()
    scene.job()
    for pid in (*WORKERS, RANK):
        scene.exit(pid, 0)
    report = judge(scene.finish(status=code << 8))

    assert 1 == len(report.verdict.incidents)
    assert ("exited", "proved", code) == (primary(report).cause, primary(report).strength, primary(report).exit_code)
    assert 0 == report.verdict.primary


def test_exit_137_is_not_taken_for_a_kill() -> None:
    scene = Scene()
    scene.begin()

    assert "no such death was seen" in primary(judge(scene.finish(status=137 << 8))).summary


def test_a_kill_that_the_job_survived_is_still_told() -> None:
    scene = Scene()
    scene.job()
    scene.kill()
    report = judge(scene.finish(status=0))

    assert "host_oom_cgroup" == primary(report).cause
    assert report.verdict.job is not None
    assert report.verdict.job.status == "exit 0"


def test_tidying_up_within_the_job_is_no_failure() -> None:
    scene = Scene()
    scene.job()
    scene.signal(WORKERS[0], 15, sender_tgid=RANK, sender_tid=RANK, sender_start_ns=start_of(RANK))
    scene.exit(WORKERS[0], 15)
    report = judge(scene.finish(status=0))

    assert ["exited"] == [i.cause for i in report.verdict.incidents]


def test_sigterm_from_the_launcher_after_a_kill_is_collateral() -> None:
    scene = Scene()
    scene.job()
    scene.kill()
    scene.pass_time(NS_PER_S)
    scene.signal(RANK, 15, sender_tgid=LAUNCHER, sender_tid=LAUNCHER, sender_start_ns=start_of(LAUNCHER))
    scene.exit(RANK, 15)
    report = judge(scene.finish())

    assert 1 == len(report.verdict.incidents)
    assert any(c.pid == RANK and "SIGTERM" in c.how for c in primary(report).collateral)


def test_a_job_that_was_stopped_from_outside_is_sigterm_and_not_proved_when_it_handled_it() -> None:
    scene = Scene()
    scene.begin()
    scene.signal(LAUNCHER, 15, sender_tgid=7, sender_tid=7, sender_start_ns=3, sender_comm="scancel")
    incident = primary(judge(scene.finish(status=1 << 8)))

    assert ("sigterm", "likely") == (incident.cause, incident.strength)


def test_sigterm_that_ended_it_is_proved() -> None:
    scene = Scene()
    scene.begin()
    scene.signal(LAUNCHER, 15, sender_tgid=7, sender_tid=7, sender_start_ns=3, sender_comm="scancel")

    assert "proved" == primary(judge(scene.finish(status=15))).strength


def test_a_signal_passed_on_by_the_tracer_is_said_to_be_that() -> None:
    scene = Scene()
    scene.begin()
    scene.signal(LAUNCHER, 15, sender_tgid=99, sender_tid=99, sender_start_ns=3, sender_comm="oomtrace")

    assert "passed it on" in primary(judge(scene.finish(status=15))).headline


def test_in_a_pid_namespace_another_process_with_the_tracers_pid_is_not_taken_for_it() -> None:
    scene = Scene()
    scene.begin()
    scene.signal(LAUNCHER, 15, sender_tgid=99, sender_tid=99, sender_start_ns=3, sender_comm="stranger")
    incident = primary(judge(changed(scene.finish(status=15), Header, own_pid_namespace=True)))

    assert "'stranger'" in incident.headline


def test_a_process_that_vanished_proves_nothing() -> None:
    scene = Scene()
    scene.begin()
    scene.add(ProcessGone(ts_ns=scene.now_ns, tgid=LAUNCHER, start_ns=start_of(LAUNCHER)))
    report = judge(scene.finish(root_exit=False))

    assert "inconclusive" == primary(report).cause
    assert report.verdict.job is not None
    assert report.verdict.job.status is None


def test_no_events_at_all_give_a_verdict_that_says_so() -> None:
    assert "inconclusive" == primary(judge([])).cause


def test_a_helper_that_crashed_long_before_is_not_why_the_job_failed() -> None:
    scene = Scene()
    scene.job()
    scene.fork(500, LAUNCHER, comm="probe")
    scene.signal(500, 11, code=1)
    scene.exit(500, 11, comm="probe")
    scene.pass_time(60 * NS_PER_S)
    report = judge(scene.finish(status=3 << 8))

    assert ("exited", 3) == (primary(report).cause, primary(report).exit_code)
    assert ["crash", "exited"] == [i.cause for i in report.verdict.incidents]

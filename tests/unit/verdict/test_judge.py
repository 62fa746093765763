# SPDX-License-Identifier: Apache-2.0
"""What goes down with an incident, what is told beside it, and what is said of the job and of others."""

from typing import Any

import pytest

from tests.unit.verdict.scenes import LAUNCHER, RANK, WORKERS, Scene, identity, primary, start_of
from tracer.events import Losses, Note, ProcessForked, ProcessGone, ProcessSeen, SignalInfo
from tracer.units import NS_PER_MS, NS_PER_S
from tracer.verdict.incident import belongs
from tracer.verdict.judge import judge
from tracer.verdict.model import Report
from tracer.verdict.story import Story

VICTIM, OTHER, HELPER = WORKERS[2], WORKERS[0], 300
OUTSIDE = {"sender_tgid": 7, "sender_tid": 7, "sender_start_ns": 1}
KERNEL = {"info": SignalInfo.PRIV, "code": 128, "sender_tgid": 2, "sender_tid": 2}


def by(pid: int) -> dict[str, int]:
    return {"sender_tgid": pid, "sender_tid": pid, "sender_start_ns": start_of(pid)}


def killed(pid: int = VICTIM) -> Scene:
    """A job whose process was killed for want of memory a millisecond ago."""
    scene = Scene()
    scene.job()
    scene.fork(HELPER, LAUNCHER, comm="helper")
    scene.kill(pid)
    scene.pass_time(NS_PER_MS)
    return scene


def how(scene: Scene, pid: int) -> str | None:
    """How it went down with the primary incident."""
    found = [c.how for c in primary(judge(scene.finish())).collateral if c.pid == pid]
    assert len(found) < 2
    return found[0] if found else None


def causes(report: Report) -> list[str]:
    return [incident.cause for incident in report.verdict.incidents]


@pytest.mark.parametrize(
    ("pid", "status", "told"),
    [
        (RANK, 1 << 8, True),
        (RANK, 0, False),
        (OTHER, 1 << 8, True),
        (OTHER, 0, False),
        (HELPER, 1 << 8, False),
        (400, 1 << 8, True),
        (400, 0, True),
    ],
)
def test_who_failed_above_below_or_beside_in_the_training_went_down_with_it(pid: int, status: int, told: bool) -> None:
    scene = Scene()
    scene.job()
    scene.fork(HELPER, LAUNCHER, comm="helper")
    scene.fork(400, VICTIM, comm="child")
    scene.kill(VICTIM)
    scene.pass_time(2 * NS_PER_S)
    scene.exit(pid, status)
    text = how(scene, pid)

    assert told == (text is not None)
    assert text is None or f"exit {status >> 8}, 2.0 s later" in text


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (by(LAUNCHER), "signal 15 (SIGTERM) from launcher"),
        (by(HELPER), f"signal 15 (SIGTERM) from helper {HELPER}"),
        (OUTSIDE, None),
        ({**OUTSIDE, "code": -2}, None),
        ({}, "signal 15 (SIGTERM)"),
    ],
)
def test_a_signal_after_it_is_collateral_unless_it_came_from_elsewhere(sent: dict[str, Any], words: str | None) -> None:
    scene = killed()
    scene.signal(OTHER, 15, **sent)
    scene.exit(OTHER, 15)
    text = how(scene, OTHER)

    assert (words is None) == (text is None)
    assert words is None or (text is not None and words in text)


def test_a_signal_that_nobody_was_seen_to_send_is_collateral() -> None:
    scene = killed()
    scene.exit(OTHER, 15)

    assert how(scene, OTHER) is not None


def test_a_handled_signal_beside_a_failure_does_not_hide_it() -> None:
    scene = killed()
    scene.signal(OTHER, 15, **OUTSIDE)
    scene.exit(OTHER, 1 << 8)

    assert "exit 1" in (how(scene, OTHER) or "")


@pytest.mark.parametrize(
    ("pid", "after_ns", "number", "torn_down"),
    [
        (OTHER, 5 * NS_PER_S, 9, True),
        (OTHER, 5 * NS_PER_S + 1, 9, False),
        (HELPER, NS_PER_S, 9, False),
        (OTHER, NS_PER_S, 11, True),
    ],
)
def test_the_kernels_own_sigkill_is_a_teardown_below_a_victim_and_soon(
    pid: int, after_ns: int, number: int, torn_down: bool
) -> None:
    scene = Scene()
    scene.job()
    scene.fork(HELPER, LAUNCHER, comm="helper")
    at_ns = scene.now_ns
    scene.kill(RANK)
    scene.now_ns = at_ns + after_ns
    scene.signal(pid, number, **KERNEL)
    scene.exit(pid, number)
    text = how(scene, pid)

    assert (1 if torn_down else 2) == len(judge(scene.events).verdict.incidents)
    assert torn_down == (text is not None)
    assert not torn_down or (number != 9) == ("as its ancestor had died" not in (text or ""))


def test_a_sigkill_from_outside_below_a_victim_is_no_teardown() -> None:
    scene = killed(RANK)
    scene.signal(OTHER, 9, **OUTSIDE)
    scene.exit(OTHER, 9)

    assert how(scene, OTHER) is None


def test_a_parent_without_a_part_in_the_training_may_fail_of_its_child() -> None:
    scene = killed(VICTIM)
    scene.fork(400, HELPER, comm="child")
    scene.pass_time(30 * NS_PER_S)
    alone = Scene()
    alone.begin()
    alone.fork(HELPER, LAUNCHER, comm="helper")
    alone.fork(400, HELPER, comm="child")
    alone.kill(400)
    for one in (scene, alone):
        one.exit(HELPER, 1 << 8)
        one.exit(500, 1 << 8)

    assert (None, None) == (how(scene, HELPER), how(scene, 500))
    assert how(alone, HELPER) is not None


def test_a_teardown_may_be_below_any_victim() -> None:
    scene = Scene()
    scene.job()
    scene.kill(VICTIM)
    scene.kill(RANK)
    scene.signal(OTHER, 9, **KERNEL)
    scene.exit(OTHER, 9)

    assert "as its ancestor had died" in (how(scene, OTHER) or "")


def test_what_ended_before_or_was_killed_itself_is_no_collateral() -> None:
    scene = Scene()
    scene.job()
    scene.exit(OTHER, 1 << 8)
    scene.pass_time(NS_PER_S)
    scene.kill(VICTIM)
    scene.pass_time(30 * NS_PER_S)
    scene.kill(WORKERS[1])
    report = judge(scene.finish())

    assert [LAUNCHER] == [c.pid for c in primary(report).collateral]
    assert ["host_oom_cgroup", "host_oom_cgroup"] == causes(report)


def test_a_plain_end_has_no_collateral() -> None:
    scene = Scene()
    scene.job()
    scene.exit(LAUNCHER, 0)
    scene.pass_time(NS_PER_S)
    scene.exit(OTHER, 1 << 8)
    found = primary(judge(scene.finish(root_exit=False)))

    assert ("exited", ()) == (found.cause, found.collateral)


def test_what_is_no_collateral_is_an_incident_of_its_own_in_time_order() -> None:
    scene = killed()
    scene.signal(OTHER, 9, **OUTSIDE)
    scene.exit(OTHER, 9)
    scene.signal(RANK, 15, **by(LAUNCHER))
    scene.exit(RANK, 15)
    report = judge(scene.finish())

    assert ["host_oom_cgroup", "sigkill"] == causes(report)
    assert 0 == report.verdict.primary


def test_the_primary_incident_keeps_its_place_in_time() -> None:
    scene = Scene()
    scene.job()
    scene.fork(HELPER, LAUNCHER, comm="helper")
    scene.signal(HELPER, 11, code=1)
    scene.exit(HELPER, 11)
    scene.pass_time(NS_PER_S)
    scene.kill(VICTIM)
    report = judge(scene.finish())

    assert (["crash", "host_oom_cgroup"], 1) == (causes(report), report.verdict.primary)


def test_an_incident_of_which_one_went_down_and_one_did_not_is_told() -> None:
    scene = Scene()
    scene.job()
    scene.signal(RANK, 9, **OUTSIDE)
    scene.exit(RANK, 9)
    scene.kill(OTHER)

    assert ["sigkill", "host_oom_cgroup"] == causes(judge(scene.finish()))


def test_collateral_is_told_up_to_a_number_and_is_no_incident_beyond_it() -> None:
    scene = Scene()
    scene.job()
    for pid in range(1000, 1300):
        scene.fork(pid, RANK)
    scene.kill(RANK)
    for pid in range(1000, 1300):
        scene.signal(pid, 15, **by(LAUNCHER))
        scene.exit(pid, 15)
    report = judge(scene.finish())

    assert 200 == len(primary(report).collateral)
    assert 1 == len(report.verdict.incidents)


def test_the_job_is_told_with_its_end() -> None:
    scene = Scene()
    scene.job()
    job = judge(scene.finish(3 << 8)).verdict.job

    assert job is not None
    assert ("exit 3", LAUNCHER, ("torchrun", "train.py")) == (job.status, job.pid, job.argv)
    assert job.ended_at is not None
    assert job.started_at is not None
    assert job.started_at < job.ended_at


def test_a_job_that_runs_or_vanished_has_no_status() -> None:
    running, gone = Scene(), Scene()
    running.job()
    gone.job()
    gone.add(ProcessGone(ts_ns=gone.now_ns, tgid=LAUNCHER, start_ns=start_of(LAUNCHER)))
    jobs = [judge(scene.finish(root_exit=False)).verdict.job for scene in (running, gone)]

    assert [("running", None), (None, None)] == [(job.status, job.ended_at) for job in jobs if job]


def strangers(*pids: int) -> tuple[str, ...]:
    scene = Scene()
    scene.job()
    for pid in pids:
        scene.stack(scene.mark(pid, pid, comm=f"c{pid}"))
        scene.pass_time(NS_PER_MS)
    scene.kill(VICTIM)
    return judge(scene.finish()).verdict.caveats


def test_kills_outside_the_job_are_told_by_the_nearest_of_them() -> None:
    assert () == strangers()
    assert ("The kernel also killed 'c501' (pid 501) outside this job.",) == strangers(501)
    assert ("The kernel also killed 'c502' (pid 502) and 1 more outside this job.",) == strangers(501, 502)
    assert ("The kernel also killed 'c503' (pid 503) and 2 more outside this job.",) == strangers(501, 502, 503)


def test_of_a_stranger_that_shares_the_victims_memory_no_name_is_known() -> None:
    scene = Scene()
    scene.job()
    scene.kill(VICTIM, 4242)
    scene.oom_signal(501, 4242, in_tree=0)

    assert ("The kernel also killed '?' (pid 501) outside this job.",) == judge(scene.finish()).verdict.caveats


def test_a_remark_that_an_incident_tells_is_not_told_twice() -> None:
    scene = killed()
    scene.add(Note(ts_ns=scene.now_ns, text="Not proved: 1 kernel records were lost near it."))
    scene.add(Note(ts_ns=scene.now_ns, text="else"))
    losses = Losses(ts_ns=scene.now_ns + 2 * NS_PER_S, dropped={"x": 1})
    report = judge(scene.finish(losses=losses))

    assert ("Not proved: 1 kernel records were lost near it.",) == primary(report).caveats
    assert ["Lost in all: 1 x.", "else"] == list(report.verdict.caveats)


@pytest.mark.parametrize(("count", "told", "last"), [(30, 30, "remark 29"), (31, 31, "1 more remarks stand in the")])
def test_up_to_thirty_remarks_are_told(count: int, told: int, last: str) -> None:
    scene = Scene()
    scene.begin()
    for number in range(count):
        scene.add(Note(ts_ns=scene.now_ns, text=f"remark {number}"))
    caveats = judge(scene.finish(0)).verdict.caveats

    assert told == len(caveats)
    assert caveats[-1].startswith(last)


def test_the_recordings_path_is_in_the_report() -> None:
    assert ("x", None) == (judge([], recording="x").recording, judge([]).recording)


def line(scene: Scene, *pids: int) -> tuple[int, ...]:
    """`seq` of their forks and of when each was last seen."""
    forks = {e.tgid: e.seq for e in scene.events if isinstance(e, ProcessForked)}
    seen = {e.tgid: e.seq for e in scene.events if isinstance(e, ProcessSeen)}
    return tuple(seq for pid in pids for seq in (forks.get(pid), seen.get(pid)) if seq is not None)


def test_a_link_tells_the_whole_line_of_forks() -> None:
    scene = killed()
    link = primary(judge(scene.finish())).proof[2]

    assert ("present", f"launcher {LAUNCHER} > rank 0 {RANK} > worker 2 {VICTIM}") == (link.status, link.statement)
    assert (3, line(scene, LAUNCHER, RANK, VICTIM)) == (link.link, link.evidence)


def test_the_job_itself_is_said_to_be_it() -> None:
    link = primary(judge(killed(LAUNCHER).finish(root_exit=False))).proof[2]

    assert (3, "present", f"launcher {LAUNCHER} (the job itself)") == (link.link, link.status, link.statement)


def test_a_line_that_was_only_seen_in_proc_is_not_observed() -> None:
    scene = Scene()
    scene.begin()
    for comm in ("sh", "python3"):
        scene.seen(RANK, LAUNCHER, comm, None, parent_start_ns=start_of(LAUNCHER))
        scene.pass_time(NS_PER_S)
    scene.kill(RANK)
    link = primary(judge(scene.finish())).proof[2]

    assert (3, "not_observed", line(scene, LAUNCHER, RANK)) == (link.link, link.status, link.evidence)
    assert "as seen in /proc" in link.statement


def test_a_line_that_breaks_off_is_not_observed() -> None:
    scene = killed()
    scene.pass_time(5 * NS_PER_S)
    scene.kill(500)
    link = judge(scene.finish()).verdict.incidents[1].proof[2]

    assert (3, "not_observed", ()) == (link.link, link.status, link.evidence)
    assert "was not recorded in full" in link.statement


def test_what_is_not_of_the_job_belongs_to_it_neither_by_forks_nor_by_the_filter() -> None:
    scene = killed()
    scene.exit(500, 0, in_tree=0)
    links = [belongs(Story(scene.events), identity(pid)) for pid in (500, 501)]

    assert [(3, "absent", "it does not descend from the job")] * 2 == [
        (link.link, link.status, link.statement) for link in links
    ]

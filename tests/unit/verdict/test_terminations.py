# SPDX-License-Identifier: Apache-2.0
"""What came of a SIGTERM: a cause only where its receiver ended of it; where it went on, a line of the story."""

from typing import Any

import pytest

from tests.unit.verdict.scenes import LAUNCHER, RANK, WORKERS, Scene, primary, start_of
from tracer.events import Losses
from tracer.units import NS_PER_S
from tracer.verdict.judge import judge
from tracer.verdict.model import Report
from tracer.verdict.terminations import HANDLED_NS

HUMAN = {"sender_tgid": 7, "sender_tid": 7, "sender_start_ns": 1, "sender_comm": "bash"}
EARLYOOM = {"sender_tgid": 8, "sender_tid": 8, "sender_start_ns": 1, "sender_comm": "earlyoom"}
BY_LAUNCHER = {"sender_tgid": LAUNCHER, "sender_tid": LAUNCHER, "sender_start_ns": start_of(LAUNCHER)}


def job() -> Scene:
    scene = Scene()
    scene.job()
    scene.pass_time(20 * NS_PER_S)
    return scene


def ended(after_ns: int, status: int, *, pid: int = LAUNCHER, **sent: Any) -> Report:
    """SIGTERM to one of the job, its end so long after that, and then that of the job."""
    scene = job()
    for worker in WORKERS:
        scene.exit(worker, 0)
    if pid == LAUNCHER:
        scene.exit(RANK, 0)
    scene.signal(pid, 15, **(HUMAN | sent))
    scene.pass_time(after_ns)
    if pid != LAUNCHER:
        scene.exit(pid, status)
        return judge(scene.finish(status and 1 << 8))
    scene.pass_time(-NS_PER_S)
    return judge(scene.finish(status))


def rows(report: Report) -> list[tuple[str, str]]:
    return [(entry.who, entry.text) for entry in report.timeline if entry.kind == "signal"]


TOLD = "SIGTERM from 'bash' (pid 7), from outside the job"


@pytest.mark.parametrize(
    ("after_ns", "code", "cause"),
    [
        (2 * NS_PER_S, 1, "sigterm"),
        (HANDLED_NS, 1, "sigterm"),
        (HANDLED_NS + 1, 1, "exited"),
        (HANDLED_NS + 1, 143, "sigterm"),
        (3600 * NS_PER_S, 143, "sigterm"),
        (2 * NS_PER_S, 143, "sigterm"),
        (2 * NS_PER_S, 0, "exited"),
    ],
)
@pytest.mark.parametrize("pid", [LAUNCHER, RANK])
def test_a_sigterm_is_a_cause_where_its_receiver_failed_soon_or_says_so(
    pid: int, after_ns: int, code: int, cause: str
) -> None:
    found = primary(ended(after_ns, code << 8, pid=pid))

    assert cause == found.cause
    assert cause != "sigterm" or (found.victim is not None and ("likely", pid) == (found.strength, found.victim.pid))


def test_one_that_ends_by_the_signal_itself_is_proved_to_have_ended_of_it() -> None:
    report = ended(2 * NS_PER_S, 15)

    assert ("sigterm", "proved") == (primary(report).cause, primary(report).strength)
    assert [("launcher", TOLD)] == rows(report)


@pytest.mark.parametrize(
    ("after_ns", "status", "came"),
    [
        (2 * NS_PER_S, 0, "; it exited with 0 2.0 s later"),
        (2 * NS_PER_S, 1 << 8, "; it exited with 1 2.0 s later"),
        (3600 * NS_PER_S, 0, "; it went on for 1 h 0 min"),
        (3600 * NS_PER_S, 1 << 8, "; it went on for 1 h 0 min"),
        (2 * NS_PER_S, 11, "; it went on for 2.0 s"),
    ],
)
def test_what_came_of_a_sigterm_stands_in_the_story(after_ns: int, status: int, came: str) -> None:
    assert [("rank 0", TOLD + came)] == rows(ended(after_ns, status, pid=RANK))


def test_one_that_went_on_is_told_beside_its_later_end() -> None:
    found = primary(ended(3600 * NS_PER_S, 1 << 8))

    assert ("exited", "proved") == (found.cause, found.strength)
    assert (f"1 h 0 min before, it had got {TOLD}, and went on.",) == found.caveats


@pytest.mark.parametrize(("after_ns", "told"), [(2 * NS_PER_S, True), (HANDLED_NS, True), (HANDLED_NS + 1, False)])
def test_one_that_ended_well_soon_after_it_may_have_ended_because_of_it(after_ns: int, *, told: bool) -> None:
    found = primary(ended(after_ns, 0))

    assert ("exited", "proved") == (found.cause, found.strength)
    assert told == any(f"it had got {TOLD}: it may have ended because of that." in one for one in found.caveats)


def test_a_handler_that_passes_it_on_to_its_own_process_had_not_ignored_what_it_got() -> None:
    scene = job()
    scene.signal(RANK, 15, **HUMAN)
    scene.pass_time(NS_PER_S)
    scene.signal(RANK, 15)
    scene.exit(RANK, 15)

    assert [("rank 0", TOLD), ("rank 0", "SIGTERM from itself")] == rows(judge(scene.finish()))


@pytest.mark.parametrize("sent", [{**BY_LAUNCHER}, {"code": -2}, {"result": 1}, {"result": 2}])
def test_one_from_within_or_from_nobody_known_or_that_was_not_delivered_is_no_cause(sent: dict[str, Any]) -> None:
    assert "sigterm" not in {i.cause for i in ended(2 * NS_PER_S, 1 << 8, pid=RANK, **sent).verdict.incidents}


def test_one_that_was_ignored_is_told_as_that() -> None:
    assert [("rank 0", f"{TOLD}; ignored")] == rows(ended(3600 * NS_PER_S, 1 << 8, pid=RANK, result=1))
    assert [("rank 0", f"{TOLD}; it was ending already")] == rows(ended(1, 1 << 8, pid=RANK, result=1))


def test_of_a_process_that_still_runs_it_is_said_that_it_went_on() -> None:
    scene = job()
    scene.signal(RANK, 15, **HUMAN)

    assert [("rank 0", f"{TOLD}; it went on")] == rows(judge(scene.finish(root_exit=False)))


def test_of_several_the_last_is_what_it_ended_of() -> None:
    scene = job()
    scene.signal(LAUNCHER, 15, **EARLYOOM)
    scene.pass_time(600 * NS_PER_S)
    scene.signal(LAUNCHER, 15, **HUMAN)
    report = judge(scene.finish(1 << 8))

    assert "Stopped by SIGTERM from 'bash' (pid 7)" == primary(report).headline
    assert 2 == len(rows(report))
    assert "went on for 10 min" in rows(report)[0][1]


def test_a_rank_that_its_launcher_told_to_end_has_not_failed_by_itself() -> None:
    scene = job()
    scene.signal(RANK, 15, **BY_LAUNCHER)
    scene.pass_time(NS_PER_S)
    scene.exit(RANK, 1 << 8)
    found = primary(judge(scene.finish()))

    assert found.victim is not None
    assert ("exited", LAUNCHER) == (found.cause, found.victim.pid)


def test_a_sigterm_long_before_a_kill_of_the_kernels_is_none_of_its_causes() -> None:
    scene = job()
    scene.signal(RANK, 15, **HUMAN)
    scene.pass_time(300 * NS_PER_S)
    scene.kill(WORKERS[0])
    scene.exit(RANK, 1 << 8)
    report = judge(scene.finish())

    assert ["host_oom_cgroup"] == [i.cause for i in report.verdict.incidents]
    assert ("rank 0", f"{TOLD}; it went on for 5 min 0 s") in rows(report)


def test_a_sigterm_is_never_proved_to_be_what_a_handler_exited_for() -> None:
    for lost in (0, 1):
        scene = job()
        scene.signal(LAUNCHER, 15, **HUMAN)
        losses = Losses(ts_ns=scene.now_ns + 2 * NS_PER_S, dropped={"signal_sent": lost})
        found = primary(judge(scene.finish(143 << 8, losses=losses)))

        assert ("sigterm", "likely") == (found.cause, found.strength)
        assert "which says that it was for a SIGTERM" in found.proof[3].statement
        assert lost == len(found.caveats)

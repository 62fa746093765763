# SPDX-License-Identifier: Apache-2.0
"""That something came first: proved only where the end of everybody else was seen and no record is missing."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.verdict.scenes import LAUNCHER, RANK, WORKERS, Scene, primary, start_of
from tracer.events import KernelStack, ProcessGone, SeenProgram, SenderSeen, TmpfsFill, TmpfsSample
from tracer.units import MIB, NS_PER_S
from tracer.verdict.judge import judge
from tracer.verdict.model import Incident

HELPER = 300
OUTSIDE = {"sender_tgid": 7, "sender_tid": 7, "sender_start_ns": 1}


def by(pid: int) -> dict[str, int]:
    return {"sender_tgid": pid, "sender_tid": pid, "sender_start_ns": start_of(pid)}


def job() -> Scene:
    """A launcher, a rank and its workers, and a helper of the launcher's; the workers have ended well."""
    scene = Scene()
    scene.job()
    scene.fork(HELPER, LAUNCHER, comm="helper")
    scene.pass_time(NS_PER_S)
    for pid in WORKERS[1:]:
        scene.exit(pid, 0)
    return scene


def ended(scene: Scene, *pids: int, status: int = 3 << 8) -> Incident:
    """All these end well, then the job fails by itself."""
    for pid in pids:
        scene.exit(pid, 0)
    return primary(judge(scene.finish(status)))


def told(found: Incident) -> list[str]:
    return [caveat for caveat in found.caveats if caveat.startswith("Not proved to have come first: ")]


def test_a_failure_of_a_job_all_of_whose_processes_ended_well_is_proved() -> None:
    found = ended(job(), WORKERS[0], RANK, HELPER)

    assert ("exited", "proved", []) == (found.cause, found.strength, told(found))


@pytest.mark.parametrize("missing", [WORKERS[0], RANK, HELPER])
def test_a_failure_is_not_proved_to_come_first_where_the_end_of_another_was_not_seen(missing: int) -> None:
    found = ended(job(), *({WORKERS[0], RANK, HELPER} - {missing}))

    assert ("exited", "likely") == (found.cause, found.strength)
    assert "was not seen." in told(found)[0]
    assert f"(pid {missing})" in told(found)[0]


def test_several_unseen_ends_are_counted() -> None:
    assert told(ended(job(), WORKERS[0]))[0].endswith("was not seen, nor of 1 more.")


def test_who_is_seen_to_live_on_has_not_ended_before() -> None:
    scene = job()
    scene.exit(LAUNCHER, 3 << 8)
    scene.pass_time(NS_PER_S)
    scene.sample(HELPER, 50)

    assert "proved" == ended(scene, WORKERS[0], RANK).strength


def test_who_ended_afterwards_has_not_ended_before() -> None:
    scene = job()
    scene.exit(RANK, 5 << 8)
    scene.pass_time(NS_PER_S)
    found = ended(scene, WORKERS[0], HELPER)

    assert ("Rank 0 (pid 41210) exited with status 5", "proved") == (found.headline, found.strength)


def test_a_process_that_vanished_may_have_been_killed() -> None:
    scene = job()
    scene.add(ProcessGone(ts_ns=scene.now_ns, tgid=HELPER, start_ns=start_of(HELPER)))

    assert "likely" == ended(scene, WORKERS[0], RANK).strength


def test_a_job_that_ended_well_claims_nothing_of_what_came_before() -> None:
    assert "proved" == ended(job(), status=0).strength


@pytest.mark.parametrize(
    ("sent", "strength"), [(by(LAUNCHER), "proved"), (OUTSIDE, "likely"), ({"code": 1}, "likely"), (None, "likely")]
)
def test_one_that_a_signal_had_ended_may_have_been_first_unless_the_job_tidied_up(
    sent: dict[str, Any] | None, strength: str
) -> None:
    scene = job()
    scene.fork(301, HELPER, comm="child")
    if sent is not None:
        scene.signal(301, 11, **sent)
    scene.exit(301, 11)
    scene.pass_time(90 * NS_PER_S)
    found = ended(scene, WORKERS[0], RANK, HELPER)

    assert ("exited", strength) == (found.cause, found.strength)
    assert (strength == "likely") == any("had ended by SIGSEGV before" in caveat for caveat in told(found))


def piece_of_a_mark(scene: Scene) -> None:
    scene.add(KernelStack(ts_ns=scene.now_ns, mark_ts_ns=scene.now_ns, tgid=500, frames=("oom_kill_process",)))


def sender_looked_at(scene: Scene) -> None:
    program = SeenProgram(tgid=7, start_ns=1, depth=0, comm="bash")
    scene.add(SenderSeen(ts_ns=scene.now_ns, source="proc", tgid=7, start_ns=1, line=(program,)))


def tmpfs_looked_at(scene: Scene) -> None:
    mounts = (TmpfsFill(mount_point="/dev/shm", size_bytes=64 * MIB, free_bytes=0),)
    scene.add(TmpfsSample(ts_ns=scene.now_ns, source="proc", tgid=RANK, signalled_tgid=500, mounts=mounts))


@pytest.mark.parametrize(
    "remain",
    [
        piece_of_a_mark,
        sender_looked_at,
        tmpfs_looked_at,
        lambda scene: scene.log_kill(500),
        lambda scene: scene.exit(500, 0),
        lambda scene: scene.signal(500, 9, **OUTSIDE),
    ],
    ids=["stack", "sender", "tmpfs", "log", "exit", "signal"],
)
def test_what_is_left_of_another_process_says_that_records_are_missing(remain: Callable[[Scene], object]) -> None:
    scene = job()
    remain(scene)
    found = ended(scene, WORKERS[0], RANK, HELPER)

    assert ("exited", "likely") == (found.cause, found.strength)


@pytest.mark.parametrize(
    ("sender", "victim", "strength"),
    [(LAUNCHER, RANK, "likely"), (RANK, WORKERS[0], "likely"), (LAUNCHER, HELPER, "proved")],
)
def test_why_the_training_ended_its_own_is_a_failure_that_was_not_seen(sender: int, victim: int, strength: str) -> None:
    scene = job()
    scene.signal(victim, 9, **by(sender))
    scene.exit(victim, 9)
    found = ended(scene, *({WORKERS[0], RANK, HELPER} - {victim}))

    assert ("sigkill", strength) == (found.cause, found.strength)
    assert (strength == "likely") == any("ended it was not seen" in caveat for caveat in told(found))


def test_what_somebody_else_did_needs_no_others_to_be_proved() -> None:
    scene = job()
    scene.signal(RANK, 9, **OUTSIDE)
    scene.exit(RANK, 9)

    assert "proved" == ended(scene).strength
    killed = job()
    killed.kill(WORKERS[0])
    assert "proved" == ended(killed).strength


HAD_FAILED = "had exited by itself with status 1"


def had_failed(scene: Scene) -> list[str]:
    return [caveat for caveat in primary(judge(scene.finish())).caveats if HAD_FAILED in caveat]


@pytest.mark.parametrize("oom", [True, False])
def test_a_failure_before_what_was_done_to_the_job_is_told_beside_it(*, oom: bool) -> None:
    scene = job()
    scene.exit(RANK, 1 << 8)
    scene.pass_time(2 * NS_PER_S)
    if oom:
        scene.kill(WORKERS[0])
    else:
        scene.signal(WORKERS[0], 9, **OUTSIDE)
        scene.exit(WORKERS[0], 9)

    assert [f"2.0 s before, rank 0 (pid {RANK}) {HAD_FAILED}."] == had_failed(scene)


@pytest.mark.parametrize(("pid", "status"), [(RANK, 0), (HELPER, 1 << 8)])
def test_what_ended_well_or_has_no_part_in_the_training_had_not_failed_before(pid: int, status: int) -> None:
    scene = job()
    scene.exit(pid, status)
    scene.pass_time(2 * NS_PER_S)
    scene.signal(WORKERS[0], 9, **OUTSIDE)
    scene.exit(WORKERS[0], 9)

    assert [] == had_failed(scene)


def test_what_failed_afterwards_had_not_failed_before() -> None:
    scene = job()
    scene.signal(WORKERS[0], 9, **OUTSIDE)
    scene.exit(WORKERS[0], 9)
    scene.exit(RANK, 1 << 8)

    assert [] == had_failed(scene)

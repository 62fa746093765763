# SPDX-License-Identifier: Apache-2.0
"""A job that ended by itself, or whose end was not seen: what may be said of kills it did not have."""

import pytest

from tests.unit.verdict.scenes import LAUNCHER, RANK, T0, WORKERS, Scene, primary, start_of, without
from tracer.events import JobEnded, JobStarted, Losses, ProcessGone
from tracer.units import NS_PER_S
from tracer.verdict.incident import Case
from tracer.verdict.judge import judge
from tracer.verdict.model import Incident
from tracer.verdict.rules import exited
from tracer.verdict.story import Story


def job(*, workers: bool = True) -> Scene:
    scene = Scene()
    if workers:
        scene.job()
    else:
        scene.begin()
    scene.pass_time(20 * NS_PER_S)
    return scene


def end(scene: Scene, status: int = 0) -> Incident:
    return primary(judge(scene.finish(status)))


def told(found: Incident) -> list[tuple[int, str]]:
    return [(link.link, link.status) for link in found.proof]


def test_a_plain_end_is_proved_by_four_links() -> None:
    found = end(job(), 3 << 8)

    assert [(1, "present"), (2, "present"), (3, "present"), (4, "present")] == told(found)
    assert ("The job exited with status 3", 3, ()) == (
        found.headline,
        found.exit_code,
        found.victims,
    )
    assert ("exit with status 3, not by a signal", "its parent's wait agrees") == (
        found.proof[0].statement,
        found.proof[3].statement,
    )
    assert found.summary == (
        f"Launcher (pid {LAUNCHER}) exited with status 3 by itself; "
        "the kernel killed nothing of the job (6 processes) for want of memory."
    )
    assert found.proof[3].evidence
    assert 2 == len(found.proof[0].evidence)


def test_a_job_that_ended_well_is_called_the_job() -> None:
    found = end(job())

    assert ("The job exited with status 0", 0, "proved") == (found.headline, found.exit_code, found.strength)


def test_a_job_that_a_signal_ended_has_no_exit_code() -> None:
    case = Case(Story(job().finish(11)))
    found = exited.find(case)

    assert ("end", "The job ended by signal 11 (SIGSEGV)", None) == (
        found.kind,
        found.incident.headline,
        found.incident.exit_code,
    )
    link = found.incident.proof[0]
    assert (1, "it ended", "present", "signal 11 (SIGSEGV)") == (link.link, link.name, link.status, link.statement)


def killed(*pids: int) -> Incident:
    """What is said of the job's own end beside kills of these, whether or not it is what is told first."""
    scene = job()
    for pid in pids:
        scene.kill(pid)
    return exited.find(Case(Story(scene.finish(0)))).incident


def test_a_job_of_one_process_has_no_count_of_them() -> None:
    pair = job(workers=False)
    pair.fork(RANK, LAUNCHER)

    assert "nothing of the job for want" in end(job(workers=False)).summary
    assert "nothing of the job (2 processes) for want" in end(pair).summary


@pytest.mark.parametrize(("status", "killed", "looks"), [(137, False, True), (137, True, False), (136, False, False)])
def test_a_status_that_looks_like_a_sigkill_is_explained_where_there_was_none(
    status: int, killed: bool, looks: bool
) -> None:
    scene = job()
    scene.exit(RANK, 0)
    if killed:
        by_rank = {"sender_tgid": RANK, "sender_tid": RANK, "sender_start_ns": start_of(RANK)}
        scene.fork(400, RANK)
        scene.signal(400, 9, **by_rank)
        scene.exit(400, 9)

    assert looks == ("shows a death by SIGKILL like that" in end(scene, status << 8).summary)


def test_a_rank_that_failed_is_told_as_itself() -> None:
    scene = job()
    scene.exit(RANK, 5 << 8)
    found = end(scene, 1 << 8)

    assert ("Rank 0 (pid 41210) exited with status 5", 5) == (found.headline, found.exit_code)
    assert (4, "present") == told(found)[3]
    assert "seen by the kernel" == found.proof[3].statement
    assert 1 == len(found.proof[3].evidence)


def test_kills_of_the_job_stand_against_its_plain_end() -> None:
    found = killed(*WORKERS[:2])

    assert ((2, "absent"), "possible") == (told(found)[1], found.strength)
    assert "the kernel killed 2 processes of the job for want of memory" == found.proof[1].statement
    assert found.summary.endswith("exited with status 0; 2 of the job's processes had been killed.")
    assert killed(WORKERS[0]).proof[1].evidence == found.proof[1].evidence


def killed_before(*pids: int) -> Incident:
    """A finding about the job's own end, beside kills of these."""
    scene = job()
    for pid in pids:
        scene.oom_signal(pid, pid, in_tree=0)
        scene.stack(scene.mark(pid, pid))
        scene.exit(pid, 9, oom_marked=1, in_tree=0)
        scene.pass_time(5 * NS_PER_S)
    return end(scene)


def test_kills_of_strangers_are_none_of_the_job() -> None:
    found = killed_before(500, 501)

    assert ("exited", (2, "present")) == (found.cause, told(found)[1])
    assert "killed nothing of the job" in found.summary


def test_a_loss_makes_the_end_uncertain() -> None:
    scene = job()
    losses = Losses(ts_ns=scene.now_ns + 2 * NS_PER_S, dropped={"x": 1})
    found = primary(judge(scene.finish(0, losses=losses)))

    assert ((2, "not_observed"), "likely") == (told(found)[1], found.strength)
    assert "not certain: 1 kernel records were lost near it" == found.proof[1].statement
    assert found.summary.endswith("exited with status 0; that nothing of the job was killed is not certain.")


def test_losses_of_before_the_job_are_none_in_it() -> None:
    scene = job()
    lost = {"dropped": {"x": 1}}
    scene.add(Losses(ts_ns=T0 - 60 * NS_PER_S, **lost))  # type: ignore[arg-type]
    losses = Losses(ts_ns=scene.now_ns + 2 * NS_PER_S, **lost)  # type: ignore[arg-type]

    assert "proved" == primary(judge(scene.finish(0, losses=losses))).strength


def test_a_wait_that_contradicts_makes_the_status_doubtful() -> None:
    scene = job()
    scene.exit(LAUNCHER, 0)
    scene.add(JobEnded(ts_ns=scene.now_ns, source="job", tgid=LAUNCHER, start_ns=start_of(LAUNCHER), status=1 << 8))
    found = primary(judge(scene.finish(root_exit=False)))

    assert ((4, "absent"), "possible") == (told(found)[3], found.strength)
    assert "its parent's wait says otherwise (0x100)" == found.proof[3].statement


def test_an_end_that_only_the_parent_saw_is_an_end() -> None:
    scene = job()
    done = JobEnded(ts_ns=scene.now_ns, source="job", tgid=LAUNCHER, start_ns=start_of(LAUNCHER), status=0)
    scene.add(done)
    found = primary(judge(scene.finish(root_exit=False)))

    assert ("exited", (4, "present"), (2, "not_observed")) == (found.cause, told(found)[3], told(found)[1])
    assert "OOM kills were not watched from start to end" == found.proof[1].statement


@pytest.mark.parametrize(
    ("gone", "words"),
    [(True, "it vanished, and its exit was not seen"), (False, "it was still running when the recording ended")],
)
def test_an_end_that_was_not_seen_is_inconclusive(gone: bool, words: str) -> None:
    scene = job()
    if gone:
        scene.add(ProcessGone(ts_ns=scene.now_ns, tgid=LAUNCHER, start_ns=start_of(LAUNCHER)))
    found = primary(judge(scene.finish(root_exit=False)))

    assert ("inconclusive", "possible", words) == (found.cause, found.strength, found.proof[0].statement)
    assert f"Launcher (pid {LAUNCHER}): {words}." == found.summary
    assert [(4, "not_observed")] == told(found)
    assert found.victim is not None
    assert "2026-09-21T14:13:41.106000Z" == found.at


def test_a_recording_without_a_job_says_so() -> None:
    found = primary(judge(without(job().finish(), JobStarted)))

    assert "The job: the recording does not say what the job was." == found.summary
    assert found.victim is None
    assert primary(judge([])).at is None
    assert () == exited.find(Case(Story([]))).ids

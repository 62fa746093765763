# SPDX-License-Identifier: Apache-2.0
"""A Slurm job that oomtrace attached to ends as its script or its tasks do; and what of a job is mere tidying up."""

from typing import Any

import pytest

from tests.unit.verdict.scenes import LAUNCHER, RANK, WORKERS, Scene, primary, start_of
from tracer.events import Header, HookStatus, JobStarted, ProcessExeced
from tracer.units import NS_PER_S
from tracer.verdict.judge import judge
from tracer.verdict.model import Report

EXTERN, SLEEP, BATCH, SCRIPT, STEP = 400, 401, 410, 411, 420
TASKS = (421, 422)
HELPER = 500
FAILED = 1 << 8
TERM, KILL = 15, 9


def by(pid: int) -> dict[str, int]:
    return {"sender_tgid": pid, "sender_tid": pid, "sender_start_ns": start_of(pid)}


def slurm(*, script: bool = True) -> Scene:
    """Three steps as a real job has them: for logins, for its script, and one of two tasks."""
    scene = Scene()
    scene.add(Header(ts_ns=scene.now_ns, version="1", pid=99, realtime_ns=NS_PER_S, boottime_ns=scene.now_ns))
    for hook in ("mark_victim", "signal_generate", "sched_process_fork", "sched_process_exec", "sched_process_exit"):
        scene.add(HookStatus(ts_ns=scene.now_ns, hook=f"raw_tracepoint:{hook}", attached=True))
    daemon(scene, EXTERN, "extern", {SLEEP: "sleep"})
    if script:
        daemon(scene, BATCH, "batch", {SCRIPT: "slurm_script"})
    daemon(scene, STEP, "0", dict.fromkeys(TASKS, "python3"))
    return scene


def daemon(scene: Scene, pid: int, step: str, below: dict[int, str]) -> None:
    cgroup = f"/slurm/uid_0/job_7/step_{step}"
    scene.add(
        JobStarted(
            ts_ns=scene.now_ns, source="proc", tgid=pid, start_ns=start_of(pid) // 10_000_000 * 10_000_000,
            cgroup=cgroup, attached=True,
        )
    )  # fmt: skip
    scene.seen(pid, 1, "slurmstepd", None, cmdline=(f"slurmstepd: [7.{step}]",), cgroup=cgroup)
    for child, comm in below.items():
        scene.fork(child, pid, "slurmstepd")
        scene.add(
            ProcessExeced(ts_ns=scene.now_ns, cpu=0, start_ns=start_of(child), tgid=child, old_tid=child, comm=comm)
        )
        scene.seen(child, pid, comm, {}, cmdline=(comm,), cgroup=f"{cgroup}/task_0")


def struck(scene: Scene, pid: int, sender: int, number: int = TERM) -> None:
    scene.signal(pid, number, **by(sender), sender_comm="slurmstepd")
    scene.pass_time(1000)
    scene.exit(pid, number)


def over(scene: Scene) -> Report:
    """Every step has ended, and its daemon with 0."""
    struck(scene, SLEEP, EXTERN, KILL)
    for pid in (EXTERN, BATCH, STEP):
        scene.exit(pid, 0, comm="slurmstepd")
    return judge(scene.events)


def job_of(report: Report) -> str | None:
    return report.verdict.job.status if report.verdict.job is not None else None


def told(report: Report) -> tuple[str, int | None]:
    incident = primary(report)
    return incident.cause, incident.victim.pid if incident.victim is not None else None


def test_a_job_that_was_cancelled_did_not_end_well() -> None:
    scene = slurm()
    for pid in (SCRIPT, *TASKS):
        struck(scene, pid, BATCH if pid == SCRIPT else STEP)
    report = over(scene)

    assert ("sigterm", SCRIPT) == told(report)
    assert "Ended by SIGTERM from slurmstepd (pid 410)" == primary(report).headline
    assert "signal 15 (SIGTERM)" == job_of(report)


@pytest.mark.parametrize(("status", "told_as"), [(0, "exit 0"), (3 << 8, "exit 3")])
def test_a_job_ends_as_its_script_does_whatever_its_tasks_did(status: int, told_as: str) -> None:
    scene = slurm()
    scene.exit(TASKS[0], FAILED)
    scene.exit(TASKS[1], 0)
    scene.pass_time(NS_PER_S)
    scene.exit(SCRIPT, status)

    assert told_as == job_of(over(scene))


def test_without_a_script_it_ends_as_the_first_task_that_failed() -> None:
    scene = slurm(script=False)
    scene.exit(TASKS[1], FAILED)
    scene.exit(TASKS[0], 0)
    report = over(scene)

    assert "exit 1" == job_of(report)
    assert ("exited", TASKS[1]) == told(report)


def test_while_a_task_runs_nothing_is_said_of_the_jobs_end_but_what_its_daemon_did() -> None:
    scene = slurm(script=False)
    scene.exit(TASKS[1], FAILED)

    assert "running" == job_of(judge(scene.events))


def test_the_step_for_logins_that_is_killed_at_the_end_is_no_failure() -> None:
    scene = slurm()
    for pid in (*TASKS, SCRIPT):
        scene.exit(pid, 0)
    report = over(scene)

    assert ("exited", SCRIPT) == told(report)
    assert "exit 0" == job_of(report)


def test_without_a_script_the_step_for_logins_is_not_what_the_job_ended_as() -> None:
    scene = slurm(script=False)
    for pid in TASKS:
        scene.exit(pid, 0)

    assert "exit 0" == job_of(over(scene))


def test_a_job_whose_own_program_is_called_slurmstepd_by_nobody_ends_as_itself() -> None:
    scene = Scene()
    scene.job()
    scene.exit(LAUNCHER, FAILED)

    assert "exit 1" == job_of(judge(scene.events))


def survived(status: int, **sent: Any) -> Scene:
    """One worker was killed; the rank then ends another, and ends with `status`."""
    scene = Scene()
    scene.job()
    scene.fork(HELPER, LAUNCHER, comm="helper")
    scene.kill(WORKERS[2])
    scene.pass_time(NS_PER_S)
    for pid in (WORKERS[0], HELPER):
        scene.signal(pid, TERM, **(sent or by(RANK)))
        scene.pass_time(1000)
        scene.exit(pid, TERM)
    scene.pass_time(1000)
    scene.exit(RANK, status)
    scene.pass_time(1000)
    return scene


def collateral(scene: Scene, status: int) -> list[int]:
    scene.exit(LAUNCHER, status)
    return [one.pid for one in primary(judge(scene.events)).collateral]


def test_what_a_rank_that_ended_well_does_with_its_workers_is_no_collateral() -> None:
    assert [LAUNCHER] == collateral(survived(0), FAILED)


def test_what_a_rank_that_fails_does_with_its_workers_is_collateral() -> None:
    assert [WORKERS[0], HELPER, RANK, LAUNCHER] == collateral(survived(FAILED), FAILED)


def test_whom_a_launcher_ends_is_collateral_though_it_goes_on_and_ends_well() -> None:
    assert [WORKERS[0], RANK] == collateral(survived(FAILED, **by(LAUNCHER)), 0)


def test_who_ends_itself_after_a_kill_is_said_to_have_done_that() -> None:
    scene = Scene()
    scene.job()
    scene.kill(WORKERS[2])
    scene.signal(RANK, KILL)
    scene.exit(RANK, KILL)
    scene.exit(LAUNCHER, FAILED)
    told_of = [one.how for one in primary(judge(scene.events)).collateral]

    assert any(how.startswith("rank 0: signal 9 (SIGKILL) from itself") for how in told_of)

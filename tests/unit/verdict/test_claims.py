# SPDX-License-Identifier: Apache-2.0
"""Nothing is claimed that another witness speaks against, or that was not watched for as long as the claim reaches."""

import msgspec
import pytest

from tests.unit.verdict.scenes import HOOKS, LAUNCHER, RANK, WORKERS, Scene, changed, primary, start_of
from tracer.events import Header, JobEnded, Losses, ProcessExited, SignalInfo
from tracer.units import MIB, NO_LIMIT_BYTES, NS_PER_MS, NS_PER_S
from tracer.verdict.judge import judge
from tracer.verdict.model import Incident

OUTSIDE = {"sender_tgid": 7, "sender_tid": 7, "sender_start_ns": 1}


def quiet_end(scene: Scene, **lost: object) -> Incident:
    """The job goes on for an hour and exits 0."""
    scene.pass_time(3600 * NS_PER_S)
    losses = Losses(ts_ns=scene.now_ns + 2 * NS_PER_S, source="tracer", **lost)  # type: ignore[arg-type]
    return primary(judge(scene.finish(0, losses=losses)))


@pytest.mark.parametrize("lost", [{"dropped": {"oom_mark": 1}}, {"untracked": 500}, {"unknown": 1}, {"short": 1}])
def test_a_loss_at_any_time_forbids_to_prove_that_nothing_was_killed(lost: dict[str, object]) -> None:
    scene = Scene()
    scene.job()
    scene.pass_time(60 * NS_PER_S)
    scene.add(Losses(ts_ns=scene.now_ns, source="tracer", **lost))  # type: ignore[arg-type]
    incident = quiet_end(scene, **lost)

    assert ("exited", "likely") == (incident.cause, incident.strength)
    assert "not_observed" == incident.proof[1].status
    assert "killed nothing" not in incident.summary


def test_without_the_fork_hook_nothing_is_said_of_the_whole_job() -> None:
    scene = Scene()
    scene.begin(hooks=[hook for hook in HOOKS if hook != "sched_process_fork"])
    incident = quiet_end(scene)

    assert ("exited", "not_observed") == (incident.cause, incident.proof[1].status)
    assert "proved" != incident.strength


def test_a_trusted_log_line_speaks_against_an_exit_without_kills() -> None:
    scene = Scene()
    scene.job()
    scene.log_kill(WORKERS[2])
    scene.exit(WORKERS[2], 9)

    assert "proved" != quiet_end(scene).strength


def test_the_cgroups_own_counter_speaks_against_an_exit_without_kills() -> None:
    scene = Scene()
    scene.job()
    scene.cgroup_sample(77, "/oomtrace/run-7f3", oom_kill=0)
    scene.pass_time(NS_PER_S)
    scene.cgroup_sample(77, "/oomtrace/run-7f3", oom_kill=1)
    incident = quiet_end(scene)

    assert "proved" != incident.strength
    assert "counted 1 OOM kill in the job's cgroup, and 0 were seen" in incident.proof[1].statement


def test_a_counter_that_the_kills_explain_is_no_doubt() -> None:
    scene = Scene()
    scene.job()
    scene.kill()
    scene.cgroup_sample(77, "/oomtrace/run-7f3", oom_kill=1)

    assert "proved" == primary(judge(scene.finish())).strength


def test_a_marked_exit_whose_mark_was_not_seen_is_not_nothing() -> None:
    scene = Scene()
    scene.job()
    scene.exit(WORKERS[2], 9, oom_marked=1)

    assert "proved" != quiet_end(scene).strength


def test_a_shell_that_repeats_a_childs_sigkill_failed_of_it() -> None:
    scene = Scene()
    scene.begin()
    scene.fork(RANK, LAUNCHER)
    scene.signal(RANK, 9, **OUTSIDE)
    scene.exit(RANK, 9)
    incident = primary(judge(scene.finish(137 << 8)))

    assert "sigkill" == incident.cause
    assert incident.victim is not None
    assert RANK == incident.victim.pid


def test_a_signal_that_was_handled_long_before_did_not_end_it() -> None:
    scene = Scene()
    scene.begin()
    scene.signal(LAUNCHER, 15, **OUTSIDE, sender_comm="handled")
    scene.pass_time(3600 * NS_PER_S)
    scene.signal(LAUNCHER, 15, **OUTSIDE, sender_comm="fatal")
    incident = primary(judge(scene.finish(15)))

    assert incident.sender is not None
    assert "fatal" == incident.sender.comm


@pytest.mark.parametrize(("code", "self_sent"), [(-2, False), (-4, False), (-60, False), (128, True)])
def test_a_code_that_does_not_name_its_sender_names_none(code: int, self_sent: bool) -> None:
    scene = Scene()
    scene.begin()
    scene.signal(LAUNCHER, 9, code=code, sender_comm="innocent", **({} if self_sent else OUTSIDE))
    incident = primary(judge(scene.finish(9)))

    assert ("inconclusive", "possible", None) == (incident.cause, incident.strength, incident.sender)
    assert "innocent" not in incident.headline + incident.summary + incident.proof[0].statement


def test_a_signal_that_waited_for_the_parents_death_is_not_from_the_parent() -> None:
    scene = Scene()
    scene.job()
    scene.kill(RANK)
    scene.signal(
        WORKERS[0],
        info=SignalInfo.NOINFO,
        sender_tgid=RANK,
        sender_tid=RANK,
        sender_start_ns=start_of(RANK),
        sender_flags=4,
    )
    scene.exit(WORKERS[0], 9)
    report = judge(scene.finish())

    assert all("from rank" not in c.how for c in primary(report).collateral)
    assert any(c.pid == WORKERS[0] for c in primary(report).collateral)


@pytest.mark.parametrize("fields", [{"own_pid_namespace": True}, {}])
def test_where_the_kernel_does_not_follow_the_job_no_word_about_kills_is_said(fields: dict[str, bool]) -> None:
    scene = Scene()
    scene.begin()
    scene.oom_signal(4242, 4242, in_tree=0)
    mark = scene.mark(4242, 4242, comm="python3")
    scene.levels(mark)
    scene.stack(mark)
    scene.exit(4242, 9, oom_marked=1, in_tree=0)
    # As in a namespace: the kernel's records are of other pids or start times, only waitpid speaks of the job.
    events = [e for e in scene.finish(0) if not (isinstance(e, ProcessExited) and e.tgid == LAUNCHER)]
    events = changed(events, Header, **fields)
    incident = primary(judge([msgspec.structs.replace(e, seq=n) for n, e in enumerate(events)]))

    assert "proved" != incident.strength
    assert "not_observed" == incident.proof[1].status
    assert "killed nothing" not in incident.summary


def test_a_sender_is_called_what_it_was_called_when_it_sent() -> None:
    scene = Scene()
    scene.job()
    scene.fork(300, LAUNCHER, comm="killer")
    scene.signal(LAUNCHER, 15, sender_tgid=300, sender_tid=300, sender_start_ns=start_of(300), sender_comm="killer")
    scene.fork(300, LAUNCHER, comm="sleep")
    incident = primary(judge(scene.finish(15)))

    assert "'killer'" in incident.headline


def test_a_handler_that_sends_itself_the_signal_again_is_not_its_sender() -> None:
    scene = Scene()
    scene.begin()
    scene.signal(LAUNCHER, 15, sender_comm="timeout", **OUTSIDE)
    scene.pass_time(3 * NS_PER_MS)
    scene.signal(LAUNCHER, 15, code=-6)
    incident = primary(judge(scene.finish(15)))

    assert incident.sender is not None
    assert ("timeout", "outside") == (incident.sender.comm, incident.sender.kind)


def test_one_blow_to_a_group_is_told_of_the_uppermost() -> None:
    scene = Scene()
    scene.job()
    by_root = {"sender_tgid": LAUNCHER, "sender_tid": LAUNCHER, "sender_start_ns": start_of(LAUNCHER)}
    for pid in (WORKERS[3], WORKERS[0], RANK):
        scene.signal(pid, 15, sender_comm="timeout", **by_root)
        scene.exit(pid, 15)
    incident = primary(judge(scene.finish(124 << 8)))

    assert incident.victim is not None
    assert ("sigterm", RANK) == (incident.cause, incident.victim.pid)


def test_a_rank_that_failed_by_itself_comes_before_what_the_launcher_did() -> None:
    scene = Scene()
    scene.job()
    scene.exit(RANK, 1 << 8)
    by_root = {"sender_tgid": LAUNCHER, "sender_tid": LAUNCHER, "sender_start_ns": start_of(LAUNCHER)}
    scene.signal(WORKERS[0], 15, **by_root)
    scene.exit(WORKERS[0], 15)
    report = judge(scene.finish())

    assert ("exited", 1) == (primary(report).cause, primary(report).exit_code)
    assert primary(report).headline.startswith("Rank 0")
    assert {WORKERS[0], LAUNCHER} == {c.pid for c in primary(report).collateral}


def test_a_wrapper_that_kills_a_worker_is_what_failed_the_job() -> None:
    scene = Scene()
    scene.job()
    scene.fork(300, LAUNCHER, comm="watchdog")
    scene.signal(WORKERS[0], 9, sender_tgid=300, sender_tid=300, sender_start_ns=start_of(300), sender_comm="watchdog")
    scene.exit(WORKERS[0], 9)
    scene.exit(RANK, 1 << 8)
    incident = primary(judge(scene.finish()))

    assert incident.sender is not None
    assert ("sigkill", "job", "watchdog") == (incident.cause, incident.sender.kind, incident.sender.comm)


@pytest.mark.parametrize(("code", "kind"), [(0, "outside"), (-1, "outside"), (-6, "outside")])
def test_codes_of_kill_sigqueue_and_tgkill_name_their_sender(code: int, kind: str) -> None:
    scene = Scene()
    scene.begin()
    scene.signal(LAUNCHER, 9, code=code, sender_comm="bash", **OUTSIDE)
    incident = primary(judge(scene.finish(9)))

    assert incident.sender is not None
    assert ("bash", kind, "proved") == (incident.sender.comm, incident.sender.kind, incident.strength)


def test_an_old_count_of_a_level_far_below_its_limit_makes_it_no_owner() -> None:
    scene = Scene()
    scene.job()
    scene.oom_signal(WORKERS[2], WORKERS[2])
    mark = scene.mark(WORKERS[2], WORKERS[2])
    for depth, (name, cgroup_id, usage, limit, oom) in enumerate(
        (("run-7f3", 77, 100, 512, 3), ("slice", 5, 256, 256, 4), ("", 1, 300, None, 0))
    ):
        scene.level(
            mark,
            depth,
            name=name,
            cgroup_id=cgroup_id,
            usage_bytes=usage * MIB,
            limit_bytes=NO_LIMIT_BYTES if limit is None else limit * MIB,
            events_local_oom=oom,
        )
    scene.stack(mark)
    scene.exit(WORKERS[2], 9, oom_marked=1)
    incident = primary(judge(scene.finish()))

    assert ("not_observed", "likely") == (incident.proof[1].status, incident.strength)


def test_a_log_that_names_a_limit_elsewhere_is_heard() -> None:
    scene = Scene()
    scene.job()
    scene.kill()
    scene.log_decision(WORKERS[2], oom_memcg="/somewhere/else")
    incident = primary(judge(scene.finish()))

    assert "likely" == incident.strength
    assert any("/somewhere/else" in caveat for caveat in incident.caveats)


def test_a_second_victim_that_did_not_die_of_it_is_not_said_to_have() -> None:
    scene = Scene()
    scene.job()
    scene.kill()
    scene.kill(WORKERS[1], status=0)
    incident = primary(judge(scene.finish()))

    assert "more died" not in incident.summary
    assert any("not seen to die of it" in caveat for caveat in incident.caveats)


def test_a_wait_status_that_contradicts_is_not_said_to_agree() -> None:
    scene = Scene()
    scene.begin()
    scene.kill(LAUNCHER)
    ended = JobEnded(ts_ns=scene.now_ns, source="job", tgid=LAUNCHER, start_ns=start_of(LAUNCHER), status=0)
    scene.add(ended)

    assert "proved" != primary(judge(scene.finish(root_exit=False))).strength


def test_workers_have_no_numbers_where_forks_were_lost() -> None:
    scene = Scene()
    scene.job()
    scene.add(Losses(ts_ns=scene.now_ns, dropped={"process_forked": 1}))
    scene.pass_time(60 * NS_PER_S)
    scene.kill()
    losses = Losses(ts_ns=scene.now_ns + 2 * NS_PER_S, dropped={"process_forked": 1})
    victim = primary(judge(scene.finish(losses=losses))).victim

    assert victim is not None
    assert ("dataloader_worker", None) == (victim.role, victim.worker)


def test_a_helpers_kill_an_hour_before_is_not_why_the_job_was_killed_from_outside() -> None:
    scene = Scene()
    scene.job()
    scene.fork(300, LAUNCHER, comm="helper")
    scene.kill(300, comm="helper")
    scene.pass_time(3600 * NS_PER_S)
    scene.signal(LAUNCHER, 9, **OUTSIDE)
    report = judge(scene.finish(9))

    assert "sigkill" == primary(report).cause
    assert ["host_oom_cgroup", "sigkill"] == [i.cause for i in report.verdict.incidents]


def test_a_pause_between_forks_may_be_another_loader() -> None:
    scene = Scene()
    scene.job()
    scene.pass_time(150 * NS_PER_MS)
    scene.fork(600, RANK, comm="pt_data_worker")
    scene.kill(600)
    victim = primary(judge(scene.finish())).victim

    assert victim is not None
    assert victim.worker is None

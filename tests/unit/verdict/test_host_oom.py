# SPDX-License-Identifier: Apache-2.0
"""When a death is a kill for want of memory, when it is not, and how sure that is."""

import msgspec
import pytest

from tests.unit.verdict.scenes import (
    DYING_STACK,
    HOOKS,
    LAUNCHER,
    RANK,
    WORKERS,
    Scene,
    identity,
    primary,
    start_of,
    statuses,
    without,
    worker_killed,
)
from tracer.events import Losses, SignalInfo, SignalSent
from tracer.units import MIB, NS_PER_MS, NS_PER_S
from tracer.verdict.judge import judge


def test_a_worker_killed_at_its_cgroup_limit_is_proved() -> None:
    incident = primary(judge(worker_killed()))

    assert ("host_oom_cgroup", "proved") == (incident.cause, incident.strength)
    assert ["present"] * 4 + ["not_observed"] == statuses(incident)
    assert incident.victim is not None
    assert (WORKERS[2], "dataloader_worker", 0, 2) == (
        incident.victim.pid,
        incident.victim.role,
        incident.victim.rank,
        incident.victim.worker,
    )
    assert incident.limit is not None
    assert ("/run-7f3", 512 * MIB) == (incident.limit.cgroup, incident.limit.limit_bytes)
    assert incident.culprit is not None
    assert incident.culprit.pid == WORKERS[2]
    assert incident.mechanism is None


def test_what_went_down_with_it_is_collateral_and_no_incident() -> None:
    report = judge(worker_killed())

    assert len(report.verdict.incidents) == 1
    assert [RANK, LAUNCHER] == [c.pid for c in primary(report).collateral]


def test_a_mark_of_a_dying_process_is_not_a_kill() -> None:
    scene = Scene()
    scene.job()
    scene.signal(WORKERS[0], 9, sender_tgid=7, sender_tid=7, sender_start_ns=1, sender_comm="bash")
    scene.pass_time(NS_PER_MS)
    mark = scene.mark(WORKERS[0], WORKERS[1])
    scene.levels(mark)
    scene.stack(mark, DYING_STACK)
    scene.pass_time(NS_PER_S)
    scene.exit(WORKERS[0], 9, oom_marked=1)
    scene.exit(RANK, 1 << 8)
    report = judge(scene.finish())

    incident = primary(report)
    assert ("sigkill", "proved") == (incident.cause, incident.strength)
    assert incident.sender is not None
    assert ("bash", "outside") == (incident.sender.comm, incident.sender.kind)
    assert any("already dying" in caveat for caveat in incident.caveats)
    assert [e.kind for e in report.timeline if e.kind == "mark"] == ["mark"]


def test_a_kill_of_a_process_that_had_a_sigkill_already_is_not_its_cause() -> None:
    scene = Scene()
    scene.job()
    scene.signal(WORKERS[0], 9, sender_tgid=7, sender_tid=7, sender_start_ns=1)
    scene.oom_signal(WORKERS[0], WORKERS[0], result=2)
    mark = scene.mark(WORKERS[0], WORKERS[0])
    scene.levels(mark)
    scene.stack(mark)
    scene.exit(WORKERS[0], 9, oom_marked=1)

    assert primary(judge(scene.finish())).cause == "sigkill"


def test_teardown_of_a_pid_namespace_is_not_an_oom_kill() -> None:
    scene = Scene()
    scene.job()
    scene.oom_signal(WORKERS[0], RANK)
    scene.exit(WORKERS[0], 9)
    incident = primary(judge(scene.finish()))

    assert "kernel_sigkill_other" == incident.cause
    assert incident.sender is not None
    assert incident.sender.kind == "kernel"


def test_a_signal_and_a_mark_of_different_contexts_are_no_bracket() -> None:
    scene = Scene()
    scene.job()
    scene.oom_signal(WORKERS[0], RANK)
    mark = scene.mark(WORKERS[0], WORKERS[1])
    scene.levels(mark)
    scene.stack(mark)
    scene.exit(WORKERS[0], 9, oom_marked=1)

    incident = primary(judge(scene.finish()))
    assert incident.strength != "proved"
    assert statuses(incident)[0] == "not_observed"


def test_a_signal_on_another_cpu_is_no_bracket() -> None:
    events = [
        msgspec.structs.replace(e, cpu=0) if isinstance(e, SignalSent) and e.info == SignalInfo.PRIV else e
        for e in worker_killed()
    ]

    assert statuses(primary(judge(events)))[0] == "not_observed"


def test_exit_before_the_mark_is_still_proved() -> None:
    scene = Scene()
    scene.job()
    scene.grow()
    victim = WORKERS[2]
    scene.oom_signal(victim, RANK)
    scene.pass_time(10_000)
    scene.exit(victim, 9, oom_marked=1)
    scene.pass_time(20_000)
    mark = scene.mark(victim, RANK)
    scene.levels(mark)
    scene.stack(mark)

    assert primary(judge(scene.finish())).strength == "proved"


def test_exit_before_the_kills_signal_is_never_proved() -> None:
    scene = Scene()
    scene.job()
    scene.exit(WORKERS[2], 9)
    scene.pass_time(NS_PER_MS)
    scene.oom_signal(WORKERS[2], RANK)
    mark = scene.mark(WORKERS[2], RANK)
    scene.levels(mark)
    scene.stack(mark)

    assert all(i.strength != "proved" or i.cause == "exited" for i in judge(scene.finish()).verdict.incidents)


def test_a_victim_that_exits_by_itself_is_never_proved() -> None:
    scene = Scene()
    scene.job()
    scene.oom_signal(WORKERS[2], RANK)
    mark = scene.mark(WORKERS[2], RANK)
    scene.levels(mark)
    scene.stack(mark)
    scene.exit(WORKERS[2], 0, oom_marked=1)

    incident = next(i for i in judge(scene.finish()).verdict.incidents if i.cause == "host_oom_cgroup")
    assert ("absent", "possible") == (incident.proof[3].status, incident.strength)


def test_a_pid_that_was_reused_is_another_process() -> None:
    scene = Scene()
    scene.job()
    pid = WORKERS[2]
    later = start_of(pid) + 5 * NS_PER_S
    scene.exit(pid, 0)
    scene.pass_time(NS_PER_S)
    scene.oom_signal(pid, RANK, start_ns=later, in_tree=0)
    mark = scene.mark(pid, RANK, start_ns=later)
    scene.levels(mark)
    scene.stack(mark)
    scene.exit(pid, 9, start_ns=later, oom_marked=1, in_tree=0)
    report = judge(scene.finish(status=0))

    assert "exited" == primary(report).cause
    assert any(e.kind == "kill" and "whether it was of this job is not known" in e.text for e in report.timeline)


def test_a_victim_outside_the_job_is_no_incident_of_it() -> None:
    scene = Scene()
    scene.job()
    scene.oom_signal(999, 999, in_tree=0)
    mark = scene.mark(999, 999, comm="neighbour")
    scene.level(mark, 0, name="elsewhere", cgroup_id=5, events_local_oom=1)
    scene.stack(mark)
    scene.exit(999, 9, oom_marked=1, in_tree=0)
    report = judge(scene.finish(status=0))

    assert ("exited", "proved") == (primary(report).cause, primary(report).strength)
    assert any("'neighbour'" in caveat for caveat in report.verdict.caveats)


def test_group_members_are_victims_of_one_incident() -> None:
    frames = ("mark_oom_victim", "__oom_kill_process", "oom_kill_memcg_member", "mem_cgroup_scan_tasks",
              "oom_kill_process", "out_of_memory", "mem_cgroup_out_of_memory")  # fmt: skip
    scene = Scene()
    scene.job()
    scene.kill(WORKERS[0], RANK)
    for pid in (*WORKERS[1:], RANK):
        scene.kill(pid, RANK, frames)
    report = judge(scene.finish(root_exit=True))

    assert 1 == len(report.verdict.incidents)
    assert {*WORKERS, RANK} == {v.pid for v in primary(report).victims}
    assert primary(report).victim == primary(report).victims[0]


def test_two_kills_far_apart_are_two_incidents() -> None:
    scene = Scene()
    scene.job()
    scene.kill(WORKERS[0])
    scene.pass_time(30 * NS_PER_S)
    scene.kill(WORKERS[1])
    report = judge(scene.finish())

    assert [WORKERS[0], WORKERS[1]] == [i.victim.pid for i in report.verdict.incidents if i.victim]
    assert report.verdict.primary == 0


def test_a_sharer_of_the_victims_memory_is_a_victim_but_not_proved() -> None:
    scene = Scene()
    scene.job()
    scene.kill(WORKERS[0], WORKERS[1])
    scene.oom_signal(WORKERS[3], WORKERS[1])
    scene.exit(WORKERS[3], 9)
    report = judge(scene.finish())

    assert [WORKERS[0], WORKERS[3]] == [v.pid for v in primary(report).victims]
    assert primary(report).victim is not None
    assert primary(report).victim.pid == WORKERS[0]


def test_an_innocent_victim_is_said_to_be_one() -> None:
    scene = Scene()
    scene.job()
    scene.grow(grower=WORKERS[2])
    scene.kill(RANK, WORKERS[2])
    incident = primary(judge(scene.finish()))

    assert incident.victim is not None
    assert incident.culprit is not None
    assert incident.trigger is not None
    assert (RANK, WORKERS[2], WORKERS[2]) == (incident.victim.pid, incident.culprit.pid, incident.trigger.pid)
    assert any("another process that grew" in caveat for caveat in incident.caveats)


@pytest.mark.parametrize("field", ["dropped", "short", "unknown", "untracked"])
def test_any_loss_near_the_kill_forbids_a_proof(field: str) -> None:
    value = {"signal_sent": 1} if field == "dropped" else 1
    scene = Scene()
    scene.job()
    scene.grow()
    scene.kill()
    losses = Losses(ts_ns=scene.now_ns + NS_PER_S, **{field: value})  # type: ignore[arg-type]

    incident = primary(judge(scene.finish(losses=losses)))
    assert ("likely", 1) == (incident.strength, len(incident.caveats))


def test_a_loss_long_before_does_not_weaken_a_proof() -> None:
    scene = Scene()
    scene.job()
    scene.add(Losses(ts_ns=scene.now_ns, dropped={"process_exited": 3}))
    scene.pass_time(60 * NS_PER_S)
    scene.kill()
    losses = Losses(ts_ns=scene.now_ns + 2 * NS_PER_S, dropped={"process_exited": 3})

    assert primary(judge(scene.finish(losses=losses))).strength == "proved"


def test_a_recording_without_an_end_proves_nothing() -> None:
    assert primary(judge(worker_killed()[:-2])).strength == "likely"


def test_the_wait_status_counts_where_the_roots_exit_was_not_seen() -> None:
    scene = Scene()
    scene.begin()
    scene.oom_signal(LAUNCHER, LAUNCHER)
    mark = scene.mark(LAUNCHER, LAUNCHER)
    scene.levels(mark)
    scene.stack(mark)
    events = [e for e in scene.finish(status=9) if type(e).__name__ != "ProcessExited"]
    events = [msgspec.structs.replace(e, seq=n) for n, e in enumerate(events)]

    assert primary(judge(events)).proof[3].status == "present"


def test_without_bpf_the_kernels_log_makes_it_likely_at_most() -> None:
    scene = Scene()
    scene.begin(hooks=())
    scene.pass_time(NS_PER_S)
    scene.log_decision(LAUNCHER)
    scene.log_kill(LAUNCHER)
    incident = primary(judge(scene.finish(status=9)))

    assert ("host_oom_cgroup", "likely") == (incident.cause, incident.strength) or incident.strength == "possible"


def test_without_bpf_a_forged_log_line_makes_nothing() -> None:
    scene = Scene()
    scene.begin(hooks=())
    scene.log_kill(LAUNCHER, trusted=False)
    incident = primary(judge(scene.finish(status=9)))

    assert incident.cause == "inconclusive"


def test_while_bpf_watches_a_log_line_alone_makes_no_kill() -> None:
    scene = Scene()
    scene.job()
    scene.log_kill(WORKERS[0])
    scene.exit(WORKERS[0], 9)

    assert not any(i.cause.startswith("host_oom") for i in judge(scene.finish()).verdict.incidents)


def test_a_broken_line_of_forks_leaves_link_three_open() -> None:
    scene = Scene()
    scene.begin()
    scene.oom_signal(WORKERS[0], WORKERS[0])
    mark = scene.mark(WORKERS[0], WORKERS[0])
    scene.levels(mark)
    scene.stack(mark)
    scene.exit(WORKERS[0], 9, oom_marked=1)

    incident = primary(judge(scene.finish()))
    assert (identity(WORKERS[0]).tgid, "likely", "not_observed") == (
        incident.victim.pid if incident.victim else None,
        incident.strength,
        incident.proof[2].status,
    )


def test_a_kill_without_the_signal_hook_is_not_proved() -> None:
    events = without(worker_killed(), SignalSent)

    assert primary(judge(events)).strength == "likely"


def test_hooks_that_were_not_attached_are_said() -> None:
    scene = Scene()
    scene.begin(hooks=HOOKS[:1])
    report = judge(scene.finish(status=0))

    assert any("signal_generate" in caveat for caveat in report.verdict.caveats)
    assert primary(report).strength != "proved"


def test_of_many_victims_the_timeline_shows_the_first_and_counts_the_rest() -> None:
    scene = Scene()
    scene.begin()
    pids = range(50_000, 50_020)
    for pid in pids:
        scene.fork(pid, LAUNCHER)
    for pid in pids:
        scene.kill(pid, LAUNCHER)
    report = judge(scene.finish())
    kills = [entry for entry in report.timeline if entry.kind == "kill"]

    assert len(primary(report).victims) == 20
    assert [entry.who for entry in kills].count("14 more") == 1
    assert len(kills) == 7


def test_memory_of_what_began_after_the_kill_is_not_told_as_its_cause() -> None:
    scene = Scene()
    scene.job()
    scene.kill()
    scene.pass_time(NS_PER_MS)
    scene.fork(700, RANK)
    scene.sample(700, 900)
    report = judge(scene.finish())

    assert all(entry.pid != 700 for entry in report.timeline if entry.kind == "memory")

# SPDX-License-Identifier: Apache-2.0
"""OOM kills seen without the kernel's memory: never proved, never of the wrong process, and what is missing is said."""

import itertools

import msgspec
import pytest

from tests.unit.verdict.scenes import DYING_STACK, KILL_STACK, LAUNCHER, RANK, WORKERS, Scene, primary, start_of
from tracer.events import (
    CgroupSample,
    Header,
    HookStatus,
    KernelStack,
    LoggedKill,
    MarkedEnded,
    OomGlimpse,
    ProcessSeen,
)
from tracer.units import MIB, NS_PER_MS, NS_PER_S
from tracer.verdict.incident import strength
from tracer.verdict.judge import judge
from tracer.verdict.model import Link

VICTIM, TRIGGER = WORKERS[2], WORKERS[0]
BARE = ("mark_victim", "signal_generate", "sched_process_fork", "sched_process_exit")
LOCKED = "lockdown=confidentiality, so the kernel lets nobody read its memory"


class Bare(Scene):
    """What is recorded where the kernel lets nobody read its memory."""

    def job(self) -> None:
        self.begin(hooks=())
        self.items = [e for e in self.items if not isinstance(e, HookStatus)]
        self.items = [msgspec.structs.replace(e, seq=n) for n, e in enumerate(self.items)]
        self.add(HookStatus(ts_ns=self.now_ns, hook="bpf", attached=False, why_not=LOCKED))
        for hook in BARE:
            self.add(HookStatus(ts_ns=self.now_ns, hook=f"raw_tracepoint:{hook}/scalars", attached=True))
        self.add(HookStatus(ts_ns=self.now_ns, hook="kmsg", attached=True))
        self.pass_time(NS_PER_MS)
        for pid, parent in ((RANK, LAUNCHER), *((worker, RANK) for worker in WORKERS)):
            self.seen(pid, parent, "python3", {}, parent_start_ns=start_of(parent))
        self.pass_time(3 * NS_PER_S)

    def glimpse(self, pid: int = VICTIM, trigger: int = VICTIM, frames=KILL_STACK, **more) -> OomGlimpse:
        values = {
            "signal_ns": self.now_ns - 1000,
            "victim_tid": pid if pid == trigger else None,
            "itself": int(pid == trigger),
            "same_task": 1,
            "signal_info": 1,
            "signal_result": 0,
            "trigger_comm": "python3",
            **more,
        }
        event = OomGlimpse(
            ts_ns=self.now_ns, cpu=1, trigger_cgroup_id=1, trigger_tgid=trigger, trigger_tid=trigger, trigger_uid=0,
            **values,
        )  # fmt: skip
        self.add(event)
        self.add(KernelStack(ts_ns=self.now_ns, mark_ts_ns=self.now_ns, tgid=trigger, frames=tuple(frames)))
        return event

    def ended(self, glimpse: OomGlimpse, pid: int = VICTIM, **more) -> None:
        self.pass_time(3 * NS_PER_MS)
        values = {"tgid": pid, "tid": pid, "uid": 0, "comm": "python3", **more}
        self.add(MarkedEnded(ts_ns=self.now_ns, cpu=1, mark_ns=glimpse.ts_ns, **values))

    def end(self) -> list:
        events = self.finish(root_exit=True)
        kept = [e for e in events if type(e).__name__ not in {"ProcessExited", "Disarmed"}]
        return [msgspec.structs.replace(e, seq=n) for n, e in enumerate(kept)]


def bare() -> Bare:
    scene = Bare()
    scene.job()
    return scene


def ooms(events):
    return [one for one in judge(events).verdict.incidents if one.cause.startswith("host_oom")]


def victims(events) -> list[int]:
    return [victim.pid for one in ooms(events) for victim in one.victims]


def test_one_that_was_allocating_itself_is_likely_and_each_link_says_why():
    scene = bare()
    scene.ended(scene.glimpse())
    scene.log_decision(VICTIM)
    scene.log_kill(VICTIM)
    incident = primary(judge(scene.end()))
    kill, limit, yours, died = incident.proof[:4]

    assert (incident.cause, incident.strength, incident.victim.pid) == ("host_oom_cgroup", "likely", VICTIM)
    assert (kill.status, kill.rung) == ("not_observed", "bpf_scalars")
    assert "known by its pid alone" in kill.statement
    assert kill.via == (
        "raw_tracepoint:signal_generate/scalars",
        "raw_tracepoint:mark_victim/scalars",
        "raw_tracepoint:sched_process_exit/scalars",
        "kernel_stack",
    )
    assert (limit.status, limit.rung, limit.via) == ("not_observed", "bpf_scalars", ("kernel_stack",))
    assert (incident.limit.constraint_by, incident.limit.cgroup_by) == ("kernel_stack", ("kmsg",))
    assert (yours.status, yours.rung) == ("not_observed", "proc")
    assert (died.status, died.rung) == ("not_observed", "bpf_scalars")


def test_whom_another_thread_killed_tells_its_own_pid_as_it_exits():
    scene = bare()
    scene.ended(scene.glimpse(VICTIM, TRIGGER))
    events = scene.end()

    assert victims(events) == [VICTIM]
    assert ooms(events)[0].trigger.pid == TRIGGER
    assert "told its pid as it exited" in ooms(events)[0].proof[0].statement


def test_whom_its_killer_marked_too_late_to_see_it_alive_is_known_by_what_it_had_told():
    scene = bare()
    glimpse = scene.glimpse(trigger=TRIGGER, signal_ns=scene.now_ns - 50_000)
    ended = MarkedEnded(
        ts_ns=glimpse.ts_ns - 20_000, cpu=0, mark_ns=glimpse.ts_ns, tgid=VICTIM, tid=VICTIM, uid=0, comm="python3"
    )
    scene.add(ended)

    assert primary(judge(scene.end())).victim.pid == VICTIM


def test_who_ended_before_the_kernel_killed_anybody_is_not_whom_it_killed():
    scene = bare()
    glimpse = scene.glimpse(trigger=TRIGGER, signal_ns=scene.now_ns - 50_000)
    ended = MarkedEnded(
        ts_ns=glimpse.ts_ns - 60_000, cpu=0, mark_ns=glimpse.ts_ns, tgid=VICTIM, tid=VICTIM, uid=0, comm="python3"
    )
    scene.add(ended)

    assert ooms(scene.end()) == []


def test_whom_an_older_kernel_names_by_pid_is_that_process():
    scene = bare()
    scene.glimpse(VICTIM, TRIGGER, victim_tid=VICTIM, same_task=0)
    events = scene.end()

    assert victims(events) == [VICTIM]
    assert "is known by its pid alone" in ooms(events)[0].proof[0].statement


def test_a_thread_is_the_process_that_it_says_it_is_of():
    scene = bare()
    glimpse = scene.glimpse(VICTIM, TRIGGER, victim_tid=99999, same_task=0)
    scene.ended(glimpse, VICTIM, tid=99999)

    assert victims(scene.end()) == [VICTIM]


def test_whom_nobody_names_is_whom_the_only_line_of_the_log_names():
    scene = bare()
    scene.glimpse(VICTIM, TRIGGER)
    scene.log_kill(VICTIM)
    events = scene.end()

    assert victims(events) == [VICTIM]
    assert "the kernel's log's word" in ooms(events)[0].proof[0].statement


def test_with_two_kills_and_two_lines_nobody_is_named_by_order():
    scene = bare()
    for _ in range(2):
        scene.glimpse(VICTIM, TRIGGER)
        scene.pass_time(NS_PER_MS)
    scene.log_kill(WORKERS[1])
    scene.log_kill(WORKERS[3])
    events = scene.end()

    # The log alone names them, and that is what the links rest on.
    assert [one.proof[0].rung for one in ooms(events)] == ["kernel_log"]
    assert set(victims(events)) == {WORKERS[1], WORKERS[3]}


def test_without_log_and_exit_nobody_is_named():
    scene = bare()
    scene.glimpse(VICTIM, TRIGGER)

    assert ooms(scene.end()) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"frames": DYING_STACK},
        {"signal_result": 1},
        {"signal_ns": None, "signal_info": None, "signal_result": None, "same_task": 0, "frames": ("?",)},
        {"signal_ns": 1, "frames": ("?",)},
        {"same_task": 0, "frames": ("?",)},
    ],
    ids=["the stack is none of a kill", "the SIGKILL came too late", "a bare mark", "a SIGKILL of long ago",
         "of a bare pid, with a SIGKILL to somebody"],
)  # fmt: skip
def test_a_mark_that_was_no_kill_is_none(changes):
    scene = bare()
    scene.ended(scene.glimpse(**changes))

    assert ooms(scene.end()) == []


def test_an_untrusted_line_of_a_log_names_nobody():
    scene = bare()
    scene.glimpse(VICTIM, TRIGGER)
    scene.log_kill(VICTIM, trusted=False)

    assert ooms(scene.end()) == []


@pytest.mark.parametrize("more", [{"tid": VICTIM + 1}, {"tgid": WORKERS[1]}], ids=["thread", "process"])
def test_what_does_not_fit_together_names_nobody(more):
    scene = bare()
    scene.ended(scene.glimpse(), **more)

    assert ooms(scene.end()) == []


def test_a_thread_that_ends_and_is_not_the_one_that_the_mark_gave_names_nobody():
    scene = bare()
    glimpse = scene.glimpse(VICTIM, TRIGGER, victim_tid=VICTIM, same_task=0)
    scene.ended(glimpse, WORKERS[3])

    assert ooms(scene.end()) == []


def test_that_rung_is_too_weak_for_a_proof_whatever_a_link_says():
    whole = [Link(link=n, name="", status="present", statement="", rung="bpf") for n in (1, 2, 3, 4)]
    assert strength(whole, ()) == "proved"

    for n in range(4):
        weak = msgspec.structs.replace(whole[n], rung="bpf_scalars")
        assert strength([*whole[:n], weak, *whole[n + 1 :]], ()) == "likely"


def test_one_outside_the_job_is_no_victim_of_it():
    scene = bare()
    scene.ended(scene.glimpse(4_000_000, 4_000_000), 4_000_000)

    assert ooms(scene.end()) == []


def test_a_pid_that_two_processes_of_the_job_had_names_neither():
    scene = bare()
    scene.add(
        ProcessSeen(
            ts_ns=scene.now_ns, source="proc", start_ns=start_of(VICTIM) + NS_PER_S, tgid=VICTIM, parent_tgid=RANK,
            parent_start_ns=start_of(RANK), comm="python3",
        )
    )  # fmt: skip
    scene.pass_time(NS_PER_S)
    scene.ended(scene.glimpse())

    assert ooms(scene.end()) == []


def test_in_a_pid_namespace_of_our_own_pids_are_others():
    scene = bare()
    scene.items = [
        msgspec.structs.replace(e, own_pid_namespace=True) if isinstance(e, Header) else e for e in scene.items
    ]
    scene.ended(scene.glimpse())

    assert ooms(scene.end()) == []


def test_the_jobs_own_process_whose_wait_is_known_is_still_not_proved():
    scene = bare()
    scene.ended(scene.glimpse(LAUNCHER, LAUNCHER), LAUNCHER)
    scene.log_decision(LAUNCHER)
    scene.log_kill(LAUNCHER)
    scene.finish(9)
    events = [e for e in scene.events if type(e).__name__ not in {"ProcessExited", "Disarmed"}]
    incident = primary(judge([msgspec.structs.replace(e, seq=n) for n, e in enumerate(events)]))

    assert [link.status for link in incident.proof] == [
        "not_observed", "not_observed", "present", "present", "not_observed",
    ]  # fmt: skip
    assert incident.proof[3].rung == "wait_status"
    assert incident.strength == "likely"


def test_the_counters_of_a_cgroup_say_whose_limit_it_was_where_nothing_else_does():
    scene = Bare()
    scene.job()
    for count, failed in ((0, 0), (1, 9)):
        scene.add(
            CgroupSample(
                ts_ns=scene.now_ns, source="cgroup", path="/oomtrace/run-7f3", cgroup_id=77, oom_kill=count,
                usage_bytes=512 * MIB, limit_bytes=512 * MIB, failcnt=failed,
            )
        )  # fmt: skip
        if not count:
            scene.pass_time(NS_PER_MS)
            scene.ended(scene.glimpse())
    limit = ooms(scene.end())[0].limit

    assert (limit.cgroup, limit.constraint, limit.constraint_by) == (
        "/oomtrace/run-7f3", "CONSTRAINT_MEMCG", "kernel_stack",
    )  # fmt: skip


def test_no_order_and_no_loss_of_records_makes_it_proved_or_another_victim():
    scene = bare()
    first = scene.glimpse(VICTIM, TRIGGER)
    scene.ended(first)
    scene.log_kill(VICTIM)
    scene.log_decision(VICTIM)
    events = scene.end()
    parts = [e for e in events if isinstance(e, OomGlimpse | MarkedEnded | KernelStack | LoggedKill)]
    for count in range(len(parts) + 1):
        for lost in itertools.combinations(parts, count):
            for one in ooms([e for e in events if e not in lost]):
                assert one.strength in {"likely", "possible"}
                assert [victim.pid for victim in one.victims] == [VICTIM]


def test_the_verdict_says_that_the_kernels_memory_could_not_be_read():
    scene = bare()
    scene.ended(scene.glimpse())
    verdict = judge(scene.end()).verdict

    assert any(LOCKED in caveat and "pid alone" in caveat for caveat in verdict.caveats)
    assert verdict.watched_by[0] == "BPF (raw tracepoints, without the kernel's memory)"


def test_a_job_that_exits_is_not_called_watched():
    verdict = judge(bare().end()).verdict

    assert verdict.incidents[0].cause == "exited"
    assert verdict.incidents[0].strength != "proved"

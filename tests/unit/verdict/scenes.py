# SPDX-License-Identifier: Apache-2.0
"""Recordings made by hand: a job with a launcher, a rank and four workers, and what can happen to it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tracer.events import (
    AnyEvent,
    Armed,
    CgroupSample,
    Disarmed,
    Event,
    Header,
    HookStatus,
    JobEnded,
    JobStarted,
    KernelStack,
    LoggedDecision,
    LoggedKill,
    Losses,
    OomLevel,
    OomMark,
    PressureSample,
    ProcessExeced,
    ProcessExited,
    ProcessForked,
    ProcessId,
    ProcessSample,
    ProcessSeen,
    SignalInfo,
    SignalSent,
    process_id,
)
from tracer.units import MIB, NO_LIMIT_BYTES, NS_PER_MS, NS_PER_S
from tracer.verdict.model import Incident, Report

T0 = 1_000 * NS_PER_S
LAUNCHER, RANK, WORKERS = 41200, 41210, (41231, 41232, 41233, 41234)
HOOKS = ("mark_victim", "signal_generate", "sched_process_fork", "sched_process_exec", "sched_process_exit")
KILL_STACK = (
    "mark_oom_victim",
    "__oom_kill_process",
    "oom_kill_process",
    "out_of_memory",
    "mem_cgroup_out_of_memory",
    "try_charge_memcg",
    "do_anonymous_page",
)
DYING_STACK = ("mark_oom_victim", "oom_kill_process", "out_of_memory", "mem_cgroup_out_of_memory")


def start_of(pid: int) -> int:
    """Start time of a made-up process: distinct, and not on a tick."""
    return 500 * NS_PER_S + pid * 20 * NS_PER_MS + 3_456_789


def identity(pid: int) -> ProcessId:
    return process_id(pid, start_of(pid))


@dataclass
class Scene:
    """Collects events; `now_ns` is moved by hand."""

    now_ns: int = T0
    items: list[Event] = field(default_factory=list)

    def add(self, event: Event) -> Event:
        stamped = msgspec.structs.replace(event, seq=len(self.items))
        self.items.append(stamped)
        return stamped

    @property
    def events(self) -> list[AnyEvent]:
        return list(self.items)  # type: ignore[arg-type]

    def pass_time(self, span_ns: int) -> None:
        self.now_ns += span_ns

    def begin(self, *, hooks: Sequence[str] = HOOKS, own_cgroup: bool = True) -> None:
        self.add(
            Header(
                ts_ns=self.now_ns, version="1", pid=99, realtime_ns=1_790_000_000 * NS_PER_S, boottime_ns=self.now_ns
            )
        )
        for hook in HOOKS:
            why = None if hook in hooks else "not on this kernel"
            self.add(HookStatus(ts_ns=self.now_ns, hook=f"raw_tracepoint:{hook}", attached=hook in hooks, why_not=why))
        self.add(HookStatus(ts_ns=self.now_ns, hook="kmsg", attached=True))
        if hooks:
            self.add(Armed(ts_ns=self.now_ns))
        self.pass_time(NS_PER_MS)
        self.add(
            JobStarted(
                ts_ns=self.now_ns,
                tgid=LAUNCHER,
                start_ns=start_of(LAUNCHER) // 10_000_000 * 10_000_000,
                argv=("torchrun", "train.py"),
                cgroup="/oomtrace/run-7f3",
                cgroup_id=77,
                own_cgroup=own_cgroup,
            )
        )
        self.seen(LAUNCHER, 1, "pt_elastic", {})

    def job(self) -> None:
        """Launcher, rank 0 and its four workers."""
        self.begin()
        self.fork(RANK, LAUNCHER)
        self.add(
            ProcessExeced(ts_ns=self.now_ns, cpu=0, start_ns=start_of(RANK), tgid=RANK, old_tid=RANK, comm="python3")
        )
        self.seen(RANK, LAUNCHER, "python3", {"RANK": "0", "LOCAL_RANK": "0", "TORCHELASTIC_RUN_ID": "x"})
        for pid in WORKERS:
            self.fork(pid, RANK)
            self.seen(pid, RANK, "pt_data_worker", {"RANK": "0", "LOCAL_RANK": "0", "TORCHELASTIC_RUN_ID": "x"})

    def fork(self, pid: int, parent: int, comm: str = "python3") -> None:
        self.pass_time(NS_PER_MS)
        self.add(
            ProcessForked(
                ts_ns=self.now_ns,
                cpu=0,
                start_ns=start_of(pid),
                parent_start_ns=start_of(parent),
                anon_rss_bytes=50 * MIB,
                tgid=pid,
                parent_tgid=parent,
                ns_tgid=pid,
                ns_level=0,
                comm=comm,
            )
        )

    def seen(self, pid: int, parent: int, comm: str, environ: dict[str, str] | None, **more: Any) -> None:
        self.add(
            ProcessSeen(
                ts_ns=self.now_ns,
                source="proc",
                start_ns=start_of(pid) // 10_000_000 * 10_000_000,
                tgid=pid,
                parent_tgid=parent,
                comm=comm,
                environ=environ,
                **more,
            )
        )

    def sample(self, pid: int, anon_mib: int) -> None:
        self.add(
            ProcessSample(
                ts_ns=self.now_ns,
                source="proc",
                start_ns=start_of(pid) // 10_000_000 * 10_000_000,
                tgid=pid,
                rss_anon_bytes=anon_mib * MIB,
                rss_file_bytes=5 * MIB,
                rss_shmem_bytes=0,
                swap_bytes=0,
            )
        )

    def grow(self, grower: int = WORKERS[2], to_mib: int = 400, seconds: int = 6) -> None:
        """One worker grows, the others stay flat."""
        for step in range(seconds):
            self.pass_time(NS_PER_S)
            for pid in WORKERS:
                self.sample(pid, 50 + (to_mib - 50) * step // seconds if pid == grower else 50)

    def signal(self, pid: int, number: int = 9, **more: Any) -> SignalSent:
        values: dict[str, Any] = {
            "ts_ns": self.now_ns,
            "cpu": 1,
            "start_ns": start_of(pid),
            "tgid": pid,
            "tid": pid,
            "sender_start_ns": start_of(pid),
            "sender_parent_start_ns": 0,
            "sender_tgid": pid,
            "sender_tid": pid,
            "sender_parent_tgid": 1,
            "sender_uid": 0,
            "signal": number,
            "info": SignalInfo.POINTER,
            "code": 0,
            "errno": 0,
            "group": 1,
            "result": 0,
            "sender_flags": 0,
            "in_tree": 1,
            "comm": "c",
            "sender_comm": "s",
            "sender_parent_comm": "p",
            **more,
        }
        event = self.add(SignalSent(**values))
        assert isinstance(event, SignalSent)
        return event

    def oom_signal(self, pid: int, trigger: int, **more: Any) -> SignalSent:
        """The kernel's own SIGKILL, in the trigger's context."""
        values = {"info": SignalInfo.PRIV, "code": 128, "sender_tgid": trigger, "sender_tid": trigger, **more}
        return self.signal(pid, 9, **{"sender_start_ns": start_of(trigger), **values})

    def mark(self, pid: int, trigger: int, **more: Any) -> OomMark:
        values: dict[str, Any] = {
            "ts_ns": self.now_ns,
            "cpu": 1,
            "start_ns": start_of(pid),
            "trigger_start_ns": start_of(trigger),
            "parent_start_ns": start_of(RANK),
            "total_vm_bytes": 900 * MIB,
            "anon_rss_bytes": 402 * MIB,
            "file_rss_bytes": 5 * MIB,
            "shmem_rss_bytes": 0,
            "swap_bytes": 0,
            "pgtables_bytes": 1 * MIB,
            "tgid": pid,
            "tid": pid,
            "trigger_tgid": trigger,
            "trigger_tid": trigger,
            "parent_tgid": RANK,
            "ns_tgid": pid,
            "ns_level": 0,
            "uid": 1000,
            "oom_score_adj": 0,
            "task_flags": 0x40,
            "signal_flags": 4,
            "levels": 3,
            "comm": "pt_data_worker",
            "trigger_comm": "pt_data_worker",
            **more,
        }
        event = self.add(OomMark(**values))
        assert isinstance(event, OomMark)
        return event

    def levels(self, mark: OomMark, *, owners: Sequence[int] = (1,), oom: Sequence[int] = (0, 1, 0)) -> None:
        """Own cgroup, the run's, the root; `owners` are at their limit of 512 MiB, `oom` are local OOM counts."""
        names, ids = ("worker", "run-7f3", ""), (78, 77, 1)
        for depth, (name, cgroup_id) in enumerate(zip(names, ids, strict=True)):
            at_limit = {"usage_bytes": 512 * MIB, "limit_bytes": 512 * MIB} if depth in owners else {}
            self.level(mark, depth, name=name, cgroup_id=cgroup_id, events_local_oom=oom[depth], **at_limit)

    def level(self, mark: OomMark, depth: int, **more: Any) -> None:
        """One level of the chain, without a limit where none is given."""
        values: dict[str, Any] = {
            "usage_bytes": 300 * MIB,
            "limit_bytes": NO_LIMIT_BYTES,
            "swap_usage_bytes": None,
            "swap_limit_bytes": None,
            "events_max": 1,
            "events_oom": 1,
            "events_oom_kill": 1,
            "events_local_max": 1,
            "events_local_oom_kill": 0,
            "events_local_oom_group_kill": 0,
            "oom_group": 0,
            "name_cut": 0,
            **more,
        }
        self.add(OomLevel(ts_ns=mark.ts_ns, cpu=mark.cpu, mark_tgid=mark.tgid, depth=depth, **values))

    def stack(self, mark: OomMark, frames: Sequence[str] = KILL_STACK) -> None:
        self.add(KernelStack(ts_ns=self.now_ns, mark_ts_ns=mark.ts_ns, tgid=mark.tgid, frames=tuple(frames)))

    def exit(self, pid: int, status: int, **more: Any) -> None:
        values: dict[str, Any] = {
            "start_ns": start_of(pid),
            "oom_marked": 0,
            "parent_tgid": 1,
            "in_tree": 1,
            "comm": "python3",
            **more,
        }
        self.add(ProcessExited(ts_ns=self.now_ns, cpu=0, tgid=pid, status=status, **{"tid": pid, **values}))

    def kill(
        self,
        pid: int = WORKERS[2],
        trigger: int | None = None,
        frames: Sequence[str] = KILL_STACK,
        *,
        comm: str = "pt_data_worker",
        status: int = 9,
        **marked: Any,
    ) -> OomMark:
        """A whole, undoubted OOM kill by the cgroup `run-7f3`, up to the exit."""
        trigger = pid if trigger is None else trigger
        self.oom_signal(pid, trigger)
        self.pass_time(40_000)
        mark = self.mark(pid, trigger, comm=comm, **marked)
        self.levels(mark)
        self.pass_time(3 * NS_PER_MS)
        self.exit(pid, status, oom_marked=1, comm=comm)
        self.stack(mark, frames)
        return mark

    def log_kill(self, pid: int, *, trusted: bool = True, memcg: bool = True, **more: Any) -> None:
        self.add(
            LoggedKill(
                ts_ns=self.now_ns,
                source="kmsg",
                trusted=trusted,
                pid=pid,
                comm="pt_data_worker",
                memcg=memcg,
                anon_rss_bytes=402 * MIB,
                file_rss_bytes=5 * MIB,
                shmem_rss_bytes=0,
                **more,
            )
        )

    def log_decision(self, pid: int, *, trusted: bool = True, oom_memcg: str | None = "/run-7f3") -> None:
        self.add(
            LoggedDecision(
                ts_ns=self.now_ns,
                source="kmsg",
                trusted=trusted,
                constraint="CONSTRAINT_MEMCG" if oom_memcg else "CONSTRAINT_NONE",
                oom_memcg=oom_memcg,
                task_memcg="/run-7f3/worker",
                tgid=pid,
            )
        )

    def cgroup_sample(self, cgroup_id: int, path: str, **more: Any) -> None:
        self.add(CgroupSample(ts_ns=self.now_ns, source="cgroup", path=path, cgroup_id=cgroup_id, **more))

    def pressure(self, available_bytes: int) -> None:
        self.add(
            PressureSample(
                ts_ns=self.now_ns,
                source="pressure",
                mem_total_bytes=1024 * MIB,
                mem_available_bytes=available_bytes,
                swap_total_bytes=64 * MIB,
                swap_free_bytes=0,
            )
        )

    def finish(self, status: int = 1 << 8, *, losses: Losses | None = None, root_exit: bool = True) -> list[AnyEvent]:
        """The job ends, the tracer says what it lost and stops."""
        self.pass_time(NS_PER_S)
        if root_exit:
            self.exit(LAUNCHER, status, comm="pt_elastic")
            self.add(
                JobEnded(ts_ns=self.now_ns, source="job", tgid=LAUNCHER, start_ns=start_of(LAUNCHER), status=status)
            )
        self.pass_time(100 * NS_PER_MS)
        self.add(losses or Losses(ts_ns=self.now_ns, source="tracer"))
        self.add(Disarmed(ts_ns=self.now_ns, source="tracer"))
        return self.events


def worker_killed() -> list[AnyEvent]:
    """The usual case: worker 2 grows and is killed, the rank raises, the launcher exits 1."""
    scene = Scene()
    scene.job()
    scene.grow()
    scene.pass_time(NS_PER_S)
    scene.kill()
    scene.log_decision(WORKERS[2])
    scene.log_kill(WORKERS[2])
    scene.pass_time(4 * NS_PER_S)
    scene.exit(RANK, 1 << 8)
    for pid in WORKERS:
        if pid != WORKERS[2]:
            scene.exit(pid, 0, comm="pt_data_worker")
    return scene.finish()


def primary(report: Report) -> Incident:
    """The incident that started the failure."""
    return report.verdict.incidents[report.verdict.primary]


def statuses(incident: Incident) -> list[str]:
    """Of its links, in order."""
    return [link.status for link in incident.proof]


def changed(events: list[AnyEvent], kind: type, **fields: object) -> list[AnyEvent]:
    """The same with other values in all events of one class."""
    return [msgspec.structs.replace(e, **fields) if isinstance(e, kind) else e for e in events]


def without(events: list[AnyEvent], kind: type) -> list[AnyEvent]:
    """As if the source had never sent them: numbered anew, so that no gap gives it away."""
    kept = [e for e in events if not isinstance(e, kind)]
    return [msgspec.structs.replace(e, seq=n) for n, e in enumerate(kept)]

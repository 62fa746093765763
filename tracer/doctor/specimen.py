# SPDX-License-Identifier: Apache-2.0
"""A recording of a kill as this machine would make it, so that the rules themselves say what it would prove.

A job with one worker, which the kernel kills; each record is there only if what makes it works here.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from tracer.doctor.model import KillKind
from tracer.events import (
    AnyEvent,
    Armed,
    CgroupSample,
    CodeLooked,
    Disarmed,
    Header,
    HookStatus,
    JobEnded,
    JobStarted,
    KernelStack,
    LoggedDecision,
    LoggedKill,
    Losses,
    MarkedEnded,
    OomDecision,
    OomGlimpse,
    OomLevel,
    OomMark,
    PressureSample,
    ProcessExited,
    ProcessForked,
    ProcessGone,
    ProcessSample,
    ProcessSeen,
    SignalInfo,
    SignalSent,
    Source,
)
from tracer.units import MIB, NO_LIMIT_BYTES, NS_PER_MS, NS_PER_S
from tracer.verdict.story import SCALAR_SUFFIX

_BEGIN_NS = 1_000 * NS_PER_S
_KILL_NS = _BEGIN_NS + 9 * NS_PER_S
_JOB, _RANK, _WORKER, _STARTED_NS = 4120, 4121, 4123, 990 * NS_PER_S
_CGROUP, _CGROUP_ID = "/job", 77
_LIMIT_BYTES = 256 * MIB
_SHIFT_NS = 3600 * NS_PER_S
_OWN_PIDS = 4000
"""How much smaller pids are in a namespace of our own."""
_STACK = ("mark_oom_victim", "__oom_kill_process", "oom_kill_process", "out_of_memory")
_HOOKS = ("mark_victim", "signal_generate", "sched_process_fork", "sched_process_exec", "sched_process_exit")
_BARE_HOOKS = tuple(
    f"raw_tracepoint:{name}{SCALAR_SUFFIX}" for name in ("mark_victim", "signal_generate", "sched_process_exit")
)
DECISION_HOOK = "fentry:oom_kill_process"
_FAILED, _KILLED = 1 << 8, 9


@dataclass(frozen=True)
class Seen:
    """What a recording made here would hold."""

    programs: bool
    """Records of the BPF programs."""
    names: bool
    """Names in the stack of a mark."""
    decision: bool
    """What oom_kill_process() was told."""
    log: bool
    """Lines of the kernel's log."""
    counts: bool
    """The count of OOM kills in the job's cgroup."""
    same_pids: bool
    """/proc shows the pids that the kernel speaks of."""
    same_clocks: bool
    """/proc shows the start times that the kernel speaks of."""
    survives: bool
    """A kill that takes the whole cgroup leaves the tracer alive."""
    bare: bool = False
    """Without `programs`: records of those that read none of the kernel's memory."""
    printk: bool = False
    """Without `log`: what the kernel is seen to print."""


def recording(kill: KillKind, seen: Seen) -> list[AnyEvent]:
    """All events of that run."""
    parts: list[Iterable[AnyEvent]] = [_start(seen)]
    if seen.programs:
        parts.append(_by_programs(kill, seen))
    elif seen.bare:
        parts.append(_by_bare_programs(kill, seen))
    if seen.log:
        parts.append(_by_log(kill))
    elif seen.programs and seen.printk:
        parts.append([_decision(kill, "printk_console", trusted=seen.names)])
    if seen.counts and not seen.programs:
        parts.append(_by_counts(kill, seen))
    if seen.survives:
        parts.append(_end(seen))
    events = [event for part in parts for event in part]
    return [msgspec.structs.replace(event, seq=seq) for seq, event in enumerate(events)]


def _start(seen: Seen) -> Iterator[AnyEvent]:
    yield Header(
        ts_ns=_BEGIN_NS, version="1", pid=_pid(99, seen), own_pid_namespace=not seen.same_pids,
        realtime_ns=1_790_000_000 * NS_PER_S, boottime_ns=_BEGIN_NS, cgroup_version=2,
    )  # fmt: skip
    if seen.programs:
        for hook in _HOOKS:
            yield HookStatus(ts_ns=_BEGIN_NS, source="tracer", hook=f"raw_tracepoint:{hook}", attached=True)
        yield Armed(ts_ns=_BEGIN_NS, source="tracer")
        if seen.decision:
            yield HookStatus(ts_ns=_BEGIN_NS, source="tracer", hook=DECISION_HOOK, attached=True)
    else:
        yield HookStatus(ts_ns=_BEGIN_NS, source="tracer", hook="bpf", attached=False)
        for hook in _BARE_HOOKS if seen.bare else ():
            yield HookStatus(ts_ns=_BEGIN_NS, source="tracer", hook=hook, attached=True)
    yield HookStatus(ts_ns=_BEGIN_NS, source="tracer", hook="kmsg", attached=seen.log)
    start_ns, ts_ns = _in_proc(_STARTED_NS, seen), _BEGIN_NS + NS_PER_MS
    yield JobStarted(
        ts_ns=ts_ns, source="job", tgid=_pid(_JOB, seen), start_ns=start_ns,
        cgroup=_CGROUP, cgroup_id=_CGROUP_ID, own_cgroup=True,
    )  # fmt: skip
    for pid, parent in ((_JOB, 1), (_WORKER, _JOB)):
        yield ProcessSeen(
            ts_ns=ts_ns + NS_PER_S, source="proc", tgid=_pid(pid, seen), start_ns=start_ns,
            parent_tgid=_pid(parent, seen), parent_start_ns=start_ns, comm="python3",
        )  # fmt: skip


def _by_programs(kill: KillKind, seen: Seen) -> Iterator[AnyEvent]:
    forked_ns, exited_ns = _BEGIN_NS + NS_PER_S // 2, _KILL_NS + 3 * NS_PER_MS
    # The tree filter is given what /proc shows: with other pids or start times it has nobody of the job.
    in_tree = int(seen.same_pids and seen.same_clocks)
    if in_tree:
        yield ProcessForked(
            ts_ns=forked_ns, cpu=0, start_ns=_STARTED_NS, parent_start_ns=_STARTED_NS, anon_rss_bytes=MIB,
            tgid=_WORKER, parent_tgid=_JOB, ns_tgid=_WORKER, ns_level=0, comm="python3",
            own_tgid=_pid(_WORKER, seen), own_parent_tgid=_pid(_JOB, seen),
        )  # fmt: skip
    if seen.decision:
        yield OomDecision(
            ts_ns=_KILL_NS - 2, cpu=1, memcg_id=_CGROUP_ID if kill == "cgroup_limit" else 0,
            total_allowed_bytes=_LIMIT_BYTES, chosen_points=1, tgid=_WORKER, tid=_WORKER,
            trigger_tgid=_WORKER, trigger_tid=_WORKER, gfp_mask=0, order=0,
            constraint=3 if kill == "cgroup_limit" else 0,
        )  # fmt: skip
    yield SignalSent(
        ts_ns=_KILL_NS - 1, cpu=1, start_ns=_STARTED_NS, sender_start_ns=_STARTED_NS, sender_parent_start_ns=0,
        tgid=_WORKER, tid=_WORKER, sender_tgid=_WORKER, sender_tid=_WORKER, sender_parent_tgid=_JOB,
        sender_uid=0, signal=_KILLED, info=SignalInfo.PRIV, code=128, errno=0, group=1, result=0, sender_flags=0,
        in_tree=in_tree, comm="python3", sender_comm="python3", sender_parent_comm="python3",
    )  # fmt: skip
    yield OomMark(
        ts_ns=_KILL_NS, cpu=1, start_ns=_STARTED_NS, trigger_start_ns=_STARTED_NS, parent_start_ns=_STARTED_NS,
        total_vm_bytes=_LIMIT_BYTES, anon_rss_bytes=_LIMIT_BYTES, file_rss_bytes=0, shmem_rss_bytes=0, swap_bytes=0,
        pgtables_bytes=0, tgid=_WORKER, tid=_WORKER, trigger_tgid=_WORKER, trigger_tid=_WORKER, parent_tgid=_JOB,
        ns_tgid=_WORKER, ns_level=0, uid=0, oom_score_adj=0, task_flags=0, signal_flags=4, levels=2,
        comm="python3", trigger_comm="python3",
    )  # fmt: skip
    limits = (_LIMIT_BYTES if kill == "cgroup_limit" else NO_LIMIT_BYTES, NO_LIMIT_BYTES)
    for depth, (limit_bytes, name, cgroup_id) in enumerate(zip(limits, ("job", ""), (_CGROUP_ID, 1), strict=True)):
        count = int(depth == 0 and kill == "cgroup_limit")
        yield OomLevel(
            ts_ns=_KILL_NS, cpu=1, cgroup_id=cgroup_id, usage_bytes=_LIMIT_BYTES, limit_bytes=limit_bytes,
            swap_usage_bytes=None, swap_limit_bytes=None, events_max=count, events_oom=count, events_oom_kill=count,
            events_local_max=count, events_local_oom=count, events_local_oom_kill=0, events_local_oom_group_kill=0,
            mark_tgid=_WORKER, depth=depth, oom_group=0, name_cut=0, name=name,
        )  # fmt: skip
    if in_tree:
        yield from _mappings()
    yield _stack(kill, seen)
    for pid, status, marked, ts_ns in ((_WORKER, _KILLED, 1, exited_ns), (_JOB, _FAILED, 0, exited_ns + NS_PER_MS)):
        yield ProcessExited(
            ts_ns=ts_ns, cpu=1, start_ns=_STARTED_NS, tgid=pid, tid=pid, status=status, oom_marked=marked,
            parent_tgid=1, in_tree=in_tree, comm="python3",
        )  # fmt: skip


def _mappings() -> Iterator[AnyEvent]:
    """Nobody has a GPU's library mapped: what one has is seen in the same way."""
    looked_ns = _BEGIN_NS + 2 * NS_PER_S
    for pid in (_JOB, _WORKER):
        yield CodeLooked(ts_ns=looked_ns, source="proc", tgid=pid, start_ns=_STARTED_NS, code_bytes=MIB)
        yield ProcessSample(ts_ns=looked_ns + 1, source="proc", tgid=pid, start_ns=_STARTED_NS, code_bytes=MIB)
    for ts_ns in (_KILL_NS - 2 * NS_PER_S, _KILL_NS - NS_PER_S):
        yield PressureSample(ts_ns=ts_ns, source="pressure", mem_total_bytes=_LIMIT_BYTES)


def _stack(kill: KillKind, seen: Seen) -> KernelStack:
    frames = (*_STACK, *(("mem_cgroup_out_of_memory",) if kill == "cgroup_limit" else ()))
    return KernelStack(
        ts_ns=_KILL_NS, mark_ts_ns=_KILL_NS, tgid=_WORKER, frames=frames if seen.names else ("?",) * len(frames)
    )


def _by_bare_programs(kill: KillKind, seen: Seen) -> Iterator[AnyEvent]:
    yield OomGlimpse(
        ts_ns=_KILL_NS, cpu=1, signal_ns=_KILL_NS - 1, trigger_cgroup_id=_CGROUP_ID, trigger_tgid=_WORKER,
        trigger_tid=_WORKER, trigger_uid=0, victim_tid=_WORKER, itself=1, same_task=1, signal_info=SignalInfo.PRIV,
        signal_result=0, trigger_comm="python3",
    )  # fmt: skip
    yield _stack(kill, seen)
    yield MarkedEnded(
        ts_ns=_KILL_NS + 3 * NS_PER_MS, cpu=1, mark_ns=_KILL_NS, tgid=_WORKER, tid=_WORKER, uid=0, comm="python3"
    )


def _by_log(kill: KillKind) -> Iterator[AnyEvent]:
    yield _decision(kill, "kmsg", trusted=True)
    cgroup = kill == "cgroup_limit"
    yield LoggedKill(ts_ns=_KILL_NS, source="kmsg", trusted=True, pid=_WORKER, comm="python3", memcg=cgroup)


def _decision(kill: KillKind, source: Source, *, trusted: bool) -> LoggedDecision:
    cgroup = kill == "cgroup_limit"
    return LoggedDecision(
        ts_ns=_KILL_NS, source=source, trusted=trusted, tgid=_WORKER, task_memcg=_CGROUP,
        constraint="CONSTRAINT_MEMCG" if cgroup else "CONSTRAINT_NONE", oom_memcg=_CGROUP if cgroup else None,
    )  # fmt: skip


def _by_counts(kill: KillKind, seen: Seen) -> Iterator[AnyEvent]:
    """As with most jobs: the rank ends with its worker, between the same two looks, so either can have been killed."""
    start_ns = _in_proc(_STARTED_NS, seen)
    yield ProcessSeen(
        ts_ns=_KILL_NS - NS_PER_S, source="proc", tgid=_pid(_RANK, seen), start_ns=start_ns,
        parent_tgid=_pid(_JOB, seen), parent_start_ns=start_ns, comm="python3",
    )  # fmt: skip
    for pid, held_bytes in ((_JOB, MIB), (_RANK, MIB), (_WORKER, _LIMIT_BYTES)):
        yield ProcessSample(
            ts_ns=_KILL_NS - NS_PER_S, source="proc", tgid=_pid(pid, seen), start_ns=start_ns, rss_anon_bytes=held_bytes
        )
    for count, ts_ns in ((0, _BEGIN_NS), (0, _KILL_NS - NS_PER_S), (1, _KILL_NS + NS_PER_S // 2)):
        yield PressureSample(ts_ns=ts_ns, source="pressure", mem_total_bytes=_LIMIT_BYTES)
        yield CgroupSample(
            ts_ns=ts_ns, source="cgroup", path=_CGROUP, cgroup_id=_CGROUP_ID, oom_kill=count,
            usage_bytes=_LIMIT_BYTES, limit_bytes=_LIMIT_BYTES if kill == "cgroup_limit" else NO_LIMIT_BYTES,
        )  # fmt: skip
    for pid in (_RANK, _WORKER):
        yield ProcessGone(ts_ns=_KILL_NS + NS_PER_S // 2, source="proc", tgid=_pid(pid, seen), start_ns=start_ns)


def _end(seen: Seen) -> Iterator[AnyEvent]:
    ts_ns = _KILL_NS + NS_PER_S
    yield JobEnded(
        ts_ns=ts_ns, source="job", tgid=_pid(_JOB, seen), start_ns=_in_proc(_STARTED_NS, seen), status=_FAILED
    )
    yield Losses(ts_ns=ts_ns + NS_PER_S, source="tracer")
    if seen.programs:
        yield Disarmed(ts_ns=ts_ns + NS_PER_S, source="tracer")


def _pid(kernels: int, seen: Seen) -> int:
    """As /proc shows it."""
    return kernels if seen.same_pids else max(kernels - _OWN_PIDS, 1)


def _in_proc(start_ns: int, seen: Seen) -> int:
    return start_ns if seen.same_clocks else start_ns + _SHIFT_NS

# SPDX-License-Identifier: Apache-2.0
"""Phrases for the values of a report: a process, its memory, a moment, a sender."""

import re
import shlex
from collections.abc import Sequence
from typing import Protocol

from tracer.attribution import places
from tracer.units import format_bytes, format_duration, format_limit
from tracer.verdict.model import Cause, Incident, Job, Level, Limit, Process, Role, Rung, Sender, SenderKind
from tracer.verdict.programs import WORDS as TRADES

UNKNOWN = "?"
SHOWN_ANCESTORS = 4

HEADLINES: dict[Cause, str] = {
    "host_oom_global": "Killed by the kernel: the machine ran out of RAM",
    "host_oom_cgroup": "Killed by the kernel: host RAM ran out at a cgroup limit",
    "host_oom_cpuset": "Killed by the kernel: RAM ran out on the NUMA nodes of the cpuset",
    "host_oom_mempolicy": "Killed by the kernel: RAM ran out on the NUMA nodes of the memory policy",
    "host_oom_unknown_scope": "Killed by the kernel: host RAM ran out",
    "operator_oom": "Killed by the kernel because an operator asked for an OOM kill",
    "userspace_oom_daemon": "Killed by an OOM daemon",
    "sigkill": "Killed with SIGKILL by a process, not by the kernel",
    "sigterm": "Ended with SIGTERM",
    "kernel_sigkill_other": "Killed by the kernel, not for want of memory",
    "shm_exhausted": "Shared memory ran out",
    "pinned_host_memory": "Pinned host memory ran out",
    "host_allocation_failed": "An allocation of host memory failed",
    "memory_stall": "Stalled for want of memory",
    "cuda_oom": "Out of GPU memory",
    "crash": "Crashed",
    "exited": "Exited",
    "inconclusive": "What ended the job was not observed",
}
"""For an incident that brings no headline of its own."""

RUNGS: dict[Rung, str] = {
    "bpf": "BPF",
    "bpf_scalars": "bare BPF",
    "printk_console": "printk",
    "kernel_log": "log",
    "cgroup_counters": "counters",
    "nvml": "NVML",
    "proc": "/proc",
    "wait_status": "wait",
}
"""What a link rests on, in a word."""

_HOOKS = {
    "signal_generate": "signal",
    "mark_victim": "mark",
    "mark_victim(pid)": "mark by pid",
    "kernel_stack": "stack",
    "sched_process_fork": "fork",
    "sched_process_exit": "exit",
    "console": "printk",
}
"""A hook in a word; one of a function by its kind."""

_ROLES: dict[Role, str] = {
    "launcher": "launcher",
    "rank": "rank",
    "dataloader_worker": "DataLoader worker",
    "auxiliary": "auxiliary process",
    "forkserver": "forkserver",
    "resource_tracker": "resource tracker",
    "shm_manager": "shared-memory manager",
    "helper": "helper process",
    "job": "process of the job",
    "outside": "process outside the job",
}

_SENDERS: dict[SenderKind, str] = {
    "kernel": "the kernel itself",
    "daemon": "a daemon",
    "launcher": "above it in the job",
    "self": "the process itself",
    "job": "another process of the job",
    "outside": "from outside the job",
}


class Founded(Protocol):
    """A link, or what `doctor` expects of one: what it rests on, and by which hooks."""

    @property
    def rung(self) -> Rung | None: ...

    @property
    def via(self) -> tuple[str, ...]: ...


NO_VICTIM: frozenset[Cause] = frozenset({
    "exited", "crash", "cuda_oom", "pinned_host_memory", "host_allocation_failed", "inconclusive",
})  # fmt: skip
"""Nobody is known to have done anything to the process that such an incident is about."""


def has_victim(incident: Incident) -> bool:
    """Whether something was done to the process that it is about; memory that was refused kills nobody."""
    refused = incident.cause == "shm_exhausted" and incident.signal is None
    return not refused and incident.cause not in NO_VICTIM


def part_of(incident: Incident) -> str:
    """What the process is called that it is about: of several one."""
    return "victim" if has_victim(incident) else "process"


_RFC_3339 = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(\.\d{1,3})?\d*Z")


def headline(incident: Incident) -> str:
    """Its own headline, else one for its cause."""
    if incident.headline:
        return incident.headline
    if incident.cause == "exited" and incident.exit_code is not None:
        return f"Exited with status {incident.exit_code}; nothing was killed"
    return HEADLINES[incident.cause]


def rung(link: Founded) -> str:
    """`BPF: signal, mark, stack`, `log`; empty where nothing was observed."""
    if link.rung is None:
        return ""
    hooks = dict.fromkeys(_hook(name) for name in link.via)
    told = ", ".join(name for name in hooks if name != RUNGS[link.rung])
    return f"{RUNGS[link.rung]}: {told}" if told else RUNGS[link.rung]


def _hook(name: str) -> str:
    kind, _, target = name.partition("/")[0].rpartition(":")
    return _HOOKS.get(target, kind or target)


def is_clean(incident: Incident) -> bool:
    """Whether nothing went wrong at all."""
    return incident.cause == "exited" and (incident.exit_code == 0 or incident.as_asked)


def who(process: Process) -> str:
    """`DataLoader worker 2 of rank 0`, `rank 0`, `launcher`, `process`."""
    if process.role is None:
        return "process"
    name = _ROLES[process.role]
    number = (
        f"{process.rank}"
        if process.rank is not None
        else f"{process.local_rank}"
        if process.local_rank is not None
        else ""
    )
    local = "local " if process.rank is None else ""
    if process.role == "rank":
        return f"{local}{name} {number}" if number else name
    if process.role == "dataloader_worker" and process.worker is not None:
        name = f"{name} {process.worker}"
    if process.role == "auxiliary" and process.service is not None:
        name = process.service
    return f"{name} of {local}rank {number}" if number else name


def pid(process: Process) -> str:
    """`pid 41233`, with the one that its container shows where that is another."""
    return _with_inner(process, "in its container")


def short_pid(process: Process) -> str:
    """The same for a column: `pid 41233 (17 inside)`."""
    return _with_inner(process, "inside")


def _with_inner(process: Process, where: str) -> str:
    inner = process.ns_pids[-1] if process.ns_pids else process.pid
    return f"pid {process.pid}" if inner == process.pid else f"pid {process.pid} ({inner} {where})"


def described(process: Process) -> str:
    """`rank 0, pid 41210, python`."""
    return ", ".join(part for part in (who(process), f"pid {process.pid}", process.comm) if part)


def same_process(ns_pids: Sequence[int], where: str = "", outside: str = "") -> str:
    """`pid 17 in its container is pid 41233 on the host`; with the levels in between, where they are known."""
    *outer, inner = ns_pids
    told = [f"pid {outer[0]} {outside}".rstrip(), *(f"pid {pid} in between" for pid in outer[1:])]
    return f"pid {f'{inner} {where}'.rstrip()} is {' and '.join(told)}"


def ran_in(process: Process) -> str:
    """`container 3f2a91b0c1d2 (containerd), pod 7c1e..., QoS burstable`; empty where nothing is known."""
    return places.describe(process.place) if process.place is not None else ""


def whose_limit(limit: Limit) -> str | None:
    """`container 3f2a91b0c1d2 (containerd)`, `Slurm job 88`; `None`: the cgroup is not known to be anything's own."""
    return places.describe_itself(limit.place) if limit.place is not None else None


def memory(process: Process) -> str:
    """`402 MiB anonymous, 5.00 MiB file`: what is known and not zero; empty when nothing is known."""
    parts = (
        (process.rss_anon_bytes, "anonymous"),
        (process.rss_file_bytes, "file"),
        (process.rss_shmem_bytes, "shared"),
        (process.swap_bytes, "swapped out"),
    )
    return ", ".join(f"{format_bytes(size)} {name}" for size, name in parts if size)


def anonymous(process: Process) -> str:
    """`402 MiB anonymous`, the part that cannot be freed; empty when it is not known."""
    return "" if process.rss_anon_bytes is None else f"{format_bytes(process.rss_anon_bytes)} anonymous"


def sender(by: Sender) -> str:
    """`kill, pid 812, uid 0, below sshd > bash, in session 3 of user 1000; from outside the job`."""
    if by.kind == "kernel" and by.pid is None:
        return "the kernel"
    parts = [by.comm or "a process"]
    if by.pid is not None:
        parts.append(f"pid {by.pid}")
    if by.uid is not None:
        parts.append(f"uid {by.uid}")
    above = [one.comm for one in by.ancestors if one.pid != 1][:SHOWN_ANCESTORS]
    if len(above) > 1:
        parts.append(f"below {' > '.join(reversed(above))}")
    elif by.parent_comm and by.kind != "daemon":
        parts.append(f"started by {by.parent_comm}")
    if by.place is not None:
        parts.append(f"in {places.describe(by.place)}")
    elif by.cgroup not in {None, "/"}:
        parts.append(f"in {by.cgroup}")
    trade = f"; {TRADES[by.trade]}, by {by.known_by}" if by.trade is not None else ""
    return f"{', '.join(parts)}{trade if by.kind == 'daemon' else f'; {_SENDERS[by.kind]}{trade}'}"


def job(run: Job) -> str:
    """`python train.py -> exit 1`."""
    command = shlex.join(run.argv) if run.argv else "" if run.pid is None else f"pid {run.pid}"
    return " -> ".join(part for part in (command, run.status) if part)


def level_limit(level: Level) -> str:
    """`512 MiB`, `no limit`, `?`."""
    return "no limit" if level.limited is False else format_limit(level.limit_bytes)


def offset(offset_ns: int) -> str:
    """`-12.0 s`, `0`, `+3.1 ms`."""
    return "0" if offset_ns == 0 else f"{'+' if offset_ns > 0 else ''}{format_duration(offset_ns)}"


def moment(at: str | None) -> str:
    """`2026-11-30 14:02:31.118 UTC`; what is not of the expected form is passed on; empty for unknown."""
    if at is None:
        return ""
    match = _RFC_3339.fullmatch(at)
    return f"{match[1]} {match[2]}{match[3] or ''} UTC" if match else at

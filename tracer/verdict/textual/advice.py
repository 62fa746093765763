# SPDX-License-Identifier: Apache-2.0
"""What to change, and with which command to see that it helped; and, where nothing is settled, what would settle it."""

from collections.abc import Iterable, Set as AbstractSet

from tracer.attribution.places import Place
from tracer.units import format_bytes
from tracer.verdict.model import Cause, Limit, Process, Remedy

_SACCT = "sacct -j JOB -o JobID,State,MaxRSS,ReqMem"
WATCH = "sudo oomtrace run -- COMMAND"
_OWN_V1 = "$(sed -n 's/^[^:]*:[^:]*memory[^:]*://p' /proc/self/cgroup)"
_GREP = "grep -iE 'oom-kill|killed process|out of memory'"


def remedies(cause: Cause, limit: Limit | None, place: Place | None, hints: AbstractSet[str]) -> tuple[Remedy, ...]:
    """In the order in which to try them. Why memory grew is not in a log: that takes a run that is watched."""
    if cause == "host_oom_cgroup":
        return (_raise_limit(limit, place, hints), _less(limit))
    if cause in {"host_oom_global", "host_oom_unknown_scope", "host_oom_cpuset", "host_oom_mempolicy"}:
        where = {
            "host_oom_cpuset": "on the NUMA nodes of its cpuset, or allow it more of them",
            "host_oom_mempolicy": "on the NUMA nodes of its memory policy (numactl --membind), or allow it more",
        }.get(cause, "on this machine, or move a part of them to another one")
        return (Remedy(do=f"Let the processes together need less host RAM {where}.", verify=WATCH), _less(limit))
    return _OTHERS.get(cause, ())


def _raise_limit(limit: Limit | None, place: Place | None, hints: AbstractSet[str]) -> Remedy:
    above = f" above {format_bytes(limit.limit_bytes)}" if limit is not None and limit.limit_bytes else ""
    if place is not None and (place.slurm_job is not None):
        return Remedy(
            do=f"Ask Slurm for more memory{above}: sbatch --mem=...", verify="sacct -j JOB -o JobID,State,MaxRSS,ReqMem"
        )
    if (place is not None and place.pod_uid is not None) or "kubernetes" in hints:
        return Remedy(
            do=f"Raise resources.limits.memory of the container{above}; what lies in /dev/shm and in an emptyDir with "
            "medium Memory counts as well.",
            verify="kubectl get pod POD -o jsonpath='{.spec.containers[*].resources.limits.memory}'",
        )
    if place is not None and place.container is not None:
        return Remedy(
            do=f"Give the container more memory{above}: --memory=...", verify="docker stats --no-stream CONTAINER"
        )
    if "slurm" in hints:
        return Remedy(
            do=f"Ask Slurm for more memory{above}: sbatch --mem=...", verify="sacct -j JOB -o JobID,State,MaxRSS,ReqMem"
        )
    cgroup = limit.cgroup if limit is not None else None
    of = f" of cgroup {cgroup}" if cgroup else " of that cgroup"
    return Remedy(do=f"Raise the memory limit{of}{above}.", verify=WATCH)


def _less(limit: Limit | None) -> Remedy:
    bound = f" --memory-max {limit.limit_bytes // (1 << 20)}M" if limit is not None and limit.limit_bytes else ""
    return Remedy(
        do="Or let the job need less host RAM (fewer DataLoader workers, a smaller prefetch_factor, data that is "
        "mapped and not loaded). No GPU setting helps. Which process grew, and why, no log tells: watch a run.",
        verify=f"sudo oomtrace run{bound} -- COMMAND",
    )


_OTHERS: dict[Cause, tuple[Remedy, ...]] = {
    "operator_oom": (
        Remedy(do="Somebody asked for it (sysrq-f): RAM need not have run out.", verify="last -x; journalctl -b"),
    ),
    "userspace_oom_daemon": (
        Remedy(do="Let the job need less host RAM, or change the thresholds of that daemon.", verify=WATCH),
    ),
    "shm_exhausted": (
        Remedy(
            do="Give /dev/shm more room (docker run --shm-size=..., or --ipc=host; in Kubernetes an emptyDir with "
            "medium Memory there), or use fewer DataLoader workers and a smaller prefetch_factor.",
            verify="df -h /dev/shm",
        ),
    ),
    "pinned_host_memory": (
        Remedy(
            do="It is host RAM that could not be pinned, whatever CUDA calls it: try pin_memory=False, a smaller "
            "prefetch_factor, or no optimizer offload with pinned buffers. No GPU setting helps.",
            verify="grep -E 'MemAvailable|Mlocked|Unevictable' /proc/meminfo",
        ),
    ),
    "host_allocation_failed": (
        Remedy(
            do="An allocation of host memory was refused, and nobody was killed: look for a limit of address space "
            "(ulimit -v), strict overcommit, or a size that is wrong.",
            verify="ulimit -v; cat /proc/sys/vm/overcommit_memory; grep Commit /proc/meminfo",
        ),
    ),
    "cuda_oom": (
        Remedy(
            do="This is GPU memory: a smaller micro batch with gradient accumulation, activation checkpointing, or a "
            "model that is sharded. More host RAM does not help.",
            verify="nvidia-smi --query-gpu=memory.used,memory.total --format=csv -l 1",
        ),
    ),
    "sigterm": (Remedy(do="Find who stopped the job: a time limit, a preemption, somebody's Ctrl-C.", verify=WATCH),),
    "sigkill": (Remedy(do="Look into the log of who sent it for its reason.", verify=WATCH),),
    "crash": (
        Remedy(do="A crash of native code, and not for want of memory: get a core dump.", verify="coredumpctl list"),
    ),
}  # fmt: skip


def to_settle(hints: AbstractSet[str], victim: Process | None, job: str | None) -> tuple[Remedy, ...]:
    """The commands that show whether it was the kernel, chosen by what the texts are of."""
    pid = victim.pid if victim is not None else None
    named = f"; look for pid {pid}" if pid is not None and not hints & {"kubernetes", "docker"} else ""
    return tuple(_settling(hints, named, job))


def to_tell_apart(hints: AbstractSet[str]) -> tuple[Remedy, ...]:
    """The commands that show which of several kills was the job's."""
    return tuple(_telling_apart(hints))


def _telling_apart(hints: AbstractSet[str]) -> Iterable[Remedy]:
    if "slurm" in hints:
        yield Remedy(do="See when Slurm saw the job end.", verify="sacct -j JOB -o JobID,State,ExitCode,End,MaxRSS")
    yield Remedy(
        do="Get the kernel's lines with times of day, and lay them beside the end of the job's log.",
        verify=f"journalctl -k -b -o short-iso | {_GREP}",
    )
    yield Remedy(do="The same where there is no journal.", verify=f"sudo dmesg -T | {_GREP}")
    yield Remedy(do="Explain both: a pid or a time in the job's log then ties one to it.",
                 verify="oomtrace explain --kernel-log KERNEL_LOG --train-log TRAIN_LOG")  # fmt: skip
    yield Remedy(do="Watch the next run: then the kernel itself tells, and no log is needed.", verify=WATCH)


def _settling(hints: AbstractSet[str], named: str, job: str | None) -> Iterable[Remedy]:
    if "kubernetes" in hints:
        yield Remedy(
            do="See how Kubernetes says that the container ended (reason OOMKilled, or an eviction).",
            verify="kubectl describe pod POD | grep -A8 -E 'Last State|State:|Reason|Events'",
        )
        yield Remedy(do="On its node: the kernel's own words.", verify=f"journalctl -k -b | {_GREP}")
        return
    if "slurm" in hints:
        yield Remedy(
            do="See what Slurm has of the job (OUT_OF_MEMORY, TIMEOUT, CANCELLED).",
            verify=f"sacct -j {job or 'JOB'} -o JobID,State,ExitCode,MaxRSS,ReqMem",
        )
    yield Remedy(do=f"See whether the kernel killed it{named}.", verify=f"sudo dmesg -T | {_GREP}")
    yield Remedy(
        do="The same where dmesg has lost it; -b -1 for the boot before.", verify=f"journalctl -k -b | {_GREP}"
    )
    if "docker" in hints:
        yield Remedy(
            do="See what the runtime has of it. OOMKilled: false proves nothing: it tells of the main process alone.",
            verify="docker inspect CONTAINER --format '{{.State.OOMKilled}} {{.State.ExitCode}}'",
        )
    if "cgroup-v1" in hints:
        yield Remedy(
            do="See whether its cgroup has counted an OOM kill (oom_kill above 0), or reached its limit (failcnt).",
            verify=f"cd /sys/fs/cgroup/memory{_OWN_V1} && grep . memory.oom_control memory.failcnt",
        )
    else:
        yield Remedy(
            do="See whether its cgroup has counted an OOM kill (oom_kill above 0).",
            verify="cat /sys/fs/cgroup$(cut -d: -f3 /proc/self/cgroup | tail -1)/memory.events",
        )
    yield Remedy(do="Watch the next run: then the kernel itself tells, and no log is needed.", verify=WATCH)

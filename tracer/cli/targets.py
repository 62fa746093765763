# SPDX-License-Identifier: Apache-2.0
"""What `attach` is asked to watch: pids and cgroups as a person gives them, looked up before anything is armed."""

import os
from collections.abc import Sequence

from tracer.cli.console import shown
from tracer.errors import InputError, UsageError
from tracer.pipeline import Target
from tracer.sources.cgroups import CgroupSource
from tracer.sources.procfs import read_stat, read_status

MAX_ANCESTORS = 4096


def find_target(pids: Sequence[str], cgroup: str | None, *, proc_root: str = "/proc") -> Target:
    """What is meant.

    Raises:
        UsageError: neither or both were given, or something that cannot be watched.
        InputError: there is no such process or cgroup.
    """
    if cgroup is not None and pids:
        raise UsageError("give --pid or --cgroup, not both")
    if cgroup is not None:
        return Target(cgroup=_cgroup(cgroup))
    if not pids:
        raise UsageError("nothing to attach to", next_command="sudo oomtrace attach --pid PID (or --cgroup PATH)")
    return Target(processes=tuple(dict.fromkeys(_process(pid, proc_root) for pid in pids)))


def has_us_in_it(target: Target, *, proc_root: str = "/proc") -> bool:
    """Whether oomtrace itself stands below what it is to watch, or in it."""
    if target.cgroup is not None:
        return os.getpid() in (CgroupSource(proc_root=proc_root).processes(target.cgroup) or ())
    wanted = {pid for pid, _ in target.processes}
    pid = os.getpid()
    for _ in range(MAX_ANCESTORS):
        stat = read_stat(proc_root, pid)
        if stat is None or stat.parent_tgid <= 0:
            return False
        pid = stat.parent_tgid
        if pid in wanted:
            return True
    return False


def describe(target: Target, *, proc_root: str = "/proc") -> str:
    """`process 4711 (python3)`, `processes 12 and 13`, `cgroup /docker/abc`."""
    if target.cgroup is not None:
        return f"cgroup {shown(target.cgroup)}"
    pids = [str(pid) for pid, _ in target.processes]
    if len(pids) > 1:
        return f"processes {', '.join(pids[:-1])} and {pids[-1]}"
    stat = read_stat(proc_root, target.processes[0][0])
    return f"process {pids[0]}" + ("" if stat is None else f" ({shown(stat.comm)})")


def _process(text: str, proc_root: str) -> tuple[int, int]:
    pid = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
    if pid <= 0:
        raise UsageError(f"{shown(text)} is no process id")
    if pid == os.getpid():
        raise UsageError(f"process {pid} is oomtrace itself")
    status, stat = read_status(proc_root, pid), read_stat(proc_root, pid)
    if status is None or stat is None:
        raise InputError(f"no process {pid}: it has ended, or is in another pid namespace")
    if status.tgid not in (None, pid):
        raise InputError(f"{pid} is a thread of process {status.tgid}: oomtrace attach --pid {status.tgid}")
    if stat.kernel_thread:
        raise InputError(f"process {pid} ({shown(stat.comm)}) is a thread of the kernel")
    if stat.state in ("Z", "X") and not _has_threads(proc_root, pid):
        raise InputError(f"process {pid} ({shown(stat.comm)}) has ended already; its parent did not fetch its status")
    return pid, stat.start_ns


def _has_threads(proc_root: str, pid: int) -> bool:
    try:
        return len(os.listdir(f"{proc_root}/{pid}/task")) > 1
    except OSError:
        return False


def _cgroup(text: str) -> str:
    cgroups = CgroupSource()
    if cgroups.version is None:
        raise InputError("there is no memory controller here, so no memory cgroup")
    path = cgroups.path_of(os.path.abspath(text) if text.startswith((".", "/sys/")) else text)
    if path is None or cgroups.processes(path) is None:
        how = "give its path as /proc/PID/cgroup shows it, or its folder in /sys/fs/cgroup"
        raise InputError(f"no memory cgroup {shown(text)}: {how}")
    return path

# SPDX-License-Identifier: Apache-2.0
"""What `attach` is asked to watch: pids and cgroups as a person gives them, looked up before anything is armed."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from tracer.cli import selecting
from tracer.cli.console import shown
from tracer.errors import InputError, UsageError
from tracer.pipeline import Target
from tracer.sources.cgroups import CgroupSource
from tracer.sources.procfs import read_stat, read_status

MAX_ANCESTORS = 4096


@dataclass(frozen=True)
class Asked:
    """One of these, as it was typed."""

    pids: Sequence[str] = ()
    cgroup: str | None = None
    container: str | None = None
    slurm_job: str | None = None
    unit: str | None = None

    @property
    def options(self) -> tuple[str, ...]:
        """Those that were given."""
        given = {
            "--pid": self.pids or None,
            "--cgroup": self.cgroup,
            "--container": self.container,
            "--slurm-job": self.slurm_job,
            "--unit": self.unit,
        }
        return tuple(option for option, value in given.items() if value is not None)


def find_target(asked: Asked, *, proc_root: str = "/proc", cgroup_root: str = "/sys/fs/cgroup") -> Target:
    """What is meant.

    Raises:
        UsageError: none or several were given, or something that cannot be watched.
        InputError: there is no such process or cgroup, or it cannot be told which one is meant.
    """
    if len(asked.options) > 1:
        raise UsageError(f"give {' or '.join(asked.options)}, not {'both' if len(asked.options) == 2 else 'all'}")
    if asked.pids:
        return Target(processes=tuple(dict.fromkeys(_process(pid, proc_root) for pid in asked.pids)))
    if not asked.options:
        raise UsageError("nothing to attach to", next_command="sudo oomtrace attach --pid PID (or see --help)")
    cgroups = CgroupSource(cgroup_root, proc_root=proc_root)
    if cgroups.version is None:
        raise InputError("there is no memory controller here, so no memory cgroup")
    if asked.container is not None:
        return Target(cgroup=selecting.find_container(asked.container, cgroups, proc_root=proc_root))
    if asked.slurm_job is not None:
        return Target(cgroup=selecting.find_slurm_job(asked.slurm_job, cgroups))
    if asked.unit is not None:
        return Target(cgroup=selecting.find_unit(asked.unit, cgroups))
    return Target(cgroup=_cgroup(asked.cgroup or "", cgroups))


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
    """`process 4711 (python3)`, `processes 12 and 13`, `cgroup /a/b`, `Slurm job 88, cgroup /slurm/...`."""
    if target.cgroup is not None:
        return selecting.describe(target.cgroup)
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


def _cgroup(text: str, cgroups: CgroupSource) -> str:
    path = cgroups.path_of(os.path.abspath(text) if text.startswith((".", "/sys/")) else text)
    if path is None or cgroups.processes(path) is None:
        how = "give its path as /proc/PID/cgroup shows it, or its folder in /sys/fs/cgroup"
        raise InputError(f"no memory cgroup {shown(text)}: {how}")
    return path

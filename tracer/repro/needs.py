# SPDX-License-Identifier: Apache-2.0
"""What a scenario may need of a machine, each with a probe. Never by a kernel's version."""

import os
import shutil
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tracer.job.cgroup import Hierarchy, read
from tracer.repro.interpreters import torch_python

GUEST_WORD = "oomtrace.guest=1"
"""On the kernel's command line: `scripts/vm` alone boots with it."""
CAP_SYS_RESOURCE = 24


class Machine(NamedTuple):
    """Where to look."""

    hierarchy: Hierarchy
    proc_root: str = "/proc"
    sys_root: str = "/sys"

    @property
    def is_guest(self) -> bool:
        return is_guest(self.proc_root)

    def own_file(self, name: str) -> str:
        """A file of our own cgroup, or else of one somewhere below the root, which has fewer."""
        return f"{self.hierarchy.directory(self.hierarchy.own_path)}/{name}"


def is_guest(proc_root: str = "/proc") -> bool:
    """Whether this machine is there to be used up."""
    return GUEST_WORD in read(f"{proc_root}/cmdline").split()


def missing(needs: Iterable[str], machine: Machine) -> str | None:
    """The first thing that is needed and is not there, as a reason."""
    for need in needs:
        there, reason = PROBES[need]
        if not there(machine):
            return reason
    return None


def _has_v2(machine: Machine) -> bool:
    return machine.hierarchy.version == 2


def _has_v1(machine: Machine) -> bool:
    return machine.hierarchy.version == 1


def _has_swap(machine: Machine) -> bool:
    if _memory_total(machine, "SwapTotal:") > 0:
        return True
    # In a guest it can be made.
    return machine.is_guest and shutil.which("zramctl") is not None


def _counts_swap(machine: Machine) -> bool:
    if machine.hierarchy.version == 1:
        return os.path.exists(f"{machine.hierarchy.mount}/memory.memsw.limit_in_bytes")
    return _in_some_cgroup(machine, "memory.swap.max")


def _has_numa(machine: Machine) -> bool:
    nodes = f"{machine.sys_root}/devices/system/node"
    names = os.listdir(nodes) if os.path.isdir(nodes) else []
    with_memory = [name for name in names if name.startswith("node") and name[4:].isdecimal()]
    return len(with_memory) > 1


def _has_psi(machine: Machine) -> bool:
    return bool(read(f"{machine.proc_root}/pressure/memory"))


def _has_kprobes(machine: Machine) -> bool:
    return os.path.exists(f"{machine.sys_root}/bus/event_source/devices/kprobe/type")


def _is_locked_down(machine: Machine) -> bool:
    return "[confidentiality]" in read(f"{machine.sys_root}/kernel/security/lockdown")


def _has_group_kill(machine: Machine) -> bool:
    return _has_v2(machine) and _in_some_cgroup(machine, "memory.oom.group")


def _has_freezer_v1(machine: Machine) -> bool:
    return os.path.exists(f"{machine.sys_root}/fs/cgroup/freezer/cgroup.procs")


def _has_cpuset_v2(machine: Machine) -> bool:
    return _has_v2(machine) and "cpuset" in read(f"{machine.hierarchy.mount}/cgroup.controllers").split()


def _has_sys_resource(machine: Machine) -> bool:
    for line in read(f"{machine.proc_root}/self/status").split("\n"):
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> CAP_SYS_RESOURCE & 1)
    return False


def _is_root(_: Machine) -> bool:
    return os.geteuid() == 0


def _booted_systemd(_: Machine) -> bool:
    return os.path.isdir("/run/systemd/system")


def _has_oomd(_: Machine) -> bool:
    return any(os.path.exists(f"{folder}/systemd-oomd") for folder in ("/usr/lib/systemd", "/lib/systemd"))


def _has_earlyoom(_: Machine) -> bool:
    return shutil.which("earlyoom") is not None


def _has_shared_memory(_: Machine) -> bool:
    # As large as that of the machine: a container's has 64 MiB, and a program then fails before it is killed.
    return os.path.isdir("/dev/shm") and shutil.disk_usage("/dev/shm").free > 1 << 30  # noqa: S108


def _has_torch(_: Machine) -> bool:
    return torch_python() is not None


def _has_last_pid(machine: Machine) -> bool:
    return os.path.exists(f"{machine.proc_root}/sys/kernel/ns_last_pid")


def _has_sysrq(machine: Machine) -> bool:
    return os.path.exists(f"{machine.proc_root}/sysrq-trigger")


def _memory_total(machine: Machine, key: str) -> int:
    for line in read(f"{machine.proc_root}/meminfo").split("\n"):
        words = line.split()
        if words[:1] == [key]:
            return int(words[1])
    return 0


def _in_some_cgroup(machine: Machine, name: str) -> bool:
    """The root has fewer files than others: in any cgroup, of which a machine that was booted well has one."""
    top, some = machine.hierarchy.mount, False
    for folder, below, files in os.walk(top):
        if folder.count("/") - top.count("/") > 2:
            below.clear()  # deep enough
        if name in files:
            return True
        some = some or bool(below)
    # None at all: only making one would tell, and the scenario does that.
    return not some


PROBES: dict[str, tuple[Callable[[Machine], bool], str]] = {
    "cgroup_v2": (_has_v2, "memory is counted by cgroup v1 here"),
    "cgroup_v1": (_has_v1, "memory is counted by cgroup v2 here"),
    "freezer_v1": (_has_freezer_v1, "there is no freezer of cgroup v1: under v2 a SIGKILL ends what is frozen"),
    "cpuset_v2": (_has_cpuset_v2, "cgroup v2 has no cpuset controller here"),
    "swap": (_has_swap, "there is no swap"),
    "memsw": (_counts_swap, "swap is not counted by cgroup here"),
    "numa": (_has_numa, "there is one NUMA node"),
    "psi": (_has_psi, "there is no pressure information"),
    "kprobes": (_has_kprobes, "this kernel has no kprobes"),
    "lockdown": (_is_locked_down, "the kernel lets programs read its memory: no lockdown=confidentiality"),
    "group_kill": (_has_group_kill, "there is no memory.oom.group here"),
    "sys_resource": (_has_sys_resource, "CAP_SYS_RESOURCE is missing: oom_score_adj cannot be lowered"),
    "earlyoom": (_has_earlyoom, "earlyoom is not installed"),
    "systemd": (_booted_systemd, "systemd did not boot this machine"),
    "systemd_oomd": (_has_oomd, "systemd-oomd is not installed"),
    "shm": (_has_shared_memory, "less than 1 GiB of shared memory is free"),
    "torch": (_has_torch, "there is no PyTorch for jobs here: scripts/setup --torch makes one"),
    "ns_last_pid": (_has_last_pid, "this kernel lets nobody choose the next pid"),
    "sysrq": (_has_sysrq, "this kernel has no sysrq"),
    "root": (_is_root, "it takes root"),
}

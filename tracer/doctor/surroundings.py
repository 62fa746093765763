# SPDX-License-Identifier: Apache-2.0
"""Where we run: namespaces, /proc as it is mounted, containers and kernels that are none, the GPU driver."""

import os
import re
from collections.abc import Iterable

from tracer.doctor.model import Answer, Capability
from tracer.doctor.reading import Places, number, read, word
from tracer.doctor.rights import Rights
from tracer.kernel.handover import FIRST_PID_NAMESPACE
from tracer.pseudofiles import read_mounts

FIRST_CGROUP_NAMESPACE, FIRST_TIME_NAMESPACE = 0xEFFFFFFB, 0xEFFFFFFA
"""PROC_CGROUP_INIT_INO, PROC_TIME_INIT_INO, include/linux/proc_ns.h."""
_GVISOR = "Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016"
"""What its /proc/version has said since its first release."""
_RUNTIMES = ("kubepods", "docker", "libpod", "lxc", "containerd", "crio", "garden", "slurm")
_MACHINE = (1, 2, 3, 4)


def check(places: Places, rights: Rights) -> Iterable[Capability]:
    """Each read from files alone."""
    yield _pids(places)
    yield _times(places)
    yield _cgroup_paths(places)
    yield _proc_mount(places, rights)
    yield from _yama(places)
    yield from _container(places)
    yield from _kernel_like(places)
    yield _gpu(places)


def _pids(places: Places) -> Capability:
    first = _is_first(places, "pid", FIRST_PID_NAMESPACE)
    return Capability(
        id="pid_namespace",
        name="pid namespace",
        ok=_answer(first),
        found=_namespace(first),
        meaning="the kernel speaks of the machine's pids: other ones than /proc shows in a namespace of our own; "
        "the BPF programs tell which is which, and without them the kernel's log cannot be used",
        links=_MACHINE,
        remedy=None
        if first is not False
        else "docker run --pid=host (Kubernetes: hostPID: true), or run oomtrace outside",
    )


def _times(places: Places) -> Capability:
    """Offsets matter, not the namespace: it may have none."""
    offsets = read(f"{places.proc}/self/timens_offsets")
    shifted = offsets is not None and any(
        words[0] in {"boottime", "monotonic"} and any(word.lstrip("-") != "0" for word in words[1:])
        for words in map(str.split, offsets.split("\n"))
        if words
    )
    # Without the file the kernel has no time namespaces (before 5.6).
    first = _is_first(places, "time", FIRST_TIME_NAMESPACE)
    ok: Answer = "no" if shifted and first is not True else "yes"
    return Capability(
        id="time_namespace",
        name="clocks",
        ok=ok,
        found="a time namespace shifts them" if ok == "no" else "not shifted by a time namespace",
        meaning="a process is its pid and its start time: in a time namespace both are translated, and compared",
        links=(3,),
        remedy=None if ok == "yes" else "run oomtrace outside of the time namespace (unshare -T)",
    )


def _cgroup_paths(places: Places) -> Capability:
    first = _is_first(places, "cgroup", FIRST_CGROUP_NAMESPACE)
    return Capability(
        id="cgroup_namespace",
        name="cgroup namespace",
        ok=_answer(first),
        found=_namespace(first),
        meaning="paths of cgroups are then shown from the container's own root; the kernel's log names them in full",
        weight="note",
        remedy=None if first is not False else "docker run --cgroupns=host, if whole paths are wanted",
    )


def _proc_mount(places: Places, rights: Rights) -> Capability:
    options = _proc_options(places)
    hidden = next((o for o in options if o.startswith("hidepid=") and o not in {"hidepid=0", "hidepid=off"}), None)
    subset = "subset=pid" in options
    sees = rights.has("CAP_SYS_PTRACE")
    ok: Answer = "no" if subset or (hidden and not sees) else "yes"
    found = ", ".join(filter(None, (hidden, "subset=pid" if subset else None))) or "all processes are shown"
    return Capability(
        id="proc",
        name="/proc",
        ok=ok,
        found=found + (" (which CAP_SYS_PTRACE sees through)" if hidden and sees else ""),
        meaning="names, arguments and roles of the job's processes; with subset=pid also no kernel symbols",
        links=(3,) if not subset else (1, 3),
        remedy=None if ok == "yes" else "sudo mount -o remount,hidepid=0,subset= /proc, or run oomtrace as root",
    )


def _proc_options(places: Places) -> frozenset[str]:
    seen = [mount for mount in read_mounts(places.proc) if mount.mount_point == "/proc" and mount.kind == "proc"]
    return seen[-1].options if seen else frozenset()


def _yama(places: Places) -> Iterable[Capability]:
    scope = number(f"{places.proc}/sys/kernel/yama/ptrace_scope")
    if scope is not None:
        yield Capability(
            id="yama",
            name="yama",
            ok="yes",
            found=f"ptrace_scope {scope}",
            meaning="not in the way: nothing is attached to with ptrace, only read",
            weight="note",
        )


def _container(places: Places) -> Iterable[Capability]:
    hints = [f"/{place}" for place in (".dockerenv", "run/.containerenv") if os.path.exists(_beside(places, place))]
    paths = read(f"{places.proc}/self/cgroup") or ""
    hints += [f"{name} in /proc/self/cgroup" for name in _RUNTIMES if name in paths]
    if hints:
        yield Capability(
            id="container",
            name="container",
            ok="unknown",
            found="perhaps in one: " + ", ".join(hints[:4]),
            meaning="a hint only; what counts are the namespaces and capabilities",
            weight="note",
        )


def _kernel_like(places: Places) -> Iterable[Capability]:
    version = word(f"{places.proc}/version") or ""
    release = word(f"{places.proc}/sys/kernel/osrelease") or ""
    if version.startswith(_GVISOR):
        name, found, ok = "gVisor", "this is no Linux kernel but gVisor's, which has no BPF", "no"
    elif re.search(r"-Microsoft$", release):
        name, found, ok = "WSL 1", "this is no Linux kernel but Windows': it has no BPF", "no"
    elif "microsoft" in release.lower():
        name, found, ok = "WSL 2", "a kernel of its own in a virtual machine: only what Linux runs is seen", "yes"
    else:
        return
    yield Capability(
        id="other_kernel",
        name=name,
        ok="yes" if ok == "yes" else "no",
        found=found,
        meaning="only a Linux kernel can be watched",
        links=() if ok == "yes" else _MACHINE,
        weight="note" if ok == "yes" else "proof",
        remedy=None if ok == "yes" else "run oomtrace on the machine itself (WSL: wsl --set-version DISTRIBUTION 2)",
    )


def _gpu(places: Places) -> Capability:
    driver = word(f"{places.proc}/driver/nvidia/version")
    match = re.search(r"Module\s+(\d[\d.]{0,20})", driver or "")
    found = f"driver {match[1]}" if match else "a driver" if driver else "no driver"
    return Capability(
        id="gpu",
        name="NVIDIA GPU",
        ok="yes" if driver else "no",
        found=found,
        meaning="calls of its driver (libcuda) are watched in whatever process of the job has mapped it",
        links=(5,),
        weight="note",
    )


def _beside(places: Places, name: str) -> str:
    return os.path.normpath(f"{places.proc}/../{name}")


def _is_first(places: Places, kind: str, inode: int) -> bool | None:
    try:
        return os.stat(f"{places.proc}/self/ns/{kind}").st_ino == inode
    except OSError:
        return None


def _answer(first: bool | None) -> Answer:
    return "unknown" if first is None else "yes" if first else "no"


def _namespace(first: bool | None) -> str:
    return "not known" if first is None else "the machine's own" if first else "one of our own"

# SPDX-License-Identifier: Apache-2.0
"""Memory cgroups and what speaks of memory: can a job be limited here, and does a kill spare the tracer?"""

import os
from collections.abc import Iterable

from tracer.doctor.model import Answer, Capability
from tracer.doctor.reading import Places, number, read, word
from tracer.doctor.rights import Rights
from tracer.errors import CgroupUnavailable
from tracer.job.cgroup import Hierarchy, find_hierarchy, shares_group_kill
from tracer.job.systemd import find_busctl
from tracer.sources.procfs import read_keys


def check(places: Places, rights: Rights) -> Iterable[Capability]:
    """Looked at only: no cgroup is made."""
    hierarchy: Hierarchy | None = None
    why = ""
    try:
        hierarchy = find_hierarchy(proc_root=places.proc, cgroup_root=places.cgroup)
    except CgroupUnavailable as error:
        why = str(error)
    yield _version(hierarchy, why)
    if hierarchy is not None:
        yield _limited(places, rights, hierarchy)
        yield _swap(places, hierarchy)
        yield _count(hierarchy)
        yield _group_kill(hierarchy)
    yield _pressure(places)
    yield _own_score(places, rights)


def _version(hierarchy: Hierarchy | None, why: str) -> Capability:
    return Capability(
        id="memory_cgroup",
        name="memory cgroups",
        ok="no" if hierarchy is None else "yes",
        found=why
        if hierarchy is None
        else f"version {hierarchy.version} at {hierarchy.mount}; ours is {hierarchy.own_path}",
        meaning="usage and limits of the job's cgroups over time; those at the kill itself come from the kernel",
        links=(2,),
        remedy=None
        if hierarchy is not None
        else "boot with cgroup_enable=memory, or in a container mount /sys/fs/cgroup",
    )  # fmt: skip


def _limited(places: Places, rights: Rights, hierarchy: Hierarchy) -> Capability:
    """Whether `run --memory-max` could make its cgroup."""
    directory = hierarchy.directory(hierarchy.own_path)
    systemd = os.path.isdir(f"{places.run}/systemd/system")
    ok, found = _can_ask_systemd(rights) if systemd else _can_make(hierarchy, directory)
    return Capability(
        id="limited_cgroup",
        name="--memory-max",
        ok=ok,
        found=found,
        meaning="a memory cgroup with a limit for the job, below ours; everything else works without it",
        remedy=None if ok != "no" else _limit_remedy(rights, systemd=systemd),
        with_root=ok if rights.root or ok == "yes" else "unknown",
    )


def _can_ask_systemd(rights: Rights) -> tuple[Answer, str]:
    if find_busctl() is None:
        return "no", "systemd owns the cgroups here, and its busctl is not installed"
    whose = "a transient scope of systemd" if rights.root else "a transient scope of your own systemd (--user)"
    return "unknown", f"{whose}: whether it makes one is seen when it is asked"


def _can_make(hierarchy: Hierarchy, directory: str) -> tuple[Answer, str]:
    if ".." in hierarchy.own_path.split("/"):
        return "no", "our own cgroup lies outside of our cgroup namespace"
    if not os.path.isdir(directory):
        return "no", f"our own cgroup is not to be seen below {hierarchy.mount}"
    if not os.access(directory, os.W_OK):
        return "no", f"{directory} cannot be written"
    if hierarchy.version == 1:
        return "yes", f"below {directory}"
    if "memory" in (read(f"{directory}/cgroup.subtree_control") or "").split():
        return "yes", f"below {directory}"
    if hierarchy.own_path == "/" or os.access(os.path.dirname(directory), os.W_OK):
        return "unknown", f"below {directory} or beside it: whether the kernel allows that is seen when it is done"
    return "no", f"{directory} hands the memory controller to nobody below it"


def _limit_remedy(rights: Rights, *, systemd: bool) -> str:
    if systemd and find_busctl() is None:
        return "install systemd's busctl (package systemd)"
    if rights.root:
        return "mount /sys/fs/cgroup writable (docker run --privileged), or let the container runtime set the limit"
    return "sudo, or: systemd-run --user --scope -p MemoryMax=64G -p OOMPolicy=continue COMMAND"


def _swap(places: Places, hierarchy: Hierarchy) -> Capability:
    directory = hierarchy.directory(hierarchy.own_path)
    # The root has no limits of its own in version 2, so it tells nothing there.
    name = "memory.memsw.limit_in_bytes" if hierarchy.version == 1 else "memory.swap.max"
    there = os.path.exists(f"{directory}/{name}")
    is_root = hierarchy.version == 2 and hierarchy.own_path == "/"
    swap_bytes = (read_keys(f"{places.proc}/meminfo") or {}).get("SwapTotal")
    machine = {None: "", 0: "; the machine has no swap"}.get(swap_bytes, "; the machine has swap")
    return Capability(
        id="swap_accounting",
        name="--swap-max",
        ok="yes" if there else "unknown" if is_root else "no",
        found=("counted for each cgroup" if there else "not to be seen here" if is_root else f"no {name}") + machine,
        meaning="limits the job's swap: without it a limited job may swap where it should be killed",
        remedy=None if there or is_root else "boot with swapaccount=1",
    )


def _count(hierarchy: Hierarchy) -> Capability:
    name = "memory.oom_control" if hierarchy.version == 1 else "memory.events"
    path = f"{hierarchy.directory(hierarchy.own_path)}/{name}"
    # The root has none in version 2, and version 1 counts since 4.13.
    there = any(line.startswith("oom_kill ") for line in (read(path) or "").split("\n"))
    return Capability(
        id="oom_count",
        name="count of OOM kills",
        ok="yes" if there else "no",
        found=f"of our cgroup, in its {name}" if there else f"none in the {name} of our cgroup",
        meaning="without BPF and kernel log it tells that one was killed, not which: likely or possible, never proved",
        links=(1, 2),
    )


def _group_kill(hierarchy: Hierarchy) -> Capability:
    group = shares_group_kill(hierarchy)
    return Capability(
        id="group_kill",
        name="memory.oom.group",
        ok="yes" if group is None else "no",
        found="not set above us" if group is None else f"set at {group}",
        meaning="where it is set, a kill takes the whole container and oomtrace with it: the recording then has no end",
        links=(1, 2, 3, 4),
        weight="proof",
        remedy=None
        if group is None
        else "run oomtrace outside of that container, or give it CAP_SYS_RESOURCE: then it is passed over",
    )


def _pressure(places: Places) -> Capability:
    there = (word(f"{places.proc}/pressure/memory") or "").startswith("some ")
    return Capability(
        id="psi",
        name="pressure (PSI)",
        ok="yes" if there else "no",
        found=f"{places.proc}/pressure/memory" if there else f"no {places.proc}/pressure/memory",
        meaning="how long tasks waited for memory, in the timeline; no proof rests on it",
        weight="note",
        remedy=None if there else "boot with psi=1",
    )


def _own_score(places: Places, rights: Rights) -> Capability:
    score = number(f"{places.proc}/self/oom_score_adj")
    spared = rights.has("CAP_SYS_RESOURCE") or (score is not None and score <= -1000)
    return Capability(
        id="own_oom_score",
        name="oomtrace itself",
        ok="yes" if spared else "no" if score is not None and score > 0 else "unknown",
        found=f"oom_score_adj {'unknown' if score is None else score}"
        + ("; the OOM killer will pass it by" if spared else "; it cannot be lowered without CAP_SYS_RESOURCE"),
        meaning="in a machine-wide shortage the kernel chooses others first"
        if spared
        else "in a machine-wide shortage the kernel may choose oomtrace; it is small, so seldom first",
        weight="note",
        with_root="yes" if rights.can_become_root and rights.root_would_have("CAP_SYS_RESOURCE") else None,
    )

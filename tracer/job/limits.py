# SPDX-License-Identifier: Apache-2.0
"""The job's limits: whether they make sense here, and which kind of cgroup can hold them."""

import os
from collections.abc import Mapping, Sequence

from tracer.errors import CgroupUnavailable, PermissionDenied, UsageError
from tracer.job.cgroup import Hierarchy, JobCgroup, Limits, read
from tracer.job.cgroupfs import make_plain_cgroup
from tracer.job.scope import ScopeCgroup, place_by_system, place_by_user
from tracer.job.systemd import BUSCTL, Manager, find_busctl, is_booted
from tracer.units import KIB, format_bytes

_NO_SWAP_COUNT = "this kernel does not count swap by cgroup (boot it with swapaccount=1): leave out --swap-max"


def make_cgroup(
    hierarchy: Hierarchy, token: str, limits: Limits, *, environ: Mapping[str, str], busctl: Sequence[str] = BUSCTL
) -> JobCgroup:
    """A memory cgroup for the job with these limits, so placed that all limits round us hold for it as well.

    Where systemd owns the tree it is a transient scope, which is there once the job is put into it;
    everywhere else, in a container or below another manager such as Slurm, it is made by hand.

    Raises:
        OomtraceError: none can be made, with the reason and what to do.
    """
    check_limits(hierarchy, limits)
    if not is_booted():
        return make_plain_cgroup(hierarchy, token, limits)
    program = find_busctl(busctl)
    if program is None:
        raise CgroupUnavailable(
            "systemd owns the cgroups here, and its busctl is not installed: leave out --memory-max"
        )
    if os.geteuid() == 0:
        place = place_by_system(hierarchy, Manager(program), os.getpid())
        return (
            make_plain_cgroup(hierarchy, token, limits)
            if place is None
            else ScopeCgroup(hierarchy, place, token, limits)
        )
    try:
        manager = Manager(program, user=True, environ=environ)
        return ScopeCgroup(hierarchy, place_by_user(hierarchy, manager, os.getpid()), token, limits)
    except CgroupUnavailable as error:
        raise PermissionDenied(f"no memory cgroup can be made without root: {error}") from error


def check_limits(hierarchy: Hierarchy, limits: Limits) -> None:
    """Refuse what cannot hold on this machine.

    Raises:
        UsageError: v1 counts swap together with memory, and the latter has no limit.
        CgroupUnavailable: swap is not counted.
    """
    if limits.swap_bytes is None or hierarchy.version == 2:
        return
    if limits.memory_bytes is None:
        raise UsageError("cgroup v1 limits memory and swap together: give --memory-max as well as --swap-max")
    if not os.path.exists(f"{hierarchy.mount}/memory.memsw.limit_in_bytes"):
        raise CgroupUnavailable(_NO_SWAP_COUNT)


def never_hit(limits: Limits, *, proc_root: str = "/proc") -> str | None:
    """What is to be said about a limit that is larger than the machine."""
    for line in read(f"{proc_root}/meminfo").split("\n"):
        name, _, value = line.partition(":")
        words = value.split()
        if name == "MemTotal" and words and words[0].isdecimal():
            total_bytes = int(words[0]) * KIB
            if limits.memory_bytes is not None and limits.memory_bytes > total_bytes:
                return (
                    f"the memory limit of {format_bytes(limits.memory_bytes)} is more than the RAM of this machine "
                    f"({format_bytes(total_bytes)}): it cannot be reached"
                )
    return None

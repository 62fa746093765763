# SPDX-License-Identifier: Apache-2.0
"""The memory cgroups of this machine: where we stand in them, what surrounds us. Changes nothing."""

import os
from dataclasses import dataclass
from typing import Literal, Protocol

from tracer.errors import CgroupUnavailable
from tracer.pseudofiles import read_bytes, read_cgroup_paths, read_mounts
from tracer.units import NO_LIMIT_BYTES

NAME_PREFIX = "oomtrace-run-"
OUTSIDE = "or leave out --memory-max and have whoever made it set the limit (docker run --memory, sbatch --mem)"
"""What remains where no cgroup can be made."""

_LIMITS_V2 = ("memory.max", "memory.high", "memory.swap.max", "memory.zswap.max")
_LIMITS_V1 = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")


@dataclass(frozen=True)
class Limits:
    """What the job may use; `None` leaves a limit alone."""

    memory_bytes: int | None = None
    swap_bytes: int | None = None
    """Swap alone, on both versions."""
    own: bool = False
    """A cgroup of the job's own is wanted even where neither is limited."""


class JobCgroup(Protocol):
    """A memory cgroup that is there for one job. Whoever made it removes it, and ends nothing that runs in it."""

    @property
    def path(self) -> str | None:
        """As /proc/PID/cgroup of the job shows it; `None`: there is none until the job is put into it."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be known about it and belongs among the caveats."""

    def add(self, pid: int) -> None:
        """Move one process into it, and come back when its limits hold for that process.

        Raises:
            CgroupUnavailable: that was refused, or a limit does not hold.
        """

    def processes(self) -> tuple[int, ...]:
        """Who is in it or in a cgroup below it."""

    def remove(self, *, patience_s: float = 1.0) -> tuple[int, ...]:
        """Remove it, if nothing runs in it any more.

        Returns:
            The processes that still run in it, and for which it stays; empty: it is gone.

        Raises:
            OomtraceError: it is empty and yet cannot be removed.
        """


@dataclass(frozen=True)
class Hierarchy:
    """Where the memory controller is mounted, and where in it a process stands."""

    version: Literal[1, 2]
    mount: str
    own_path: str
    """As /proc/PID/cgroup shows it."""
    mount_root: str
    """The path that is mounted at `mount`: `/` unless a container shows us only its own part."""

    def directory(self, path: str) -> str:
        """The folder of a cgroup."""
        below = path
        if self.mount_root != "/" and (path + "/").startswith(self.mount_root + "/"):
            below = path[len(self.mount_root) :]
        return os.path.normpath(f"{self.mount}/{below}")


def find_hierarchy(
    *, proc_root: str = "/proc", cgroup_root: str = "/sys/fs/cgroup", pid: int | str = "self"
) -> Hierarchy:
    """The memory hierarchy, v1 (also hybrid) or v2.

    Raises:
        CgroupUnavailable: there is no memory controller here.
    """
    own = read_cgroup_paths(proc_root, pid)
    v1, v2 = own.memory_v1, own.v2
    for mount in (f"{cgroup_root}/memory", cgroup_root):
        if v1 is not None and os.path.exists(f"{mount}/memory.limit_in_bytes"):
            return Hierarchy(1, mount, v1, _mount_root(proc_root, mount))
    if v2 is not None and "memory" in read(f"{cgroup_root}/cgroup.controllers").split():
        return Hierarchy(2, cgroup_root, v2, _mount_root(proc_root, cgroup_root))
    raise CgroupUnavailable(f"no memory controller is mounted in {cgroup_root}: mount it, or leave out --memory-max")


def memory_path(hierarchy: Hierarchy, pid: int, *, proc_root: str = "/proc") -> str | None:
    """The memory cgroup that a process is in now."""
    paths = read_cgroup_paths(proc_root, pid)
    return paths.memory_v1 if hierarchy.version == 1 else paths.v2


def shares_group_kill(hierarchy: Hierarchy) -> str | None:
    """The cgroup round us that is killed as a whole (memory.oom.group): a kill in it would end us too."""
    if hierarchy.version == 1:
        return None
    path = hierarchy.own_path
    while path not in ("", "/"):
        if read(f"{hierarchy.directory(path)}/memory.oom.group").strip() == "1":
            return path
        path = os.path.dirname(path)
    return None


def _mount_root(proc_root: str, mount_point: str) -> str:
    there = [mount.root for mount in read_mounts(proc_root) if mount.mount_point == mount_point]
    return there[-1] if there and there[-1].startswith("/") else "/"


def own_limit(hierarchy: Hierarchy, path: str) -> str | None:
    """The name of a memory limit that this one cgroup has; `None`: it has none."""
    directory = hierarchy.directory(path)
    for name in _LIMITS_V1 if hierarchy.version == 1 else _LIMITS_V2:
        value = read(f"{directory}/{name}").strip()
        if value not in ("", "max") and not (value.isdecimal() and int(value) >= NO_LIMIT_BYTES):
            return name
    return None


def read(path: str) -> str:
    """A small file's text, empty where there is none: each caller says what that means."""
    return (read_bytes(path) or b"").decode("utf-8", "surrogateescape")


def write(path: str, value: str) -> None:
    """Write a value whole.

    Raises:
        CgroupUnavailable: the kernel refused it.
    """
    try:
        # Unbuffered, so that a refusal shows here and not when the file is closed.
        with open(path, "wb", buffering=0) as file:
            file.write(value.encode("ascii"))
    except OSError as error:
        where = "/".join(path.split("/")[-2:])
        raise CgroupUnavailable(f"cannot write {value} to {where}: {error.strerror}") from error

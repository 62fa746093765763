# SPDX-License-Identifier: Apache-2.0
"""A transient scope of systemd's as the job's memory cgroup, in the slice that the caller stands in.

systemd makes it, and collects it when the last process has left. It is told to go on after an OOM kill:
by default the death of one worker stops the whole scope.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from tracer.errors import CgroupUnavailable
from tracer.job.cgroup import NAME_PREFIX, Hierarchy, Limits, memory_path, own_limit, read, write
from tracer.job.systemd import PATIENCE_S, Manager, Refused
from tracer.pseudofiles import processes_below

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_PAUSE_S = 0.01
_ALSO_LEFT = ("cpu.max", "cpuset.cpus", "cpuset.mems")


@dataclass(frozen=True)
class Place:
    """Where systemd is to make the scope, and what the job leaves for it."""

    manager: Manager
    slice: str | None
    """`None`: where the manager puts scopes by default."""
    part_of: str | None
    """The unit that the caller runs in: stopping that stops the job, as it would without us."""
    notes: tuple[str, ...] = ()


class ScopeCgroup:
    """See `JobCgroup`. Until a process is put into it there is none: a scope cannot be empty."""

    def __init__(
        self, hierarchy: Hierarchy, place: Place, token: str, limits: Limits, *, proc_root: str = "/proc"
    ) -> None:
        self.path: str | None = None
        self.name = f"{NAME_PREFIX}{token}.scope"
        self.notes = place.notes
        self._hierarchy = hierarchy
        self._place = place
        self._limits = limits
        self._proc_root = proc_root

    def add(self, pid: int) -> None:
        """See `JobCgroup`."""
        try:
            self._start(pid)
        except Refused as error:
            raise CgroupUnavailable(f"systemd makes no scope: {error}") from error
        # The answer says that it was begun.
        if not _in_time(lambda: self._arrived(pid)):
            raise CgroupUnavailable(f"systemd was asked for {self.name}, and the job is still not in it")
        self._check_limits()

    def processes(self) -> tuple[int, ...]:
        return () if self.path is None else processes_below(self._hierarchy.directory(self.path))

    def remove(self, *, patience_s: float = 1.0) -> tuple[int, ...]:
        """See `JobCgroup`. It is systemd who removes it, as soon as it is empty."""
        if self.path is not None:
            directory = self._hierarchy.directory(self.path)
            _in_time(lambda: not os.path.isdir(directory), patience_s=patience_s)
        return self.processes()

    def _start(self, pid: int) -> None:
        manager, place = self._place.manager, self._place
        properties: list[tuple[str, ...]] = [
            ("PIDs", "au", "1", str(pid)),
            ("Description", "s", "a job under oomtrace"),
            ("CollectMode", "s", "inactive-or-failed"),
        ]
        if place.slice is not None:
            properties.append(("Slice", "s", place.slice))
        if place.part_of is not None:
            properties.append(("PartOf", "as", "1", place.part_of))
        if self._limits.memory_bytes is not None:
            properties.append(("MemoryMax", "t", str(self._limits.memory_bytes)))
        if self._limits.swap_bytes is not None and self._hierarchy.version == 2:
            properties.append(("MemorySwapMax", "t", str(self._limits.swap_bytes)))
        try:
            manager.start_scope(self.name, [*properties, ("MemoryAccounting", "b", "true"), _CONTINUE])
        except Refused as error:
            if _CONTINUE[0] not in str(error):
                raise
            # Before 253 a scope has no such policy, and some versions stop it at an OOM kill. Without accounting
            # they do not look; the limit needs none.
            manager.start_scope(self.name, [*properties, ("MemoryAccounting", "b", "false")])

    def _arrived(self, pid: int) -> bool:
        path = memory_path(self._hierarchy, pid, proc_root=self._proc_root)
        if path is None or os.path.basename(path) != self.name:
            return False
        self.path = path
        return True

    def _check_limits(self) -> None:
        limits, version = self._limits, self._hierarchy.version
        if self.path is None:
            return
        directory = self._hierarchy.directory(self.path)
        wanted = [("memory.max" if version == 2 else "memory.limit_in_bytes", limits.memory_bytes)]
        if version == 2:
            wanted.append(("memory.swap.max", limits.swap_bytes))
        elif limits.memory_bytes is not None and limits.swap_bytes is not None:
            # systemd has no setting for this file, and never writes it.
            write(f"{directory}/memory.memsw.limit_in_bytes", str(limits.memory_bytes + limits.swap_bytes))
        for name, limit_bytes in wanted:
            if limit_bytes is not None and not _in_time(_Holds(f"{directory}/{name}", limit_bytes)):
                value = read(f"{directory}/{name}").strip() or "not there"
                raise CgroupUnavailable(f"systemd made {self.name}, but its {name} is {value}")


_CONTINUE = ("OOMPolicy", "s", "continue")


@dataclass(frozen=True)
class _Holds:
    """Whether a file says a limit, which the kernel rounds down to whole pages."""

    file: str
    limit_bytes: int

    def __call__(self) -> bool:
        return read(self.file).strip() == str(self.limit_bytes // _PAGE_BYTES * _PAGE_BYTES)


def place_by_system(hierarchy: Hierarchy, manager: Manager, pid: int) -> Place | None:
    """Where the system's manager can put the job of a process; `None`: this part of the tree is not its own.

    Raises:
        CgroupUnavailable: it is, but a limit round us would not hold for the job; or systemd does not answer.
    """
    unit = manager.unit_of(pid)
    if unit is None:
        return None
    own, top = hierarchy.own_path, unit.control_group
    # Below a unit stands what somebody else made: a container engine, or Slurm, which must find its jobs where it
    # put them; only a user's systemd is one that we can go past. On v1 the memory hierarchy may lack lower levels.
    if not (
        own == top
        or (_within(own, top) and unit.name.startswith("user@"))
        or (hierarchy.version == 1 and _within(top, own))
    ):
        return None
    is_slice = unit.name.endswith(".slice")
    parent = top if is_slice else os.path.dirname(top)
    return Place(
        manager,
        unit.slice,
        None if is_slice or unit.name == "init.scope" else unit.name,
        _leave(hierarchy, parent, unit.name),
    )


def place_by_user(hierarchy: Hierarchy, manager: Manager, pid: int) -> Place:
    """Where the caller's own manager can put the job.

    Raises:
        CgroupUnavailable: it may not limit memory, a limit round us would not hold, or it does not answer.
    """
    top = manager.control_group()
    if hierarchy.version == 1 or "memory" not in read(f"{hierarchy.directory(top)}/cgroup.controllers").split():
        raise CgroupUnavailable("the systemd of this user may not limit memory: call oomtrace through sudo")
    unit = manager.unit_of(pid)
    if unit is not None and _within(hierarchy.own_path, unit.control_group):
        parent = unit.control_group if unit.name.endswith(".slice") else os.path.dirname(unit.control_group)
        return Place(manager, unit.slice, None, _leave(hierarchy, parent, unit.name))
    # We stand outside of it, in a login session as a rule.
    return Place(manager, None, None, _leave(hierarchy, top, "our own cgroup"))


def _leave(hierarchy: Hierarchy, parent: str, unit: str) -> tuple[str, ...]:
    """What is to be said about the levels from our own up to `parent`, which the job leaves.

    Raises:
        CgroupUnavailable: one of them limits its memory.
    """
    notes = []
    path = hierarchy.own_path
    while path not in ("", "/") and not _within(parent, path):
        limit = own_limit(hierarchy, path)
        if limit is not None:
            raise CgroupUnavailable(
                f"systemd would put the job beside {path}, and {limit} of that would not hold for it: "
                "leave out --memory-max, and the job stays within that limit"
            )
        for name in _ALSO_LEFT:
            value = read(f"{hierarchy.directory(path)}/{name}").strip()
            if value and not value.startswith("max"):
                notes.append(f"the job left {unit} for a scope of its own, so {name} of {path} did not hold for it")
        path = os.path.dirname(path)
    return tuple(notes)


def _within(path: str, top: str) -> bool:
    return top == "/" or f"{path}/".startswith(f"{top}/")


def _in_time(holds: Callable[[], bool], *, patience_s: float | None = None) -> bool:
    deadline = time.monotonic() + (PATIENCE_S if patience_s is None else patience_s)
    while not holds():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_PAUSE_S)
    return True

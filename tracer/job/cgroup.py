# SPDX-License-Identifier: Apache-2.0
"""One memory cgroup for the job: made below the tracer's own, limited, removed. Kills nothing, ever."""

import contextlib
import fcntl
import os
import time
from dataclasses import dataclass, field
from typing import Literal

from tracer.errors import CgroupUnavailable

NAME_PREFIX = "oomtrace-run-"
_UNLIMITED = ("max", "")
_ATTEMPTS = 100


@dataclass(frozen=True)
class Limits:
    """What the job may use; `None` leaves a limit alone."""

    memory_bytes: int | None = None
    swap_bytes: int | None = None
    """Swap alone, on both versions."""


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


@dataclass(frozen=True)
class JobCgroup:
    """A memory cgroup that we made."""

    path: str
    """As /proc/PID/cgroup of the job shows it."""
    directory: str
    claim: "_Claim | None" = field(default=None, compare=False)
    """As long as we hold it, nobody takes the cgroup for one that was left behind."""

    def add(self, pid: int) -> None:
        """Move one process into it.

        Raises:
            CgroupUnavailable: the kernel refused.
        """
        _write(f"{self.directory}/cgroup.procs", str(pid))

    def processes(self) -> tuple[int, ...]:
        """Who is in it or in a cgroup below it."""
        found: set[int] = set()
        for folder, _, _ in os.walk(self.directory):
            found.update(_processes(folder))
        return tuple(sorted(found))

    def remove(self, *, patience_s: float = 1.0) -> tuple[int, ...]:
        """Remove it, if nothing runs in it any more.

        Returns:
            The processes that still run in it, and for which it stays; empty: it is gone.

        Raises:
            CgroupUnavailable: it is empty and yet cannot be removed.
        """
        deadline = time.monotonic() + patience_s
        while True:
            try:
                with contextlib.suppress(FileNotFoundError):
                    os.rmdir(self.directory)
            except OSError as error:
                # The kernel takes a moment to let go of processes that have just died.
                if time.monotonic() >= deadline:
                    left = self.processes()
                    if left:
                        return left
                    raise CgroupUnavailable(f"cannot remove {self.path}: {error.strerror}") from error
            else:
                if self.claim is not None:
                    self.claim.give_up()
                return ()
            time.sleep(0.01)


class _Claim:
    """A lock on a cgroup's folder. The kernel lets go of it when its holder ends, however that ends."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._fd: int | None = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.give_up()
            raise

    def give_up(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def find_hierarchy(
    *, proc_root: str = "/proc", cgroup_root: str = "/sys/fs/cgroup", pid: int | str = "self"
) -> Hierarchy:
    """The memory hierarchy, v1 (also hybrid) or v2.

    Raises:
        CgroupUnavailable: there is no memory controller here.
    """
    v1, v2 = _own_paths(f"{proc_root}/{pid}/cgroup")
    for mount in (f"{cgroup_root}/memory", cgroup_root):
        if v1 is not None and os.path.exists(f"{mount}/memory.limit_in_bytes"):
            return Hierarchy(1, mount, v1, _mount_root(proc_root, mount))
    if v2 is not None and "memory" in _read(f"{cgroup_root}/cgroup.controllers").split():
        return Hierarchy(2, cgroup_root, v2, _mount_root(proc_root, cgroup_root))
    raise CgroupUnavailable("no memory controller is mounted")


def make_cgroup(hierarchy: Hierarchy, token: str, limits: Limits) -> JobCgroup:
    """A new memory cgroup with these limits, so placed that all limits round us hold for it as well.

    Empty ones that earlier runs had to leave in that place are removed.

    Raises:
        CgroupUnavailable: none can be made, with the reason.
    """
    if ".." in hierarchy.own_path.split("/") or hierarchy.mount_root.startswith("/.."):
        raise CgroupUnavailable("our own cgroup lies outside of our cgroup namespace")
    parent = hierarchy.own_path if hierarchy.version == 1 else _parent_v2(hierarchy)
    path = f"{parent.rstrip('/')}/{NAME_PREFIX}{token}"
    directory = hierarchy.directory(path)
    remove_left_behind(os.path.dirname(directory))
    try:
        made = JobCgroup(path, directory, _make(directory))
    except OSError as error:
        raise CgroupUnavailable(f"cannot make the memory cgroup {path}: {error.strerror}") from error
    try:
        (_limit_v1 if hierarchy.version == 1 else _limit_v2)(made.directory, limits)
    except CgroupUnavailable:
        made.remove()
        raise
    return made


def remove_left_behind(parent: str) -> None:
    """Remove what runs before us left below `parent`: cgroups of ours that are empty, and that no run holds."""
    try:
        names = os.listdir(parent)
    except OSError:
        return
    for name in names:
        if name.startswith(NAME_PREFIX):
            # In use, still claimed, or gone meanwhile: not ours to remove.
            with contextlib.suppress(OSError):
                claim = _Claim(f"{parent}/{name}")
                try:
                    os.rmdir(claim.directory)
                finally:
                    claim.give_up()


def shares_group_kill(hierarchy: Hierarchy) -> str | None:
    """The cgroup round us that is killed as a whole (memory.oom.group): a kill in it would end us too."""
    if hierarchy.version == 1:
        return None
    path = hierarchy.own_path
    while path not in ("", "/"):
        if _read(f"{hierarchy.directory(path)}/memory.oom.group").strip() == "1":
            return path
        path = os.path.dirname(path)
    return None


def _make(directory: str) -> _Claim | None:
    """Make the folder and claim it; `None`: it could not be claimed, which matters to nobody but tidy neighbours."""
    os.mkdir(directory, 0o755)
    for _ in range(_ATTEMPTS):
        try:
            claim = _Claim(directory)
            if os.path.isdir(directory):
                return claim
            claim.give_up()
        except BlockingIOError:  # another run looks whether it was left behind
            time.sleep(0.01)
            continue
        except FileNotFoundError:
            pass
        except OSError:
            return None
        os.mkdir(directory, 0o755)  # that other run was quicker than our claim
    return None


def _limit_v1(directory: str, limits: Limits) -> None:
    # memory+swap may not be below memory, so memory comes first.
    if limits.memory_bytes is not None:
        _write(f"{directory}/memory.limit_in_bytes", str(limits.memory_bytes))
    if limits.swap_bytes is not None:
        if limits.memory_bytes is None:
            raise CgroupUnavailable("cgroup v1 limits memory and swap together: a swap limit needs a memory limit")
        _write(f"{directory}/memory.memsw.limit_in_bytes", str(limits.memory_bytes + limits.swap_bytes))


def _limit_v2(directory: str, limits: Limits) -> None:
    if limits.memory_bytes is not None:
        _write(f"{directory}/memory.max", str(limits.memory_bytes))
    if limits.swap_bytes is not None:
        _write(f"{directory}/memory.swap.max", str(limits.swap_bytes))


def _parent_v2(hierarchy: Hierarchy) -> str:
    # A cgroup that holds processes cannot hand controllers to children (except the real root), and
    # ours holds at least us. A sibling will do where our own level limits nothing that it would escape.
    own = hierarchy.own_path
    why = _enable_memory(hierarchy.directory(own))
    if why is None:
        return own
    limited = [name for name in ("memory.max", "memory.high", "memory.swap.max", "memory.zswap.max")
               if _read(f"{hierarchy.directory(own)}/{name}").strip() not in _UNLIMITED]  # fmt: skip
    above = os.path.dirname(own.rstrip("/"))
    if limited:
        raise CgroupUnavailable(
            f"no memory cgroup can be made below {own} ({why}), and beside it {limited[0]} would not hold"
        )
    if own in ("", "/") or not os.path.isdir(hierarchy.directory(above)):
        raise CgroupUnavailable(f"no memory cgroup can be made below {own}: {why}")
    why_not_beside = _enable_memory(hierarchy.directory(above))
    if why_not_beside is not None:
        raise CgroupUnavailable(f"no memory cgroup can be made below {own} ({why}) or beside it ({why_not_beside})")
    return above


def _enable_memory(directory: str) -> str | None:
    """Hand the memory controller to the children; why not, where that is refused."""
    control = f"{directory}/cgroup.subtree_control"
    if "memory" in _read(control).split():
        return None
    if "memory" not in _read(f"{directory}/cgroup.controllers").split():
        return "it has no memory controller"
    try:
        with open(control, "w", encoding="ascii") as file:
            file.write("+memory")
    except OSError as error:
        return error.strerror or str(error)
    return None


def _own_paths(file: str) -> tuple[str | None, str | None]:
    """The paths in the v1 memory hierarchy and in v2."""
    v1 = v2 = None
    for line in _read(file).split("\n"):
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if "memory" in controllers.split(","):
            v1 = path
        elif number == "0" and not controllers and path:
            v2 = path
    return v1, v2


def _mount_root(proc_root: str, mount: str) -> str:
    # Of several mounts in one place the last one is what is seen.
    for line in reversed(_read(f"{proc_root}/self/mountinfo").split("\n")):
        words = line.split(" ")
        # 36 35 98:0 ROOT MOUNTPOINT options ...
        if len(words) > 4 and words[4] == mount:
            return words[3] if words[3].startswith("/") else "/"
    return "/"


def _processes(directory: str) -> list[int]:
    return [int(word) for word in _read(f"{directory}/cgroup.procs").split() if word.isdecimal()]


def _read(path: str) -> str:
    """A small file's text, empty where there is none: each caller says what that means."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""


def _write(path: str, value: str) -> None:
    try:
        # Unbuffered, so that a refusal shows here and not when the file is closed.
        with open(path, "wb", buffering=0) as file:
            file.write(value.encode("ascii"))
    except OSError as error:
        where = "/".join(path.split("/")[-2:])
        raise CgroupUnavailable(f"cannot write {value} to {where}: {error.strerror}") from error

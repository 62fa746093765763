# SPDX-License-Identifier: Apache-2.0
"""A memory cgroup made by hand in cgroupfs: below our own or beside it, limited, removed. Kills nothing, ever."""

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from tracer.errors import CgroupUnavailable, OomtraceError, PermissionDenied
from tracer.job.cgroup import (
    NAME_PREFIX,
    OUTSIDE,
    Hierarchy,
    Limits,
    own_limit,
    read,
    write,
)
from tracer.pseudofiles import processes_below

_ATTEMPTS = 100
_LOCK_PATIENCE_S = 1.0


@dataclass(frozen=True)
class PlainCgroup:
    """A memory cgroup that we made."""

    path: str
    directory: str
    claim: "_Claim | None" = field(default=None, compare=False)
    """As long as we hold it, nobody takes the cgroup for one that was left behind."""
    enabled_in: str | None = None
    """The folder in whose cgroup.subtree_control it was us who put the memory controller."""
    notes: tuple[str, ...] = ()

    def add(self, pid: int) -> None:
        """See `JobCgroup`."""
        write(f"{self.directory}/cgroup.procs", str(pid))

    def processes(self) -> tuple[int, ...]:
        return processes_below(self.directory)

    def remove(self, *, patience_s: float = 1.0) -> tuple[int, ...]:
        """See `JobCgroup`."""
        deadline = time.monotonic() + patience_s
        while True:
            try:
                _remove_tree(self.directory)
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
                if self.enabled_in is not None:
                    _set_back(self.enabled_in)
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


def make_plain_cgroup(hierarchy: Hierarchy, token: str, limits: Limits) -> PlainCgroup:
    """A new memory cgroup with these limits, so placed that all limits round us hold for it as well.

    Empty ones that earlier runs had to leave in that place are removed.

    Raises:
        OomtraceError: none can be made, with the reason.
    """
    if ".." in hierarchy.own_path.split("/") or hierarchy.mount_root.startswith("/.."):
        raise CgroupUnavailable(
            f"our own cgroup, {hierarchy.own_path}, lies outside of our cgroup namespace: "
            "start oomtrace from a shell inside of it (docker exec), or leave out --memory-max"
        )
    name = f"{NAME_PREFIX}{token}"
    if hierarchy.version == 1:
        return _make_in(hierarchy, hierarchy.own_path, name, limits)
    # A cgroup that holds processes cannot hand controllers to children (except the real root), and
    # ours holds at least us. A sibling will do where our own level limits nothing that it would escape.
    made = _make_v2(hierarchy, hierarchy.own_path, name, limits)
    if isinstance(made, PlainCgroup):
        return made
    why = made
    above = _beside(hierarchy, why)
    made = _make_v2(hierarchy, above, name, limits)
    if isinstance(made, PlainCgroup):
        return made
    raise CgroupUnavailable(
        f"no memory cgroup can be made below {hierarchy.own_path} ({why}) or beside it ({made}): "
        f"start oomtrace from another cgroup, {OUTSIDE}"
    )


def _make_v2(hierarchy: Hierarchy, parent: str, name: str, limits: Limits) -> PlainCgroup | str:
    """Made below `parent`; or why that may have no children with the memory controller."""
    directory = hierarchy.directory(parent)
    with _one_at_a_time(directory):
        control = read(f"{directory}/cgroup.subtree_control").split()
        why = None if "memory" in control else _enable_memory(directory)
        if why is not None:
            return why
        try:
            return _make_in(hierarchy, parent, name, limits, enabled="memory" not in control)
        except OomtraceError:
            if "memory" not in control:
                _disable_memory(directory)
            raise


def _beside(hierarchy: Hierarchy, why: str) -> str:
    own = hierarchy.own_path
    limit = own_limit(hierarchy, own)
    if limit is not None:
        raise CgroupUnavailable(
            f"no memory cgroup can be made below {own} ({why}), and beside it {limit} would not hold: "
            f"start oomtrace from another cgroup, {OUTSIDE}"
        )
    above = os.path.dirname(own.rstrip("/"))
    if own in ("", "/") or not os.path.isdir(hierarchy.directory(above)):
        raise CgroupUnavailable(f"no memory cgroup can be made below {own} ({why}): {OUTSIDE.removeprefix('or ')}")
    return above


def _make_in(hierarchy: Hierarchy, parent: str, name: str, limits: Limits, *, enabled: bool = False) -> PlainCgroup:
    path = f"{parent.rstrip('/')}/{name}"
    directory = hierarchy.directory(path)
    remove_left_behind(os.path.dirname(directory))
    try:
        claim = _make(directory)
    except OSError as error:
        raise _refused(path, error) from error
    made = PlainCgroup(path, directory, claim, os.path.dirname(directory) if enabled else None)
    try:
        (_limit_v1 if hierarchy.version == 1 else _limit_v2)(directory, limits)
    except OomtraceError:
        with contextlib.suppress(OSError):
            _remove_tree(directory)
        if claim is not None:
            claim.give_up()
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
                    _remove_tree(claim.directory)
                finally:
                    claim.give_up()


def _remove_tree(directory: str) -> None:
    """Remove a cgroup, and what the job made below it, if nothing runs anywhere in it.

    Raises:
        OSError: something is in the way; a process, as a rule.
    """
    if processes_below(directory):
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
    for folder, _, _ in os.walk(directory, topdown=False):
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(folder)


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


def _refused(path: str, error: OSError) -> OomtraceError:
    what = f"cannot make the memory cgroup {path}: {error.strerror}"
    if error.errno == errno.EROFS:
        return CgroupUnavailable(
            f"{what}: limit the container as a whole (docker run --memory, resources.limits.memory) "
            "and leave out --memory-max"
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return PermissionDenied(what, need="root and a cgroup that is delegated to it; or leave out --memory-max")
    return CgroupUnavailable(what)


def _limit_v1(directory: str, limits: Limits) -> None:
    # memory+swap may not be below memory, so memory comes first.
    if limits.memory_bytes is not None:
        write(f"{directory}/memory.limit_in_bytes", str(limits.memory_bytes))
        if limits.swap_bytes is not None:
            write(f"{directory}/memory.memsw.limit_in_bytes", str(limits.memory_bytes + limits.swap_bytes))


def _limit_v2(directory: str, limits: Limits) -> None:
    if limits.memory_bytes is not None:
        write(f"{directory}/memory.max", str(limits.memory_bytes))
    if limits.swap_bytes is not None:
        write(f"{directory}/memory.swap.max", str(limits.swap_bytes))


def _enable_memory(directory: str) -> str | None:
    """Hand the memory controller to the children; why not, where that is refused."""
    if "memory" not in read(f"{directory}/cgroup.controllers").split():
        return "it has no memory controller"
    try:
        with open(f"{directory}/cgroup.subtree_control", "w", encoding="ascii") as file:
            file.write("+memory")
    except OSError as error:
        return error.strerror or str(error)
    return None


def _disable_memory(directory: str) -> None:
    with contextlib.suppress(OSError), open(f"{directory}/cgroup.subtree_control", "w", encoding="ascii") as file:
        file.write("-memory")


def _set_back(directory: str) -> None:
    """Take the memory controller away again, which it was us who gave, unless another child has come to use it."""
    with _one_at_a_time(directory) as alone:
        try:
            with os.scandir(directory) as entries:
                shared = any(entry.is_dir(follow_symlinks=False) for entry in entries)
        except OSError:
            return
        if alone and not shared:
            _disable_memory(directory)


@contextlib.contextmanager
def _one_at_a_time(directory: str) -> Iterator[bool]:
    """While runs of ours change what a cgroup hands to its children; whether we have it for ourselves."""
    fd = None
    try:
        with contextlib.suppress(OSError):
            fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        yield fd is not None and _locked(fd)
    finally:
        if fd is not None:
            os.close(fd)


def _locked(fd: int) -> bool:
    # Whoever may read the folder could hold it for ever: that must not stop a run.
    deadline = time.monotonic() + _LOCK_PATIENCE_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.01)
        else:
            return True

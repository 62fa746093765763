# SPDX-License-Identifier: Apache-2.0
"""Memory cgroups to events, v1, v2 and the hybrid of both: where a process is, the chain above it, its counters.

A path is that of the hierarchy's root, as /proc/PID/cgroup shows it, in Python's file system encoding;
in events it is text that can be shown. A cgroup that is removed while it is read is `None`.
"""

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tracer.events import CgroupSample
from tracer.sources.procfs import read_bytes, text_of
from tracer.units import NO_LIMIT_BYTES

_OCTAL = re.compile(rb"\\([0-7]{3})")
_DELETED = " (deleted)"


@dataclass(frozen=True)
class Hierarchy:
    """Where the memory controller lives."""

    version: int
    mount_point: str
    root: str = "/"
    """Which cgroup the mount shows as its top: in a container without a cgroup namespace not `/`."""


class CgroupSource:
    """The hierarchy with the memory controller, found once; `version` is `None` without one."""

    def __init__(
        self,
        cgroup_root: str = "/sys/fs/cgroup",
        *,
        proc_root: str = "/proc",
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._proc_root = proc_root
        self._clock = clock
        self._hierarchy = _mounted(proc_root, cgroup_root) or _by_files(cgroup_root)

    @property
    def version(self) -> int | None:
        return None if self._hierarchy is None else self._hierarchy.version

    @property
    def hierarchy(self) -> Hierarchy | None:
        return self._hierarchy

    def memory_cgroup_of(self, tgid: int) -> str | None:
        """The path of its memory cgroup; `None`: it is gone, or there is no memory controller."""
        raw = read_bytes(f"{self._proc_root}/{tgid}/cgroup")
        if raw is None or self._hierarchy is None:
            return None
        # `ID:CONTROLLERS:PATH`, once per hierarchy; a path may hold colons, and the kernel refuses newlines in names.
        for line in raw.split(b"\n"):
            number, _, rest = line.partition(b":")
            controllers, colon, path = rest.partition(b":")
            if not colon or not path.startswith(b"/"):
                continue
            if (number, controllers) == (b"0", b"") if self.version == 2 else b"memory" in controllers.split(b","):
                return self._alive(os.fsdecode(path))
        return None

    def chain(self, path: str) -> tuple[str, ...]:
        """The cgroup and those above it, up to the top that this mount shows. Not below the top: only itself."""
        top = "/" if self._hierarchy is None else self._hierarchy.root
        found = [_normal(path)]
        while found[-1] not in (top, "/") and _within(found[-1], top):
            found.append(found[-1].rpartition("/")[0] or "/")
        return tuple(found)

    def cgroup_id(self, path: str) -> int | None:
        """What kernel records call `cgroup_id`: kernfs id, which from 5.5 on is the inode of the folder."""
        folder = self.folder(path)
        try:
            return None if folder is None else os.stat(folder).st_ino
        except (OSError, ValueError):
            return None

    def folder(self, path: str) -> str | None:
        """The folder of a cgroup, existing or not; `None`: the mount does not show it."""
        if self._hierarchy is None or not path.startswith("/") or ".." in path.split("/"):
            return None
        path, top = _normal(path), self._hierarchy.root
        if not _within(path, top):
            return None
        below = path if top == "/" else path[len(top) :]
        return self._hierarchy.mount_point + ("" if below == "/" else below)

    def path_of(self, text: str) -> str | None:
        """The path of a cgroup that a person names: as /proc/PID/cgroup shows it, or its folder. It need not exist."""
        if self._hierarchy is None or not text.startswith("/"):
            return None
        path, mount_point = _normal(text), self._hierarchy.mount_point
        if _within(path, mount_point):
            path = _normal(f"{self._hierarchy.root}/{path[len(mount_point) :]}")
        return path if self.folder(path) is not None else None

    def processes(self, path: str) -> tuple[int, ...] | None:
        """In the cgroup and in all below it, as this pid namespace numbers them; `None`: there is no such cgroup."""
        folder = self.folder(path)
        if folder is None or not os.path.isdir(folder):
            return None
        found: dict[int, None] = {}
        for below, _, _ in os.walk(folder):
            words = (read_bytes(f"{below}/cgroup.procs", 1 << 20) or b"").split()  # refused where it is threaded (v2)
            found.update((int(word), None) for word in words if word.isdigit())
        found.pop(0, None)  # of another pid namespace: it has no number here
        return tuple(found)

    def sample(self, path: str) -> CgroupSample | None:
        """Its counters now; `None`: there is no such cgroup (any more)."""
        folder = self.folder(path)
        if folder is None or self._hierarchy is None:
            return None
        try:
            inode = os.stat(folder).st_ino
        except (OSError, ValueError):
            return None
        read = _read_v2 if self._hierarchy.version == 2 else _read_v1
        values = read(folder)
        try:
            if os.stat(folder).st_ino != inode:
                return None
        except OSError:
            return None
        shown = text_of(os.fsencode(_normal(path)))
        return CgroupSample(ts_ns=self._clock(), source="cgroup", path=shown, cgroup_id=inode, **values)

    def _alive(self, path: str) -> str:
        """The path without the mark that the kernel hangs on a removed cgroup, unless it is a part of the name."""
        if not path.endswith(_DELETED):
            return path
        folder = self.folder(path)
        return path if folder is not None and os.path.isdir(folder) else path.removesuffix(_DELETED)


def _read_v2(folder: str) -> dict[str, Any]:
    stat, events, local = (_keys(f"{folder}/memory.{name}") for name in ("stat", "events", "events.local"))
    return {
        "usage_bytes": _value(f"{folder}/memory.current"),
        "limit_bytes": _value(f"{folder}/memory.max"),
        "swap_usage_bytes": _value(f"{folder}/memory.swap.current"),
        "swap_limit_bytes": _value(f"{folder}/memory.swap.max"),
        "anon_bytes": stat.get("anon"),
        "file_bytes": stat.get("file"),
        "shmem_bytes": stat.get("shmem"),
        "kernel_bytes": stat.get("kernel"),
        "failcnt": events.get("max"),
        "oom": events.get("oom"),
        "oom_kill": events.get("oom_kill"),
        "oom_kill_local": local.get("oom_kill"),
        "oom_local": local.get("oom"),
        "oom_group_kill": events.get("oom_group_kill"),
    }


def _read_v1(folder: str) -> dict[str, Any]:
    stat, control = _keys(f"{folder}/memory.stat"), _keys(f"{folder}/memory.oom_control")

    def with_all_below(name: str) -> int | None:
        # usage_in_bytes counts all below; so must its parts. Without use_hierarchy there is no total_.
        return stat.get(f"total_{name}", stat.get(name))

    return {
        "usage_bytes": _value(f"{folder}/memory.usage_in_bytes"),
        "limit_bytes": _value(f"{folder}/memory.limit_in_bytes"),
        "swap_usage_bytes": _value(f"{folder}/memory.memsw.usage_in_bytes"),
        "swap_limit_bytes": _value(f"{folder}/memory.memsw.limit_in_bytes"),
        "anon_bytes": with_all_below("rss"),
        "file_bytes": with_all_below("cache"),
        "shmem_bytes": with_all_below("shmem"),
        "kernel_bytes": _value(f"{folder}/memory.kmem.usage_in_bytes"),
        "failcnt": _value(f"{folder}/memory.failcnt"),
        "oom_kill": control.get("oom_kill"),
        "oom_kill_local": control.get("oom_kill"),
        "under_oom": control.get("under_oom"),
        "oom_kill_disable": control.get("oom_kill_disable"),
    }


def _keys(path: str) -> dict[str, int]:
    pairs = (line.split() for line in (read_bytes(path) or b"").split(b"\n"))
    return {text_of(pair[0]): int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def _value(path: str) -> int | None:
    raw = (read_bytes(path) or b"").strip()
    if raw == b"max":
        return NO_LIMIT_BYTES
    return int(raw) if raw.isdigit() else None


def _mounted(proc_root: str, cgroup_root: str) -> Hierarchy | None:
    """From mountinfo (proc_pid_mountinfo(5)), for mounts at or below `cgroup_root`."""
    found: list[Hierarchy] = []
    for line in (read_bytes(f"{proc_root}/self/mountinfo", 4 << 20) or b"").split(b"\n"):
        left, dash, right = line.partition(b" - ")
        fields, kinds = left.split(b" "), right.split(b" ")
        if not dash or len(fields) < 5 or len(kinds) < 3:
            continue
        root, mount_point = os.fsdecode(_unmangled(fields[3])), os.fsdecode(_unmangled(fields[4]))
        if not _within(mount_point, cgroup_root):
            continue
        if kinds[0] == b"cgroup" and b"memory" in kinds[2].split(b","):
            found.append(Hierarchy(1, mount_point, root))
        elif kinds[0] == b"cgroup2" and _has_memory(mount_point):
            found.append(Hierarchy(2, mount_point, root))
    # Of several mounts of it (containers' own show through) the one that shows most.
    return min(found, key=lambda one: (one.version, one.root != "/", len(one.mount_point)), default=None)


def _by_files(cgroup_root: str) -> Hierarchy | None:
    """By what lies there, for a tree whose mounts cannot be seen."""
    if os.path.exists(f"{cgroup_root}/memory/memory.usage_in_bytes"):
        return Hierarchy(1, f"{cgroup_root}/memory")
    for mount_point in (cgroup_root, f"{cgroup_root}/unified"):
        if _has_memory(mount_point):
            return Hierarchy(2, mount_point)
    return None


def _has_memory(mount_point: str) -> bool:
    return b"memory" in (read_bytes(f"{mount_point}/cgroup.controllers") or b"").split()


def _unmangled(field: bytes) -> bytes:
    return _OCTAL.sub(lambda found: bytes((int(found[1], 8) & 0xFF,)), field)


def _normal(path: str) -> str:
    return "/" + "/".join(part for part in path.split("/") if part not in ("", "."))


def _within(path: str, top: str) -> bool:
    return path == top or path.startswith(top if top.endswith("/") else top + "/")

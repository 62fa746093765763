# SPDX-License-Identifier: Apache-2.0
"""Memory cgroups to events, v1, v2 and the hybrid of both: where a process is, the chain above it, its counters.

A path is that of the hierarchy's root, as /proc/PID/cgroup shows it, in Python's file system encoding;
in events it is text that can be shown. A cgroup that is removed while it is read is `None`.
"""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tracer.events import CgroupSample
from tracer.pseudofiles import processes_below, read_bytes, read_cgroup_paths, read_mounts
from tracer.sources.pressure import read_psi
from tracer.sources.procfs import read_keys, text_of
from tracer.units import NO_LIMIT_BYTES

_DELETED = " (deleted)"
_USAGE = ("memory.usage_in_bytes", "memory.current")
"""v1, v2."""


@dataclass(frozen=True)
class MemoryMount:
    """The mount of the hierarchy that has the memory controller."""

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
        self._mount = _mounted(proc_root, cgroup_root) or _by_files(cgroup_root)

    @property
    def version(self) -> int | None:
        return None if self._mount is None else self._mount.version

    @property
    def mount(self) -> MemoryMount | None:
        return self._mount

    def memory_cgroup_of(self, tgid: int) -> str | None:
        """The path of its memory cgroup; `None`: it is gone, or there is no memory controller."""
        if self._mount is None:
            return None
        paths = read_cgroup_paths(self._proc_root, tgid)
        path = paths.v2 if self.version == 2 else paths.memory_v1
        return None if path is None else self._alive(path)

    def chain(self, path: str) -> tuple[str, ...]:
        """The cgroup and those above it, up to the top that this mount shows. Not below the top: only itself."""
        top = "/" if self._mount is None else self._mount.root
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
        if self._mount is None or not path.startswith("/") or ".." in path.split("/"):
            return None
        path, top = _normal(path), self._mount.root
        if not _within(path, top):
            return None
        below = path if top == "/" else path[len(top) :]
        return self._mount.mount_point + ("" if below == "/" else below)

    def path_of(self, text: str) -> str | None:
        """The path of a cgroup that a person names: as /proc/PID/cgroup shows it, or its folder. It need not exist."""
        if self._mount is None or not text.startswith("/"):
            return None
        path, mount_point = _normal(text), self._mount.mount_point
        if _within(path, mount_point):
            path = _normal(f"{self._mount.root}/{path[len(mount_point) :]}")
        return path if self.folder(path) is not None else None

    def everywhere(self) -> Iterator[str]:
        """The paths of all cgroups that the mount shows, those above first."""
        if self._mount is None:
            return
        mount_point, top = self._mount.mount_point, self._mount.root
        for folder, below, _ in os.walk(mount_point):
            below.sort()
            yield _normal(f"{top}/{folder[len(mount_point) :]}")

    def processes(self, path: str) -> tuple[int, ...] | None:
        """In the cgroup and in all below it, as this pid namespace numbers them; `None`: there is no such cgroup."""
        folder = self.folder(path)
        if folder is None or not os.path.isdir(folder):
            return None
        return processes_below(folder)

    def sample(self, path: str) -> CgroupSample | None:
        """Its counters now; `None`: there is no such cgroup (any more)."""
        folder = self.folder(path)
        if folder is None or self._mount is None:
            return None
        try:
            inode = os.stat(folder).st_ino
        except (OSError, ValueError):
            return None
        read = _read_v2 if self._mount.version == 2 else _read_v1
        values = read(folder)
        try:
            if os.stat(folder).st_ino != inode:
                return None
        except OSError:
            return None
        shown = text_of(os.fsencode(_normal(path)))
        return CgroupSample(ts_ns=self._clock(), source="cgroup", path=shown, cgroup_id=inode, **values)

    def usage(self, path: str) -> int | None:
        """What it uses now; a tenth of the cost of a sample. `None`: there is no such cgroup (any more)."""
        folder = self.folder(path)
        return None if folder is None else _value(f"{folder}/{_USAGE[self.version == 2]}")

    def _alive(self, path: str) -> str:
        """The path without the mark that the kernel hangs on a removed cgroup, unless it is a part of the name."""
        if not path.endswith(_DELETED):
            return path
        folder = self.folder(path)
        return path if folder is not None and os.path.isdir(folder) else path.removesuffix(_DELETED)


def _read_v2(folder: str) -> dict[str, Any]:
    stat, events, local = (read_keys(f"{folder}/memory.{name}") or {} for name in ("stat", "events", "events.local"))
    return {
        "usage_bytes": _value(f"{folder}/memory.current"),
        "limit_bytes": _value(f"{folder}/memory.max"),
        "swap_usage_bytes": _value(f"{folder}/memory.swap.current"),
        "swap_limit_bytes": _value(f"{folder}/memory.swap.max"),
        "anon_bytes": stat.get("anon"),
        "file_bytes": stat.get("file"),
        "shmem_bytes": stat.get("shmem"),
        "kernel_bytes": stat.get("kernel"),
        "slab_bytes": stat.get("slab"),
        "slab_reclaimable_bytes": stat.get("slab_reclaimable"),
        "sock_bytes": stat.get("sock"),
        "page_tables_bytes": _sum(stat.get("pagetables"), stat.get("sec_pagetables")),
        "kernel_stack_bytes": stat.get("kernel_stack"),
        "percpu_bytes": stat.get("percpu"),
        "vmalloc_bytes": stat.get("vmalloc"),
        "dirty_bytes": _sum(stat.get("file_dirty"), stat.get("file_writeback")),
        "failcnt": events.get("max"),
        "oom": events.get("oom"),
        "oom_kill": events.get("oom_kill"),
        "oom_kill_local": local.get("oom_kill"),
        "oom_local": local.get("oom"),
        "oom_group_kill": events.get("oom_group_kill"),
        "high_limit_bytes": _value(f"{folder}/memory.high"),
        "high": events.get("high"),
        "psi_full_total_us": read_psi(f"{folder}/memory.pressure").get("full", (None, None))[1],
    }


def _read_v1(folder: str) -> dict[str, Any]:
    stat, control = (read_keys(f"{folder}/memory.{name}") or {} for name in ("stat", "oom_control"))

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
        "dirty_bytes": _sum(with_all_below("dirty"), with_all_below("writeback")),
        "failcnt": _value(f"{folder}/memory.failcnt"),
        "oom_kill": control.get("oom_kill"),
        "oom_kill_local": control.get("oom_kill"),
        "under_oom": control.get("under_oom"),
        "oom_kill_disable": control.get("oom_kill_disable"),
    }


def _sum(value: int | None, more: int | None) -> int | None:
    """Of two keys, the second of which older kernels do not have."""
    return None if value is None else value + (more or 0)


def _value(path: str) -> int | None:
    raw = (read_bytes(path) or b"").strip()
    if raw == b"max":
        return NO_LIMIT_BYTES
    return int(raw) if raw.isdigit() else None


def _mounted(proc_root: str, cgroup_root: str) -> MemoryMount | None:
    """By what is mounted at or below `cgroup_root`."""
    found: list[MemoryMount] = []
    for mount in read_mounts(proc_root):
        if not _within(mount.mount_point, cgroup_root):
            continue
        if mount.kind == "cgroup" and "memory" in mount.options:
            found.append(MemoryMount(1, mount.mount_point, mount.root))
        elif mount.kind == "cgroup2" and _has_memory(mount.mount_point):
            found.append(MemoryMount(2, mount.mount_point, mount.root))
    # Of several mounts of it (containers' own show through) the one that shows most.
    return min(found, key=lambda one: (one.version, one.root != "/", len(one.mount_point)), default=None)


def _by_files(cgroup_root: str) -> MemoryMount | None:
    """By what lies there, for a tree whose mounts cannot be seen."""
    if os.path.exists(f"{cgroup_root}/memory/memory.usage_in_bytes"):
        return MemoryMount(1, f"{cgroup_root}/memory")
    for mount_point in (cgroup_root, f"{cgroup_root}/unified"):
        if _has_memory(mount_point):
            return MemoryMount(2, mount_point)
    return None


def _has_memory(mount_point: str) -> bool:
    return b"memory" in (read_bytes(f"{mount_point}/cgroup.controllers") or b"").split()


def _normal(path: str) -> str:
    return "/" + "/".join(part for part in path.split("/") if part not in ("", "."))


def _within(path: str, top: str) -> bool:
    return path == top or path.startswith(top if top.endswith("/") else top + "/")

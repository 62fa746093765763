# SPDX-License-Identifier: Apache-2.0
"""The kernel's pseudo-files that several parts read: whole, and taken apart into their fields. Decides nothing.

proc(5), proc_pid_cgroup(5), proc_pid_mountinfo(5), cgroups(7). What is not there is `None` or empty, never an error.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

_FILE_BYTES = 64 * 1024
_PROCS_BYTES = 16 << 20
_MOUNTINFO_BYTES = 4 << 20
_OCTAL = re.compile(rb"\\([0-7]{3})")


def read_bytes(path: str, limit_bytes: int = _FILE_BYTES) -> bytes | None:
    """The file's first bytes; `None`: not there, not readable, gone meanwhile."""
    try:
        # O_NONBLOCK: what stands in its place may be a FIFO.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError):
        return None
    try:
        parts = []
        while limit_bytes > 0:
            part = os.read(fd, limit_bytes)
            if not part:
                break
            parts.append(part)
            limit_bytes -= len(part)
        return b"".join(parts)
    except OSError:
        return None
    finally:
        os.close(fd)


@dataclass(frozen=True)
class CgroupPaths:
    """Where a process stands in the two kinds of hierarchies, in Python's file system encoding."""

    memory_v1: str | None = None
    v2: str | None = None


def read_cgroup_paths(proc_root: str, pid: int | str) -> CgroupPaths:
    """/proc/PID/cgroup: a line `ID:CONTROLLERS:PATH` a hierarchy.

    A path may hold colons, and the kernel refuses newlines in names.
    """
    memory_v1 = v2 = None
    for line in (read_bytes(f"{proc_root}/{pid}/cgroup") or b"").split(b"\n"):
        number, _, rest = line.partition(b":")
        controllers, _, path = rest.partition(b":")
        if not path.startswith(b"/"):
            continue
        if b"memory" in controllers.split(b","):
            memory_v1 = memory_v1 or os.fsdecode(path)
        elif (number, controllers) == (b"0", b""):
            v2 = v2 or os.fsdecode(path)
    return CgroupPaths(memory_v1, v2)


def processes_below(folder: str) -> tuple[int, ...]:
    """Who is in a cgroup or in one below it, as our pid namespace numbers them. Those of others have no number here."""
    found: set[int] = set()
    for each, _, _ in os.walk(folder):
        words = (read_bytes(f"{each}/cgroup.procs", _PROCS_BYTES) or b"").split()  # refused where it is threaded (v2)
        found.update(int(word) for word in words if word.isdigit())
    return tuple(sorted(found - {0}))


@dataclass(frozen=True)
class Mount:
    """A mount that this process sees."""

    root: str
    """Which folder of the file system is mounted."""
    mount_point: str
    options: frozenset[str]
    """Of the mount and of the file system, for which v1 hierarchies name their controllers."""
    kind: str
    """Of the file system."""


def read_mounts(proc_root: str, pid: int | str = "self") -> Iterator[Mount]:
    """/proc/PID/mountinfo, in its order: of several mounts in one place the last one is what is seen."""
    for line in (read_bytes(f"{proc_root}/{pid}/mountinfo", _MOUNTINFO_BYTES) or b"").split(b"\n"):
        # 36 35 98:0 ROOT MOUNTPOINT OPTIONS OPTIONAL... - KIND SOURCE OPTIONS
        left, _, right = line.partition(b" - ")
        fields, more = left.split(b" "), right.split(b" ")
        if len(fields) > 5 and len(more) > 2:
            options = {*fields[5].split(b","), *more[2].split(b",")}
            yield Mount(
                root=os.fsdecode(_unmangled(fields[3])),
                mount_point=os.fsdecode(_unmangled(fields[4])),
                options=frozenset(map(os.fsdecode, options)),
                kind=os.fsdecode(more[0]),
            )


def _unmangled(field: bytes) -> bytes:
    return _OCTAL.sub(lambda found: bytes((int(found[1], 8) & 0xFF,)), field)

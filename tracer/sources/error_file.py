# SPDX-License-Identifier: Apache-2.0
"""torch elastic's error files, read with the rights of whom the recording is for: the job chose the path."""

import contextlib
import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tracer.events import process_id
from tracer.logs.training.error_file import MAX_BYTES, ErrorFile, parse_error_file
from tracer.pseudofiles import read_bytes
from tracer.sources.procfs import read_stat
from tracer.units import NS_PER_S

PATIENCE_S = 1.5
READ = '[ -f "$1" ] && exec head -c "$2" -- "$1"'
_SPREAD_S = 2
"""So far the file's own whole seconds may lie from when it was written."""


@dataclass(frozen=True)
class UserReader:
    """Reads files with the rights of a user."""

    uid: int
    gid: int
    groups: Sequence[int] | None = None

    def read(self, path: str) -> bytes | None:
        """The file, if this user may read it and it is no longer than one may be. **Slow**: for a helper thread.

        By a process of its own: ids belong to a process, and ours needs root meanwhile. What is no file, as a named
        pipe, is not waited for, since other ranks' files are read behind it; what takes too long is ended.
        """
        if not path.startswith("/"):
            return None
        other = os.geteuid() == 0 and self.uid != 0
        groups = [self.gid] if self.groups is None else list(self.groups)
        try:
            done = subprocess.run(
                ["sh", "-c", READ, "sh", path, str(MAX_BYTES + 1)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={"PATH": "/usr/bin:/bin"},
                cwd="/",
                timeout=PATIENCE_S,
                check=False,
                user=self.uid if other else None,
                group=self.gid if other else None,
                extra_groups=groups if other else None,
            )
        except (OSError, ValueError, subprocess.SubprocessError):
            return None
        return done.stdout if done.returncode == 0 and done.stdout else None


def reader_for(tgid: int, start_ns: int, proc_root: str = "/proc") -> UserReader | None:
    """Reads with the rights of the user whose process this is, and not of a set-uid program that it runs.

    `None`: it is gone, it has files of its own (a container, a chroot), or that user's rights are not ours to take.
    """
    try:
        elsewhere = any(
            os.readlink(f"{proc_root}/{tgid}/{name}") != os.readlink(f"{proc_root}/self/{name}")
            for name in ("ns/mnt", "root")
        )
        ids = _ids(read_bytes(f"{proc_root}/{tgid}/status") or b"")
    except OSError:
        return None
    stat = read_stat(proc_root, tgid)
    if elsewhere or ids is None or stat is None or process_id(tgid, stat.start_ns) != process_id(tgid, start_ns):
        return None
    uid, gid, groups = ids
    return UserReader(uid, gid, groups) if os.geteuid() in {0, uid} else None


def _ids(status: bytes) -> tuple[int, int, tuple[int, ...]] | None:
    """Real user, real group and the other groups."""
    lines = dict(line.split(b":", 1) for line in status.splitlines() if b":" in line)
    try:
        uid, gid = (int(lines[name].split()[0]) for name in (b"Uid", b"Gid"))
        return uid, gid, tuple(int(group) for group in lines[b"Groups"].split())
    except (KeyError, IndexError, ValueError):
        return None


def read_error_file(path: str, reader: UserReader) -> tuple[ErrorFile, int] | None:
    """What it says, and when it was written (CLOCK_MONOTONIC); `None`: it cannot be read, or is none."""
    raw = reader.read(path)
    told = None if raw is None else parse_error_file(raw)
    if told is None:
        return None
    now_ns, wall_ns = time.monotonic_ns(), time.time_ns()
    written_ns = wall_ns
    with contextlib.suppress(OSError):
        written_ns = os.stat(path).st_mtime_ns
    if told.at_s is not None and abs(written_ns / NS_PER_S - told.at_s) > _SPREAD_S:
        written_ns = wall_ns  # one of them is not what it should be
    return told, min(now_ns, max(0, now_ns - (wall_ns - written_ns)))

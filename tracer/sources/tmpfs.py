# SPDX-License-Identifier: Apache-2.0
"""How full tmpfs are, as a process sees them: a write through a mapping into a full one ends in SIGBUS (mm/shmem.c)."""

import os
import time
from collections.abc import Callable

from tracer.events import TmpfsFill, TmpfsSample
from tracer.events.machine import SHM
from tracer.pseudofiles import read_mounts
from tracer.sources.procfs import text_of

MAX_MOUNTS = 64
MAX_NAMESPACES = 256


class TmpfsSource:
    """Asks for the room in tmpfs mounts; of anything else that is mounted there nothing is said."""

    def __init__(self, proc_root: str = "/proc", *, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._proc_root = proc_root
        self._clock = clock
        self._is_tmpfs: dict[str, bool] = {}

    def shm(self, tgid: int) -> TmpfsSample | None:
        """The room in /dev/shm as the process sees it; `None`: that is no tmpfs with a size, or the process is gone.

        Cheap: the mounts of each mount namespace are read once.
        """
        try:
            namespace = os.readlink(f"{self._proc_root}/{tgid}/ns/mnt")
        except OSError:
            return None
        if namespace not in self._is_tmpfs:
            if len(self._is_tmpfs) >= MAX_NAMESPACES:
                return None
            mounts = [mount.kind for mount in read_mounts(self._proc_root, tgid) if mount.mount_point == SHM]
            self._is_tmpfs[namespace] = mounts[-1:] == ["tmpfs"]
        fill = self._fill(tgid, SHM) if self._is_tmpfs[namespace] else None
        return None if fill is None else self._sample(tgid, None, (fill,))

    def all(self, tgid: int, signalled_tgid: int) -> TmpfsSample | None:
        """Every tmpfs with a size that the process sees; `None`: the process is gone, or there is none."""
        seen = dict.fromkeys(mount.mount_point for mount in read_mounts(self._proc_root, tgid) if mount.kind == "tmpfs")
        fills = [self._fill(tgid, mount_point) for mount_point in list(seen)[:MAX_MOUNTS]]
        found = tuple(fill for fill in fills if fill is not None)
        return self._sample(tgid, signalled_tgid, found) if found else None

    def _sample(self, tgid: int, signalled_tgid: int | None, fills: tuple[TmpfsFill, ...]) -> TmpfsSample:
        return TmpfsSample(ts_ns=self._clock(), source="proc", tgid=tgid, signalled_tgid=signalled_tgid, mounts=fills)

    def _fill(self, tgid: int, mount_point: str) -> TmpfsFill | None:
        try:
            room = os.statvfs(f"{self._proc_root}/{tgid}/root{mount_point}")
        except (OSError, ValueError):
            return None
        if not room.f_blocks or room.f_flag & os.ST_RDONLY:
            return None  # without a size of its own, or nobody writes there
        return TmpfsFill(
            mount_point=text_of(os.fsencode(mount_point)),
            size_bytes=room.f_blocks * room.f_frsize,
            free_bytes=room.f_bavail * room.f_frsize,
        )

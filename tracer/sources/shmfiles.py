# SPDX-License-Identifier: Apache-2.0
"""Whose the memory in /dev/shm is.

Batches that wait in a queue are mapped by nobody, and most have no name any more: only who has them open shows them,
and the pid in PyTorch's names says who made them.
"""

import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from tracer.events import ShmFiles, ShmFilesSample
from tracer.events.machine import SHM
from tracer.units import NS_PER_MS

MAX_FDS = 8192
MAX_NAMES = 8192
MAX_NS = 50 * NS_PER_MS
"""Of CPU time, for one look."""
MAX_GROUPS = 48
MAX_HOLDERS = 8
_BLOCK_BYTES = 512
_BELOW = SHM + "/"
_DELETED = " (deleted)"
_TORCH = re.compile(r"torch_(\d{1,10})_")

Kind = Literal["torch", "python", "semaphore", "other"]
_Place = tuple[int, int]
"""Device and inode."""


class ShmFilesSource:
    """Reads /proc/PID/fd, and the folder. Nothing is opened, and nothing stays open."""

    def __init__(self, proc_root: str = "/proc", *, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._proc_root = proc_root
        self._clock = clock

    def sample(self, tgids: Sequence[int]) -> ShmFilesSample | None:
        """Of these processes, and of the /dev/shm of the first one that is there; `None`: none is."""
        look = _Look(self._proc_root)
        seen: int | None = None
        for tgid in tgids:
            if look.process(tgid) and seen is None and look.names(tgid):
                seen = tgid
        return None if seen is None else look.sample(self._clock(), seen)


class _Look:
    """One look at all."""

    def __init__(self, proc_root: str) -> None:
        self._proc_root = proc_root
        self._until_ns = time.thread_time_ns() + MAX_NS
        self._files: dict[_Place, _File] = {}
        self._fds = self._names = 0
        self._uids: set[int] = set()
        """Whose the processes are."""
        self._folders: list[str] = []
        self._complete = True

    def process(self, tgid: int) -> bool:
        """What it has open; whether it is there."""
        folder = f"{self._proc_root}/{tgid}/fd"
        try:
            fds = os.listdir(folder)
            self._uids.add(os.stat(folder).st_uid)
        except (FileNotFoundError, ProcessLookupError, ValueError):
            return False
        except OSError:
            self._complete = False
            return True
        for fd in fds:
            if self._fds >= MAX_FDS or self._late():
                self._complete = False
                break
            self._fds += 1
            try:
                target = os.readlink(f"{folder}/{fd}")
                if target.startswith(_BELOW):
                    found = os.stat(f"{folder}/{fd}")
                    named = found.st_nlink > 0  # a name may end so itself
                    name = target[len(_BELOW) :].removesuffix("" if named else _DELETED)
                    self._file(name, found, named=named).holders.setdefault(tgid)
            except OSError:  # closed meanwhile
                continue
        return True

    def names(self, tgid: int) -> bool:
        """What lies in its /dev/shm; whether it can be seen."""
        top = f"{self._proc_root}/{tgid}/root{SHM}"
        try:
            device = os.stat(top).st_dev
        except OSError:
            return False
        self._folders = [top]
        while self._folders:
            try:
                with os.scandir(self._folders.pop()) as entries:
                    for entry in entries:
                        if self._names >= MAX_NAMES or self._late():
                            self._complete, self._folders = False, []
                            break
                        self._names += 1
                        self._entry(entry, device)
            except OSError:
                self._complete = False
        return True

    def _entry(self, entry: "os.DirEntry[str]", device: int) -> None:
        try:
            found = entry.stat(follow_symlinks=False)
        except OSError:
            return  # gone
        if found.st_dev != device:
            return  # something else is mounted there
        if stat.S_ISDIR(found.st_mode):
            self._folders.append(entry.path)
        elif found.st_blocks and stat.S_ISREG(found.st_mode):
            self._file(entry.name, found, named=True)

    def sample(self, now_ns: int, tgid: int) -> ShmFilesSample:
        groups = sorted(self._groups(), key=lambda one: -one.size_bytes)
        rest = groups[MAX_GROUPS:]
        return ShmFilesSample(
            ts_ns=now_ns,
            source="proc",
            tgid=tgid,
            groups=tuple(groups[:MAX_GROUPS]),
            others=len(rest),
            others_bytes=sum(one.size_bytes for one in rest),
            fds=self._fds,
            complete=self._complete,
        )

    def _groups(self) -> Iterator[ShmFiles]:
        alike: dict[tuple[Kind, int | None, tuple[int, ...], bool], list[int]] = {}
        for file in self._files.values():
            # Anybody may write there, and give a file the name that a process of the job would.
            maker = _maker(file.name) if file.holders or file.uid in self._uids else ("other", None)
            key = (*maker, tuple(sorted(file.holders)), file.named)
            alike.setdefault(key, []).append(file.size_bytes)
        for (kind, creator, holders, named), sizes in alike.items():
            yield ShmFiles(
                kind=kind,
                creator=creator,
                holders=holders[:MAX_HOLDERS],
                more_holders=len(holders[MAX_HOLDERS:]),
                named=named,
                files=len(sizes),
                size_bytes=sum(sizes),
            )

    def _file(self, name: str, found: os.stat_result, *, named: bool) -> "_File":
        size_bytes = found.st_blocks * _BLOCK_BYTES
        place = (found.st_dev, found.st_ino)
        return self._files.setdefault(place, _File(name, size_bytes, found.st_uid, named=named))

    def _late(self) -> bool:
        return time.thread_time_ns() > self._until_ns


class _File:
    """One, however often it is open."""

    def __init__(self, name: str, size_bytes: int, uid: int, *, named: bool) -> None:
        self.name = name
        self.uid = uid
        self.size_bytes = size_bytes
        self.named = named
        self.holders: dict[int, None] = {}


def _maker(name: str) -> tuple[Kind, int | None]:
    """What made it, and the pid in the name."""
    torch = _TORCH.match(name)
    if torch is not None:
        return "torch", int(torch[1])
    if name.startswith("psm_"):
        return "python", None
    return ("semaphore", None) if name.startswith("sem.") else ("other", None)

# SPDX-License-Identifier: Apache-2.0
"""What a process holds now, read over and over: descriptors are kept, and of what is read only what is needed parsed.

A descriptor of /proc/PID/status belongs to that very process: once it is gone each read of it fails, whoever has the
pid by then. smaps and smaps_rollup are never read: meanwhile the process could map nothing.
"""

import contextlib
import os
import resource
import time
from collections.abc import Callable

from tracer.events import ProcessId, ProcessSample, process_id
from tracer.sources.procfs import text_of
from tracer.units import KIB, NS_PER_S, TICK_NS

FILES = ("statm", "status", "stat")
SHARE_OF_FILES = 4
"""Of the descriptors that this process may have at most one in so many is kept here."""
MAX_KEPT = 1024
UNUSED_NS = 10 * NS_PER_S
"""Nobody asks for it any more: longer than the longest pause between two samples."""
MOVED_PAGES = 16
"""Less than this is not worth a sample before the next one that is due."""
ENDED = 1 << 62
_BYTES, _MORE_BYTES = 4096, 64 * KIB
_EXIT_CODE = 49
_FIELDS = 50
"""Of stat, behind the name: up to exit_code, which came with 3.5."""
_NOTHING = b"0 "
"""statm of a process without memory: how it ended is in stat, and changes nothing here."""


class MemorySource:
    """Reads /proc/PID/{statm,status,stat}. To be used by one thread."""

    def __init__(
        self,
        proc_root: str = "/proc",
        *,
        clock: Callable[[], int] = time.monotonic_ns,
        max_kept: int | None = None,
    ) -> None:
        self.reads = 0
        """Files read so far: what this costs."""
        self._proc_root = proc_root
        self._clock = clock
        self._max_kept = _room() if max_kept is None else max_kept
        self._kept: dict[ProcessId, _Files] = {}
        """The one that was asked for longest ago first."""

    @property
    def kept(self) -> int:
        """Of how many processes descriptors are open."""
        return len(self._kept)

    def sample(self, tgid: int, start_ns: int) -> ProcessSample | None:
        """Its memory now. `None`: this very process is gone. A zombie has a state and no memory."""
        wanted, now_ns = process_id(tgid, start_ns), self._clock()
        files = self._kept.pop(wanted, None) or _open(self._proc_root, tgid)
        self._let_go(now_ns)
        if files is None:
            return None
        sample = None
        try:
            # First: what changes behind it is seen as moved.
            files.statm, files.newer = files.newer or os.pread(files.fds[0], _BYTES, 0), b""
            status = _whole(files.fds[1])
            sample = _parsed(status, os.pread(files.fds[2], _BYTES, 0), tgid, now_ns)
            self.reads += len(FILES)
        except OSError:
            pass
        if sample is None or process_id(tgid, sample.start_ns) != wanted:
            files.close()
            return None
        if len(self._kept) < self._max_kept:
            files.asked_ns = now_ns
            self._kept[wanted] = files
        else:
            files.close()
        return sample

    def moved(self, tgid: int, start_ns: int) -> int:
        """By how many pages its memory is another than at its last sample; a tenth of the cost of one.

        0: by a few at most. 1: that is not known. `ENDED`: it has no memory any more. Pages that it copied since a
        fork, and faults at all, do not show here.
        """
        files = self._kept.get(process_id(tgid, start_ns))
        if files is None:
            return 1
        try:
            self.reads += 1
            now = os.pread(files.fds[0], _BYTES, 0)
            moved = ENDED if now.startswith(_NOTHING) else 0 if now == files.statm else _pages(now, files.statm)
        except (OSError, ValueError):
            return ENDED
        files.newer = now if moved else b""
        return moved

    def close(self) -> None:
        """Let all descriptors go."""
        for files in self._kept.values():
            files.close()
        self._kept.clear()

    def _let_go(self, now_ns: int) -> None:
        while self._kept:
            oldest = next(iter(self._kept))
            if now_ns - self._kept[oldest].asked_ns < UNUSED_NS:
                return
            self._kept.pop(oldest).close()


class _Files:
    """The descriptors of one process, in the order of `FILES`."""

    __slots__ = ("asked_ns", "fds", "newer", "statm")

    def __init__(self, fds: tuple[int, ...]) -> None:
        self.fds = fds
        self.statm = self.newer = b""
        """At its last sample; for the next one, read already."""
        self.asked_ns = 0

    def close(self) -> None:
        for fd in self.fds:
            with contextlib.suppress(OSError):
                os.close(fd)


def _open(proc_root: str, tgid: int) -> _Files | None:
    fds: list[int] = []
    try:
        for name in FILES:
            fds.append(os.open(f"{proc_root}/{tgid}/{name}", os.O_RDONLY | os.O_CLOEXEC))  # noqa: PERF401 - closed below
    except (OSError, ValueError):
        for fd in fds:
            os.close(fd)
        return None
    return _Files(tuple(fds))


def _pages(now: bytes, before: bytes) -> int:
    """By how many what is resident or shared is another; 0: by a few."""
    pairs = zip(now.split(None, 3)[1:3], before.split(None, 3)[1:3], strict=True)
    most = max(abs(int(new) - int(old)) for new, old in pairs)
    return most if most >= MOVED_PAGES else 0


def _room() -> int:
    """So many processes at most; each has one descriptor a file."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = MAX_KEPT * len(FILES) if soft == resource.RLIM_INFINITY else soft // SHARE_OF_FILES
    return min(MAX_KEPT, files // len(FILES))


def _whole(fd: int) -> bytes:
    raw = os.pread(fd, _BYTES, 0)
    return raw if len(raw) < _BYTES else os.pread(fd, _MORE_BYTES, 0)  # of a user in very many groups


def _parsed(status: bytes, stat: bytes, tgid: int, now_ns: int) -> ProcessSample | None:
    """`None`: no line that could be of a process."""
    head, _, rest = stat.rpartition(b")")
    fields = rest.split(None, 20)
    if len(fields) < 21 or not fields[19].isdigit() or len(fields[19]) >= 20:
        return None
    held = sizes(status)
    zombie = fields[0] == b"Z"
    return ProcessSample(
        ts_ns=now_ns,
        source="proc",
        start_ns=int(fields[19]) * TICK_NS,
        tgid=tgid,
        comm=text_of(head.partition(b"(")[2]),
        rss_anon_bytes=held.get(b"RssAnon:"),
        rss_file_bytes=held.get(b"RssFile:"),
        rss_shmem_bytes=held.get(b"RssShmem:"),
        swap_bytes=held.get(b"VmSwap:"),
        code_bytes=_sum(held.get(b"VmExe:"), held.get(b"VmLib:")),
        state=text_of(fields[0][:1]),
        exit_status=_exit_status(rest, fields[17]) if zombie else None,
        peak_mapped_bytes=held.get(b"VmPeak:"),
        locked_bytes=held.get(b"VmLck:"),
        pinned_bytes=held.get(b"VmPin:"),
        page_table_bytes=held.get(b"VmPTE:"),
        minflt=None if zombie else _number(fields[7]),
        threads=None if zombie else _number(fields[17]),
    )


def sizes(status: bytes) -> dict[bytes, int]:
    """The lines of /proc/PID/status that say how much memory, which stand in one row (fs/proc/task_mmu.c, task_mem()).

    No name can pose as a line: its newlines are escaped. What is not as the kernel writes it is nothing at all.
    """
    begin = status.find(b"\nVmPeak:")
    if begin < 0:
        return {}
    end = status.find(b"\n", status.find(b"\nVmSwap:", begin) + 1)
    words = status[begin : end if end > begin else len(status)].split()
    numbers, units = words[1::3], words[2::3]
    if len(words) % 3 or units.count(b"kB") != len(units) or not b"".join(numbers).isdigit():
        return {}
    return {key: int(number) * KIB for key, number in zip(words[::3], numbers, strict=True) if len(number) < 16}


def _exit_status(rest: bytes, threads: bytes) -> int | None:
    # A leader that is gone while other threads live on is a zombie too, and has a status of its own.
    fields = rest.split()
    if threads != b"1" or len(fields) < _FIELDS:
        return None
    return _number(fields[_EXIT_CODE]) or None


def _number(word: bytes) -> int | None:
    return int(word) if word.isdigit() and len(word) < 20 else None


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other

# SPDX-License-Identifier: Apache-2.0
"""Processes to events: what is known of one at first sight, its memory, who is below whom.

psutil gives the command line and the environment; its errors and its empty values for "not
readable" become `None` here. A pid may vanish or be taken by another process between any two reads:
the start tick is read before and after, and an answer that is not of one process is not given.
"""

import os
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import psutil

from tracer.events import (
    CodeLooked,
    GpuLibrary,
    ProcessLooked,
    ProcessSample,
    ProcessSeen,
    ShmFilesSample,
    TmpfsSample,
)
from tracer.masking import mask_arguments, mask_marked
from tracer.sources.cgroups import CgroupSource
from tracer.sources.code import CodeSource
from tracer.sources.environ_names import ALLOWED_NAMES, allowed
from tracer.sources.late_environ import read_late_environ
from tracer.sources.memory import MemorySource
from tracer.sources.procfs import (
    Row,
    is_foreign_user_ns,
    read_devices,
    read_exe,
    read_limits,
    read_stat,
    read_status,
    read_table,
    read_thread_names,
    text_of,
)
from tracer.sources.shmfiles import ShmFilesSource
from tracer.sources.tmpfs import TmpfsSource

T = TypeVar("T")


class ProcessSource:
    """Reads /proc. Of processes it keeps nothing but descriptors: see `sources.memory`."""

    def __init__(
        self,
        proc_root: str = "/proc",
        *,
        cgroups: CgroupSource | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._proc_root = proc_root
        self._cgroups = CgroupSource(proc_root=proc_root) if cgroups is None else cgroups
        self._clock = clock
        self._memory = MemorySource(proc_root, clock=clock)
        self._tmpfs = TmpfsSource(proc_root, clock=clock)
        self._shm_files = ShmFilesSource(proc_root, clock=clock)
        self._code = CodeSource(proc_root, clock=clock)

    def start_ns(self, tgid: int) -> int | None:
        """When it started, by CLOCK_BOOTTIME floored to a tick; `None`: there is no such process."""
        stat = read_stat(self._proc_root, tgid)
        return None if stat is None else stat.start_ns

    def seen(self, tgid: int) -> ProcessSeen | None:
        """All that dies with the process. **Slow**: the kernel takes the process's own memory lock for it."""
        before = read_stat(self._proc_root, tgid)
        status = read_status(self._proc_root, tgid)
        if before is None or status is None or status.tgid != tgid:
            return None  # gone, or a thread: those have no identity of their own
        cmdline, environ, exe = self._command(tgid)
        cgroup = self._cgroups.memory_cgroup_of(tgid)
        cgroup_id = None if cgroup is None else self._cgroups.cgroup_id(cgroup)
        foreign = is_foreign_user_ns(self._proc_root, tgid)
        limits = read_limits(self._proc_root, tgid)
        parent = read_stat(self._proc_root, before.parent_tgid)
        after = read_stat(self._proc_root, tgid)
        if after is None or after.start_tick != before.start_tick:
            return None
        same_parent = parent is not None and after.parent_tgid == before.parent_tgid
        return ProcessSeen(
            ts_ns=self._clock(),
            source="proc",
            start_ns=after.start_ns,
            tgid=tgid,
            parent_tgid=after.parent_tgid,
            # Still the parent after its own start was read: so it was this one, and no later owner of the pid.
            parent_start_ns=parent.start_ns if parent is not None and same_parent else None,
            comm=after.comm,
            cmdline=cmdline,
            environ=environ,
            exe=exe,
            uid=status.uid,
            session_id=after.session_id,
            ns_pids=status.ns_pids,
            cgroup=None if cgroup is None else text_of(os.fsencode(cgroup)),
            cgroup_id=cgroup_id,
            foreign_user_ns=foreign,
            limits=limits,
        )

    def looked(self, tgid: int) -> ProcessLooked | None:
        """What a process set up for itself. **Slow**, as `seen` is. `None`: gone."""
        before = read_stat(self._proc_root, tgid)
        status = read_status(self._proc_root, tgid)
        if before is None or status is None or status.tgid != tgid or before.kernel_thread:
            return None
        environ = read_late_environ(self._proc_root, tgid, ALLOWED_NAMES)
        devices = read_devices(self._proc_root, tgid)
        threads = read_thread_names(self._proc_root, tgid)
        limits = read_limits(self._proc_root, tgid)
        after = read_stat(self._proc_root, tgid)
        if after is None or after.start_tick != before.start_tick:
            return None
        return ProcessLooked(
            ts_ns=self._clock(),
            source="proc",
            start_ns=after.start_ns,
            tgid=tgid,
            comm=after.comm,
            caught=status.caught,
            environ=None if environ is None else allowed(environ),
            devices=devices,
            threads=threads,
            limits=limits,
        )

    def sample(self, tgid: int, start_ns: int) -> ProcessSample | None:
        """Its memory now; cheap. `None`: this very process is gone. A zombie has a state and no memory."""
        return self._memory.sample(tgid, start_ns)

    def moved(self, tgid: int, start_ns: int) -> int:
        """By how much its memory is another than at its last sample; a tenth of that one's cost."""
        return self._memory.moved(tgid, start_ns)

    def shm_files(self, tgids: Sequence[int]) -> ShmFilesSample | None:
        """Whose the memory in /dev/shm is, as the first of these processes sees it. **Slow**, as `seen` is."""
        return self._shm_files.sample(tgids)

    def code(self, tgid: int, known_bytes: int | None) -> CodeLooked | None:
        """Which libraries for a GPU it has mapped. **Slow**, as `seen` is. `None`: gone, or as it was."""
        return self._code.looked(tgid, known_bytes)

    def open_code(self, tgid: int, start_ns: int, library: GpuLibrary) -> int | None:
        """Descriptor of such a file. **Slow**, as `seen` is."""
        return self._code.open(tgid, start_ns, library)

    def shm(self, tgid: int) -> TmpfsSample | None:
        """How full /dev/shm is, as the process sees it; cheap."""
        return self._tmpfs.shm(tgid)

    def tmpfs(self, tgid: int, signalled_tgid: int) -> TmpfsSample | None:
        """How full every tmpfs is that the process sees."""
        return self._tmpfs.all(tgid, signalled_tgid)

    def table(self) -> list[Row]:
        """All processes of the machine with their parents, in no order; cheap."""
        return read_table(self._proc_root)

    def _command(self, tgid: int) -> tuple[tuple[str, ...] | None, dict[str, str] | None, str | None]:
        arguments = self._psutil(tgid, lambda process: process.cmdline())
        environ = self._psutil(tgid, lambda process: process.environ())
        exe = read_exe(self._proc_root, tgid)  # psutil guesses from the arguments where it may not look
        return (
            # A program without a single argument cannot be told from one whose arguments are not readable.
            mask_arguments(map(_printable, arguments)) if arguments else None,
            # setproctitle(3) wipes the block, which leaves no variable at all: then nothing is known of them.
            {name: _printable(value) for name, value in allowed(environ).items()} if environ else None,
            mask_marked(_printable(exe)) if exe else None,
        )

    def _psutil(self, tgid: int, ask: Callable[[psutil.Process], T]) -> T | None:
        before, psutil.PROCFS_PATH = psutil.PROCFS_PATH, self._proc_root  # a module's variable is its way to inject it
        try:
            return ask(psutil.Process(tgid))
        except (psutil.Error, OSError, ValueError, RuntimeError, IndexError):
            return None
        finally:
            psutil.PROCFS_PATH = before


def _printable(text: str) -> str:
    return text_of(os.fsencode(text))

# SPDX-License-Identifier: Apache-2.0
"""Where a scenario is played: its cgroups, its folder, and what of a guest it changes. All of it is undone."""

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping

from tracer.errors import CgroupUnavailable, KernelUnavailable, OomtraceError
from tracer.events import AnyEvent, ProcessForked
from tracer.job.cgroup import Hierarchy, Limits, write
from tracer.job.cgroupfs import PlainCgroup, make_plain_cgroup
from tracer.pseudofiles import processes_below
from tracer.repro.scenario import Stage
from tracer.sources.pressure import read_pressure
from tracer.units import MIB

JOB = "job"
"""Where the job begins if its own cgroup has others below it: under v2 only leaves have processes."""
PATIENCE_S = 10.0
SHM = "/dev/shm"  # noqa: S108 - where a job's shared memory lies


class Place:
    """The cgroups of one scenario: what the pipeline needs of a cgroup, and what runs beside the job there."""

    def __init__(self, base: PlainCgroup, hierarchy: Hierarchy, stage: Stage) -> None:
        self._base, self._hierarchy = base, hierarchy
        self._in = f"/{JOB}" if stage.below else ""
        self._folders = 1 + len(stage.below) + bool(stage.below)
        self.notes: tuple[str, ...] = ()

    @property
    def base(self) -> str:
        """Path of the scenario's own."""
        return self._base.path

    @property
    def path(self) -> str | None:
        return f"{self._base.path}{self._in}"

    @property
    def directory(self) -> str:
        return self._base.directory

    def add(self, pid: int) -> None:
        write(f"{self.directory}{self._in}/cgroup.procs", str(pid))

    def processes(self) -> tuple[int, ...]:
        return self._base.processes()

    def kills(self) -> int | None:
        """OOM kills that the kernel counted here; `None`: there is no such count (any more)."""
        if self._hierarchy.version == 2:
            return _count(f"{self.directory}/memory.events")
        # Each counts for itself alone.
        counts = [_count(f"{folder}/memory.oom_control") for folder, _, _ in os.walk(self.directory)]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == max(len(counts), self._folders) else None

    def remove(self, *, patience_s: float = PATIENCE_S) -> tuple[int, ...]:
        """End what is left of the scenario, all of which we started, and remove its cgroups."""
        deadline = time.monotonic() + patience_s
        while self.processes() and time.monotonic() < deadline:
            for pid in processes_below(self.directory):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        return self._base.remove(patience_s=patience_s)


def make_place(hierarchy: Hierarchy, stage: Stage) -> Place:
    """Its cgroups, with their limits.

    Made by hand also where systemd owns the tree: only such a one can have others below it on any version.

    Raises:
        OomtraceError: they cannot be made here.
    """
    base = _make_base(hierarchy, stage)
    place = Place(base, hierarchy, stage)
    try:
        if hierarchy.version == 2 and stage.controllers:
            write(f"{os.path.dirname(base.directory)}/cgroup.subtree_control", _enabled(stage.controllers))
        for name, value in stage.files.items():
            write(f"{base.directory}/{name}", value)
        for node in (*stage.below, None) if stage.below else ():
            _make_below(base.directory, JOB if node is None else node.path, hierarchy)
        for node in stage.below:
            if node.memory_mib is not None:
                write(f"{base.directory}/{node.path}/{_limit_file(hierarchy)}", str(node.memory_mib * MIB))
            for name, value in node.files.items():
                write(f"{base.directory}/{node.path}/{name}", value)
    except (OomtraceError, OSError) as error:
        with contextlib.suppress(OomtraceError):
            place.remove()
        if isinstance(error, OSError):
            raise CgroupUnavailable(f"cannot make the scenario's cgroups: {error.strerror}") from error
        raise
    return place


def _make_base(hierarchy: Hierarchy, stage: Stage) -> PlainCgroup:
    token = f"repro-{secrets.token_hex(4)}"
    memory_bytes = None if stage.memory_mib is None else stage.memory_mib * MIB
    counted = hierarchy.version == 2 or os.path.exists(f"{hierarchy.mount}/memory.memsw.limit_in_bytes")
    swap_bytes = stage.swap_mib * MIB if counted and memory_bytes is not None else None
    try:
        return make_plain_cgroup(hierarchy, token, Limits(memory_bytes=memory_bytes, swap_bytes=swap_bytes, own=True))
    except CgroupUnavailable:
        if swap_bytes is None or read_pressure().swap_total_bytes != 0:
            raise
    return make_plain_cgroup(hierarchy, token, Limits(memory_bytes=memory_bytes, own=True))


def _make_below(base: str, path: str, hierarchy: Hierarchy) -> None:
    folder = base
    for name in path.split("/"):
        if hierarchy.version == 2:
            write(f"{folder}/cgroup.subtree_control", _enabled(("memory",)))
        folder = f"{folder}/{name}"
        os.makedirs(folder, exist_ok=True)


def _enabled(controllers: tuple[str, ...]) -> str:
    return " ".join(f"+{name}" for name in controllers)


def _limit_file(hierarchy: Hierarchy) -> str:
    return "memory.limit_in_bytes" if hierarchy.version == 1 else "memory.max"


def _count(path: str) -> int | None:
    with contextlib.suppress(OSError, ValueError), open(path, encoding="ascii") as file:
        words = [line.split() for line in file]
        return next((int(line[1]) for line in words if line[:1] == ["oom_kill"]), None)
    return None


@contextlib.contextmanager
def shared_folder() -> Iterator[str]:
    """What the processes of the scenario share: words, and files to be read."""
    folder = tempfile.mkdtemp(prefix="oomtrace-repro-")
    try:
        yield folder
    finally:
        for each in (folder, os.path.join(SHM, os.path.basename(folder))):
            shutil.rmtree(each, ignore_errors=True)


def sweep(events: Iterable[AnyEvent], *, shm: str = SHM) -> None:
    """Remove the shared memory of processes that were killed while PyTorch made it: nobody else ever would."""
    pids = {event.own_tgid or event.tgid for event in events if isinstance(event, ProcessForked) and event.in_tree}
    for name in os.listdir(shm) if os.path.isdir(shm) else ():
        words = name.split("_")
        if words[0] == "torch" and words[1:2] and words[1].isdecimal() and int(words[1]) in pids:
            with contextlib.suppress(OSError):
                os.unlink(f"{shm}/{name}")


@contextlib.contextmanager
def changed(sysctls: Mapping[str, str], *, root: str = "/proc/sys") -> Iterator[None]:
    """Kernel settings for as long as it takes.

    Raises:
        KernelUnavailable: one of them cannot be set.
    """
    before: dict[str, str] = {}
    try:
        for name, value in sysctls.items():
            path = f"{root}/{name.replace('.', '/')}"
            try:
                with open(path, encoding="ascii") as file:
                    before[path] = file.read()
                _set(path, value)
            except OSError as error:
                raise KernelUnavailable(f"{name} cannot be set to {value}: {error.strerror}") from error
        yield
    finally:
        for path, value in before.items():
            with contextlib.suppress(OSError):
                _set(path, value)


def _set(path: str, value: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(value)


SWAP_MIB = 96


def make_swap() -> None:
    """Compressed swap in memory, for a guest that has none. It is not taken away: the guest goes with it.

    Raises:
        KernelUnavailable: none can be made.
    """
    if (read_pressure().swap_total_bytes or 0) > 0:
        return
    steps = (["modprobe", "zram"], ["zramctl", "--find", "--size", f"{SWAP_MIB}M"])
    try:
        for step in steps:
            done = subprocess.run(step, capture_output=True, text=True, timeout=60, check=True)
        device = done.stdout.strip()
        subprocess.run(["mkswap", device], capture_output=True, timeout=60, check=True)
        subprocess.run(["swapon", device], capture_output=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise KernelUnavailable(f"no swap can be made: {error}") from error

# SPDX-License-Identifier: Apache-2.0
"""What the pipeline needs of its sources, as types: tests give it small stand-ins, a run the real ones."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tracer.events import (
    AnyEvent,
    CgroupSample,
    CodeLooked,
    CudaTotals,
    GpuLibrary,
    GpuStatus,
    LogEvent,
    Losses,
    NumaNodes,
    PressureSample,
    ProcessLooked,
    ProcessSample,
    ProcessSeen,
    ReclaimSample,
    ShmFilesSample,
    TmpfsSample,
    VmstatSample,
)
from tracer.sources.gpu import Answer, GpuUnavailable
from tracer.sources.namespaces import INITIAL, Namespaces

Reader = tuple[str, int, Callable[[], int]]
"""What it is, its descriptor, and what to call when that is readable: returns how many events came."""


class Hook(Protocol):
    """One hook of the kernel's side and what became of it."""

    @property
    def name(self) -> str: ...

    @property
    def attached(self) -> bool: ...

    @property
    def why_not(self) -> str | None: ...


class Probed(Protocol):
    """What came of probing one libcuda."""

    @property
    def symbols(self) -> tuple[str, ...]: ...

    @property
    def missing(self) -> tuple[str, ...]: ...

    @property
    def refused(self) -> Mapping[str, str]: ...

    @property
    def unknown(self) -> tuple[str, ...]: ...

    @property
    def why_not(self) -> str | None: ...


class Kernel(Protocol):
    """The BPF programs and what they send."""

    @property
    def hooks(self) -> Sequence[Hook]: ...

    @property
    def start_to_armed_ns(self) -> int | None: ...

    @property
    def transport(self) -> str | None:
        """How records come: a ring buffer, or what stands in for it."""
        ...

    @property
    def naming(self) -> bool:
        """Whether stacks of marks are still to get their names."""
        ...

    @property
    def pending(self) -> bool:
        """Whether `read` will have more soon, although the descriptor does not say so."""

    def fileno(self) -> int: ...

    def read(self) -> Sequence[AnyEvent]: ...

    def track(self, tgid: int, start_ns: int) -> None: ...

    def track_running(self, tgid: int, start_ns: int) -> None: ...

    def untrack(self, tgid: int, start_ns: int) -> None: ...

    def follow_all(self, *, on: bool) -> None: ...

    def losses(self, now_ns: int) -> Losses: ...

    def reclaim(self, now_ns: int) -> Sequence[ReclaimSample]: ...

    def prepare_cuda(self) -> None:
        """Make ready for `probe_cuda`, which is quick then. Slow; in any thread."""
        ...

    def probe_cuda(self, library: int) -> Probed:
        """Watch what is called of a libcuda: its descriptor. Slow; in any thread."""
        ...

    def cuda_totals(self, now_ns: int) -> Sequence[CudaTotals]:
        """Of processes that called CUDA since they were asked for last."""
        ...

    def forget_cuda(self) -> None:
        """Let go of what is kept of allocations of processes that have ended. Slow; in any thread."""
        ...

    def close(self) -> None: ...


class KernelLog(Protocol):
    """Records of the kernel log."""

    def fileno(self) -> int: ...

    def read(self) -> Sequence[LogEvent]: ...

    def calibrate(self, mark_ts_ns: int, log_usec: int) -> bool: ...

    def close(self) -> None: ...


class Row(Protocol):
    """One process of the machine."""

    @property
    def tgid(self) -> int: ...

    @property
    def parent_tgid(self) -> int: ...

    @property
    def start_ns(self) -> int: ...

    @property
    def comm(self) -> str: ...

    @property
    def ended(self) -> bool:
        """It is a zombie."""
        ...


class Processes(Protocol):
    """/proc."""

    def seen(self, tgid: int) -> ProcessSeen | None: ...

    def looked(self, tgid: int) -> ProcessLooked | None: ...

    def sample(self, tgid: int, start_ns: int) -> ProcessSample | None: ...

    def moved(self, tgid: int, start_ns: int) -> int:
        """By how many pages its memory is another than at its last sample; much cheaper than one. 0: a few at most."""
        ...

    def shm_files(self, tgids: Sequence[int]) -> ShmFilesSample | None:
        """Whose the memory in /dev/shm is, as the first of these sees it. May block."""
        ...

    def start_ns(self, tgid: int) -> int | None: ...

    def table(self) -> Iterable[Row]: ...

    def code(self, tgid: int, known_bytes: int | None) -> CodeLooked | None:
        """Which libraries for a GPU it has mapped; `None`: gone, or as it was with so many bytes of code."""
        ...

    def open_code(self, tgid: int, start_ns: int, library: GpuLibrary) -> int | None:
        """Descriptor of such a file."""
        ...

    def shm(self, tgid: int) -> TmpfsSample | None:
        """The room in /dev/shm as the process sees it."""
        ...

    def tmpfs(self, tgid: int, signalled_tgid: int) -> TmpfsSample | None:
        """All that the process sees."""
        ...


class Cgroups(Protocol):
    """The memory cgroups."""

    @property
    def version(self) -> int | None: ...

    def memory_cgroup_of(self, tgid: int) -> str | None: ...

    def chain(self, path: str) -> Sequence[str]: ...

    def sample(self, path: str) -> CgroupSample | None: ...

    def usage(self, path: str) -> int | None:
        """In bytes; much cheaper than a sample."""
        ...

    def cgroup_id(self, path: str) -> int | None: ...

    def processes(self, path: str) -> Sequence[int] | None:
        """In it and in all below it; `None`: there is no such cgroup."""
        ...


class Host(Protocol):
    """The machine as a whole."""

    def pressure(self) -> PressureSample: ...

    def vmstat(self) -> VmstatSample | None: ...


class Gpu(Protocol):
    """Whoever asks NVML: each question is answered once, some time or never."""

    @property
    def busy(self) -> bool:
        """An answer is owed."""
        ...

    @property
    def ended(self) -> bool:
        """No answer will come any more."""
        ...

    @property
    def overdue(self) -> bool:
        """An answer is owed for so long that nobody should wait for it."""
        ...

    def fileno(self) -> int: ...

    def sample(self) -> None: ...

    def peaks(self, pids: Iterable[int]) -> None: ...

    def read(self) -> Sequence[Answer]: ...

    def late(self, now_ns: int) -> GpuStatus | None: ...


class PidTable(Protocol):
    """Pids in two namespaces."""

    in_use: bool
    """Whether the recording speaks the kernel's pids."""


@dataclass(frozen=True)
class Sources:
    """All that a run reads."""

    processes: Processes
    cgroups: Cgroups
    host: Host
    kernel: Kernel | None = None
    why_no_kernel: str | None = None
    why_no_symbols: str | None = None
    """Why stacks of the kernel will have no names."""
    glimpses: Kernel | None = None
    """Without `kernel`: what is seen without reading the kernel's memory. It follows no process."""
    log: KernelLog | None = None
    why_no_log: str | None = None
    libcudas: Callable[[], Iterable[tuple[str, int]]] = tuple
    """Path and open descriptor, the caller's, of each libcuda that is there before anyone has mapped it."""
    has_nvidia_driver: Callable[[], bool] = bool
    """Whether one is expected to appear."""
    namespaces: Namespaces = INITIAL
    """Where we live: whose pids and clocks ours are."""
    pids: PidTable | None = None
    """Which pid of ours is which of the kernel's, where they differ."""
    gpu: Gpu | None = None
    no_gpu: GpuUnavailable | None = None
    """Why there is none to ask."""
    nodes: NumaNodes | None = None
    """Where the machine's memory lies."""

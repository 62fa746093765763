# SPDX-License-Identifier: Apache-2.0
"""What was seen of CUDA: calls of the driver's library, who has which GPU library mapped, what NVML says of devices.

Calls are seen by uprobes on `libcuda.so.1`, whoever makes them; those of processes outside the job are left out.
Signatures: cuda.h of CUDA 12 and 13. `CudaCall` and `CudaTotals` are records, see `tracer.events.kernel`.
"""

import enum

import msgspec

from tracer.events.base import Event
from tracer.events.kernel import KernelEvent
from tracer.wire import Comm, s32, u32, u64

CUDA_SUCCESS = 0
CUDA_ERROR_OUT_OF_MEMORY = 2
"""Of the device, or of whatever else the call wanted: host memory, address space, mappings."""


class CudaMemory(enum.IntEnum):
    """What a call asks for."""

    DEVICE = 1
    """The GPU's own memory."""
    MANAGED = 2
    """cuMemAllocManaged: pages that move between GPU and host."""
    PINNED = 3
    """Host memory that the driver allocates: no memory cgroup is charged with it (no __GFP_ACCOUNT, nv-vm.c)."""
    REGISTERED = 4
    """Host memory of the process itself that the driver pins (cuMemHostRegister): charged like any other."""
    OTHER = 5
    """Contexts, modules, streams, graphs, pools: of unknown size, and may fail for want of memory as well."""


class CallWhy(enum.IntEnum):
    """Why one call is recorded and not merely counted."""

    FAILED = 1
    """Its result is not 0."""
    SURVIVED = 2
    """It succeeded, and is the first one of at least `failed_bytes` and of that kind since a call failed for want of
    memory (2). All such calls that had wanted no more than its `bytes` are survived by it; the largest one is named."""
    PINNED = 3
    """Host memory was pinned, so much more than when this was last told that it is told again."""


class CudaCall(KernelEvent, frozen=True, kw_only=True, gc=False):
    """One call that matters, as it returned; `ts_ns` is then."""

    start_ns: u64
    entered_ns: u64
    bytes: u64 | None
    """As asked for; `None`: the call names no size."""
    failed_bytes: u64 | None
    """With `SURVIVED`: what the call that had failed wanted."""
    failed_ns: u64 | None
    """With `SURVIVED`: `ts_ns` of that call's record."""
    device_bytes: u64
    """Of this process, right after: what it allocated and did not free, as far as it was watched."""
    managed_bytes: u64
    pinned_bytes: u64
    registered_bytes: u64
    info_ns: u64 | None
    """When this process last asked for free and total memory (cuMemGetInfo), and what it was told."""
    info_free_bytes: u64 | None
    info_total_bytes: u64 | None
    asked: u64 | None = None
    """How often this process had asked for memory of whatever kind but `OTHER`, this call included."""
    tgid: u32
    tid: u32
    symbol: u32
    """`CudaSymbol`."""
    memory: u32
    """`CudaMemory`."""
    result: s32
    """CUresult."""
    why: u32
    """`CallWhy`."""
    comm: Comm


class CudaTotals(KernelEvent, frozen=True, kw_only=True, gc=False):
    """All calls of one process so far: read from time to time where they changed, and sent as it exits."""

    start_ns: u64
    first_ns: u64
    """Return of its first probed call."""
    last_ns: u64
    device_calls: u64
    """Calls that asked for such memory, failed ones included."""
    device_failed: u64
    device_bytes: u64
    """Allocated and not freed."""
    device_peak_bytes: u64
    managed_calls: u64
    managed_failed: u64
    managed_bytes: u64
    managed_peak_bytes: u64
    pinned_calls: u64
    pinned_failed: u64
    pinned_bytes: u64
    pinned_peak_bytes: u64
    registered_calls: u64
    registered_failed: u64
    registered_bytes: u64
    registered_peak_bytes: u64
    other_calls: u64
    other_failed: u64
    unknown_frees: u64
    """Of what was not seen to be allocated: balances are lower bounds then."""
    untold: u64
    """Calls whose return, size or address found no room: balances and counts are not to be relied on."""
    calls_untold: u64 = 0
    """Calls that were worth a `CudaCall` and have none, since there were too many at once: all are counted above."""
    info_ns: u64 | None = None
    """When it last asked for free and total memory (cuMemGetInfo), and what it was told."""
    info_free_bytes: u64 | None = None
    info_total_bytes: u64 | None = None
    tgid: u32
    ended: u32
    """1: sent as the process exited."""


class CudaSymbol(enum.IntEnum):
    """Functions of libcuda that are watched, spelled as it exports them: never reused, never renumbered.

    None is called for each kernel or copy; a caching allocator calls them rarely.
    """

    cuMemAlloc = 1
    cuMemAlloc_v2 = 2
    cuMemAllocPitch = 3
    cuMemAllocPitch_v2 = 4
    cuMemAllocManaged = 5
    cuMemAllocAsync = 6
    cuMemAllocAsync_ptsz = 7
    cuMemAllocFromPoolAsync = 8
    cuMemAllocFromPoolAsync_ptsz = 9
    cuMemCreate = 10
    cuMemHostAlloc = 11
    cuMemAllocHost = 12
    cuMemAllocHost_v2 = 13
    cuMemHostRegister = 14
    cuMemHostRegister_v2 = 15
    cuArrayCreate = 16
    cuArrayCreate_v2 = 17
    cuArray3DCreate = 18
    cuArray3DCreate_v2 = 19
    cuMipmappedArrayCreate = 20
    cuMemPoolCreate = 21
    cuCtxCreate = 22
    cuCtxCreate_v2 = 23
    cuCtxCreate_v3 = 24
    cuCtxCreate_v4 = 25
    cuDevicePrimaryCtxRetain = 26
    cuModuleLoadData = 27
    cuModuleLoadDataEx = 28
    cuLibraryLoadData = 29
    cuGraphInstantiate = 30
    cuGraphInstantiate_v2 = 31
    cuGraphInstantiateWithFlags = 32
    cuGraphInstantiateWithParams = 33
    cuGraphInstantiateWithParams_ptsz = 34
    cuStreamCreate = 35
    cuStreamCreateWithPriority = 36
    cuMemFree = 37
    cuMemFree_v2 = 38
    cuMemFreeAsync = 39
    cuMemFreeAsync_ptsz = 40
    cuMemFreeHost = 41
    cuMemHostUnregister = 42
    cuMemRelease = 43
    cuMemGetInfo = 44
    cuMemGetInfo_v2 = 45


class CudaProbed(Event, frozen=True, kw_only=True, gc=False):
    """Probes stand on one libcuda from `ts_ns` on, in whatever process maps it then or later: by inode."""

    device: str
    """Of the file system, `major:minor` in hexadecimal as /proc/PID/maps has it."""
    inode: int
    path: str
    """Where it was found; as the process sees it whose mapping led there."""
    version: str | None = None
    """Of the driver, from the file's name (`libcuda.so.595.45.04`)."""
    symbols: tuple[str, ...] = ()
    """That are watched, both as they are entered and as they return."""
    missing: tuple[str, ...] = ()
    """That this library does not export."""
    refused: dict[str, str] = {}
    """Symbol -> why there is no probe on it."""
    unknown: tuple[str, ...] = ()
    """Exported names that look like allocation and are none of `CudaSymbol`."""
    why_not: str | None = None
    """There are no probes at all."""


class GpuLibrary(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One library for a GPU that a process has mapped with code in it."""

    name: str
    """`libcuda.so.1`, ..."""
    path: str
    vendor: str
    """`nvidia`, `amd`, `intel`, ..."""
    device: str
    inode: int


class CodeLooked(Event, frozen=True, kw_only=True, gc=False):
    """What code a process had mapped: looked at once it began a program and whenever `code_bytes` had changed since.

    `ProcessSample.code_bytes` says until when that stayed so.
    """

    start_ns: int
    tgid: int
    code_bytes: int | None
    """VmExe and VmLib of /proc/PID/status, read before the mappings."""
    libraries: tuple[GpuLibrary, ...] = ()
    complete: bool = True
    """False: the mappings could not be read, or not to their end."""
    why_not: str | None = None


class GpuDevice(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One GPU, or one instance of a MIG device."""

    uuid: str
    index: int
    """As NVML counts. CUDA_VISIBLE_DEVICES changes what a process calls it."""
    name: str | None = None
    total_bytes: int | None = None
    pci: str | None = None
    """`0000:08:00.0`"""
    minor: int | None = None
    """Of /dev/nvidiaN."""
    mig_of: str | None = None
    """UUID of the whole device, of a MIG instance."""


class GpuStatus(Event, frozen=True, kw_only=True, gc=False):
    """What NVML could be asked; again when that changes."""

    available: bool
    why_not: str | None = None
    """`no NVIDIA driver`, `driver and library do not match`, `no answer within 5 s`, ..."""
    driver_version: str | None = None
    devices: tuple[GpuDevice, ...] = ()


class GpuProcess(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Device memory of one process. NVML knows pids of the initial pid namespace alone."""

    pid: int
    used_bytes: int | None = None
    """`None`: not told here (MIG rights, WSL, some vGPUs)."""


class GpuSample(Event, frozen=True, kw_only=True, gc=False):
    """Memory of one device: nvmlDeviceGetMemoryInfo."""

    uuid: str
    index: int
    total_bytes: int | None = None
    used_bytes: int | None = None
    free_bytes: int | None = None
    reserved_bytes: int | None = None
    """By driver and firmware; `None`: NVML is too old to say, and counts them as used."""
    processes: tuple[GpuProcess, ...] | None = None
    """`None`: not told."""


class GpuPeak(Event, frozen=True, kw_only=True, gc=False):
    """Most device memory that a process of the job ever had, kept by the driver beyond its end (NVML's accounting).

    Only where an administrator had switched that on (`nvidia-smi -am 1`): oomtrace never does.
    """

    uuid: str
    index: int
    pid: int
    """In the initial pid namespace."""
    peak_bytes: int | None = None
    started_realtime_ns: int | None = None
    """CLOCK_REALTIME, in microseconds: when it began to use the device."""
    running: bool = False


class NumaNode(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One node of /sys/devices/system/node."""

    node: int
    mem_total_bytes: int
    cpus: int


class NumaNodes(Event, frozen=True, kw_only=True, gc=False):
    """Where the machine's memory lies. One with memory and no CPU is a GPU's on coherent platforms, or CXL's."""

    nodes: tuple[NumaNode, ...]

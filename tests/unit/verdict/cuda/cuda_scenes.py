# SPDX-License-Identifier: Apache-2.0
"""Recordings made by hand in which a job uses a GPU: what was mapped, probed, called, refused and sampled."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tests.unit.verdict.scenes import LAUNCHER, RANK, WORKERS, Scene, start_of
from tracer.events import (
    AnyEvent,
    CallWhy,
    CodeLooked,
    CudaCall,
    CudaMemory,
    CudaProbed,
    CudaSymbol,
    CudaTotals,
    Event,
    GpuDevice,
    GpuLibrary,
    GpuProcess,
    GpuSample,
    GpuStatus,
    NumaNode,
    NumaNodes,
    PressureSample,
    ProcessExeced,
    ProcessSample,
    TrainingLine,
)
from tracer.units import GIB, MIB, NS_PER_MS, NS_PER_S
from tracer.verdict.judge import judge
from tracer.verdict.model import Incident, Link, Report

VICTIM = WORKERS[2]
GPU = "GPU-0000"
LIBCUDA = GpuLibrary(
    name="libcuda.so.1", path="/usr/lib/libcuda.so.595.45.04", vendor="nvidia", device="08:01", inode=4711
)
OTHER_LIBCUDA = GpuLibrary(
    name="libcuda.so.1", path="/usr/local/cuda/compat/libcuda.so.1", vendor="nvidia", device="08:01", inode=4712
)
AMD = GpuLibrary(name="libamdhip64.so.6", path="/opt/rocm/lib/libamdhip64.so.6", vendor="amd", device="08:01", inode=7)
CODE_BYTES = 40 * MIB
"""Of a program without a GPU library; with one it has more."""
NAMES = {
    CudaMemory.DEVICE: ("device", CudaSymbol.cuMemAlloc_v2),
    CudaMemory.MANAGED: ("managed", CudaSymbol.cuMemAllocManaged),
    CudaMemory.PINNED: ("pinned", CudaSymbol.cuMemHostAlloc),
    CudaMemory.REGISTERED: ("registered", CudaSymbol.cuMemHostRegister_v2),
    CudaMemory.OTHER: ("other", CudaSymbol.cuDevicePrimaryCtxRetain),
}


@dataclass
class Account:
    """What a process called, as the probes count it."""

    first_ns: int
    last_ns: int = 0
    calls: dict[str, int] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    peak: dict[str, int] = field(default_factory=dict)


@dataclass
class CudaScene(Scene):
    """Calls are made by hand; what the probes would send of them is worked out."""

    accounts: dict[int, Account] = field(default_factory=dict)

    def watched_job(self) -> None:
        """Launcher, rank and workers, all looked at; the rank has libcuda, and probes stood before it began."""
        self.job()
        self.look_round(RANK)

    def look_round(self, *mapped: int, probed: bool = True) -> None:
        """Probes on libcuda, and a look at all processes of the job."""
        if probed and mapped:
            self.probed()
        for pid in (LAUNCHER, RANK, *WORKERS):
            libraries = (LIBCUDA,) if pid in mapped else ()
            self.looked(pid, libraries)
            self.code(pid, CODE_BYTES + len(libraries) * MIB)
        self.round()

    def rest(self, seconds: int) -> None:
        """Nothing happens, and the samples say so."""
        for _ in range(seconds):
            self.pass_time(NS_PER_S)
            self.round()

    def execs(self, pid: int, comm: str = "python3") -> None:
        self.add(ProcessExeced(ts_ns=self.now_ns, cpu=0, start_ns=start_of(pid), tgid=pid, old_tid=pid, comm=comm))

    def forget(self, *forgotten: Event) -> None:
        """As if these had never been recorded: numbered anew, so that no gap gives it away."""
        kept = [e for e in self.items if e not in forgotten]
        self.items = [msgspec.structs.replace(e, seq=n) for n, e in enumerate(kept)]

    def looked(self, pid: int, libraries: Sequence[GpuLibrary] = (), **more: Any) -> None:
        values = {"code_bytes": CODE_BYTES + len(libraries) * MIB, **more}
        self.add(
            CodeLooked(
                ts_ns=self.now_ns,
                source="proc",
                tgid=pid,
                start_ns=start_of(pid) // 10_000_000 * 10_000_000,
                libraries=tuple(libraries),
                **values,
            )
        )

    def probed(self, library: GpuLibrary = LIBCUDA, **more: Any) -> None:
        values: dict[str, Any] = {"symbols": tuple(s.name for s in CudaSymbol), **more}
        self.add(
            CudaProbed(
                ts_ns=self.now_ns,
                source="tracer",
                device=library.device,
                inode=library.inode,
                path=library.path,
                version="595.45.04",
                **values,
            )
        )

    def round(self, **meminfo: Any) -> None:
        """A round of sampling: of the machine something has always changed."""
        values: dict[str, Any] = {"mem_total_bytes": 64 * GIB, "mem_available_bytes": 30 * GIB, **meminfo}
        self.add(PressureSample(ts_ns=self.now_ns, source="pressure", **values))

    def code(self, pid: int, code_bytes: int) -> None:
        """A sample with so much code mapped."""
        start_ns = start_of(pid) // 10_000_000 * 10_000_000
        self.add(ProcessSample(ts_ns=self.now_ns, source="proc", tgid=pid, start_ns=start_ns, code_bytes=code_bytes))

    def call(self, pid: int, size: int | None, memory: CudaMemory = CudaMemory.DEVICE, **more: Any) -> None:
        """One call; recorded where it matters: `result` that is not 0, or a `why`."""
        self.pass_time(NS_PER_MS)
        account = self.accounts.setdefault(pid, Account(first_ns=self.now_ns))
        name, symbol = NAMES[memory]
        result = more.get("result", 0)
        account.last_ns = self.now_ns
        account.calls[name] = account.calls.get(name, 0) + 1
        if result:
            account.failed[name] = account.failed.get(name, 0) + 1
        else:
            account.held[name] = account.held.get(name, 0) + (size or 0)
            account.peak[name] = max(account.peak.get(name, 0), account.held[name])
        why = more.pop("why", CallWhy.FAILED if result else None)
        if why is None:
            return
        values: dict[str, Any] = {
            "result": result,
            "symbol": symbol,
            "failed_bytes": None,
            "failed_ns": None,
            "info_ns": None,
            "info_free_bytes": None,
            "info_total_bytes": None,
            "asked": sum(count for kind, count in account.calls.items() if kind != "other"),
            **more,
        }
        self.add(
            CudaCall(
                ts_ns=self.now_ns,
                cpu=0,
                start_ns=start_of(pid),
                entered_ns=self.now_ns - 1000,
                bytes=size,
                device_bytes=account.held.get("device", 0),
                managed_bytes=account.held.get("managed", 0),
                pinned_bytes=account.held.get("pinned", 0),
                registered_bytes=account.held.get("registered", 0),
                tgid=pid,
                tid=pid,
                memory=memory,
                why=why,
                comm="python3",
                **values,
            )
        )

    def refused(self, pid: int, size: int | None, memory: CudaMemory = CudaMemory.DEVICE, **more: Any) -> None:
        self.call(pid, size, memory, result=2, **more)

    def survived(self, pid: int, size: int | None, memory: CudaMemory = CudaMemory.DEVICE, **more: Any) -> None:
        self.call(pid, size, memory, why=CallWhy.SURVIVED, failed_bytes=size, failed_ns=self.now_ns, **more)

    def free(self, pid: int, size: int, name: str = "device") -> None:
        self.pass_time(NS_PER_MS)
        self.accounts[pid].held[name] -= size
        self.accounts[pid].last_ns = self.now_ns

    def totals(self, pid: int, *, ended: bool = False, **more: int) -> None:
        account = self.accounts[pid]
        counts: dict[str, int] = {}
        for name in ("device", "managed", "pinned", "registered"):
            counts[f"{name}_calls"] = account.calls.get(name, 0)
            counts[f"{name}_failed"] = account.failed.get(name, 0)
            counts[f"{name}_bytes"] = account.held.get(name, 0)
            counts[f"{name}_peak_bytes"] = account.peak.get(name, 0)
        values = {
            **counts,
            "other_calls": account.calls.get("other", 0),
            "other_failed": account.failed.get("other", 0),
            "unknown_frees": 0,
            "untold": 0,
            **more,
        }
        self.add(
            CudaTotals(
                ts_ns=self.now_ns,
                cpu=0,
                start_ns=start_of(pid),
                first_ns=account.first_ns,
                last_ns=account.last_ns,
                tgid=pid,
                ended=int(ended),
                **values,
            )
        )

    def trains(self, calls: int = 412, pid: int = RANK) -> None:
        """Allocations that all went well."""
        for _ in range(calls):
            self.call(pid, 64 * MIB)
        self.totals(pid)

    def gpu(self, used_gib: float, total_gib: float = 80, *, index: int = 0, pids: Iterable[int] = (RANK,)) -> None:
        used, total = round(used_gib * GIB), round(total_gib * GIB)
        self.add(
            GpuSample(
                ts_ns=self.now_ns,
                source="nvml",
                uuid=f"{GPU[:-1]}{index}",
                index=index,
                total_bytes=total,
                used_bytes=used,
                free_bytes=total - used,
                processes=tuple(GpuProcess(pid=pid) for pid in pids),
            )
        )

    def gpu_status(self, **more: Any) -> None:
        values: dict[str, Any] = {"available": True, "devices": (GpuDevice(uuid=GPU, index=0, name="H200"),), **more}
        self.add(GpuStatus(ts_ns=self.now_ns, source="nvml", **values))

    def node(self, *cpus: int) -> None:
        """NUMA nodes with so many CPUs."""
        nodes = tuple(NumaNode(node=n, mem_total_bytes=96 * GIB, cpus=count) for n, count in enumerate(cpus))
        self.add(NumaNodes(ts_ns=self.now_ns, source="proc", nodes=nodes))

    def says(self, about: str, text: str, **more: Any) -> None:
        self.add(TrainingLine(ts_ns=self.now_ns, source="text", about=about, text=text, stream="stderr", **more))

    def cuda_exit(self, pid: int, status: int = 1 << 8, **more: Any) -> None:
        """The end of a process, with what its calls came to."""
        self.pass_time(NS_PER_MS)
        if pid in self.accounts:
            self.totals(pid, ended=True)
        self.exit(pid, status, **more)

    def kill_worker(self) -> None:
        """An OOM kill of a worker by the run's cgroup, after a round of samples."""
        self.rest(1)
        self.pass_time(50 * NS_PER_MS)
        self.round()
        self.pass_time(50 * NS_PER_MS)
        self.kill()

    def end(self) -> list[AnyEvent]:
        """The rank raises because of its worker, and the job ends."""
        self.pass_time(NS_PER_S)
        self.round()
        for pid in (RANK, *WORKERS):
            if pid != VICTIM:
                self.cuda_exit(pid, 1 << 8 if pid == RANK else 0)
        return self.finish()


def host_kill_beside_a_gpu() -> CudaScene:
    """The usual case: the rank trains on a GPU, a worker is killed for want of host memory."""
    scene = CudaScene()
    scene.watched_job()
    scene.trains()
    scene.gpu_status()
    scene.gpu(31.2)
    scene.kill_worker()
    return scene


def out_of_device_memory(*, free_gib: float = 1.2, times: int = 3) -> CudaScene:
    """The rank asks for 20 GiB, three times; it has no more of it and exits."""
    scene = CudaScene()
    scene.watched_job()
    scene.gpu_status()
    scene.trains()
    scene.gpu(80 - free_gib)
    for _ in range(times):
        scene.pass_time(50 * NS_PER_MS)
        scene.refused(RANK, 20 * GIB)
    scene.pass_time(2 * NS_PER_S)
    scene.cuda_exit(RANK)
    return scene


def training(calls: int = 10) -> CudaScene:
    scene = CudaScene()
    scene.watched_job()
    scene.gpu_status()
    scene.trains(calls)
    scene.gpu(78.8)
    return scene


def refused(scene: CudaScene, *, size: int | None = 20 * GIB, **more: Any) -> CudaScene:
    """And two seconds later the rank exits with 1."""
    scene.refused(RANK, size, **more)
    scene.pass_time(2 * NS_PER_S)
    scene.cuda_exit(RANK)
    return scene


def ended(scene: CudaScene) -> Report:
    """Workers end by themselves, the launcher with 1."""
    scene.pass_time(NS_PER_S)
    for pid in WORKERS:
        scene.exit(pid, 0, comm="pt_data_worker")
    return judge(scene.finish())


def killed(scene: CudaScene) -> Report:
    """A worker is killed by the limit of its cgroup, and the job ends."""
    scene.kill_worker()
    return judge(scene.end())


def started(*mapped: int, probed: bool = True) -> CudaScene:
    scene = CudaScene()
    scene.job()
    scene.look_round(*mapped, probed=probed)
    return scene


def link5(report: Report) -> Link:
    """Of the first incident of the report that is a host kill."""
    found = next(i for i in report.verdict.incidents if i.cause.startswith("host_oom"))
    return found.proof[4]


def causes(report: Report) -> list[str]:
    return [incident.cause for incident in report.verdict.incidents]


def of_cause(report: Report, cause: str) -> Incident:
    return next(i for i in report.verdict.incidents if i.cause == cause)

# SPDX-License-Identifier: Apache-2.0
"""The process that asks NVML, started by `tracer.sources.gpu`: a line in, a line of JSON out.

It is apart because NVML may take seconds, crash, or wait in the driver where no signal reaches it: a thread that
does so keeps its whole process from ending, and with that the job's status from its caller. It imports none of ours,
and pynvml nobody else does: 6 MiB of memory, and 18 where its bytecode is not cached.
It only reads: no setting of a device or of its driver is ever changed.
"""

import contextlib
import ctypes
import json
import os
import sys
import time
from typing import Any

MORE_PLACES = ("/usr/local/nvidia/lib64", "/usr/lib/wsl/lib", "/run/opengl-driver/lib")
"""Where the library may lie without being known to ld.so: containers of GKE, WSL, NixOS."""
LIBRARY = "libnvidia-ml.so.1"
MAX_DEVICES = 256
MAX_PROCESSES = 1024
_PR_SET_PDEATHSIG, _SIGKILL = 1, 9
_WHYS = {
    4: "not permitted to ask the driver",
    9: "the driver is not loaded",
    12: f"there is no {LIBRARY}",
    15: "the GPU is lost",
    16: "the GPU has to be reset",
    18: "driver and library do not match (a new driver was installed, and the old one still runs)",
}
_GONE = frozenset((1, 9, 11, 15, 16, 28))
"""Errors after which a device answers nothing any more: uninitialised, no driver, no interrupts, lost, to be reset,
not found."""


class Device:
    """One GPU, or one instance of it."""

    def __init__(self, handle: Any, facts: dict[str, Any]) -> None:
        self.handle = handle
        self.facts = facts
        self.label = facts["uuid"] if facts.get("mig_of") else f"GPU {facts['index']}"


class Asker:
    """What NVML says, as the fields of our events."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._devices: list[Device] = []
        self._troubles: dict[str, str] = {}
        self._driver: str | None = None
        self._loaded = False
        self._told: dict[str, Any] | None = None
        self._without_v2: set[str] = set()

    def begin(self) -> None:
        """Find library, driver and devices. What is wrong stands in the status."""
        self._devices, self._troubles = [], {}
        if self._loaded:
            self._attempt("", self._nvml.nvmlShutdown)
        try:
            self._load()
            self._loaded = True
            self._driver = self._attempt("", self._nvml.nvmlSystemGetDriverVersion)
            count = min(self._nvml.nvmlDeviceGetCount(), MAX_DEVICES)
        except self._nvml.NVMLError as error:
            self._troubles[""] = why(error)
            return
        for index in range(count):
            handle = self._attempt(f"GPU {index}", lambda i=index: self._nvml.nvmlDeviceGetHandleByIndex(i))
            if handle is not None:
                self._add(handle, index)
        if not count:
            self._troubles[""] = "NVML shows no device here"

    def status(self) -> dict[str, Any] | None:
        """Whatever is new since it was last told; `None`: nothing."""
        troubles = "; ".join(filter(None, (f"{who}: {text}" if who else text for who, text in self._troubles.items())))
        status = {
            "available": bool(self._devices),
            "why_not": troubles[:500] or None,
            "driver_version": self._driver,
            "devices": [device.facts for device in self._devices],
        }
        if status == self._told:
            return None
        self._told = status
        return status | {"ts_ns": time.monotonic_ns(), "source": "nvml"}

    def samples(self) -> list[dict[str, Any]]:
        """Memory and processes of each device. One that is lost is dropped; if none is left it begins anew."""
        if not self._devices:
            self.begin()
        found = []
        for device in tuple(self._devices):
            sample = {"uuid": device.facts["uuid"], "index": device.facts["index"], "source": "nvml"}
            memory = self._attempt(device.label, lambda d=device: self._memory(d), drop=device)
            ts_ns = time.monotonic_ns()
            if device not in self._devices:
                continue
            processes = self._attempt("", lambda d=device: self._processes(d), drop=device)
            if memory is not None or processes is not None:
                found.append(sample | (memory or {}) | {"processes": processes, "ts_ns": ts_ns})
        return found

    def peaks(self, pids: set[int]) -> list[dict[str, Any]]:
        """What the driver's accounting kept of these pids, where an administrator has switched it on."""
        nvml, found = self._nvml, []
        for device in self._devices:
            handle = device.handle
            if (
                device.facts.get("mig_of")
                or self._attempt("", lambda h=handle: nvml.nvmlDeviceGetAccountingMode(h)) != 1
            ):
                continue
            kept = self._attempt("", lambda h=handle: nvml.nvmlDeviceGetAccountingPids(h)) or []
            for pid in sorted(pids.intersection(kept)):
                stats = self._attempt("", lambda h=handle, p=pid: nvml.nvmlDeviceGetAccountingStats(h, p))
                if stats is not None:
                    found.append(_peak(device, pid, stats))
        return found

    def _load(self) -> None:
        nvml = self._nvml
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            if error.value != nvml.NVML_ERROR_LIBRARY_NOT_FOUND:
                raise
            if not any(map(_loads, MORE_PLACES)):
                raise
            nvml.nvmlInit()  # a library that is loaded is found again by its name

    def _add(self, handle: Any, index: int) -> None:
        nvml, who = self._nvml, f"GPU {index}"
        uuid = self._attempt(who, lambda: nvml.nvmlDeviceGetUUID(handle))
        if uuid is None:
            return
        memory = self._attempt("", lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        pci = self._attempt("", lambda: nvml.nvmlDeviceGetPciInfo(handle).busId)
        facts = {
            "uuid": uuid,
            "index": index,
            "name": self._attempt("", lambda: nvml.nvmlDeviceGetName(handle)),
            "total_bytes": None if memory is None else memory.total,
            "pci": None if pci is None else short_pci(pci),
            "minor": self._attempt("", lambda: nvml.nvmlDeviceGetMinorNumber(handle)),
        }
        self._devices.append(Device(handle, facts))
        mode = self._attempt("", lambda: nvml.nvmlDeviceGetMigMode(handle))
        if mode and mode[0] == 1:
            self._add_instances(handle, facts)

    def _add_instances(self, handle: Any, whole: dict[str, Any]) -> None:
        nvml = self._nvml
        most = self._attempt("", lambda: nvml.nvmlDeviceGetMaxMigDeviceCount(handle)) or 0
        for number in range(min(most, MAX_DEVICES)):
            instance = self._attempt("", lambda n=number: nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, n))
            uuid = None if instance is None else self._attempt("", lambda i=instance: nvml.nvmlDeviceGetUUID(i))
            if uuid is None:
                continue  # as many as could be made, and mostly fewer are
            memory = self._attempt("", lambda i=instance: nvml.nvmlDeviceGetMemoryInfo(i))
            facts = whole | {
                "uuid": uuid,
                "name": self._attempt("", lambda i=instance: nvml.nvmlDeviceGetName(i)),
                "total_bytes": None if memory is None else memory.total,
                "mig_of": whole["uuid"],
            }
            self._devices.append(Device(instance, facts))

    def _memory(self, device: Device) -> dict[str, Any]:
        nvml, uuid = self._nvml, device.facts["uuid"]
        if uuid not in self._without_v2:
            try:
                memory = nvml.nvmlDeviceGetMemoryInfo(device.handle, version=nvml.nvmlMemory_v2)
            except nvml.NVMLError as error:
                if error.value in _GONE:
                    raise
            else:
                return _bytes_of(memory) | {"reserved_bytes": memory.reserved}
            self._without_v2.add(uuid)
        return _bytes_of(nvml.nvmlDeviceGetMemoryInfo(device.handle))

    def _processes(self, device: Device) -> list[dict[str, Any]]:
        nvml = self._nvml
        try:
            found = nvml.nvmlDeviceGetComputeRunningProcesses_v3(device.handle)
        except nvml.NVMLError as error:
            if error.value == nvml.NVML_ERROR_INSUFFICIENT_SIZE:  # more came between its two calls
                found = nvml.nvmlDeviceGetComputeRunningProcesses_v3(device.handle)
            elif error.value == nvml.NVML_ERROR_FUNCTION_NOT_FOUND:
                found = nvml.nvmlDeviceGetComputeRunningProcesses_v2(device.handle)
            else:
                raise
        # Where MIG is on, the whole device shows those of its instances, too.
        return [{"pid": one.pid, "used_bytes": one.usedGpuMemory} for one in found[:MAX_PROCESSES]]

    def _attempt(self, who: str, action: Any, drop: Device | None = None) -> Any:
        """What it gives, or `None`; what went wrong is told of `who`, if that is not empty."""
        try:
            result = action()
        except (self._nvml.NVMLError, UnicodeError) as error:
            if who:
                self._troubles[who] = why(error)
            if drop is not None and getattr(error, "value", None) in _GONE:
                self._troubles[drop.label] = why(error)
                self._devices.remove(drop)
            return None
        if who:
            self._troubles.pop(who, None)
        return result


def why(error: Exception) -> str:
    """In a few words."""
    return _WHYS.get(getattr(error, "value", 0), str(error))[:200]


def short_pci(text: str) -> str:
    """`00000000:08:00.0` as the kernel's log and sysfs have it."""
    domain, _, rest = text.partition(":")
    return f"{domain[-4:]}:{rest}".lower() if domain[:-4].strip("0") == "" else text.lower()


def _bytes_of(memory: Any) -> dict[str, int]:
    return {"total_bytes": memory.total, "used_bytes": memory.used, "free_bytes": memory.free}


def _peak(device: Device, pid: int, stats: Any) -> dict[str, Any]:
    return {
        "ts_ns": time.monotonic_ns(),
        "source": "nvml",
        "uuid": device.facts["uuid"],
        "index": device.facts["index"],
        "pid": pid,
        "peak_bytes": stats.maxMemoryUsage,
        "started_realtime_ns": stats.startTime * 1000 or None,
        "running": bool(stats.isRunning),
    }


def _loads(folder: str) -> bool:
    try:
        ctypes.CDLL(f"{folder}/{LIBRARY}", mode=ctypes.RTLD_GLOBAL)
    except OSError:
        return False
    return True


def _shun_oom_killer() -> None:
    # Where a kill takes a whole cgroup the tracer is passed over, and what it asks is to be answered just then.
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("-1000")


def _say(answer: dict[str, Any]) -> None:
    os.write(1, json.dumps(answer).encode() + b"\n")


def main(argv: list[str]) -> int:
    """Answer until nobody asks any more: `sample`, or `peaks PID...`."""
    # The parent may be killed while a call hangs, and then nobody reads the end of the pipe.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
    _shun_oom_killer()
    sys.path.append(argv[1])
    try:
        import pynvml  # noqa: PLC0415 - from the folder that was given, and nowhere else
    except ImportError as error:
        status = {"available": False, "why_not": f"pynvml cannot be imported: {error}"}
        _say({"status": status | {"ts_ns": time.monotonic_ns(), "source": "nvml"}})
        return 1
    asker = Asker(pynvml)
    asker.begin()
    _say({"status": asker.status()})
    for line in sys.stdin:
        words = line.split()
        began_ns = time.monotonic_ns()
        answer: dict[str, Any] = {}
        if words[:1] == ["peaks"]:
            answer["peaks"] = asker.peaks(set(map(int, words[1:])))
        else:
            answer["samples"] = asker.samples()
        _say(answer | {"status": asker.status(), "took_ns": time.monotonic_ns() - began_ns})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))

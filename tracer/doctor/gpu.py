# SPDX-License-Identifier: Apache-2.0
"""NVML: whether it answers, of which driver it is, and which devices it shows. Asked as a run asks it."""

import select
import time
from collections.abc import Iterable

from tracer.doctor.model import Capability
from tracer.doctor.reading import Places
from tracer.events import GpuStatus
from tracer.sources.gpu import NO_DRIVER, PATIENCE_NS, SIGNS, GpuSource, GpuUnavailable
from tracer.units import GIB, NS_PER_S

_NAMES = 4
"""Kinds of devices that are named."""


def ask(places: Places) -> GpuStatus:
    """Its first answer, or that none came in time."""
    signs = (f"{places.dev}/nvidiactl", f"{places.proc}/driver/nvidia", *SIGNS[2:])
    source = GpuSource.open(signs=signs, proc_root=places.proc)
    if isinstance(source, GpuUnavailable):
        return source.status(time.monotonic_ns())
    try:
        return _first_status(source)
    finally:
        source.close()


def _first_status(source: GpuSource) -> GpuStatus:
    deadline_ns = time.monotonic_ns() + PATIENCE_NS
    while True:
        for answer in source.read():
            if answer.status is not None:
                return answer.status
        now_ns = time.monotonic_ns()
        late = source.late(now_ns)
        if late is not None:
            return late
        select.select([source.fileno()], [], [], max(0, deadline_ns - now_ns) / NS_PER_S + 0.001)


def check(status: GpuStatus) -> Iterable[Capability]:
    """Nothing on a machine without the driver: another line says so."""
    if status.why_not == NO_DRIVER:
        return
    yield Capability(
        id="nvml",
        name="NVML",
        ok="yes" if status.available else "no",
        found=_found(status),
        meaning="memory of each GPU over time, in total and by process; BPF alone tells which allocations failed",
        links=(5,),
        weight="note",
        remedy=None if status.available else _remedy(status.why_not or ""),
    )


def _found(status: GpuStatus) -> str:
    driver = "" if status.driver_version is None else f"driver {status.driver_version}"
    kinds: dict[str, int] = {}
    for device in status.devices:
        size = "" if device.total_bytes is None else f", {device.total_bytes / GIB:.0f} GiB"
        kind = f"{device.name or 'a device without a name'}{size}"
        kinds[kind] = kinds.get(kind, 0) + 1
    named = [f"{count} x {kind}" if count > 1 else kind for kind, count in kinds.items()]
    more = [f"and {len(named) - _NAMES} other kinds"] if len(named) > _NAMES else []
    return "; ".join(filter(None, (driver, *named[:_NAMES], *more, status.why_not)))


def _remedy(why: str) -> str | None:
    if "do not match" in why:
        return "reboot, or unload the old driver (rmmod nvidia) and load the new one"
    if "libnvidia-ml" in why or "no device" in why or "not permitted" in why:
        return (
            "in a container: start it with its GPUs (docker run --gpus all; NVIDIA_DRIVER_CAPABILITIES=utility,compute)"
        )
    if "nvidia-ml-py" in why:
        return "pip install nvidia-ml-py, into the environment of oomtrace"
    if "no answer" in why:
        return (
            "look for Xid lines (dmesg | grep NVRM); nvidia-smi -pm 1 keeps devices from being started anew each time"
        )
    return None

# SPDX-License-Identifier: Apache-2.0
"""NVML: whether it answers, and what it shows, asked as a run asks it; whether calls of CUDA would be seen."""

import os
import select
import time
from collections.abc import Iterable
from dataclasses import dataclass

from tracer.doctor.model import Capability
from tracer.doctor.reading import Places
from tracer.elf import exported_functions
from tracer.errors import OomtraceError
from tracer.events import GpuStatus
from tracer.kernel.cuda import NoUprobes, open_cuda, unknown_of
from tracer.kernel.cudacalls import FUNCTIONS
from tracer.kernel.session import open_session
from tracer.pipeline.cuda import NOT_ALL_SEEN
from tracer.sources.code import driver_version
from tracer.sources.gpu import NO_DRIVER, PATIENCE_NS, SIGNS, GpuSource, GpuUnavailable
from tracer.sources.libcuda import find_libcudas
from tracer.sources.live import events_h_digest
from tracer.sources.namespaces import own_pid_namespace
from tracer.units import GIB, NS_PER_S


@dataclass(frozen=True)
class Library:
    """One libcuda."""

    path: str
    version: str | None = None
    missing: tuple[str, ...] = ()
    """Functions that it does not export."""
    unknown: tuple[str, ...] = ()
    """That look like allocation, and are not watched."""


@dataclass(frozen=True)
class Calls:
    """What came of trying to watch calls of CUDA."""

    loaded: bool
    why_not: str | None = None
    libraries: tuple[Library, ...] = ()


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


def try_cuda() -> Calls:
    """Load the programs that see calls of CUDA, and look at each libcuda that is there; nothing is probed."""
    try:
        with (
            open_session(events_h_digest=events_h_digest()) as session,
            open_cuda(session, events_h_digest=events_h_digest()),
        ):
            loaded, why_not = own_pid_namespace() is False, NOT_ALL_SEEN
    except (NoUprobes, OomtraceError) as error:
        loaded, why_not = False, str(error)
    except Exception as error:  # noqa: BLE001 - a doctor who dies of the illness helps nobody
        loaded, why_not = False, f"{type(error).__name__}: {error}"
    libraries: list[Library] = []
    for path, fd in find_libcudas(more=os.environ.get("LD_LIBRARY_PATH", "").split(":")):
        try:
            exported = exported_functions(fd)
            missing = [function.name for function in FUNCTIONS if function.name not in exported]
            libraries.append(Library(path, driver_version(fd), tuple(missing), tuple(unknown_of(exported))))
        finally:
            os.close(fd)
    return Calls(loaded, None if loaded else why_not, tuple(libraries))


def check_calls(calls: Calls, *, has_driver: bool) -> Iterable[Capability]:
    """Whether calls of CUDA would be seen, and of which libraries."""
    concerned = has_driver or bool(calls.libraries)
    yield Capability(
        id="cuda_calls",
        name="calls of CUDA (uprobes)",
        ok="yes" if calls.loaded else "no",
        found="the programs load" if calls.loaded else f"{calls.why_not}",
        meaning="which allocations of device and pinned memory were made, and which failed; on any libcuda that a job "
        "maps, wherever it lies",
        links=(5,) if concerned else (),
        weight="help" if concerned else "note",
        remedy=None
        if calls.loaded or not concerned
        else "what BPF programs need, and a kernel with CONFIG_UPROBE_EVENTS=y (the distributions' have it)",
    )
    for library in calls.libraries:
        watched = len(FUNCTIONS) - len(library.missing)
        version = "" if library.version is None else f" of driver {library.version}"
        unknown = f"; unknown, and named like allocation: {', '.join(library.unknown)}" if library.unknown else ""
        yield Capability(
            id="libcuda",
            name="libcuda",
            ok="yes" if watched else "no",
            found=f"{library.path}{version}: {watched} of {len(FUNCTIONS)} functions that are watched{unknown}",
            meaning="is probed before a job begins; functions that a version does not export cannot be called",
            links=(5,),
            weight="note",
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

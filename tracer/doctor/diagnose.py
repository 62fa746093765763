# SPDX-License-Identifier: Apache-2.0
"""All checks in one go: changes nothing, leaves nothing attached, needs no rights, takes a second or two."""

import os
import platform
from collections.abc import Callable, Mapping

from tracer import __version__
from tracer.doctor import gpu, kernel, memory, place, remedies, rights, software, surroundings, witnesses
from tracer.doctor.model import Capability, Diagnosis
from tracer.doctor.outlook import outlook
from tracer.doctor.reading import Places, read
from tracer.errors import KernelUnavailable
from tracer.events import GpuStatus
from tracer.job.identity import find_caller
from tracer.sources.libcuda import has_driver


def diagnose(
    environ: Mapping[str, str],
    *,
    places: Places | None = None,
    try_programs: Callable[[], kernel.Tried] = kernel.try_programs,
    ask: Callable[[], software.Asked] = software.ask,
    ask_nvml: Callable[[Places], GpuStatus] = gpu.ask,
    try_cuda: Callable[[], gpu.Calls] = gpu.try_cuda,
) -> Diagnosis:
    """What holds here.

    Raises:
        KernelUnavailable: this is no Linux at all.
    """
    if platform.system() != "Linux":
        raise KernelUnavailable(f"this is {platform.system()}: only a Linux kernel can be watched; try a Linux machine")
    where = places or Places()
    system = remedies.os_release(read(f"{where.etc}/os-release") or read(f"{where.etc}/../usr/lib/os-release"))
    mine = rights.read_rights(where)
    programs = list(software.check(system, root=mine.root, asked=ask))
    tried = try_programs()
    found: list[Capability] = [
        *kernel.check(where, mine, tried, bcc_with_root=all(one.ok != "no" for one in programs)),
        *programs,
        *witnesses.check(where, mine),
        *surroundings.check(where, mine),
        *gpu.check(ask_nvml(where)),
        *gpu.check_calls(
            try_cuda() if tried.holds else gpu.Calls(loaded=False, why_not="the other programs do not load"),
            has_driver=has_driver(),
        ),
        *rights.check(mine),
        *memory.check(where, mine),
        *place.check(find_caller(environ)),
    ]
    return Diagnosis(
        version=__version__,
        kernel_release=os.uname().release,
        machine=os.uname().machine,
        distribution=system.get("PRETTY_NAME"),
        uid=mine.uid,
        here=outlook(found, root=mine.root, asker_is_root=mine.root),
        with_root=None if mine.root else outlook(found, root=True, asker_is_root=False),
        capabilities=tuple(found),
        hooks=tried.hooks or tried.bare,
    )

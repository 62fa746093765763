# SPDX-License-Identifier: Apache-2.0
"""The machine's memory: /proc/meminfo, /proc/pressure/memory and the OOM counter of /proc/vmstat."""

import re
import time
from collections.abc import Callable, Mapping

from tracer.events import PressureSample, VmstatSample
from tracer.pseudofiles import read_bytes
from tracer.sources.procfs import read_keys

STRICT = 2
"""vm.overcommit_memory: what is promised is counted. Else it changes all the time, and nothing depends on it."""
_PSI = re.compile(rb"^(some|full) avg10=(\d{1,3}\.\d{1,4}) .*total=(\d{1,18})$", re.MULTILINE)


def read_pressure(proc_root: str = "/proc", *, clock: Callable[[], int] = time.monotonic_ns) -> PressureSample:
    """The machine now. A kernel without PSI, or with it switched off, leaves those fields `None`."""
    meminfo = read_keys(f"{proc_root}/meminfo") or {}
    mode = (read_bytes(f"{proc_root}/sys/vm/overcommit_memory") or b"").strip()
    overcommit = int(mode) if mode in {b"0", b"1", b"2"} else None
    psi = read_psi(f"{proc_root}/pressure/memory")
    none = (None, None)
    return PressureSample(
        ts_ns=clock(),
        source="pressure",
        mem_total_bytes=meminfo.get("MemTotal"),
        mem_available_bytes=meminfo.get("MemAvailable"),
        mem_free_bytes=meminfo.get("MemFree"),
        shmem_bytes=meminfo.get("Shmem"),
        swap_total_bytes=meminfo.get("SwapTotal"),
        swap_free_bytes=meminfo.get("SwapFree"),
        anon_bytes=meminfo.get("AnonPages"),
        cached_bytes=meminfo.get("Cached"),
        buffers_bytes=meminfo.get("Buffers"),
        slab_bytes=meminfo.get("Slab"),
        kernel_stack_bytes=meminfo.get("KernelStack"),
        page_tables_bytes=_sum(meminfo, "PageTables", "SecPageTables"),
        percpu_bytes=meminfo.get("Percpu"),
        vmalloc_bytes=meminfo.get("VmallocUsed"),
        hugetlb_bytes=meminfo.get("Hugetlb"),
        overcommit=overcommit,
        commit_limit_bytes=meminfo.get("CommitLimit") if overcommit == STRICT else None,
        committed_bytes=meminfo.get("Committed_AS") if overcommit == STRICT else None,
        psi_some_avg10=psi.get("some", none)[0],
        psi_full_avg10=psi.get("full", none)[0],
        psi_some_total_us=psi.get("some", none)[1],
        psi_full_total_us=psi.get("full", none)[1],
    )


def _sum(meminfo: Mapping[str, int], name: str, newer: str) -> int | None:
    """Of two lines, the second of which older kernels do not have."""
    value = meminfo.get(name)
    return None if value is None else value + meminfo.get(newer, 0)


def read_psi(path: str) -> dict[str, tuple[float, int]]:
    """`some` and `full` of a file of pressure: the average over 10 s in percent, and the total in microseconds."""
    return {who.decode(): (float(average), int(total)) for who, average, total in _PSI.findall(read_bytes(path) or b"")}


def read_vmstat(proc_root: str = "/proc", *, clock: Callable[[], int] = time.monotonic_ns) -> VmstatSample | None:
    """How many OOM kills the machine has had; `None`: a kernel older than 4.13 does not count them."""
    _, found, rest = (read_bytes(f"{proc_root}/vmstat") or b"").partition(b"\noom_kill ")  # one line of two hundred
    number = rest.partition(b"\n")[0]
    if not found or not number.isdigit() or len(number) >= 20:
        return None
    return VmstatSample(ts_ns=clock(), source="pressure", oom_kill=int(number))

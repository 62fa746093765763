# SPDX-License-Identifier: Apache-2.0
"""What the tracer says about itself and its machine: the clocks, its cost, the header of a recording."""

import os
import socket
import time

from tracer import __version__
from tracer.events import Clock, Header, TracerCost
from tracer.pseudofiles import read_bytes
from tracer.sources.namespaces import own_pid_namespace


def clock_now() -> Clock:
    """The three clocks at one moment, as nearly as they can be read."""
    return Clock(
        ts_ns=time.monotonic_ns(),
        source="tracer",
        realtime_ns=time.time_ns(),
        boottime_ns=time.clock_gettime_ns(time.CLOCK_BOOTTIME),
    )


def header_now(*, cgroup_version: int | None, proc_root: str = "/proc") -> Header:
    """The first line of a recording that begins now."""
    clock = clock_now()
    system = os.uname()
    return Header(
        ts_ns=clock.ts_ns,
        source="tracer",
        version=__version__,
        pid=os.getpid(),
        own_pid_namespace=own_pid_namespace(proc_root),
        boot_id=_line(f"{proc_root}/sys/kernel/random/boot_id"),
        hostname=socket.gethostname(),
        kernel_release=system.release,
        machine=system.machine,
        page_bytes=os.sysconf("SC_PAGE_SIZE"),
        cpus=os.cpu_count(),
        cgroup_version=cgroup_version,
        realtime_ns=clock.realtime_ns,
        boottime_ns=clock.boottime_ns,
    )


def cost_now(*, longest_scan_ns: int, scans: int, proc_root: str = "/proc") -> TracerCost:
    """What watching has cost so far."""
    words = (_line(f"{proc_root}/self/statm") or "").split()
    # Resident less shared: file mappings of the interpreter are not the tracer's own.
    private_pages = int(words[1]) - int(words[2]) if len(words) > 2 else None
    return TracerCost(
        ts_ns=time.monotonic_ns(),
        source="tracer",
        cpu_ns=time.process_time_ns(),
        private_bytes=None if private_pages is None else private_pages * os.sysconf("SC_PAGE_SIZE"),
        scan_ns=longest_scan_ns or None,
        scans=scans,
    )


def _line(path: str) -> str | None:
    text = (read_bytes(path) or b"").decode("ascii", "replace")
    return text.partition("\n")[0].strip() or None

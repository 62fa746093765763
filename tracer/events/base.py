# SPDX-License-Identifier: Apache-2.0
"""What every event has. One event is one observation by one source; nothing here is a conclusion."""

from typing import Literal, NamedTuple

import msgspec

from tracer.units import TICK_NS

Source = Literal["bpf", "kmsg", "printk_console", "proc", "cgroup", "pressure", "job", "tracer", "text", "nvml"]
"""Who observed it: BPF ring buffer, /dev/kmsg, printk by a hook on its tracepoint, /proc, cgroup files, /proc/pressure
and meminfo, the launcher of the job, the tracer about itself, a log file, NVIDIA's management library."""


class ProcessId(NamedTuple):
    """A process for good: pids are reused, this pair is not. Nothing is ever joined by pid alone."""

    tgid: int
    start_tick: int
    """Start in CLOCK_BOOTTIME, in USER_HZ ticks: what /proc/PID/stat shows, and the kernel floors to."""


def process_id(tgid: int, start_ns: int) -> ProcessId:
    """The identity from a start time in CLOCK_BOOTTIME ns, exact (kernel) or floored to a tick (/proc)."""
    return ProcessId(tgid, start_ns // TICK_NS)


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", omit_defaults=True, gc=False):
    """Base of all events. A field that the source cannot know is `None`."""

    ts_ns: int
    """CLOCK_MONOTONIC. For log text: translated to it, see the class."""
    seq: int = 0
    """Its place in the recording, from 0 without gaps; stamped when it is appended."""
    source: Source = "bpf"

# SPDX-License-Identifier: Apache-2.0
"""The frame of a recording: what watched, since when, what the job did, what was lost."""

from typing import Literal

from tracer.events.base import Event

RECORDING_SCHEMA = "oomtrace.recording/1"

PidsOfProc = Literal["same", "own", "initial", "none"]
"""Which pids /proc shows. same: there is but one namespace; own: those of the tracer's; initial: the kernel's, though
the tracer's are others; none: those of a third namespace, so that nothing of /proc can be used."""


class Header(Event, frozen=True, kw_only=True, omit_defaults=False, gc=False):
    """First line of every recording. Written in full: a file says what it is, `schema` above all."""

    schema: str = RECORDING_SCHEMA
    version: str
    """Of oomtrace."""
    pid: int | None = None
    """Of the tracer, in its own pid namespace."""
    own_pid_namespace: bool | None = None
    """True: the tracer's pids are not those of the initial namespace: kernel records cannot be joined to /proc by
    pid, unless a `TracerPlaced` says that pids were translated. `None`: it could not be told."""
    boot_id: str | None = None
    hostname: str | None = None
    kernel_release: str | None = None
    machine: str | None = None
    page_bytes: int = 4096
    cpus: int | None = None
    cgroup_version: int | None = None
    """1 or 2: which hierarchy has the memory controller; `None`: neither."""
    realtime_ns: int
    """CLOCK_REALTIME at `ts_ns`, and CLOCK_BOOTTIME: the clock triple."""
    boottime_ns: int


class Clock(Event, frozen=True, kw_only=True, gc=False):
    """The clock triple again: suspend and clock steps show here."""

    realtime_ns: int
    boottime_ns: int


class HookStatus(Event, frozen=True, kw_only=True, gc=False):
    """One hook of the ladder, once the tracer is armed."""

    hook: str
    """`raw_tracepoint:mark_victim`, `kprobe:oom_kill_process`, `kmsg`, ..."""
    attached: bool
    why_not: str | None = None


class Armed(Event, frozen=True, kw_only=True, gc=False):
    """From here on the kernel is watched; before it nothing is claimed."""

    start_to_armed_ns: int | None = None
    transport: str | None = None
    """How the kernel's records come: `ring_buffer`, or `perf_buffer` where the kernel lacks that; `None`: not told."""


class Disarmed(Event, frozen=True, kw_only=True, gc=False):
    """Until here the kernel was watched, and the ring buffer was read to its end."""


class TracerPlaced(Event, frozen=True, kw_only=True, gc=False):
    """The kernel's own record of the job's first process, compared with what we know of it: they agree.

    So the kernel's records are of this job, its pids and clocks are those of this recording, and the pid of
    every process is the kernel's, whatever the tracer's own namespace calls it.
    """

    tgid: int
    """The kernel's pid of the tracer, whose own one is `Header.pid`."""
    start_ns: int
    job_tgid: int
    """The kernel's pid of the job's first process, and its exact start."""
    job_start_ns: int
    job_own_tgid: int
    """Its pid in the tracer's own pid namespace."""
    job_ns_level: int
    """How deep its pid namespace lies, which is the tracer's. 0: the initial one."""
    proc: PidsOfProc
    monotonic_shift_ns: int = 0
    boottime_shift_ns: int = 0
    """What was added to the kernel's times: the offsets of the tracer's time namespace."""


class JobStarted(Event, frozen=True, kw_only=True, gc=False):
    """The root of the tree. Its pid was in the tree filter before it could run anything."""

    tgid: int
    start_ns: int
    argv: tuple[str, ...] | None = None
    """Secrets masked."""
    uid: int | None = None
    cgroup: str | None = None
    """The memory cgroup made for it, else the one it inherited."""
    cgroup_id: int | None = None
    own_cgroup: bool = False
    """Made by us: nothing else lived in it."""
    attached: bool = False
    """It ran before the tracer did. There may be several of these then, each the top of a tree of its own."""


class Attached(Event, frozen=True, kw_only=True, gc=False):
    """What ran already was found: the hooks came first, then a scan of /proc that was repeated until nothing was new.

    Whatever was first seen from `began_ns` on until `ts_ns` ran already when it was put into the tree filter.
    Again for each that joins later (a process that enters the cgroup).
    """

    began_ns: int
    processes: int
    """Of the tree, alive at its end."""
    complete: bool
    """Every one is in the tree filter, and every fork since `began_ns` was accounted for."""
    passes: int = 0
    cgroup: str | None = None
    """The cgroup that was asked for; `None`: processes were."""
    cgroup_id: int | None = None


class JobEnded(Event, frozen=True, kw_only=True, gc=False):
    """`waitpid` of the root returned."""

    tgid: int
    start_ns: int
    status: int
    """Wait status, as the kernel encodes it."""


class EndAsked(Event, frozen=True, kw_only=True, gc=False):
    """`run --until` or `run --for`: the job was to be ended by us, and this signal was sent to its process group."""

    why: str
    """`epochs=1 was reached`, `10 min have passed`."""
    signal: int
    tracer_tgid: int | None = None
    """Who sent it: ourselves, by our own pid."""
    epochs: float | None = None
    """How far the job was by then, as it was seen live; `None`: it was not asked for."""
    steps: int | None = None


class ProcessGone(Event, frozen=True, kw_only=True, gc=False):
    """A process was missing at a scan. That is **not** an exit event: how it ended is unknown."""

    tgid: int
    start_ns: int


class Losses(Event, frozen=True, kw_only=True, gc=False):
    """Loss counters since the tracer was armed; recorded when one moved, and at the end."""

    dropped: dict[str, int] = {}
    """By record kind name: there was no room."""
    untracked: int = 0
    """Processes that did not fit into the tree filter."""
    short: int = 0
    """Records of an unexpected size."""
    unknown: int = 0
    """Records of an unknown kind, or that were lost and nobody knows of what kind."""
    log_gaps: int = 0
    """Records of the kernel log that were overwritten."""
    reclaim: int = 0
    """Reclaim runs whose cgroup found no room. Not in `total`: no proof of a kill rests on reclaim."""
    cuda: int = 0
    """Calls of CUDA by processes whose totals found no room. Not in `total`, for the same reason."""

    @property
    def total(self) -> int:
        return sum(self.dropped.values()) + self.untracked + self.short + self.unknown


class TracerCost(Event, frozen=True, kw_only=True, gc=False):
    """What watching cost: CPU time of this process so far, its private memory, the longest scan."""

    cpu_ns: int
    private_bytes: int | None = None
    scan_ns: int | None = None
    scans: int = 0


class OutputWatched(Event, frozen=True, kw_only=True, gc=False):
    """What the job writes is read from here on: what it then does not say it has not said, or too fast (a note)."""


class Note(Event, frozen=True, kw_only=True, gc=False):
    """Something a reader of the verdict should know: ends up among the caveats."""

    text: str

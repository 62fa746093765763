# SPDX-License-Identifier: Apache-2.0
"""What is read from /proc and from cgroup files while the job runs.

`start_ns` here is floored to a clock tick (`units.TICK_NS`); `base.process_id` makes both kinds equal.
Samples are recorded when they change.
"""

from typing import Literal

import msgspec

from tracer.events.base import Event

SHM = "/dev/shm"  # noqa: S108 - a name, and no file of ours
"""Where glibc's shm_open() and PyTorch put their files."""


class ProcessLimits(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Soft limits of /proc/PID/limits beyond which memory is refused; `units.NO_LIMIT_BYTES`: none. `None`: unknown."""

    address_bytes: int | None = None
    """RLIMIT_AS, `ulimit -v`: all that is mapped."""
    data_bytes: int | None = None
    """RLIMIT_DATA, `ulimit -d`: what is private and writable."""


class ProcessSeen(Event, frozen=True, kw_only=True, gc=False):
    """A process of the tree at first sight and again after an exec; what dies with it is kept here."""

    start_ns: int
    tgid: int
    parent_tgid: int
    comm: str
    parent_start_ns: int | None = None
    """Start of that very parent; `None`: it was gone before it could be read."""
    cmdline: tuple[str, ...] | None = None
    """Secrets masked, cut to a bounded length; `None`: not readable."""
    environ: dict[str, str] | None = None
    """Allow-listed names only (rank, world, launcher, job ids), as given to exec; `None`: not readable."""
    exe: str | None = None
    uid: int | None = None
    session_id: int | None = None
    ns_pids: tuple[int, ...] | None = None
    """Its pids from the outermost namespace inwards, as far as known, beginning with `tgid`: NSpid, which begins at
    the namespace that /proc shows. Levels between the kernel's and that one are left out."""
    cgroup: str | None = None
    """Path of its memory cgroup (v1) or its cgroup (v2), as /proc/PID/cgroup shows it."""
    cgroup_id: int | None = None
    """kernfs id = inode of that directory: what the kernel records call `cgroup_id`."""
    foreign_user_ns: bool | None = None
    """Whether its user namespace is another one than the tracer's: there anybody may have mounted what they like."""
    limits: ProcessLimits | None = None


class SeenProgram(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Of a process that is none of the job's just what tells which program it is: no arguments, no environment."""

    depth: int
    """0: the sender itself; 1: its parent; and so on."""
    tgid: int
    start_ns: int
    comm: str
    exe: str | None = None
    uid: int | None = None
    cgroup: str | None = None
    cgroup_id: int | None = None
    foreign_user_ns: bool | None = None


class SenderSeen(Event, frozen=True, kw_only=True, gc=False):
    """Who sent the job a fatal signal from outside, and who stands above that one, as /proc showed them just then."""

    tgid: int
    start_ns: int
    """As the signal's record has them."""
    line: tuple[SeenProgram, ...]
    """From the sender up; it is not there itself where it was gone already, as `kill` mostly is."""


class ProcessLooked(Event, frozen=True, kw_only=True, gc=False):
    """A closer look at a process of the tree, soon after its first sight and again later: what it set up for itself."""

    start_ns: int
    tgid: int
    comm: str | None = None
    caught: int | None = None
    """Signals with a handler: SigCgt of /proc/PID/status, bit N-1 for signal N."""
    environ: dict[str, str] | None = None
    """Allow-listed names only, as the process has them by now: from its memory. `None`: not readable."""
    devices: tuple[str, ...] | None = None
    """GPUs that it has open: `nvidia0`, ...; `None`: not readable."""
    threads: tuple[str, ...] | None = None
    """Names that PyTorch gives to threads (`pt_data_pin`, ...), once each; `None`: not readable."""
    limits: ProcessLimits | None = None
    """A program may set these for itself."""


class ProcessSample(Event, frozen=True, kw_only=True, gc=False):
    """Memory of one process: /proc/PID/status."""

    start_ns: int
    tgid: int
    comm: str | None = None
    """A worker names itself after its first sight; this catches it."""
    rss_anon_bytes: int | None = None
    rss_file_bytes: int | None = None
    rss_shmem_bytes: int | None = None
    swap_bytes: int | None = None
    code_bytes: int | None = None
    """VmExe and VmLib: as long as it stays the same, no library was loaded."""
    peak_mapped_bytes: int | None = None
    """VmPeak: the most that it had mapped so far, touched or not. It stays when that is given back."""
    state: str | None = None
    """One letter: R S D Z T ..."""
    exit_status: int | None = None
    """Wait status of a dead process that nobody has waited for yet (state Z), where it is not 0: 0 may mean that we
    are not allowed to see it."""
    locked_bytes: int | None = None
    """VmLck: by mlock(2) and the like. What a driver of a GPU pins is not in it."""
    pinned_bytes: int | None = None
    """VmPin: for RDMA and the like; no driver of a GPU counts there."""
    page_table_bytes: int | None = None
    """VmPTE: memory of the kernel."""
    minflt: int | None = None
    """Page faults without reading since the process was forked, of all its threads, also of those that have ended.
    A sample is not written for a few faults more."""
    threads: int | None = None


class CgroupSample(Event, frozen=True, kw_only=True, gc=False):
    """One memory cgroup of the job's chain, from its own files. `None`: no such file or key here."""

    path: str
    cgroup_id: int | None = None
    usage_bytes: int | None = None
    limit_bytes: int | None = None
    """`units.NO_LIMIT_BYTES` or more: none."""
    swap_usage_bytes: int | None = None
    """v2 memory.swap.current; v1 memory.memsw.usage_in_bytes (memory+swap)."""
    swap_limit_bytes: int | None = None
    anon_bytes: int | None = None
    file_bytes: int | None = None
    shmem_bytes: int | None = None
    kernel_bytes: int | None = None
    slab_bytes: int | None = None
    """v2 alone, as the six that follow: v1 does not say what its kernel memory is made of."""
    slab_reclaimable_bytes: int | None = None
    """Of that: dentries and inodes, mostly."""
    sock_bytes: int | None = None
    """Buffers of network sockets."""
    page_tables_bytes: int | None = None
    kernel_stack_bytes: int | None = None
    percpu_bytes: int | None = None
    vmalloc_bytes: int | None = None
    dirty_bytes: int | None = None
    """Page cache that has to be written before it can be reclaimed, or is being written."""
    failcnt: int | None = None
    """v1 memory.failcnt; v2 memory.events `max`."""
    oom: int | None = None
    """v2 memory.events `oom`; v1 does not count it."""
    oom_kill: int | None = None
    """v2 memory.events, with all below; v1 memory.oom_control, this cgroup alone."""
    oom_kill_local: int | None = None
    oom_local: int | None = None
    oom_group_kill: int | None = None
    under_oom: int | None = None
    oom_kill_disable: int | None = None
    high_limit_bytes: int | None = None
    """v2 memory.high: above it tasks are made to wait, and nothing is killed."""
    high: int | None = None
    """v2 memory.events `high`: how often that was so."""
    psi_full_total_us: int | None = None
    """v2 memory.pressure: how long all its tasks that could have run stood still for want of memory."""


class PressureSample(Event, frozen=True, kw_only=True, gc=False):
    """The machine: /proc/meminfo and /proc/pressure/memory."""

    mem_total_bytes: int | None = None
    mem_available_bytes: int | None = None
    mem_free_bytes: int | None = None
    shmem_bytes: int | None = None
    swap_total_bytes: int | None = None
    swap_free_bytes: int | None = None
    anon_bytes: int | None = None
    cached_bytes: int | None = None
    """Shared memory (`shmem_bytes`) among it."""
    buffers_bytes: int | None = None
    slab_bytes: int | None = None
    kernel_stack_bytes: int | None = None
    page_tables_bytes: int | None = None
    """Of CPUs and of devices (SecPageTables)."""
    percpu_bytes: int | None = None
    vmalloc_bytes: int | None = None
    hugetlb_bytes: int | None = None
    overcommit: int | None = None
    """vm.overcommit_memory: 0 refuses what can never be there, 1 nothing, 2 whatever goes beyond CommitLimit."""
    commit_limit_bytes: int | None = None
    """Only where `overcommit` is 2; so is `committed_bytes`."""
    committed_bytes: int | None = None
    psi_some_avg10: float | None = None
    """Percent of the last 10 s in which some task waited for memory."""
    psi_full_avg10: float | None = None
    psi_some_total_us: int | None = None
    psi_full_total_us: int | None = None


class ReclaimSample(Event, frozen=True, kw_only=True, gc=False):
    """Reclaim so far, counted in the kernel (vmscan:mm_vmscan_*_begin/end), by the *stalled* task's cgroup."""

    cgroup_id: int
    """kernfs id of the memory cgroup of the task that had to reclaim."""
    memcg_runs: int
    """Finished runs against a cgroup's limit."""
    memcg_stall_ns: int
    direct_runs: int
    """Finished runs against the whole machine."""
    direct_stall_ns: int
    reclaimed_pages: int | None = None


class TmpfsFill(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One tmpfs with a size of its own: statvfs(3)."""

    mount_point: str
    """As the process sees it."""
    size_bytes: int
    free_bytes: int


class TmpfsSample(Event, frozen=True, kw_only=True, gc=False):
    """How full tmpfs are that a process sees: /dev/shm of the job, and all of one that just got SIGBUS."""

    tgid: int
    """Whose mounts they are: of the process itself, or of its parent where it was gone."""
    signalled_tgid: int | None = None
    """Looked at because this process got SIGBUS."""
    mounts: tuple[TmpfsFill, ...] = ()


class ShmFiles(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Files in /dev/shm that are alike: what made them, and in whom they are open."""

    kind: Literal["torch", "python", "semaphore", "other"]
    """By its name: PyTorch's `torch_PID_...`; `psm_...` of Python's SharedMemory; `sem....` of sem_open(3)."""
    creator: int | None = None
    """The pid in the name: PyTorch's, as the process that made it calls itself in its own pid namespace."""
    holders: tuple[int, ...] = ()
    """Processes of the job in which they are open. None: a file with a name that nobody of the job has open."""
    more_holders: int = 0
    """So many beside those."""
    named: bool = False
    """Still to be seen in /dev/shm. Else they go with whoever has them open or mapped last."""
    files: int
    size_bytes: int
    """What they take up. Of each file once."""


class ShmFilesSample(Event, frozen=True, kw_only=True, gc=False):
    """Whose the memory in /dev/shm is: /proc/PID/fd of the whole job, and the names that are there.

    What was mapped and then closed is not among it, unless it has a name.
    """

    tgid: int
    """Whose /dev/shm it is."""
    groups: tuple[ShmFiles, ...] = ()
    """Largest first."""
    others: int = 0
    """Groups beside those."""
    others_bytes: int = 0
    fds: int = 0
    """Descriptors that were looked at."""
    complete: bool = True
    """No process, descriptor or name was left out for want of time or of rights."""


class KernelStack(Event, frozen=True, kw_only=True, gc=False):
    """The stack of an `OomMark`, as names: addresses mean nothing on another machine."""

    mark_ts_ns: int
    """`ts_ns` of the mark it belongs to."""
    tgid: int
    frames: tuple[str, ...]
    """Innermost first; `name` or `name [module]`; `?` where the symbol is unknown."""

    @property
    def functions(self) -> tuple[str, ...]:
        """Plain names of functions: without module, `.constprop.0`, `.cold` and the like."""
        return tuple(frame.split(" ", 1)[0].split(".", 1)[0] for frame in self.frames)


class VmstatSample(Event, frozen=True, kw_only=True, gc=False):
    """/proc/vmstat `oom_kill`: every OOM kill on the machine, of whatever kind."""

    oom_kill: int

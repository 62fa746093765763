# SPDX-License-Identifier: Apache-2.0
"""What the BPF programs send. These classes are the declaration of `bpf/events.h`: see `tracer.wire`.

Sizes are bytes (the programs multiply), times are ns, pids are those of the initial pid namespace,
`start_ns` is the thread group leader's start in CLOCK_BOOTTIME. `None` on a marked field means that
this kernel does not have the value. Kernel sources: mm/oom_kill.c, kernel/signal.c, kernel/exit.c.
"""

import enum

from tracer.events.base import Event
from tracer.wire import CgroupName, Comm, StackAddresses, s32, s64, u32, u64


class Kind(enum.IntEnum):
    """Record numbers: never reused, never renumbered."""

    OOM_MARK = 1
    OOM_LEVEL = 2
    OOM_STACK = 3
    SIGNAL_SENT = 4
    PROCESS_FORKED = 5
    PROCESS_EXECED = 6
    PROCESS_EXITED = 7
    OOM_DECISION = 8
    PROCESS_ORPHANED = 9


class SignalInfo(enum.IntEnum):
    """What `signal_generate` got as siginfo (include/linux/sched/signal.h: SEND_SIG_*)."""

    NOINFO = 0
    """SEND_SIG_NOINFO: sent by `current` in kernel code on behalf of user space."""
    PRIV = 1
    """SEND_SIG_PRIV: sent by the kernel itself. Not only the OOM killer: see `bpf/README.md`."""
    FORCED = 2
    """SEND_SIG_FORCED: 4.19 and older OOM kills."""
    POINTER = 3
    """A real siginfo: `code` says whose (0 kill, -6 tgkill, 1.. a fault)."""


class Constraint(enum.IntEnum):
    """enum oom_constraint, include/linux/oom.h; the same from 4.18 to 7.x."""

    CONSTRAINT_NONE = 0
    CONSTRAINT_CPUSET = 1
    CONSTRAINT_MEMORY_POLICY = 2
    CONSTRAINT_MEMCG = 3


class KernelEvent(Event, frozen=True, kw_only=True, gc=False):
    """Base of the records; `cpu` is where the program ran."""

    cpu: int


class OomMark(KernelEvent, frozen=True, kw_only=True, gc=False):
    """`mark_oom_victim()` marked a thread (tracepoint oom:mark_victim). **A mark alone is not a kill.**

    Its levels and stack follow as records of their own with the same `ts_ns` and `cpu`.
    Memory is what the kernel's own "Killed process" line prints: per-mm counters, swap apart.
    """

    start_ns: u64
    trigger_start_ns: u64
    parent_start_ns: u64
    total_vm_bytes: u64
    anon_rss_bytes: u64
    file_rss_bytes: u64
    shmem_rss_bytes: u64
    swap_bytes: u64
    pgtables_bytes: u64
    tgid: u32
    tid: u32
    trigger_tgid: u32
    """The task that was allocating: `current`. Neither the sender of anything nor the culprit."""
    trigger_tid: u32
    parent_tgid: u32
    ns_tgid: u32
    """Its pid in its own, innermost pid namespace."""
    ns_level: u32
    uid: u32
    oom_score_adj: s32
    task_flags: u32
    """PF_*, of the marked thread."""
    signal_flags: u32
    """SIGNAL_*: SIGNAL_GROUP_EXIT (4) without a kernel SIGKILL just before = it was dying already."""
    levels: u32
    """How many `OomLevel` records the program began to send for this mark."""
    comm: Comm
    trigger_comm: Comm


class OomLevel(KernelEvent, frozen=True, kw_only=True, gc=False):
    """One memory cgroup of the marked process's chain at the mark; `depth` 0 is its own, then upwards.

    `events_local_*` count at this very cgroup, `events_*` with all below it (cgroup v2 only: on v1 the
    kernel keeps them apart as well, but hierarchical counts are not shown anywhere).
    """

    cgroup_id: u64
    usage_bytes: u64
    limit_bytes: u64
    """At or above `units.NO_LIMIT_BYTES`: no limit."""
    swap_usage_bytes: u64 | None
    """v2: swap alone. v1: memory+swap. `Environment.cgroup_version` tells which."""
    swap_limit_bytes: u64 | None
    events_max: u64 | None
    events_oom: u64 | None
    events_oom_kill: u64 | None
    events_local_max: u64 | None
    events_local_oom: u64 | None
    """Rises where the limit was hit, before the mark: this owns the limit."""
    events_local_oom_kill: u64 | None
    events_local_oom_group_kill: u64 | None
    mark_tgid: u32
    depth: u32
    oom_group: u32 | None
    name_cut: u32
    """1: `name` lost its end."""
    name: CgroupName
    """Last component; empty at the root. The path is the names from the root down."""


class OomStack(KernelEvent, frozen=True, kw_only=True, gc=False):
    """Kernel stack of the trigger at the mark. Wire only: recorded as `KernelStack`, never as addresses."""

    tgid: u32
    depth: u32
    addresses: StackAddresses


class SignalSent(KernelEvent, frozen=True, kw_only=True, gc=False):
    """`signal_generate` for SIGKILL, SIGTERM, SIGBUS, SIGSEGV, SIGABRT. Runs in the sender's context."""

    start_ns: u64
    sender_start_ns: u64
    sender_parent_start_ns: u64
    sender_cgroup_id: u64 | None = None
    """Of its memory cgroup. `None`: not known, or recorded before this was."""
    tgid: u32
    tid: u32
    sender_tgid: u32
    """`current`: for a kernel OOM kill the *trigger*, not a sender. Meaningful with NOINFO or POINTER."""
    sender_tid: u32
    sender_parent_tgid: u32
    sender_uid: u32
    signal: u32
    info: u32
    """`SignalInfo`."""
    code: s32
    """si_code: 0 SI_USER, -6 SI_TKILL, 128 SI_KERNEL, else of the fault."""
    errno: s32
    group: u32
    """PIDTYPE_*: 0 one thread, else the whole group."""
    result: u32
    """0 delivered, 1 ignored, 2 already pending, 3 overflow, 4 lost info (enum of trace/events/signal.h)."""
    sender_flags: u32
    """PF_* of the sender: PF_KTHREAD 0x200000 is a kernel thread."""
    in_tree: u32
    """1: the target was in the tree filter."""
    comm: Comm
    sender_comm: Comm
    sender_parent_comm: Comm


class ProcessForked(KernelEvent, frozen=True, kw_only=True, gc=False):
    """A new process (not a thread) of the tree. `anon_rss_bytes` is what it began with, shared by copy-on-write.

    While the session follows all, of any tree: `in_tree` tells.
    """

    start_ns: u64
    parent_start_ns: u64
    anon_rss_bytes: u64
    tgid: u32
    parent_tgid: u32
    """Who forked it: the process of `current`, which with CLONE_PARENT is not the real parent."""
    ns_tgid: u32
    ns_level: u32
    own_tgid: u32 | None = None
    """Its pid as the tracer's /proc shows it, 0: not at all. `None`: recorded before this was."""
    own_parent_tgid: u32 | None = None
    in_tree: u32 = 1
    """1: its parent was in the tree filter, and now it is."""
    reserved: u32 = 0
    comm: Comm


class ProcessExeced(KernelEvent, frozen=True, kw_only=True, gc=False):
    """A process of the tree began another program; the new memory map is in place."""

    start_ns: u64
    tgid: u32
    old_tid: u32
    comm: Comm


class ProcessExited(KernelEvent, frozen=True, kw_only=True, gc=False):
    """The last thread of a process is going: of the tree, one that was marked, or while all is followed any."""

    start_ns: u64
    tgid: u32
    tid: u32
    status: u32
    """Wait status of the process: signal in bits 0-6, core flag 0x80, exit code in bits 8-15."""
    oom_marked: u32
    """1: signal->oom_mm is set. It was marked; whether it was killed is not said by this."""
    parent_tgid: u32
    in_tree: u32
    comm: Comm

    @property
    def signal(self) -> int:
        """The signal that ended it, 0 for none."""
        return self.status & 0x7F

    @property
    def code(self) -> int:
        """The exit code, meaningful when `signal` is 0."""
        return (self.status >> 8) & 0xFF


class ProcessOrphaned(KernelEvent, frozen=True, kw_only=True, gc=False):
    """A process that lives on while its parent is going: from now on /proc shows another parent.

    Sent while the session follows all, of any tree.
    """

    start_ns: u64
    parent_start_ns: u64
    tgid: u32
    parent_tgid: u32
    own_tgid: u32
    """As `ProcessForked` has them."""
    own_parent_tgid: u32
    comm: Comm


class OomDecision(KernelEvent, frozen=True, kw_only=True, gc=False):
    """`oom_kill_process(oc, message)`: complements a mark where fentry or kprobes exist; never required."""

    memcg_id: u64
    """kernfs id of oc->memcg's cgroup, 0 when there is none."""
    total_allowed_bytes: u64
    """oc->totalpages: what the domain may use, **not** the victim's size."""
    chosen_points: s64
    tgid: u32
    """oc->chosen's process."""
    tid: u32
    trigger_tgid: u32
    trigger_tid: u32
    gfp_mask: u32
    order: s32
    """-1: sysrq-f asked for it."""
    constraint: u32 | None
    """`Constraint`."""
    reserved: u32 = 0

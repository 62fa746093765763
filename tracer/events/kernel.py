# SPDX-License-Identifier: Apache-2.0
"""What the BPF programs send. These classes are the declaration of `bpf/events.h`: see `tracer.wire`.

Sizes are bytes (the programs multiply), times are ns, pids are those of the initial pid namespace,
`start_ns` is the thread group leader's start in CLOCK_BOOTTIME. `None` on a marked field means that
this kernel does not have the value. Kernel sources: mm/oom_kill.c, kernel/signal.c, kernel/exit.c.
"""

import enum

from tracer.events.base import Event
from tracer.wire import CgroupName, Comm, PrintkText, StackAddresses, s32, s64, u32, u64


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
    OOM_GLIMPSE = 10
    MARKED_ENDED = 11
    PRINTED = 12
    CUDA_CALL = 13
    CUDA_TOTALS = 14


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


class IdentityBy(enum.IntEnum):
    """How a mark's victim was known, which older kernels name by a thread's pid alone."""

    UNKNOWN = 0
    TASK = 1
    """The tracepoint gives the task itself (6.9, and stable kernels)."""
    SIGNAL = 2
    """A pid, and the kernel's SIGKILL had just gone to the task that has it, from the same context."""
    CURRENT = 3
    """A pid, which is that of the allocating thread itself."""


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
    identity_by: u32 | None = None
    """`IdentityBy`. `None`: recorded before this was."""
    reserved: u32 = 0
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


class OomGlimpse(KernelEvent, frozen=True, kw_only=True, gc=False):
    """A mark as seen by a program that may read no memory of the kernel's: arguments, helpers and the stack alone.

    Whom it is about is known where the allocating thread is it, or by the pid that older kernels give; else by
    `MarkedEnded` or by the kernel's log. Its stack follows as a record with the same `ts_ns` and the trigger's pid.
    """

    signal_ns: u64 | None
    """The kernel's own SIGKILL that the same thread had sent just before. `None`: none, or not to the same task."""
    trigger_cgroup_id: u64
    """In the unified hierarchy: tells of memory on cgroup v2 alone."""
    trigger_tgid: u32
    trigger_tid: u32
    trigger_uid: u32
    victim_tid: u32 | None
    """Of the marked thread."""
    itself: u32
    """1: the allocating thread marked itself."""
    same_task: u32
    """1: signal and mark went to one task. 0: the mark gives a pid, which cannot be compared."""
    signal_info: u32 | None
    signal_result: u32 | None
    """As `SignalSent` has them."""
    trigger_comm: Comm


class MarkedEnded(KernelEvent, frozen=True, kw_only=True, gc=False):
    """The thread that an `OomGlimpse` is about is going: it tells its own pid. How it ended is not known."""

    mark_ns: u64
    """`ts_ns` of that record."""
    tgid: u32
    tid: u32
    uid: u32
    reserved: u32 = 0
    comm: Comm


class Printed(KernelEvent, frozen=True, kw_only=True, gc=False):
    """A piece of the line in which the kernel tells its decision, as it is printed (tracepoint printk:console).

    Wire only: joined to a `LoggedDecision`. The first one's stack follows, with the same `ts_ns`.
    """

    first_ns: u64
    """`ts_ns` of the first piece of the line."""
    tgid: u32
    tid: u32
    """Of the thread that prints, which is the one that allocates."""
    piece: u32
    """From 0."""
    length: u32
    """In bytes; `text` may hold less."""
    text: PrintkText

# SPDX-License-Identifier: Apache-2.0
"""Records of the kernel log, live from /dev/kmsg or from a file. Text can be forged: see `trusted`.

From /dev/kmsg `ts_ns` is the record's own stamp translated by the calibrated offset between printk's
clock and CLOCK_MONOTONIC; `log_usec` is the stamp as printed. From a file `ts_ns` is the stamp itself.
"""

from tracer.events.base import Event


class LogEvent(Event, frozen=True, kw_only=True, gc=False):
    """Base of what was read in a kernel log."""

    log_usec: int | None = None
    log_seq: int | None = None
    """Sequence number of the /dev/kmsg record."""
    trusted: bool = False
    """True only for /dev/kmsg records with facility kernel: user space cannot write those (3.11 and newer)."""
    text: str = ""
    """The record's text, cut to 1 KiB, control bytes as the source escaped them."""


class LoggedInvocation(LogEvent, frozen=True, kw_only=True, gc=False):
    """`COMM invoked oom-killer: gfp_mask=..., order=..., oom_score_adj=...`: COMM is the trigger."""

    comm: str
    gfp_mask: str | None = None
    order: int | None = None


class LoggedUsage(LogEvent, frozen=True, kw_only=True, gc=False):
    """`memory: usage 65536kB, limit 65536kB, failcnt 12` of the cgroup whose limit was hit."""

    counter: str
    """`memory`, `memory+swap`, `swap` or `kmem`."""
    usage_bytes: int
    limit_bytes: int
    failcnt: int | None = None


class LoggedSwap(LogEvent, frozen=True, kw_only=True, gc=False):
    """`Free swap  = 0kB` and `Total swap = 98300kB` of the machine, a line each, in the report of a kill."""

    counter: str
    """`free` or `total`."""
    size_bytes: int


class LoggedDecision(LogEvent, frozen=True, kw_only=True, gc=False):
    """`oom-kill:constraint=...`: rate-limited, so a kill may come without one."""

    constraint: str
    oom_memcg: str | None = None
    """Owner of the limit; `None` for a machine-wide kill (`global_oom`)."""
    task_memcg: str | None = None
    comm: str | None = None
    tgid: int | None = None
    uid: int | None = None


class LoggedKill(LogEvent, frozen=True, kw_only=True, gc=False):
    """`... Killed process N (comm) total-vm:..., anon-rss:...`: never rate-limited."""

    pid: int
    """A thread id where the leader was gone already."""
    comm: str
    memcg: bool | None = None
    """True: "Memory cgroup out of memory"; False: "Out of memory"; `None`: no such prefix."""
    allocating_task: bool = False
    """"(oom_kill_allocating_task)"."""
    total_vm_bytes: int | None = None
    anon_rss_bytes: int | None = None
    file_rss_bytes: int | None = None
    shmem_rss_bytes: int | None = None
    pgtables_bytes: int | None = None
    uid: int | None = None
    oom_score_adj: int | None = None


class LoggedOther(LogEvent, frozen=True, kw_only=True, gc=False):
    """Any other line of an OOM report that is worth keeping (reaper, group kill, no killable process).

    `nvrm_no_memory`: NVIDIA's driver found no memory for itself, of the device's or of the host's; it corroborates,
    and names neither a process nor which memory it was.
    """

    about: str
    """`reaped`, `group_kill`, `no_killable`, `already_exiting`, `suppressed`, `sysrq`, `call_trace`, `report`,
    `nvrm_no_memory`."""


class LoggedXid(LogEvent, frozen=True, kw_only=True, gc=False):
    """`NVRM: Xid (PCI:0000:08:00): 31, pid=1234, name=python3, ...`: a GPU's or its driver's error.

    An allocation that fails for want of device memory writes none.
    """

    xid: int
    pci: str | None = None
    """`0000:08:00`: mostly without the function, which `GpuDevice.pci` has."""
    pid: int | None = None
    """In the initial pid namespace."""
    comm: str | None = None
    """`None`: not told, or it could be read in two ways."""


class LogGap(LogEvent, frozen=True, kw_only=True, gc=False):
    """The kernel log was overwritten before it was read, or a record could not be read."""

    lost: int

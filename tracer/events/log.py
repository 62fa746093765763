# SPDX-License-Identifier: Apache-2.0
"""Records of the kernel log, live from /dev/kmsg or from a file. Text can be forged: see `trusted`.

From /dev/kmsg `ts_ns` is the record's own stamp translated by the calibrated offset between printk's
clock and CLOCK_MONOTONIC; `log_usec` is the stamp as printed. From a file `ts_ns` is the stamp itself, 0 without one.
"""

from typing import Literal

import msgspec

from tracer.events.base import Event

SaidBy = Literal["kernel", "name", "user"]
"""Who wrote a record, as far as its log says: the log itself knows that it was the kernel (facility 0 of /dev/kmsg,
transport of the journal); it bears the kernel's name, which anyone can write (`kernel:`); it was somebody else, or the
line has no prefix where the log's other records have one."""


class LogEvent(Event, frozen=True, kw_only=True, gc=False):
    """Base of what was read in a kernel log."""

    log_usec: int | None = None
    log_seq: int | None = None
    """Sequence number of the /dev/kmsg record."""
    trusted: bool = False
    """True only for /dev/kmsg records with facility kernel: user space cannot write those (3.11 and newer)."""
    text: str = ""
    """The record's text, cut to 1 KiB, control bytes as the source escaped them."""
    said_by: SaidBy | None = None
    """Of text from a file. `None`: the log does not say, as `dmesg` does not. No value of it makes a record trusted."""
    wall: str | None = None
    """The time before the text, as ISO 8601: `--04-28T10:11:12` where the year is not there, no offset where the zone
    is not."""
    host: str | None = None
    """The machine that the line names, or the container that it was wrapped for."""
    log_line: int | None = None
    """Where in its file the text begins, from 1; `log_column` in characters."""
    log_column: int | None = None


class LoggedInvocation(LogEvent, frozen=True, kw_only=True, gc=False):
    """`COMM invoked oom-killer: gfp_mask=..., order=..., oom_score_adj=...`: COMM is the trigger."""

    comm: str | None = None
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
    comm: str | None = None
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


class LoggedTrigger(LogEvent, frozen=True, kw_only=True, gc=False):
    """`CPU: 1 PID: 210 Comm: python3 ... 6.1.0-50-amd64`, or `python3 cpuset=X mems_allowed=0`: who wanted memory."""

    comm: str | None = None
    pid: int | None = None
    """A thread id, in the initial namespace."""
    uid: int | None = None
    release: str | None = None
    """The kernel's."""
    cpuset: str | None = None


class LoggedOwner(LogEvent, frozen=True, kw_only=True, gc=False):
    """`Task in A killed as a result of limit of B`, until 4.18: what `LoggedDecision` says of later kernels."""

    oom_memcg: str | None = None
    """Of the limit; `None`: not readable. `task_memcg` likewise."""
    task_memcg: str | None = None


class LoggedChoice(LogEvent, frozen=True, kw_only=True, gc=False):
    """`Kill process P (comm) score S or sacrifice child`, until 5.0: a child of P may be who is killed then."""

    pid: int
    comm: str | None = None
    score: int | None = None
    memcg: bool | None = None
    allocating_task: bool = False


class LoggedStats(LogEvent, frozen=True, kw_only=True, gc=False):
    """`Memory cgroup stats for PATH:` and its values, in one line or many."""

    memcg: str | None = None
    values: dict[str, int] = {}
    """By the names of memory.stat, v1's or v2's; bytes, but for the counts among them."""


class LoggedTask(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A row of a task table. Which columns there are depends on the kernel."""

    pid: int
    tgid: int | None = None
    uid: int | None = None
    total_vm_pages: int | None = None
    rss_pages: int | None = None
    rss_anon_pages: int | None = None
    """From 6.8 on, as file and shmem."""
    rss_file_pages: int | None = None
    rss_shmem_pages: int | None = None
    pgtables_bytes: int | None = None
    swap_entries: int | None = None
    oom_score_adj: int | None = None
    comm: str | None = None
    """`None`: the row was cut before it."""


class LoggedTasks(LogEvent, frozen=True, kw_only=True, gc=False):
    """The task table of a report, in pages: whoever could have been killed, before it was decided."""

    rows: tuple[LoggedTask, ...] = ()
    """In the kernel's order; of a long table those with most in memory."""
    others: int = 0
    """Rows that were left out."""
    rss_pages: int = 0
    """Of all rows, as far as it was readable."""


class LoggedGroupKill(LogEvent, frozen=True, kw_only=True, gc=False):
    """`Tasks in PATH are going to be killed due to memory.oom.group set`."""

    memcg: str


class LoggedReaped(LogEvent, frozen=True, kw_only=True, gc=False):
    """`oom_reaper: reaped process N (comm), now anon-rss:0kB, ...`."""

    pid: int
    comm: str | None = None
    anon_rss_bytes: int | None = None
    file_rss_bytes: int | None = None
    shmem_rss_bytes: int | None = None


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

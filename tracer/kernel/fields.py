# SPDX-License-Identifier: Apache-2.0
"""The kernel fields that the programs read: names, types and older names; no offset of any kernel.

A field is required unless said otherwise; of an optional one the programs ask `#ifdef HAS_STRUCT_FIELD`.
Runs in the loader child: Python 3.8, standard library only.
"""

from __future__ import annotations

from typing import NamedTuple


class KernelField(NamedTuple):
    """One field of a kernel struct, under the name and type that the programs use."""

    struct: str
    name: str
    c_type: str
    """Its size is checked against the kernel's; `T[]` takes the kernel's own number of elements."""
    paths: tuple[str, ...] = ()
    """Where it may lie, newest kernel first; its own name where nothing is said."""
    optional: bool = False

    @property
    def candidates(self) -> tuple[str, ...]:
        return self.paths or (self.name,)

    @property
    def define(self) -> str:
        return f"HAS_{self.struct}_{self.name}".upper()


FIELDS = (
    KernelField("task_struct", "pid", "s32"),
    KernelField("task_struct", "tgid", "s32"),
    KernelField("task_struct", "flags", "u32"),
    KernelField("task_struct", "exit_code", "s32"),
    # real_start_time until cf25e24db61c ("time: Rename tsk->real_start_time to ->start_boottime", 5.5).
    KernelField("task_struct", "start_boottime", "u64", ("start_boottime", "real_start_time")),
    KernelField("task_struct", "comm", "char[16]"),
    KernelField("task_struct", "group_leader", "struct task_struct *"),
    KernelField("task_struct", "real_parent", "struct task_struct *"),
    # A thread's own children, linked by their `sibling`; those of a thread that ends go to another of its process.
    KernelField("task_struct", "children", "struct list_head"),
    KernelField("task_struct", "sibling", "struct list_head"),
    KernelField("list_head", "next", "struct list_head *"),
    KernelField("task_struct", "real_cred", "struct cred *"),
    KernelField("task_struct", "thread_pid", "struct pid *"),
    KernelField("task_struct", "mm", "struct mm_struct *"),
    KernelField("task_struct", "signal", "struct signal_struct *"),
    KernelField("task_struct", "cgroups", "struct css_set *"),
    KernelField("cred", "uid", "u32"),
    KernelField("pid", "level", "u32"),
    KernelField("pid", "numbers", "struct upid[]"),
    KernelField("upid", "nr", "s32"),
    KernelField("upid", "ns", "struct pid_namespace *"),
    KernelField("pid_namespace", "inum", "u32", ("ns.inum",)),
    KernelField("signal_struct", "live", "s32"),
    KernelField("signal_struct", "flags", "u32"),
    KernelField("signal_struct", "group_exit_code", "s32"),
    KernelField("signal_struct", "oom_mm", "struct mm_struct *"),
    KernelField("signal_struct", "oom_score_adj", "s16"),
    KernelField("mm_struct", "total_vm", "u64"),
    KernelField("mm_struct", "pgtables_bytes", "u64"),
    KernelField("css_set", "subsys", "struct cgroup_subsys_state *[]"),
    KernelField("cgroup_subsys_state", "cgroup", "struct cgroup *"),
    KernelField("cgroup_subsys_state", "parent", "struct cgroup_subsys_state *"),
    KernelField("cgroup", "kn", "struct kernfs_node *"),
    KernelField("cgroup", "root", "struct cgroup_root *"),
    KernelField("cgroup_root", "hierarchy_id", "s32"),
    KernelField("kernfs_node", "name", "char *"),
    # A union of inode number and generation until 67c0496e87d1 (5.5); one u64 in both.
    KernelField("kernfs_node", "id", "u64"),
    KernelField("page_counter", "usage", "s64"),
    KernelField("page_counter", "max", "u64"),
    KernelField("mem_cgroup", "memory", "struct page_counter"),
    KernelField("mem_cgroup", "swap", "struct page_counter", optional=True),
    KernelField("mem_cgroup", "memsw", "struct page_counter", optional=True),
    KernelField("mem_cgroup", "memory_events", "u64[]"),
    KernelField("mem_cgroup", "memory_events_local", "u64[]", optional=True),
    KernelField("mem_cgroup", "oom_group", "u8", optional=True),
    KernelField("kernel_siginfo", "si_errno", "s32"),
    KernelField("kernel_siginfo", "si_code", "s32"),
    KernelField("oom_control", "memcg", "struct mem_cgroup *"),
    KernelField("oom_control", "gfp_mask", "u32"),
    KernelField("oom_control", "order", "s32"),
    KernelField("oom_control", "totalpages", "u64"),
    KernelField("oom_control", "chosen", "struct task_struct *"),
    KernelField("oom_control", "chosen_points", "s64"),
    KernelField("oom_control", "constraint", "u32", optional=True),
)

ENUMERATORS = (
    "MM_FILEPAGES",
    "MM_ANONPAGES",
    "MM_SWAPENTS",
    "MM_SHMEMPAGES",
    "MEMCG_MAX",
    "MEMCG_OOM",
    "MEMCG_OOM_KILL",
)
OPTIONAL_ENUMERATORS = ("MEMCG_OOM_GROUP_KILL",)

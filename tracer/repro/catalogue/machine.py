# SPDX-License-Identifier: Apache-2.0
"""The machine itself: its memory, its swap, its nodes, who asks for a kill, its clock. For a test VM alone."""

from tracer.repro.catalogue.signals import TREE
from tracer.repro.scenario import HOST_OOM, Expected, Scenario, Stage

UNLIMITED = Stage(memory_mib=None)

SCENARIOS = (
    Scenario(
        name="global",
        what="the machine has no memory left",
        why="__alloc_pages_may_oom() calls out_of_memory() without a memcg: CONSTRAINT_NONE (mm/page_alloc.c)",
        act=("machine",),
        where="guest",
        stage=UNLIMITED,
        expected=Expected(
            cause=("host_oom_global",), killed=(1, 1), victim="hog", constraint="CONSTRAINT_NONE", status="signal 9"
        ),
        seconds=120,
    ),
    Scenario(
        name="global-bystander",
        what="the machine has no memory left, and a process is killed for it that was not growing",
        why="select_bad_process() takes who has the most points, by oom_score_adj above all, whoever asks for memory "
        "(mm/oom_kill.c)",
        act=("machine-beside",),
        where="guest",
        stage=UNLIMITED,
        expected=Expected(
            cause=("host_oom_global",),
            # The one that grows may be taken as well, before the memory of the first has been freed.
            killed=(1, 2),
            victim="bystander",
            constraint="CONSTRAINT_NONE",
        ),
        seconds=120,
    ),
    Scenario(
        name="allocating-task",
        what="the machine has no memory left, and is set to kill whoever asks for more",
        why="vm.oom_kill_allocating_task: out_of_memory() takes the current task, and the log's line begins with "
        "'Out of memory (oom_kill_allocating_task)' (mm/oom_kill.c)",
        act=("machine",),
        where="guest",
        stage=Stage(memory_mib=None, sysctls={"vm.oom_kill_allocating_task": "1"}),
        expected=Expected(
            cause=("host_oom_global",), killed=(1, 1), victim="hog", constraint="CONSTRAINT_NONE", status="signal 9"
        ),
        seconds=120,
    ),
    Scenario(
        name="global-swap",
        what="the machine has no memory left, and its swap is full",
        why="reclaim swaps out until get_swap_pages() fails; then out_of_memory() as without swap (mm/vmscan.c)",
        act=("machine-with-swap",),
        where="guest",
        needs=("swap",),
        stage=Stage(memory_mib=None, swap=True),
        expected=Expected(
            cause=("host_oom_global",),
            killed=(1, 1),
            victim="hog",
            constraint="CONSTRAINT_NONE",
            status="signal 9",
            swap_exhausted=True,
        ),
        seconds=120,
    ),
    Scenario(
        name="cpuset",
        what="the memory node of the job's cpuset is full, and another one is not",
        why="constrained_alloc() finds a nodemask or a cpuset that leaves nodes out: CONSTRAINT_CPUSET (mm/oom_kill.c)",
        act=("machine",),
        where="guest",
        needs=("cgroup_v2", "cpuset_v2", "numa"),
        stage=Stage(memory_mib=None, controllers=("cpuset",), files={"cpuset.mems": "1"}),
        expected=Expected(
            cause=("host_oom_cpuset",), killed=(1, 1), victim="hog", constraint="CONSTRAINT_CPUSET", status="signal 9"
        ),
        seconds=120,
    ),
    Scenario(
        name="lockdown",
        what="a process grows beyond the limit of its cgroup, and no program may read the kernel's memory",
        why="LOCKDOWN_BPF_READ_KERNEL takes bpf_probe_read_kernel() away from programs (kernel/trace/bpf_trace.c)",
        act=("anon",),
        where="guest",
        needs=("lockdown",),
        expected=Expected(
            cause=("host_oom_cgroup",),
            # By pid alone: never more.
            at_least="likely",
            at_most="likely",
            killed=(1, 1),
            victim="grower",
            trigger="grower",
            limit=".",
            constraint="CONSTRAINT_MEMCG",
            status="signal 9",
            caveat="known by pid alone",
        ),
    ),
    Scenario(
        name="memory-policy",
        what="the memory node that the job binds itself to is full, and another one is not",
        why="constrained_alloc() finds the nodemask of MPOL_BIND: CONSTRAINT_MEMORY_POLICY (mm/oom_kill.c)",
        act=("memory-policy", "1"),
        where="guest",
        needs=("numa",),
        stage=UNLIMITED,
        expected=Expected(
            cause=("host_oom_mempolicy",),
            killed=(1, 1),
            victim="hog",
            constraint="CONSTRAINT_MEMORY_POLICY",
            status="signal 9",
        ),
        seconds=120,
    ),
    Scenario(
        name="sysrq-f",
        what="an operator asks for an OOM kill while the machine has memory left",
        why="moom_callback() calls out_of_memory() with order -1 from a kernel worker (drivers/tty/sysrq.c)",
        act=("largest",),
        actor=("sysrq",),
        where="guest",
        needs=("sysrq",),
        stage=UNLIMITED,
        expected=Expected(
            cause=("operator_oom",), killed=(1, 1), victim="largest", status="signal 9", never=HOST_OOM
        ),
    ),
    Scenario(
        name="earlyoom",
        what="earlyoom ends the job before the kernel has to",
        why="a daemon in user space sends SIGTERM, later SIGKILL, by kill(2): SI_USER from its own context",
        act=("growing-slowly",),
        actor=("earlyoom",),
        where="guest",
        needs=("earlyoom",),
        stage=UNLIMITED,
        expected=Expected(
            cause=("userspace_oom_daemon",),
            sender="daemon",
            sender_comm="earlyoom",
            victim="hog",
            never=HOST_OOM,
        ),
        seconds=120,
    ),
    Scenario(
        name="tree-earlyoom",
        what="the job of group-kill: earlyoom ends one of its workers",
        why="a daemon in user space sends SIGTERM by kill(2): SI_USER from its own context (kernel/signal.c)",
        act=(*TREE, "--leaking-rank", "1", "--leaking-worker", "1", "--rate-mib", "60"),
        actor=("earlyoom", "pt_data_worker", "8"),
        where="guest",
        needs=("earlyoom",),
        stage=UNLIMITED,
        expected=Expected(
            cause=("userspace_oom_daemon",),
            sender="daemon",
            sender_comm="earlyoom",
            victim="pt_data_worker",
            victim_role="dataloader_worker",
            status="exit 1",
            never=HOST_OOM,
        ),
        seconds=120,
    ),
    Scenario(
        name="systemd-oomd",
        what="systemd-oomd ends the job's scope, which has swapped too much",
        why="a daemon in user space sends SIGKILL by kill(2) to all of a cgroup that ManagedOOMSwap=kill marks, once "
        "swap is used beyond its limit: oomd_cgroup_kill() (systemd's src/oom/oomd-util.c)",
        act=("swapped-in-a-scope",),
        actor=("systemd-oomd",),
        where="guest",
        needs=("cgroup_v2", "systemd", "systemd_oomd", "psi", "memsw", "swap"),
        stage=Stage(memory_mib=None, swap=True),
        expected=Expected(
            cause=("userspace_oom_daemon",),
            sender="daemon",
            sender_comm="systemd-oomd",
            victim="hog",
            status="signal 9",
            never=HOST_OOM,
        ),
        seconds=120,
    ),
    Scenario(
        name="unit",
        what="the job runs in a scope of systemd's, whose MemoryMax= is hit",
        why="systemd makes a cgroup for each unit, called as the unit is, and writes MemoryMax= into memory.max: "
        "cgroup_context_apply() (systemd's src/core/cgroup.c)",
        act=("grow-in-a-scope",),
        where="guest",
        needs=("cgroup_v2", "systemd"),
        stage=Stage(memory_mib=None),
        expected=Expected(
            cause=("host_oom_cgroup",),
            killed=(1, 1),
            victim="grower",
            limit_of="unit oomtrace-repro.scope",
            ran_in="unit oomtrace-repro.scope",
            status="signal 9",
        ),
    ),
    Scenario(
        name="clock-steps",
        what="the wall clock is set forward and back while the job runs, which is killed then",
        why="events are in CLOCK_MONOTONIC, which no step moves; the kernel's log has a clock of its own "
        "(kernel/time/timekeeping.c)",
        act=("clock-steps",),
        where="guest",
        expected=Expected(
            cause=("host_oom_cgroup",), killed=(1, 1), victim="grower", limit=".", status="signal 9"
        ),
    ),
)  # fmt: skip

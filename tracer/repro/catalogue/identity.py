# SPDX-License-Identifier: Apache-2.0
"""Who was killed: threads, sharers, pid namespaces, names that lie, pids that come again, cgroups that are gone."""

from tracer.repro.scenario import HOST_OOM, Expected, Node, Scenario, Stage
from tracer.repro.workloads.identities import NAMES

SCENARIOS = (
    Scenario(
        name="already-dying",
        what="the OOM killer chooses a process that somebody else has killed and that cannot run yet",
        why="oom_kill_process() only marks a victim for which task_will_free_mem() holds: mark_oom_victim() without a "
        "signal and without a report (mm/oom_kill.c)",
        act=("frozen",),
        actor=("mark-the-dying",),
        needs=("freezer_v1",),
        expected=Expected(
            cause=("sigkill",),
            sender="outside",
            sender_comm="killer",
            victim="frozen",
            status="signal 9",
            never=HOST_OOM,
            caveat="already dying",
        ),
    ),
    Scenario(
        name="already-exiting",
        what="the OOM killer chooses a process that SIGKILL has reached, and that a debugger holds on its way out",
        why="a tracee stops in do_exit() for PTRACE_O_TRACEEXIT, before exit_mm() (kernel/exit.c), with "
        "SIGNAL_GROUP_EXIT set: task_will_free_mem() holds, and it is marked alone (mm/oom_kill.c)",
        act=("frozen",),
        actor=("mark-the-exiting",),
        expected=Expected(
            cause=("sigkill",),
            sender="outside",
            sender_comm="killer",
            victim="frozen",
            status="signal 9",
            never=HOST_OOM,
            caveat="already dying",
        ),
    ),
    Scenario(
        name="shared-memory-map",
        what="two processes share one memory map: both are killed, and the kernel names one of them",
        why="__oom_kill_process() signals every process with the victim's mm, and marks none but the victim "
        "(mm/oom_kill.c)",
        act=("memory-sharer",),
        expected=Expected(cause=("host_oom_cgroup",), killed=(2, 2), victim="sharer", limit=".", status="signal 9"),
    ),
    Scenario(
        name="leader-gone",
        what="the main thread has left: the pid that the kernel marks and logs is a thread's",
        why="find_lock_task_mm() takes the first thread that still has a memory map, and its id is what is traced "
        "(mm/oom_kill.c)",
        act=("leader-gone",),
        expected=Expected(
            cause=("host_oom_cgroup",), killed=(1, 1), victim="leaderless", limit=".", status="signal 9"
        ),
    ),
    Scenario(
        name="pidns-init",
        what="pid 1 of a pid namespace is killed, and the kernel takes all that is in it",
        why="zap_pid_ns_processes() sends SIGKILL with the kernel's own siginfo to all others "
        "(kernel/pid_namespace.c): what follows is no OOM kill",
        act=("namespace-init",),
        expected=Expected(
            cause=("host_oom_cgroup",), killed=(1, 1), victim="init", limit=".", status="exit 9", collateral=3
        ),
    ),
    Scenario(
        name="pidns-nested",
        what="a process in a pid namespace within a pid namespace is killed",
        why="a task has a number at each level: thread_pid->numbers[] (include/linux/pid.h); the kernel marks and logs "
        "the outermost",
        act=("nested-namespaces",),
        expected=Expected(
            cause=("host_oom_cgroup",), killed=(1, 1), victim="deep", limit=".", status="exit 9", ns_pids=2
        ),
    ),
    Scenario(
        name="cgroup-gone",
        what="the victim's cgroup is removed as soon as that is dead",
        why="a cgroup can be removed once it has no processes: its files are gone with their counts (kernel/cgroup)",
        act=("cgroup-gone", "gone"),
        stage=Stage(memory_mib=256, below=(Node(path="gone", memory_mib=32),)),
        expected=Expected(
            cause=("host_oom_cgroup",), killed=(1, 1), victim="grower", limit="gone", status="exit 9"
        ),
    ),
    Scenario(
        name="hostile-names",
        what="names of victims hold line feeds, brackets, escape codes, UTF-8 and 'Killed process'",
        why="task->comm is 15 bytes of anything, and the log has them as they are (%s in mm/oom_kill.c)",
        act=("names",),
        expected=Expected(
            cause=("host_oom_cgroup",),
            killed=(len(NAMES), len(NAMES)),
            victims=tuple(name.decode("utf-8", "backslashreplace") for name in NAMES),
            limit=".",
            status="exit 0",
        ),
    ),
    Scenario(
        name="pid-reuse",
        what="the victim has the pid of a process that has ended within the same second",
        why="a pid is free as soon as its process was waited for; kernel.ns_last_pid chooses the next one "
        "(kernel/pid_namespace.c)",
        act=("pid-reuse",),
        where="guest",
        needs=("ns_last_pid",),
        expected=Expected(
            cause=("host_oom_cgroup",), killed=(1, 1), victim="second", limit=".", status="exit 9"
        ),
    ),
)  # fmt: skip

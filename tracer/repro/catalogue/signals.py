# SPDX-License-Identifier: Apache-2.0
"""Ends that look like an OOM kill and are none: SIGKILL in all its ways, and exit codes that lie."""

from tracer.repro.scenario import HOST_OOM, Expected, Scenario, Stage

TREE = ("dataloader", "--ranks", "4", "--workers", "2", "--dataset-mib", "8", "--worker-mib", "4", "--seconds", "120")
OUTSIDE = Expected(
    cause=("sigkill",),
    sender="outside",
    sender_comm="killer",
    victim="trainer",
    status="signal 9",
    never=HOST_OOM,
)

SCENARIOS = (
    Scenario(
        name="kill-9",
        what="somebody sends SIGKILL",
        why="kill(2) carries SI_USER and runs in the sender's context: signal_generate tells who (kernel/signal.c)",
        act=("trainer",),
        actor=("kill",),
        expected=OUTSIDE,
    ),
    Scenario(
        name="tgkill",
        what="somebody sends SIGKILL to one thread",
        why="tgkill(2) carries SI_TKILL, and SIGKILL ends the whole process all the same (kernel/signal.c)",
        act=("trainer",),
        actor=("tgkill",),
        expected=OUTSIDE,
    ),
    Scenario(
        name="pidfd-kill",
        what="somebody sends SIGKILL through a pidfd",
        why="pidfd_send_signal(2) carries SI_USER as kill(2) does (kernel/signal.c)",
        act=("trainer",),
        actor=("pidfd",),
        expected=OUTSIDE,
    ),
    Scenario(
        name="cgroup-kill",
        what="somebody ends the whole cgroup by its file cgroup.kill",
        why="__cgroup_kill() sends SIGKILL in the context of who wrote to the file (kernel/cgroup/cgroup.c, 5.14)",
        act=("trainer",),
        actor=("kill-cgroup",),
        needs=("cgroup_v2",),
        expected=OUTSIDE,
    ),
    Scenario(
        name="tree-kill-9",
        what="the job of group-kill: somebody at a second terminal kills one of its workers",
        why="kill(2) from another process: SI_USER, the sender's own context (kernel/signal.c)",
        act=TREE,
        actor=("kill-a-worker",),
        stage=Stage(memory_mib=2048),
        expected=Expected(
            cause=("sigkill",),
            sender="outside",
            sender_comm="killer",
            victim="pt_data_worker",
            victim_role="dataloader_worker",
            status="exit 1",
            never=HOST_OOM,
        ),
    ),
    Scenario(
        name="kill-itself",
        what="a process sends SIGKILL to itself",
        why="kill(2) with its own pid: sender and target are one (kernel/signal.c)",
        act=("kill-itself",),
        expected=Expected(
            cause=("sigkill",), sender="self", victim="trainer", status="signal 9", never=HOST_OOM
        ),
    ),
    Scenario(
        name="launcher-kill",
        what="a launcher ends its process by SIGKILL and fails",
        why="kill(2) within the job: the sender is an ancestor of the target (kernel/signal.c)",
        act=("kill-a-rank",),
        expected=Expected(
            cause=("sigkill",), sender="launcher", victim="rank", status="exit 1", never=HOST_OOM
        ),
    ),
    Scenario(
        name="cpu-limit",
        what="a process runs into its hard limit on CPU time",
        why="check_process_timers() sends SIGKILL with the kernel's own siginfo (kernel/time/posix-cpu-timers.c): the "
        "kernel's signal alone does not make an OOM kill",
        act=("cpu-time",),
        expected=Expected(
            cause=("kernel_sigkill_other",), sender="kernel", victim="trainer", status="signal 9", never=HOST_OOM
        ),
    ),
    Scenario(
        name="parents-death",
        what="a process had asked for SIGKILL when its parent ends, and the parent ends",
        why="PR_SET_PDEATHSIG: forget_original_parent() sends it as the parent exits (kernel/exit.c)",
        act=("parents-death",),
        expected=Expected(
            cause=("exited",), also=("kernel_sigkill_other",), status="exit 0", never=HOST_OOM
        ),
    ),
    Scenario(
        name="exec-with-threads",
        what="a process with several threads starts another program: the kernel ends all threads but one",
        why="de_thread() and zap_other_threads() set SIGKILL pending for the others (fs/exec.c, kernel/signal.c): no "
        "process ends by it",
        act=("exec-with-threads",),
        expected=Expected(
            cause=("exited",), victim="trainer", status="exit 3", never=(*HOST_OOM, "sigkill", "kernel_sigkill_other")
        ),
    ),
    Scenario(
        name="exit-137",
        what="a trainer exits with 137 by itself: nothing was killed",
        why="137 is what a shell makes of a death by SIGKILL; as an exit status it is a number like any other",
        act=("exit-137",),
        expected=Expected(
            cause=("exited",), victim="trainer", status="exit 137", never=(*HOST_OOM, "sigkill")
        ),
    ),
)  # fmt: skip

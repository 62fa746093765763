# SPDX-License-Identifier: Apache-2.0
"""Whose limit: the job's own cgroup, one far above it, swap, a group that is killed together, a throttle, no victim."""

from tracer.repro.scenario import HOST_OOM, Expected, Node, Scenario, Stage

TREE = Stage(memory_mib=64, below=(Node(path="victim"), Node(path="trigger")))
GROUP = Stage(memory_mib=64, below=(Node(path="victim", files={"memory.oom.group": "1"}), Node(path="trigger")))
DEEP_TREE = Stage(memory_mib=64, below=(Node(path="mid", memory_mib=1024), Node(path="mid/a"), Node(path="mid/b")))
CONTAINER = "7d" * 32
POD_UID = "5e0b7c92-41aa-4d0f-b3e6-77c1d20f9a48"
POD_NODE = f"kubepods/burstable/pod{POD_UID}"
POD = Stage(
    memory_mib=256,
    below=(Node(path="kubepods"), Node(path="kubepods/burstable"), Node(path=POD_NODE, memory_mib=64),
           Node(path=f"{POD_NODE}/{CONTAINER}")),
)  # fmt: skip
EQUAL = Stage(memory_mib=256, below=(Node(path="outer", memory_mib=64), Node(path="outer/inner", memory_mib=64)))

SCENARIOS = (
    Scenario(
        name="memcg-leaf",
        what="a process grows beyond the limit of its own cgroup",
        why="try_charge_memcg() fails and mem_cgroup_out_of_memory() kills within that cgroup (mm/memcontrol.c)",
        act=("anon",),
        expected=Expected(
            cause=("host_oom_cgroup",),
            killed=(1, 1),
            victim="grower",
            trigger="grower",
            limit=".",
            constraint="CONSTRAINT_MEMCG",
            status="signal 9",
        ),
    ),
    Scenario(
        name="memcg-parent",
        what="the limit is the parent's; the victim lives in another child of it than the process that asked for more",
        why="the OOM killer chooses among all tasks below the cgroup whose limit was hit: select_bad_process() with "
        "oc->memcg (mm/oom_kill.c); memory.events counts oom there and oom_kill at the victim's own",
        act=("victim-elsewhere", "victim", "trigger"),
        stage=TREE,
        expected=Expected(
            cause=("host_oom_cgroup",),
            killed=(1, 1),
            victim="large",
            trigger="small",
            limit=".",
            not_blamed="small",
            status="exit 9",
        ),
    ),
    Scenario(
        name="memcg-grandparent",
        what="the same with the limit two levels up, and a larger one in between",
        why="a charge goes up the chain of counters and fails at the first that is full: page_counter_try_charge() "
        "(mm/page_counter.c)",
        act=("victim-elsewhere", "mid/a", "mid/b"),
        stage=DEEP_TREE,
        expected=Expected(
            cause=("host_oom_cgroup",),
            killed=(1, 1),
            victim="large",
            trigger="small",
            limit=".",
            not_blamed="small",
            status="exit 9",
        ),
    ),
    Scenario(
        name="equal-limits",
        what="two cgroups, one within the other, have the same limit, and both are full at once",
        why="a cgroup's own structures are charged to its parent (mem_cgroup_alloc(), mm/memcontrol.c, 5.9), so the "
        "outer counter is full that much earlier: page_counter_try_charge() (mm/page_counter.c)",
        act=("grow-in", "outer/inner"),
        stage=EQUAL,
        expected=Expected(
            cause=("host_oom_cgroup",),
            killed=(1, 1),
            victim="grower",
            trigger="grower",
            limit="outer",
            status="exit 9",
        ),
    ),
    Scenario(
        name="pod",
        what="a process in a container of a Kubernetes pod is killed at the limit of the pod",
        why="kubelet gives each pod a cgroup with the sum of its containers' limits: a charge goes up the chain and "
        "fails at the first counter that is full, page_counter_try_charge() (mm/page_counter.c)",
        act=("grow-in-a-container", f"{POD_NODE}/{CONTAINER}"),
        stage=POD,
        expected=Expected(
            cause=("host_oom_cgroup",),
            killed=(1, 1),
            victim="grower",
            limit=POD_NODE,
            limit_of=f"pod {POD_UID}",
            ran_in=f"container {CONTAINER[:12]} (runtime not known), pod {POD_UID}, QoS burstable",
            status="exit 9",
            ns_pids=2,
        ),
    ),
    Scenario(
        name="group-kill",
        what="memory.oom.group takes a whole training job: launcher, 4 ranks, 8 workers",
        why="mem_cgroup_get_oom_group() (mm/memcontrol.c), then oom_kill_memcg_member() (mm/oom_kill.c) for each: a "
        "signal and a mark; the first victim is killed and counted once more as a member",
        act=("dataloader", "--ranks", "4", "--workers", "2", "--leaking-rank", "1", "--leaking-worker", "1",
             "--rate-mib", "400", "--dataset-mib", "8", "--worker-mib", "4", "--seconds", "120"),
        stage=Stage(memory_mib=384, files={"memory.oom.group": "1"}),
        needs=("cgroup_v2", "group_kill"),
        expected=Expected(
            cause=("host_oom_cgroup",),
            killed=(13, 13),
            limit=".",
            status="signal 9",
            caveat="memory.oom.group is set",
            counted_twice=1,
        ),
    ),
    Scenario(
        name="group-kill-below",
        what="the limit is the parent's, and memory.oom.group is set in the child whose process is the victim",
        why="mem_cgroup_get_oom_group() looks from the victim's cgroup up to the one whose limit was hit "
        "(mm/memcontrol.c): who asked for more lives in another child, and lives on",
        act=("group-elsewhere", "victim", "trigger"),
        stage=GROUP,
        needs=("cgroup_v2", "group_kill"),
        expected=Expected(
            cause=("host_oom_cgroup",),
            killed=(2, 2),
            victims=("large", "companion"),
            trigger="small",
            limit=".",
            not_blamed="small",
            status="exit 9",
            caveat="memory.oom.group is set",
            counted_twice=1,
        ),
    ),
    Scenario(
        name="swap-max",
        what="memory and swap of a cgroup are used up together",
        why="memory.swap.max (v1: memory.memsw.limit_in_bytes) bounds what reclaim can write out; then the charge "
        "fails as without swap (mm/memcontrol.c)",
        act=("incompressible", "256"),
        stage=Stage(memory_mib=48, swap_mib=16, swap=True),
        needs=("memsw", "swap"),
        expected=Expected(
            cause=("host_oom_cgroup",), killed=(1, 1), victim="grower", limit=".", status="signal 9", swapped_mib=8
        ),
    ),
    Scenario(
        name="memory-high",
        what="memory.high throttles a job until it hardly moves; somebody loses patience and kills it",
        why="mem_cgroup_handle_over_high() puts it to sleep and never kills (mm/memcontrol.c)",
        act=("slowly",),
        actor=("kill-when-stuck", "6"),
        stage=Stage(memory_mib=None, files={"memory.high": str(32 << 20)}),
        needs=("cgroup_v2",),
        expected=Expected(
            cause=("sigkill",),
            also=("memory_stall",),
            sender="outside",
            sender_comm="killer",
            victim="throttled",
            status="signal 9",
            never=HOST_OOM,
        ),
    ),
    Scenario(
        name="oom-disabled",
        what="the OOM killer of a v1 cgroup is switched off: the job hangs at its limit until somebody kills it",
        why="mem_cgroup_oom() only marks the task for memory.oom_control, and mem_cgroup_oom_synchronize() lets it "
        "sleep (mm/memcontrol.c)",
        act=("anon",),
        actor=("kill-when-stuck", "6"),
        stage=Stage(files={"memory.oom_control": "1"}),
        needs=("cgroup_v1",),
        expected=Expected(
            cause=("sigkill",),
            also=("memory_stall",),
            sender="outside",
            sender_comm="killer",
            victim="grower",
            status="signal 9",
            never=HOST_OOM,
        ),
    ),
    Scenario(
        name="no-victim",
        what="all that could be killed has oom_score_adj -1000: nothing is killed, and the job spins at its limit",
        why="oom_badness() passes over OOM_SCORE_ADJ_MIN; in a cgroup the failed charge is tried again and again "
        "(mm/oom_kill.c); each attempt fills the kernel's log",
        act=("unkillable",),
        actor=("kill-when-stuck", "4"),
        where="guest",
        needs=("cgroup_v2", "sys_resource"),
        expected=Expected(
            cause=("sigkill",),
            also=("memory_stall",),
            sender="outside",
            sender_comm="killer",
            victim="immune",
            status="signal 9",
            never=HOST_OOM,
        ),
    ),
)  # fmt: skip

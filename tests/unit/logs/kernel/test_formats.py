# SPDX-License-Identifier: Apache-2.0
"""The wording of other kernels, written from mm/oom_kill.c and mm/memcontrol.c of those versions."""

import pytest

from tracer.events import LoggedDecision, LoggedInvocation, LoggedKill, LoggedOther, LoggedSwap, LoggedUsage
from tracer.logs.kernel import parse_record


def parse(text: str):
    return parse_record(text, ts_ns=7)


KIB = 1024
KILLS = [
    (
        "Memory cgroup out of memory: Killed process 77 (python3) total-vm:9kB, anon-rss:8kB, file-rss:7kB, "
        "shmem-rss:6kB, UID:1000 pgtables:5kB oom_score_adj:-998",
        {"memcg": True, "shmem_rss_bytes": 6 * KIB, "uid": 1000, "pgtables_bytes": 5 * KIB, "oom_score_adj": -998},
    ),
    (
        "Out of memory: Killed process 77 (python3) total-vm:9kB, anon-rss:8kB, file-rss:7kB, shmem-rss:6kB",
        {"memcg": False, "shmem_rss_bytes": 6 * KIB, "uid": None, "pgtables_bytes": None},
    ),
    (
        "Out of memory (oom_kill_allocating_task): Killed process 77 (python3) total-vm:9kB, anon-rss:8kB, "
        "file-rss:7kB, shmem-rss:6kB, UID:0 pgtables:5kB oom_score_adj:0",
        {"memcg": False, "allocating_task": True, "uid": 0},
    ),
    (
        "Killed process 77 (python3) total-vm:9kB, anon-rss:8kB, file-rss:7kB, shmem-rss:6kB",
        {"memcg": None, "shmem_rss_bytes": 6 * KIB},
    ),
    ("Killed process 77 (python3) total-vm:9kB, anon-rss:8kB, file-rss:7kB", {"memcg": None, "shmem_rss_bytes": None}),
    (
        "Killed process 77 (python3), UID 1000, total-vm:9kB, anon-rss:8kB, file-rss:7kB, shmem-rss:6kB",
        {"memcg": None, "uid": 1000},
    ),
    ("Killed process 77, UID 1000, (python3) total-vm:9kB, anon-rss:8kB, file-rss:7kB", {"uid": 1000}),
]


@pytest.mark.parametrize(("text", "expected"), KILLS, ids=["5.4", "5.1", "allocating", "4.19", "4.4", "el7", "el6"])
def test_the_kill_of_each_kernel_is_read(text, expected):
    kill = parse(text)

    assert isinstance(kill, LoggedKill)
    assert (kill.pid, kill.comm, kill.total_vm_bytes, kill.anon_rss_bytes, kill.file_rss_bytes) == (
        77, "python3", 9 * KIB, 8 * KIB, 7 * KIB,
    )  # fmt: skip
    assert {key: getattr(kill, key) for key in expected} == expected
    assert not kill.trusted


@pytest.mark.parametrize(
    ("text", "mask", "order"),
    [
        ("gfp_mask=0xd0, order=0, oom_score_adj=-998", "0xd0", 0),
        ("gfp_mask=0x24280ca(GFP_HIGHUSER_MOVABLE|__GFP_ZERO), order=2, oom_score_adj=0",
         "0x24280ca(GFP_HIGHUSER_MOVABLE|__GFP_ZERO)", 2),
        ("gfp_mask=0x6000c0(GFP_KERNEL), nodemask=(null), order=0, oom_score_adj=0", "0x6000c0(GFP_KERNEL)", 0),
        ("gfp_mask=0x6000c0(GFP_KERNEL), nodemask=0-1, order=0, oom_score_adj=0", "0x6000c0(GFP_KERNEL)", 0),
        ("gfp_mask=0xcc0(GFP_KERNEL), order=-1, oom_score_adj=0", "0xcc0(GFP_KERNEL)", -1),
        ("gfp_mask=0x0, order=0", "0x0", 0),
    ],
    ids=["3.10", "4.5", "4.19", "nodes", "sysrq", "cut"],
)  # fmt: skip
def test_the_trigger_of_each_kernel_is_read(text, mask, order):
    invocation = parse(f"CPU 11/KVM invoked oom-killer: {text}")

    assert isinstance(invocation, LoggedInvocation)
    assert (invocation.comm, invocation.gfp_mask, invocation.order) == ("CPU 11/KVM", mask, order)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("memory: usage 65536kB, limit 65536kB, failcnt 12", ("memory", 64 << 20, 64 << 20, 12)),
        ("swap: usage 1kB, limit 9007199254740988kB, failcnt 0", ("swap", 1024, 9007199254740988 << 10, 0)),
        ("memory+swap: usage 0kB, limit 2kB, failcnt 3", ("memory+swap", 0, 2048, 3)),
        ("kmem: usage 5kB, limit 9007199254740991kB, failcnt 0", ("kmem", 5120, 9007199254740991 << 10, 0)),
    ],
    ids=["memory", "swap", "memsw", "kmem"],
)
def test_counters_are_read(text, expected):
    usage = parse(text)

    assert isinstance(usage, LoggedUsage)
    assert (usage.counter, usage.usage_bytes, usage.limit_bytes, usage.failcnt) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Free swap  = 0kB", ("free", 0)),
        ("Total swap = 98300kB", ("total", 98300 << 10)),
        ("Free swap = 5kB", ("free", 5 << 10)),
    ],
)
def test_swap_of_the_machine_is_read(text, expected):
    swap = parse(text)

    assert isinstance(swap, LoggedSwap)
    assert (swap.counter, swap.size_bytes) == expected


@pytest.mark.parametrize("text", ["Free swap  = -4kB", "Free swap  = 0kB x", "x Free swap  = 0kB", "Used swap = 1kB"])
def test_what_only_looks_like_it_is_none(text):
    assert parse(text) is None


DECISION = "oom-kill:constraint={},nodemask={},cpuset=pod,mems_allowed={},{}task_memcg=/a/b,task=python3,pid=12,uid=3"


@pytest.mark.parametrize(
    ("constraint", "nodemask", "mems", "owner", "oom_memcg"),
    [
        ("CONSTRAINT_MEMCG", "(null)", "0", "oom_memcg=/a,", "/a"),
        ("CONSTRAINT_MEMCG", "(null)", "0-1,3", "oom_memcg=/,", "/"),
        ("CONSTRAINT_NONE", "(null)", "0-1", "global_oom,", None),
        ("CONSTRAINT_CPUSET", "(null)", "1", "global_oom,", None),
        ("CONSTRAINT_MEMORY_POLICY", "1", "0-1", "global_oom,", None),
    ],
    ids=["memcg", "top", "global", "cpuset", "mempolicy"],
)
def test_the_decision_names_the_owner_of_the_limit(constraint, nodemask, mems, owner, oom_memcg):
    decision = parse(DECISION.format(constraint, nodemask, mems, owner))

    assert isinstance(decision, LoggedDecision)
    assert (decision.constraint, decision.oom_memcg, decision.task_memcg) == (constraint, oom_memcg, "/a/b")
    assert (decision.comm, decision.tgid, decision.uid) == ("python3", 12, 3)


def test_a_decision_that_was_cut_keeps_its_constraint_alone():
    whole = DECISION.format("CONSTRAINT_MEMCG", "(null)", "0", "oom_memcg=/a,")
    for cut in range(whole.index(",nodemask=(null),cpuset=") + 24, len(whole) - len(",uid=3")):
        decision = parse(whole[:cut])

        assert isinstance(decision, LoggedDecision)
        assert decision.constraint == "CONSTRAINT_MEMCG"
        assert (decision.oom_memcg, decision.task_memcg, decision.comm, decision.tgid) == (None, None, None, None)


def test_a_cpuset_named_like_the_rest_of_the_line_leaves_the_names_unknown():
    forged = "x,mems_allowed=0,oom_memcg=/mine,task_memcg=/mine/a,task=me"
    text = DECISION.replace("cpuset=pod", f"cpuset={forged}").format("CONSTRAINT_MEMCG", "(null)", "0", "oom_memcg=/a,")
    decision = parse(text)

    assert isinstance(decision, LoggedDecision)
    assert (decision.tgid, decision.uid, decision.comm) == (12, 3, "python3")
    assert decision.oom_memcg in (None, "/a")


def test_a_line_of_keys_alone_is_read_in_no_time_and_its_names_are_unknown():
    keys = ",mems_allowed=0,oom_memcg=/a,task_memcg=/a,task=x" * 40
    decision = parse(f"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/{keys},pid=1,uid=2")

    assert isinstance(decision, LoggedDecision)
    assert (decision.comm, decision.oom_memcg, decision.tgid) == (None, None, 1)


@pytest.mark.parametrize(
    ("text", "about"),
    [
        ("oom_reaper: reaped process 8 (a (b)), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB", "reaped"),
        ("oom_reaper: reaped process 8 (x), now anon-rss:0kB, file-rss:0lB, shmem-rss:0kB", "reaped"),
        ("oom_reaper: unable to reap pid:8 (x)", "reaped"),
        ("Tasks in /kubepods/pod7 are going to be killed due to memory.oom.group set", "group_kill"),
        ("Out of memory and no killable processes...", "no_killable"),
        ("Kernel panic - not syncing: System is deadlocked on memory", "no_killable"),
        ("Kernel panic - not syncing: Out of memory: compulsory panic_on_oom is enabled", "no_killable"),
        ("Memory limit reached of cgroup /a", "no_killable"),
        ("Out of memory: OOM victim 4 (x) is already exiting. Skip killing the task", "already_exiting"),
        ("oom_kill_process: 70 callbacks suppressed", "suppressed"),
        ("sysrq: Manual OOM execution", "sysrq"),
        ("sysrq: SysRq : Manual OOM execution", "sysrq"),
        ("SysRq : Manual OOM execution", "sysrq"),
        (" mem_cgroup_out_of_memory+0xe8/0x130", "call_trace"),
        (" [<ffffffff811a2b3c>] mem_cgroup_oom_synchronize+0x1f/0x60", "call_trace"),
        (" __alloc_pages_slowpath.constprop.0+0xb4c/0xd80", "call_trace"),
        ("Task in /a/b killed as a result of limit of /a", "report"),
        ("Memory cgroup stats for /a: cache:0KB rss:65536KB", "report"),
        ("Memory cgroup stats for /a:\\x0aanon 1\\x0afile 2", "report"),
        ("Memory cgroup stats for /a:\nanon 1\nfile 2", "report"),
        ("Out of memory: Kill process 9 (x) score 900 or sacrifice child", "report"),
        ("Mem-Info:", "report"),
        ("Node 0 Normal free:44kB boost:0kB min:45kB low:56kB high:67kB reserved_highatomic:0KB", "report"),
    ],
)
def test_other_lines_of_a_report_are_kept(text, about):
    event = parse(text)

    assert isinstance(event, LoggedOther)
    assert (event.about, event.text) == (about, text)


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "Call Trace:", " ? mem_cgroup_out_of_memory+0xe8/0x130", " dump_header+0x43/0x1c0",
        "python3 (77): drop_caches: 3", "Killed process", "Killed process 1 (x)", "rss 33476608",
        "Killed process 99999999999 (x) total-vm:9kB, anon-rss:8kB, file-rss:7kB",
        "Killed process 9 (x) total-vm:99999999999999999kB, anon-rss:8kB, file-rss:7kB",
        "audit: Memory cgroup out of memory: Killed process 9 (x) total-vm:9kB, anon-rss:8kB, file-rss:7kB",
        "Killed process 9 (x) total-vm:9kB, anon-rss:8kB, file-rss:7kB and more",
        "usb 1-1: Product: oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/",
        "oom-kill:constraint=", "oom-kill:constraint=WHATEVER,nodemask=(null),cpuset=/",
    ],
)  # fmt: skip
def test_what_is_no_line_of_a_report_is_no_event(text):
    assert parse(text) is None


def test_text_is_kept_up_to_a_kilobyte():
    assert len(parse("Memory cgroup stats for /" + "a" * 5000).text) == 1024

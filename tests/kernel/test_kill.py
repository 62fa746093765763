# SPDX-License-Identifier: Apache-2.0
"""Real kills: every field that is read from the kernel against the kernel's own report and files."""

import os
import shutil
import time
from pathlib import Path

import pytest

from tests.kernel.workload import Hog
from tracer.events import Constraint, KernelStack, OomDecision, OomLevel, OomMark, ProcessExited, SignalInfo, SignalSent
from tracer.units import NO_LIMIT_BYTES, TICK_NS

MIB = 1 << 20
PAGE = os.sysconf("SC_PAGE_SIZE")
BATCH_BYTES = 64 * PAGE
"""try_charge gives up within one batch of the limit."""


def levels_of(watch, mark) -> list[OomLevel]:
    watch.wait(KernelStack, mark_ts_ns=mark.ts_ns)  # sent after the last level
    return sorted(watch.of(OomLevel, ts_ns=mark.ts_ns, mark_tgid=mark.tgid), key=lambda level: level.depth)


def killed_with(watch, memory_cgroup, hog, kernel_log):
    """A kill of one that allocates: its ticks, its mark, and what the log has, in the mark's own units."""
    process = hog(memory_cgroup)
    for line in ("shared(9 << 20)", "adj(321)", "name(b'kill me')", "os.setuid(12345)"):
        process.do(line)
    ticks = process.start_ticks
    process.tell("anon(100 << 20)")
    assert process.wait() == -9
    mark, _ = watch.kill(process.pid)
    return ticks, mark, kernel_log.killed(process.pid)


def test_every_figure_equals_the_kernels_own_report(watch, memory_cgroup, hog, kernel_log):
    memory_cgroup.limit(48 * MIB)
    differing = []
    # The kernel prints a little later than it marks, and its counters may move in between: once in many times.
    for _ in range(3):
        ticks, mark, report = killed_with(watch, memory_cgroup, hog, kernel_log)
        figures = {
            "pid": str(mark.tid),
            "comm": mark.comm,
            "total_vm": f"{mark.total_vm_bytes / 1024:.0f}",
            "anon": f"{mark.anon_rss_bytes / 1024:.0f}",
            "file": f"{mark.file_rss_bytes / 1024:.0f}",
            "shmem": f"{mark.shmem_rss_bytes / 1024:.0f}",
            "uid": str(mark.uid),
            "pgtables": f"{mark.pgtables_bytes / 1024:.0f}",
            "adj": str(mark.oom_score_adj),
        }
        if figures == report:
            break
        differing.append((figures, report))
    assert len(differing) < 3, differing
    assert (mark.tgid, mark.comm, mark.uid, mark.oom_score_adj) == (mark.tid, "kill me", 12345, 321)
    assert mark.shmem_rss_bytes >= 9 * MIB
    assert mark.start_ns // TICK_NS == ticks
    assert (mark.parent_tgid, mark.ns_tgid, mark.ns_level) == (os.getpid(), mark.tgid, 0)


def test_it_exists_in_time_and_on_a_cpu(watch, memory_cgroup, hog):
    before_ns = time.monotonic_ns()
    memory_cgroup.limit(24 * MIB)
    process = hog(memory_cgroup)
    process.tell("anon(64 << 20)")
    process.wait()
    mark, _ = watch.kill(process.pid)

    assert before_ns < mark.ts_ns < time.monotonic_ns()
    assert 0 <= mark.cpu < os.cpu_count()


def test_a_hostile_name_is_kept_and_breaks_nothing(watch, memory_cgroup, hog):
    memory_cgroup.limit(24 * MIB)
    process = hog(memory_cgroup)
    process.do(r"name(b') Killed\n\xff 1(')")
    process.tell("anon(64 << 20)")
    process.wait()

    assert watch.kill(process.pid)[0].comm == ") Killed\n\\xff 1("


def test_the_chain_is_the_directories_from_the_victims_own_up_to_the_root(watch, memory_cgroup, hog):
    parent = memory_cgroup.child("parent")
    own = parent.child("own")
    own.limit(32 * MIB)
    process = hog(own)
    process.tell("anon(64 << 20)")
    process.wait()
    mark, _ = watch.kill(process.pid)
    levels = levels_of(watch, mark)
    root = memory_cgroup.path.parent

    assert [level.depth for level in levels] == list(range(mark.levels))
    assert [level.cgroup_id for level in levels] == [own.id, parent.id, memory_cgroup.id, root.stat().st_ino]
    assert [level.name for level in levels] == ["own", "parent", memory_cgroup.path.name, ""]
    assert {level.name_cut for level in levels} == {0}


def test_usage_and_limit_of_each_level_are_those_of_its_files(watch, memory_cgroup, hog):
    own = memory_cgroup.child("own")
    own.limit(32 * MIB)
    process = hog(own)
    process.tell("anon(64 << 20)")
    process.wait()
    mark, _ = watch.kill(process.pid)
    inner, outer, *_ = levels_of(watch, mark)

    assert inner.limit_bytes == own.number("memory.max", "memory.limit_in_bytes") == 32 * MIB
    assert inner.limit_bytes - BATCH_BYTES <= inner.usage_bytes <= inner.limit_bytes
    if own.file("memory.peak", "memory.max_usage_in_bytes").exists():
        assert inner.usage_bytes <= own.number("memory.peak", "memory.max_usage_in_bytes")
    assert outer.limit_bytes >= NO_LIMIT_BYTES
    assert outer.usage_bytes >= inner.usage_bytes
    if own.file("memory.swap.max", "memory.memsw.limit_in_bytes").exists():
        assert inner.swap_limit_bytes >= NO_LIMIT_BYTES
        assert own.version == 2 or inner.swap_usage_bytes >= inner.usage_bytes
    else:
        assert inner.swap_usage_bytes in (None, 0)


def test_a_swap_limit_is_read_where_it_is_one(watch, memory_cgroup, hog, does_not_apply):
    swap = memory_cgroup.file("memory.swap.max", "memory.memsw.limit_in_bytes")
    if not swap.exists():
        does_not_apply("no swap accounting")
    memory_cgroup.limit(32 * MIB)
    swap.write_text(str(40 * MIB))
    process = hog(memory_cgroup)
    process.tell("anon(64 << 20)")
    process.wait()
    level = levels_of(watch, watch.kill(process.pid)[0])[0]

    assert level.swap_limit_bytes == 40 * MIB


def test_events_of_each_level_are_those_of_its_files(watch, memory_cgroup, hog):
    memory_cgroup.limit(32 * MIB)
    process = hog(memory_cgroup)
    process.tell("anon(64 << 20)")
    process.wait()
    level = levels_of(watch, watch.kill(process.pid)[0])[0]

    # The kernel counts the kill before it marks.
    kills = memory_cgroup.key("memory.events.local", "memory.oom_control", "oom_kill")
    assert level.events_local_oom_kill == kills == 1
    assert level.events_local_oom == 1
    assert level.events_local_max >= 1
    if memory_cgroup.version == 2:
        assert level.events_oom == memory_cgroup.key("memory.events", "", "oom")
        # The victim goes on allocating until it has died of the signal.
        assert level.events_local_max <= memory_cgroup.key("memory.events.local", "", "max")
        assert level.oom_group == 0
    else:
        # cgroup v1 shows no hierarchical counts and has no group kill.
        assert (level.events_oom, level.events_max, level.events_oom_kill, level.oom_group) == (None,) * 4


def test_the_limit_of_a_grandparent_shows_where_the_event_count_rose(watch, memory_cgroup, hog):
    parent = memory_cgroup.child("parent")
    own = parent.child("own")
    memory_cgroup.limit(32 * MIB)
    process = hog(own)
    process.tell("anon(64 << 20)")
    process.wait()
    mark, stack = watch.kill(process.pid)
    levels = levels_of(watch, mark)

    assert [level.events_local_oom for level in levels[:3]] == [0, 0, 1]
    assert [level.events_local_oom_kill for level in levels[:3]] == [1, 0, 0]
    assert [level.limit_bytes >= NO_LIMIT_BYTES for level in levels[:3]] == [True, True, False]
    assert "mem_cgroup_out_of_memory" in stack.frames


def test_a_name_that_is_too_long_is_cut_and_says_so(watch, memory_cgroup, hog):
    fits, cut = memory_cgroup.child("f" * 127), memory_cgroup.child("c" * 128)
    names = {}
    for cgroup in (fits, cut):
        cgroup.limit(24 * MIB)
        process = hog(cgroup)
        process.tell("anon(64 << 20)")
        process.wait()
        level = levels_of(watch, watch.kill(process.pid)[0])[0]
        names[level.name] = level.name_cut

    assert names == {"f" * 127: 0, "c" * 127: 1}


def test_a_chain_deeper_than_is_sent_says_how_much_is_there(watch, memory_cgroup, hog):
    own = memory_cgroup
    for depth in range(17):
        own = own.child(f"d{depth}")
    own.limit(24 * MIB)
    process = hog(own)
    process.tell("anon(64 << 20)")
    process.wait()
    mark, _ = watch.kill(process.pid)
    levels = levels_of(watch, mark)

    assert mark.levels == len(levels) == 16
    assert levels[-1].name == "d1"


def test_the_stack_says_that_it_was_a_kill_and_whose_limit_it_was(watch, memory_cgroup, hog):
    memory_cgroup.limit(24 * MIB)
    process = hog(memory_cgroup)
    process.tell("anon(64 << 20)")
    process.wait()
    _, stack = watch.kill(process.pid)

    assert {"__oom_kill_process", "out_of_memory", "mem_cgroup_out_of_memory"} <= set(stack.frames)
    assert not stack.frames[0].startswith(("bpf_", "__bpf", "__traceiter"))
    assert stack.frames.index("__oom_kill_process") <= 2
    assert stack.tgid == process.pid


def test_the_trigger_is_who_was_allocating_and_the_victim_another(watch, memory_cgroup, hog):
    memory_cgroup.limit(40 * MIB)
    big, small = hog(memory_cgroup), hog(memory_cgroup)
    small.do("name(b'last straw')")
    big.do("anon(30 << 20)")
    small.tell("anon(12 << 20)")

    assert big.wait() == -9
    mark, _ = watch.kill(big.pid)
    assert (mark.trigger_tgid, mark.trigger_tid, mark.trigger_comm) == (small.pid, small.pid, "last straw")
    assert mark.trigger_start_ns // TICK_NS == small.start_ticks
    assert mark.trigger_tgid != mark.tgid


def test_the_kernels_signal_comes_first_in_the_same_context(watch, memory_cgroup, hog):
    memory_cgroup.limit(40 * MIB)
    big, small = hog(memory_cgroup), hog(memory_cgroup)
    big.do("anon(30 << 20)")
    small.tell("anon(12 << 20)")
    big.wait()
    mark, _ = watch.kill(big.pid)
    sent = watch.wait(SignalSent, tgid=big.pid)

    assert (sent.signal, sent.info, sent.code, sent.result) == (9, SignalInfo.PRIV, 128, 0)
    assert (sent.sender_tid, sent.cpu) == (mark.trigger_tid, mark.cpu)
    assert sent.start_ns == mark.start_ns
    assert 0 < mark.ts_ns - sent.ts_ns < 10**10  # a CPU may be taken away in between
    assert sent.group == 1


def test_a_victim_outside_the_tree_is_recorded_with_its_exit(watch, memory_cgroup, hog):
    memory_cgroup.limit(24 * MIB)
    process = hog(memory_cgroup)
    process.tell("anon(64 << 20)")
    process.wait()
    ended = watch.wait(ProcessExited, tgid=process.pid)

    assert (ended.status, ended.signal, ended.oom_marked, ended.in_tree) == (9, 9, 1, 0)
    assert ended.start_ns == watch.kill(process.pid)[0].start_ns
    assert ended.parent_tgid == os.getpid()


def test_a_thread_whose_leader_is_gone_is_marked_by_its_own_id(watch, memory_cgroup, hog):
    memory_cgroup.limit(32 * MIB)
    process = hog(memory_cgroup)
    ticks = process.start_ticks
    process.do("thread(lambda: alone(lambda: anon(64 << 20)))")
    process.tell("leave_alone()")
    process.wait()
    mark, _ = watch.kill(process.pid)
    ended = watch.wait(ProcessExited, tgid=process.pid)

    assert mark.tid != mark.tgid == process.pid
    assert mark.start_ns // TICK_NS == ticks
    assert (ended.status, ended.oom_marked) == (9, 1)


def test_many_threads_that_die_together_end_once(watch, memory_cgroup, hog):
    memory_cgroup.limit(48 * MIB)
    process = hog(memory_cgroup)
    process.do("[thread(lambda: after(60, int)) for _ in range(30)]")
    process.tell("anon(64 << 20)")
    process.wait()
    watch.wait(ProcessExited, tgid=process.pid)

    assert len(watch.of(ProcessExited, tgid=process.pid)) == 1
    assert len(watch.of(OomMark, tgid=process.pid)) == 1


def test_a_process_in_a_pid_namespace_has_both_its_pids(watch, memory_cgroup, hog, does_not_apply):
    if shutil.which("unshare") is None:
        does_not_apply("no unshare")
    memory_cgroup.limit(32 * MIB)
    outside = hog(None, "unshare", "--pid", "--fork")
    inside = int(Path(f"/proc/{outside.pid}/task/{outside.pid}/children").read_text())
    memory_cgroup.add(inside)
    outside.tell("anon(64 << 20)")
    outside.wait()
    mark, _ = watch.kill(inside)

    assert (mark.tgid, mark.ns_tgid, mark.ns_level) == (inside, 1, 1)
    assert mark.parent_tgid == outside.pid


def test_a_storm_of_kills_is_seen_whole(watch, memory_cgroup, hog):
    memory_cgroup.limit(24 * MIB)
    processes: list[Hog] = []
    for _ in range(11):
        processes.append(hog(memory_cgroup))
        processes[-1].tell("anon(64 << 20)")
        processes[-1].wait()
    for process in processes:
        watch.kill(process.pid)

    assert watch.source.losses(0).total == 0


@pytest.mark.parametrize("members", [3], ids=["three"])
def test_a_group_kill_marks_every_member(watch, memory_cgroup, hog, does_not_apply, members):
    group = memory_cgroup.path / "memory.oom.group"
    if not group.exists():
        does_not_apply("cgroup v1 kills no groups")
    group.write_text("1")
    memory_cgroup.limit(64 * MIB)
    processes = [hog(memory_cgroup) for _ in range(members)]
    processes[0].tell("anon(128 << 20)")
    for process in processes:
        process.wait()
    levels = [levels_of(watch, watch.kill(process.pid)[0])[0] for process in processes]

    assert [level.oom_group for level in levels] == [1] * members


def test_the_decision_behind_a_kill_is_told_where_functions_can_be_hooked(watch, memory_cgroup, hog, does_not_apply):
    if not all(hook.attached for hook in watch.session.hooks):
        does_not_apply("neither fentry nor kprobes")
    memory_cgroup.limit(40 * MIB)
    big, small = hog(memory_cgroup), hog(memory_cgroup)
    big.do("anon(30 << 20)")
    small.tell("anon(12 << 20)")
    big.wait()
    mark, _ = watch.kill(big.pid)
    decision = watch.wait(OomDecision, tgid=big.pid)

    assert (decision.tid, decision.trigger_tid) == (mark.tid, mark.trigger_tid)
    assert (decision.memcg_id, decision.constraint) == (memory_cgroup.id, Constraint.CONSTRAINT_MEMCG)
    # What the domain may use: the limit, and swap where there is any.
    assert decision.total_allowed_bytes >= 40 * MIB
    assert decision.order == 0
    assert decision.gfp_mask & 0x400  # __GFP_DIRECT_RECLAIM, or what else it would not have waited
    assert decision.chosen_points > 0

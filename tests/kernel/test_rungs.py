# SPDX-License-Identifier: Apache-2.0
"""The lower rungs of the ladder of hooks, each forced here and held against what the kernel itself says of a kill."""

import os
import time

import pytest

from tests.kernel.workload import Watch
from tracer.events import (
    IdentityBy,
    KernelStack,
    LoggedDecision,
    MarkedEnded,
    OomGlimpse,
    OomMark,
    ProcessForked,
    SignalInfo,
    SignalSent,
)
from tracer.kernel.handover import PERF_BUFFER, RING_BUFFER
from tracer.kernel.probes import Wanted

MIB = 1 << 20
LINE = "oom-kill:constraint="


@pytest.fixture(params=[RING_BUFFER, PERF_BUFFER])
def bare(open_traced, request):
    """The programs that read none of the kernel's memory."""
    return Watch(open_traced(wanted=Wanted(scalars=True), transport=request.param))


@pytest.fixture(params=[RING_BUFFER, PERF_BUFFER])
def console(open_traced, does_not_apply, request):
    """All programs, with the hook on printk."""
    session = open_traced(wanted=Wanted(console=True), transport=request.param)
    if not any(hook.name == "raw_tracepoint:console" and hook.attached for hook in session.hooks):
        does_not_apply("this kernel has no tracepoint printk:console")
    return Watch(session)


def glimpse_and_end(bare, pid):
    ended = bare.wait(MarkedEnded, tgid=pid)
    [glimpse] = bare.of(OomGlimpse, ts_ns=ended.mark_ns)
    return glimpse, ended, bare.wait(KernelStack, mark_ts_ns=glimpse.ts_ns)


def test_the_bare_programs_load_and_are_named_so_that_nobody_takes_them_for_the_others(bare):
    assert [(hook.name, hook.attached) for hook in bare.session.hooks] == [
        ("raw_tracepoint:mark_victim/scalars", True),
        ("raw_tracepoint:signal_generate/scalars", True),
        ("raw_tracepoint:sched_process_fork/scalars", True),
        ("raw_tracepoint:sched_process_exit/scalars", True),
    ]


def test_they_see_a_kill_of_the_allocating_process_itself(bare, memory_cgroup, hog):
    memory_cgroup.limit(32 * MIB)
    process = hog(memory_cgroup)
    process.do("name(b'kill me')")
    before_ns = time.monotonic_ns()
    process.tell("anon(64 << 20)")

    assert process.wait() == -9
    glimpse, ended, stack = glimpse_and_end(bare, process.pid)
    assert (glimpse.itself, glimpse.same_task, glimpse.victim_tid) == (1, 1, process.pid)
    assert (glimpse.trigger_tgid, glimpse.trigger_comm) == (process.pid, "kill me")
    assert (glimpse.signal_info, glimpse.signal_result) == (SignalInfo.PRIV, 0)
    assert before_ns < glimpse.signal_ns < glimpse.ts_ns < ended.ts_ns < time.monotonic_ns()
    assert (ended.tid, ended.comm) == (process.pid, "kill me")
    assert "__oom_kill_process" in stack.frames


def test_they_see_who_it_was_that_another_process_had_killed(bare, memory_cgroup, hog):
    memory_cgroup.limit(64 * MIB)
    victim, other = hog(memory_cgroup), hog(memory_cgroup)
    victim.do("anon(40 << 20)")
    other.tell("[anon(1 << 20) for n in range(40)]")

    assert victim.wait() == -9
    glimpse, ended, _ = glimpse_and_end(bare, victim.pid)
    assert (glimpse.itself, glimpse.same_task, glimpse.trigger_tgid) == (0, 1, other.pid)
    assert glimpse.victim_tid in {None, victim.pid}
    assert ended.tgid == ended.tid == victim.pid


def test_a_victim_that_is_gone_before_its_killer_marks_it_is_known_as_well(bare, memory_cgroup, hog):
    memory_cgroup.limit(48 * MIB)
    for _ in range(20):
        victim, other = hog(memory_cgroup), hog(memory_cgroup)
        victim.do("anon(28 << 20)")
        other.tell("[anon(1 << 20) for n in range(28)]")

        assert victim.wait() == -9
        glimpse, ended, _ = glimpse_and_end(bare, victim.pid)
        assert glimpse.signal_ns < ended.ts_ns
        other.close()


def test_a_kill_by_hand_is_none_to_them(bare, memory_cgroup, hog):
    killed = hog(memory_cgroup)
    os.kill(killed.pid, 9)
    killed.wait()
    memory_cgroup.limit(32 * MIB)
    process = hog(memory_cgroup)
    process.tell("anon(64 << 20)")
    process.wait()
    glimpse_and_end(bare, process.pid)

    assert bare.of(MarkedEnded, tgid=killed.pid) == []
    assert not bare.of(SignalSent) + bare.of(OomMark) + bare.of(ProcessForked)


def printed(console, memory_cgroup, hog, kernel_log):
    """A kill whose line was printed (it prints ten in five seconds): as the hook saw it, and as the log has it."""
    memory_cgroup.limit(32 * MIB)
    while True:
        process = hog(memory_cgroup)
        process.tell("anon(64 << 20)")
        process.wait()
        kernel_log.killed(process.pid)
        texts = [text for text in kernel_log.texts if text.startswith(LINE) and f",pid={process.pid}," in text]
        if texts:
            return process, console.wait(LoggedDecision, tgid=process.pid), texts[0]


def test_what_is_printed_is_what_the_log_holds(console, memory_cgroup, hog, kernel_log):
    process, decision, text = printed(console, memory_cgroup, hog, kernel_log)
    mark, _ = console.kill(process.pid)

    assert (decision.text, decision.source, decision.trusted) == (text, "printk_console", True)
    assert decision.constraint == "CONSTRAINT_MEMCG"
    assert decision.oom_memcg == decision.task_memcg
    assert decision.oom_memcg.endswith(memory_cgroup.path.name)
    assert 0 < mark.ts_ns - decision.ts_ns < 10**9
    assert len(console.of(LoggedDecision, tgid=process.pid)) == 1


def test_what_user_space_writes_is_not_believed(console):
    text = "oom-kill:constraint=CONSTRAINT_CPUSET,nodemask=0,cpuset=/,mems_allowed=0,global_oom,task_memcg=/,task=x"
    with open("/dev/kmsg", "w") as log:
        log.write(f"{text},pid={os.getpid()},uid=0\n")
    forged = console.wait(LoggedDecision, tgid=os.getpid())

    assert (forged.constraint, forged.trusted) == ("CONSTRAINT_CPUSET", False)


def test_what_others_print_costs_no_record(console):
    with open("/dev/kmsg", "w") as log:
        for number in range(5):
            log.write(f"oomtrace-test: line {number} of five\n")
            log.flush()
    console.read()

    assert [key for key in console.source._printing._lines if key[1] == os.getpid()] == []


def test_a_mark_says_how_its_victim_is_known(watch, memory_cgroup, hog):
    memory_cgroup.limit(32 * MIB)
    process = hog(memory_cgroup)
    process.tell("anon(64 << 20)")
    process.wait()
    mark, _ = watch.kill(process.pid)

    assert mark.tid == process.pid
    assert mark.identity_by in {IdentityBy.TASK, IdentityBy.SIGNAL}

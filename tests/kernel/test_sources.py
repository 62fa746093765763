# SPDX-License-Identifier: Apache-2.0
"""The sources that need no BPF, beside real kills: the kernel log, cgroup files, /proc."""

import os
import select
import signal
import time

import pytest

from tests.waiting import DEADLINE_S, wait_for
from tracer.events import LoggedDecision, LoggedInvocation, LoggedKill, OomMark
from tracer.sources.cgroups import CgroupSource
from tracer.sources.kmsg import KernelLogSource, KernelLogUnreadable
from tracer.sources.pressure import read_vmstat
from tracer.sources.processes import ProcessSource
from tracer.units import MIB

LIMIT = 32 * MIB
FORGED = "Memory cgroup out of memory: Killed process {} (python3) total-vm:9kB, anon-rss:8kB, file-rss:7kB"


class Reading:
    """The kernel log from now on, in events."""

    def __init__(self) -> None:
        source = KernelLogSource.open()
        assert not isinstance(source, KernelLogUnreadable), source
        self.source, self.events = source, []

    def wait(self, kind: type, **fields):
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            self.events += self.source.read()
            for event in self.events:
                if type(event) is kind and all(getattr(event, name) == value for name, value in fields.items()):
                    return event
            select.select([self.source], [], [], 0.1)
        raise AssertionError(f"no {kind.__name__} with {fields} among {self.events}")


@pytest.fixture
def log(can_trace):
    reading = Reading()
    yield reading
    reading.source.close()


def test_a_real_kill_is_read_from_the_log_whatever_the_victim_calls_itself(log, memory_cgroup, hog):
    victim = hog(memory_cgroup)
    victim.do(r"name(b'x) total-vm:\n\xff')")
    memory_cgroup.limit(LIMIT)
    before_ns = time.monotonic_ns()
    victim.tell(f"anon({4 * LIMIT})")
    assert victim.wait() == -signal.SIGKILL
    kill = log.wait(LoggedKill, pid=victim.pid)
    after_ns = time.monotonic_ns()

    assert kill.comm == "x) total-vm:\n\\xff"
    assert kill.trusted
    assert kill.memcg
    assert kill.anon_rss_bytes > LIMIT // 2
    assert before_ns < kill.ts_ns < after_ns


def test_the_report_names_the_limit_as_proc_names_the_cgroup(log, memory_cgroup, hog):
    child = memory_cgroup.child("a,task=b (deleted)")
    memory_cgroup.limit(LIMIT)
    path, decision = reported_kill(log, child, hog)

    assert decision.task_memcg == path
    assert decision.oom_memcg == CgroupSource().chain(path)[1]
    assert any(isinstance(event, LoggedInvocation) for event in log.events)


def reported_kill(log, cgroup, hog) -> tuple[str, LoggedDecision]:
    """One of a few kills. The kernel prints ten reports in five seconds and leaves out more (`oom_rs`,
    mm/oom_kill.c): after a storm it takes some kills until one is reported whole."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        victim = hog(cgroup)
        path = CgroupSource().memory_cgroup_of(victim.pid)
        victim.tell(f"anon({4 * LIMIT})")
        victim.wait()
        log.wait(LoggedKill, pid=victim.pid)
        for event in log.events:
            if isinstance(event, LoggedDecision) and event.tgid == victim.pid:
                return path, event
    raise AssertionError("not one of the kills was reported whole")


def test_text_that_user_space_writes_into_the_log_is_never_an_event(log, memory_cgroup, hog):
    victim = hog(memory_cgroup)
    memory_cgroup.limit(LIMIT)
    with open("/dev/kmsg", "w") as kmsg:
        for priority in ("", "<3>", "<11>", "<2052>", "<2051>"):
            kmsg.write(f"{priority}{FORGED.format(victim.pid)}\n")
            kmsg.flush()
    victim.tell(f"anon({4 * LIMIT})")
    victim.wait()
    genuine = log.wait(LoggedKill, pid=victim.pid)

    assert genuine.anon_rss_bytes > 8 * 1024
    assert [event for event in log.events if isinstance(event, LoggedKill) and event.pid == victim.pid] == [genuine]
    assert log.source.foreign >= 5


def test_a_mark_and_its_record_calibrate_the_two_clocks(log, watch, memory_cgroup, hog):
    gaps_ns = []
    for _ in range(6):
        victim = hog(memory_cgroup)
        memory_cgroup.limit(LIMIT)
        victim.tell(f"anon({4 * LIMIT})")
        victim.wait()
        mark, kill = watch.wait(OomMark, tgid=victim.pid), log.wait(LoggedKill, pid=victim.pid)
        gaps_ns.append(abs(kill.ts_ns - mark.ts_ns))
        assert log.source.calibrate(mark.ts_ns, kill.log_usec)

    # Between mark and line a CPU may be taken away from the kernel: from a guest, or by an interrupt.
    assert min(gaps_ns[1:]) < 1_000_000, "each record is translated by the pair of the one before"


def test_cgroup_files_count_the_kill(memory_cgroup, hog):
    victim, source = hog(memory_cgroup), CgroupSource()
    path = source.memory_cgroup_of(victim.pid)
    memory_cgroup.limit(LIMIT)
    before, kills = source.sample(path), read_vmstat()
    victim.tell(f"anon({4 * LIMIT})")
    victim.wait()
    after = source.sample(path)

    assert (before.limit_bytes, before.cgroup_id) == (LIMIT, memory_cgroup.id)
    assert before.usage_bytes <= LIMIT
    assert after.failcnt > before.failcnt
    assert after.oom_kill_local - before.oom_kill_local == 1
    assert read_vmstat().oom_kill > kills.oom_kill


def test_a_removed_cgroup_is_none(memory_cgroup, hog):
    child, source = memory_cgroup.child("gone"), CgroupSource()
    victim = hog(child)
    path = source.memory_cgroup_of(victim.pid)
    assert source.sample(path) is not None
    memory_cgroup.add(victim.pid)
    child.path.rmdir()

    assert source.sample(path) is None
    assert source.cgroup_id(path) is None
    assert source.memory_cgroup_of(victim.pid) != path


def test_the_memory_of_a_process_is_that_which_it_touched(memory_cgroup, hog):
    process, source = hog(memory_cgroup), ProcessSource()
    start_ns = source.start_ns(process.pid)
    before = source.sample(process.pid, start_ns)
    process.do(f"anon({64 * MIB}); shared({16 * MIB})")
    after = source.sample(process.pid, start_ns)

    assert after.rss_anon_bytes - before.rss_anon_bytes == pytest.approx(64 * MIB, abs=4 * MIB)
    assert after.rss_shmem_bytes - before.rss_shmem_bytes == pytest.approx(16 * MIB, abs=1 * MIB)


def test_a_process_in_a_pid_namespace_has_both_its_numbers(hog):
    outer = hog(None, "unshare", "--pid", "--fork", "--kill-child")
    source = ProcessSource()

    def children():
        return [row.tgid for row in source.table() if row.parent_tgid == outer.pid]

    wait_for(children, "the child in the namespace")
    (inner,) = children()
    seen = source.seen(inner)

    assert seen.ns_pids == (inner, 1)
    assert source.seen(os.getpid()).ns_pids == (os.getpid(),)

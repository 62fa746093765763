# SPDX-License-Identifier: Apache-2.0
"""The tree filter: forks and execs of the job alone, from the first one on."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernel.workload import Watch, start_ns, start_ticks
from tests.waiting import wait_for
from tracer.events import ProcessExeced, ProcessExited, ProcessForked, ProcessOrphaned
from tracer.kernel.handover import Limits
from tracer.units import TICK_NS

MIB = 1 << 20


def rss_anon_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))


def test_a_fork_says_whose_child_and_what_it_began_with(watch, hog):
    process = hog()
    process.do("anon(20 << 20)")
    watch.session.track(process.pid, start_ns(process.pid))
    inherited_bytes = rss_anon_bytes(process.pid)
    child = int(process.do("child('pass')"))
    forked = watch.wait(ProcessForked, tgid=child)

    assert forked.parent_tgid == process.pid
    assert forked.parent_start_ns // TICK_NS == process.start_ticks
    assert forked.start_ns // TICK_NS == start_ticks(child)
    assert forked.comm == Path(f"/proc/{child}/comm").read_text().rstrip("\n")
    assert abs(forked.anon_rss_bytes - inherited_bytes) < 2 * MIB
    assert (forked.ns_tgid, forked.ns_level) == (child, 0)
    os.kill(child, 9)


def test_grandchildren_follow_by_themselves_with_their_exits(watch, hog):
    process = hog()
    watch.session.track(process.pid, start_ns(process.pid))
    child = int(process.do("child('child(\"pass\")')"))
    grandchild = watch.wait(ProcessForked, parent_tgid=child).tgid
    tracked = watch.session.tracked()

    assert {process.pid, child, grandchild} <= set(tracked)
    assert tracked[grandchild] // TICK_NS == start_ticks(grandchild)
    os.kill(grandchild, 9)
    os.kill(child, 9)
    for pid in (child, grandchild):
        assert watch.wait(ProcessExited, tgid=pid).in_tree == 1
    assert {child, grandchild}.isdisjoint(watch.session.tracked())


def test_processes_outside_the_tree_are_not_recorded(watch, hog):
    outside, inside = hog(), hog()
    watch.session.track(inside.pid, start_ns(inside.pid))
    other = int(outside.do("child('os._exit(0)')"))
    ours = int(inside.do("child('os._exit(0)')"))
    watch.wait(ProcessExited, tgid=ours)

    assert watch.of(ProcessForked, tgid=other) == []
    assert watch.of(ProcessExited, tgid=other) == []


def test_a_process_that_was_taken_out_is_no_longer_recorded(watch, hog):
    gone, kept = hog(), hog()
    watch.session.track(gone.pid, start_ns(gone.pid))
    watch.session.track(kept.pid, start_ns(kept.pid))
    watch.session.untrack(gone.pid)
    watch.session.untrack(gone.pid)
    other = int(gone.do("child('os._exit(0)')"))
    watch.wait(ProcessForked, tgid=int(kept.do("child('os._exit(0)')")))

    assert watch.of(ProcessForked, tgid=other) == []


def test_another_process_with_the_same_pid_is_not_the_one_that_was_put_in(watch, hog):
    process = hog()
    watch.session.track(process.pid, start_ns(process.pid) + 10 * TICK_NS)
    other = hog()
    watch.session.track(other.pid, start_ns(other.pid))
    stranger = int(process.do("child('pass')"))
    child = int(other.do("child('pass')"))
    watch.wait(ProcessForked, tgid=child)

    assert watch.of(ProcessForked, tgid=stranger) == []
    for pid in (stranger, child):
        os.kill(pid, 9)


def test_threads_are_no_processes(watch, hog):
    process = hog()
    watch.session.track(process.pid, start_ns(process.pid))
    process.do("[thread(int) for _ in range(5)]")
    watch.wait(ProcessForked, tgid=int(process.do("child('os._exit(0)')")))

    assert len(watch.of(ProcessForked, parent_tgid=process.pid)) == 1
    assert watch.of(ProcessExited, tgid=process.pid) == []


def test_an_exec_has_the_new_name_and_the_same_identity(watch, hog):
    process = hog()
    ticks = process.start_ticks
    watch.session.track(process.pid, start_ns(process.pid))
    process.tell("os.execv('/bin/true', ['true'])")
    process.wait()
    execed = watch.wait(ProcessExeced, tgid=process.pid)

    assert (execed.comm, execed.old_tid) == ("true", process.pid)
    assert execed.start_ns // TICK_NS == ticks
    assert watch.wait(ProcessExited, tgid=process.pid).start_ns == execed.start_ns


def test_an_exec_by_a_thread_takes_over_the_process(watch, hog):
    process = hog()
    ticks = process.start_ticks
    watch.session.track(process.pid, start_ns(process.pid))
    process.tell("thread(lambda: os.execv('/bin/true', ['true']))")
    assert process.wait() == 0
    execed = watch.wait(ProcessExeced, tgid=process.pid)

    assert execed.old_tid != process.pid
    assert execed.start_ns // TICK_NS == ticks
    assert watch.wait(ProcessExited, tgid=process.pid).status == 0
    assert len(watch.of(ProcessExited, tgid=process.pid)) == 1


@pytest.mark.parametrize("children", [23], ids=["prime"])
def test_no_fork_is_missed_when_the_first_process_waits_until_it_is_tracked(watch, children):
    program = f"import os, sys; sys.stdin.read(1)\nfor _ in range({children}): os.fork() or os._exit(4)"
    job = subprocess.Popen([sys.executable, "-I", "-S", "-c", program], stdin=subprocess.PIPE)
    watch.session.track(job.pid, start_ns(job.pid))
    job.communicate(b"x")
    watch.wait(ProcessExited, tgid=job.pid)
    forked = watch.of(ProcessForked, parent_tgid=job.pid)

    assert len(forked) == children
    for child in forked:
        assert watch.wait(ProcessExited, tgid=child.tgid).status == 4 << 8


def test_processes_that_do_not_fit_are_counted(open_traced, hog):
    with open_traced(limits=Limits(tree_entries=2)) as session:
        watch = Watch(session)
        process = hog()
        session.track(process.pid, start_ns(process.pid))
        children = [int(process.do("child('pass')")) for _ in range(5)]
        for child in children:
            watch.wait(ProcessForked, tgid=child)

        assert session.untracked() == watch.source.losses(0).untracked == 4
        with pytest.raises(OSError, match=r"Argument list too long"):
            session.track(os.getpid(), start_ns(os.getpid()))
        for child in children:
            os.kill(child, 9)


def test_the_tracer_itself_is_never_in_the_tree(open_traced, hog):
    with open_traced() as session:
        process = hog()
        session.track(process.pid, start_ns(process.pid))

        assert set(session.tracked()) == {process.pid}


def test_while_all_is_followed_forks_and_ends_of_others_come_too_and_they_stay_others(watch, hog):
    outside = hog()
    watch.session.follow_all(on=True)
    other = int(outside.do("child('os._exit(0)')"))
    forked, exited = watch.wait(ProcessForked, tgid=other), watch.wait(ProcessExited, tgid=other)
    watch.session.follow_all(on=False)
    inside = hog()
    watch.session.track(inside.pid, start_ns(inside.pid))
    later = int(outside.do("child('os._exit(0)')"))
    watch.wait(ProcessExited, tgid=int(inside.do("child('os._exit(0)')")))

    assert (forked.in_tree, exited.in_tree) == (0, 0)
    assert forked.parent_tgid == outside.pid
    assert other not in watch.session.tracked()
    assert watch.of(ProcessForked, tgid=later) == []


def test_outside_of_a_pid_namespace_pids_are_those_of_the_kernel(watch, hog):
    process = hog()
    watch.session.track(process.pid, start_ns(process.pid))
    forked = watch.wait(ProcessForked, tgid=int(process.do("child('pass')")))

    assert (forked.own_tgid, forked.own_parent_tgid) == (forked.tgid, forked.parent_tgid)
    os.kill(forked.tgid, 9)


IN_A_NAMESPACE = """
import json, os, select, sys
from tracer.events import ProcessForked
from tracer.kernel.session import open_session
from tracer.sources.live import LiveSource

with open_session() as session:
    session.follow_all(on=True)
    source = LiveSource(session)
    child = os.fork()
    if child == 0:
        os._exit(0)
    found = []
    while not found:
        select.select([source], [], [], 20)
        found = [e for e in source.read() if isinstance(e, ProcessForked) and e.own_tgid == child]
    print(json.dumps([os.getpid(), child, found[0].own_parent_tgid, found[0].tgid, found[0].ns_level]))
"""


@pytest.mark.timeout(180)
def test_in_a_pid_namespace_each_fork_says_the_pid_that_proc_shows_there(can_trace):
    command = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", IN_A_NAMESPACE]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path.cwd())
    assert done.returncode == 0, done.stderr
    own, child, own_parent, kernel_pid, level = json.loads(done.stdout)

    assert own_parent == own
    assert level == 1
    assert kernel_pid > child


def test_while_all_is_followed_each_that_ends_tells_whom_it_leaves_behind(watch, hog):
    outside = hog()
    watch.session.follow_all(on=True)
    middle = int(outside.do("child('[child(\"pass\") for _ in range(3)]; thread(lambda: time.sleep(60))')"))
    wait_for(lambda: len(watch.of(ProcessForked, parent_tgid=middle)) == 3, "three children")
    children = {event.tgid: event for event in watch.of(ProcessForked, parent_tgid=middle)}
    zombie = next(iter(children))
    os.kill(zombie, 9)
    watch.wait(ProcessExited, tgid=zombie)
    os.kill(middle, 9)
    watch.wait(ProcessExited, tgid=middle)
    watch.session.follow_all(on=False)
    orphans = watch.of(ProcessOrphaned, parent_tgid=middle)

    assert {event.tgid for event in orphans} == children.keys() - {zombie}
    assert {(event.start_ns, event.parent_start_ns) for event in orphans} == {
        (children[event.tgid].start_ns, children[event.tgid].parent_start_ns) for event in orphans
    }
    for event in orphans:
        assert (event.own_tgid, event.own_parent_tgid, event.comm) == (event.tgid, middle, children[event.tgid].comm)
        os.kill(event.tgid, 9)


def test_one_that_runs_already_replaces_nobody_in_the_filter_and_is_taken_out_under_its_own_start_alone(watch, hog):
    process = hog()
    began_ns = start_ns(process.pid)
    watch.session.track(process.pid, began_ns)
    watch.session.track_running(process.pid, began_ns - 10 * TICK_NS)
    assert watch.session.tracked()[process.pid] == began_ns
    watch.session.untrack(process.pid, began_ns - 10 * TICK_NS)
    assert process.pid in watch.session.tracked()
    watch.session.untrack(process.pid, began_ns + 5)
    assert process.pid not in watch.session.tracked()
    watch.session.track_running(process.pid, began_ns)
    assert watch.session.tracked()[process.pid] == began_ns

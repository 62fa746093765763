# SPDX-License-Identifier: Apache-2.0
"""Fatal signals that no OOM killer sent: who sent them, and how the process ended."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernel.workload import start_ns, start_ticks
from tracer.events import OomMark, ProcessExited, SignalInfo, SignalSent
from tracer.units import TICK_NS

CORE = 0x80


def test_kill_9_names_its_sender_and_its_senders_parent(watch, hog):
    process = hog()
    watch.session.track(process.pid, start_ns(process.pid))
    process.process.kill()
    process.wait()
    sent = watch.wait(SignalSent, tgid=process.pid)

    assert (sent.signal, sent.info, sent.code, sent.errno) == (signal.SIGKILL, SignalInfo.POINTER, 0, 0)
    assert (sent.sender_tgid, sent.sender_tid, sent.sender_uid) == (os.getpid(), os.getpid(), os.geteuid())
    assert sent.sender_comm == Path("/proc/self/comm").read_text().rstrip("\n")
    assert sent.sender_parent_tgid == os.getppid()
    assert sent.sender_parent_comm == Path(f"/proc/{os.getppid()}/comm").read_text().rstrip("\n")
    assert sent.sender_start_ns // TICK_NS == start_ticks(os.getpid())
    assert sent.sender_parent_start_ns // TICK_NS == start_ticks(os.getppid())
    assert (sent.group, sent.result, sent.in_tree) == (1, 0, 1)


def test_a_kill_without_the_oom_killer_leaves_no_mark(watch, hog):
    process = hog()
    watch.session.track(process.pid, start_ns(process.pid))
    process.process.kill()
    ended = watch.wait(ProcessExited, tgid=process.pid)

    assert (ended.status, ended.oom_marked, ended.in_tree) == (9, 0, 1)
    assert watch.of(OomMark, tgid=process.pid) == []


def test_a_fatal_signal_outside_the_tree_is_recorded_and_its_exit_is_not(watch, hog):
    outside, inside = hog(), hog()
    watch.session.track(inside.pid, start_ns(inside.pid))
    outside.process.terminate()
    outside.wait()
    inside.process.terminate()
    watch.wait(ProcessExited, tgid=inside.pid)

    assert watch.wait(SignalSent, tgid=outside.pid).in_tree == 0
    assert watch.wait(SignalSent, tgid=outside.pid).signal == signal.SIGTERM
    assert watch.of(ProcessExited, tgid=outside.pid) == []


FATAL = (signal.SIGTERM, signal.SIGBUS, signal.SIGSEGV, signal.SIGABRT)


@pytest.mark.parametrize("number", FATAL, ids=lambda number: number.name)
def test_each_fatal_signal_is_seen_with_its_exit(watch, hog, number):
    process = hog()
    process.do("import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))")
    watch.session.track(process.pid, start_ns(process.pid))
    os.kill(process.pid, number)
    process.wait()

    assert watch.wait(SignalSent, tgid=process.pid).signal == number
    assert watch.wait(ProcessExited, tgid=process.pid).status & ~CORE == number


def test_signals_that_end_nobody_are_not_recorded(watch, hog):
    process = hog()
    process.do("signal.signal(signal.SIGUSR1, signal.SIG_IGN)")
    os.kill(process.pid, signal.SIGUSR1)
    os.kill(process.pid, signal.SIGTERM)
    process.wait()
    watch.wait(SignalSent, tgid=process.pid, signal=signal.SIGTERM)

    assert watch.of(SignalSent, tgid=process.pid, signal=signal.SIGUSR1) == []


def test_a_fault_is_the_kernels_and_says_which(watch, hog):
    process = hog()
    process.do("import ctypes, resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))")
    process.tell("ctypes.string_at(8)")
    process.wait()
    sent = watch.wait(SignalSent, tgid=process.pid, signal=signal.SIGSEGV)

    # SEGV_MAPERR: nothing is mapped there.
    assert (sent.info, sent.code) == (SignalInfo.POINTER, 1)
    assert sent.sender_tgid == process.pid


def test_a_full_tmpfs_ends_a_process_by_sigbus(watch, hog, tmp_path):
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)], check=False)
    assert mounted.returncode == 0
    process = hog()
    try:
        process.do("import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))")
        process.do(f"file = open({str(tmp_path / 'file')!r}, 'w+b'); file.truncate(1 << 20)")
        process.tell("touch(mmap.mmap(file.fileno(), 1 << 20))")
        process.wait()
    finally:
        process.close()
        subprocess.run(["umount", str(tmp_path)], check=True)
    sent = watch.wait(SignalSent, tgid=process.pid, signal=signal.SIGBUS)

    # BUS_ADRERR: there is no such memory.
    assert (sent.info, sent.code, sent.sender_tgid) == (SignalInfo.POINTER, 2, process.pid)


def test_a_signal_to_one_thread_says_so(watch, hog):
    process = hog()
    program = f"import ctypes; ctypes.CDLL(None).tgkill({process.pid}, {process.pid}, {signal.SIGKILL:d})"
    subprocess.run([sys.executable, "-c", program], check=True)
    process.wait()
    sent = watch.wait(SignalSent, tgid=process.pid)

    assert (sent.code, sent.group) == (-6, 0)


def test_a_limit_on_cpu_time_kills_as_the_kernel_but_marks_nobody(watch, hog):
    process = hog()
    endless = "all(True for _ in iter(int, 1))"
    process.tell(f"import resource; resource.setrlimit(resource.RLIMIT_CPU, (1, 1)); {endless}")
    process.wait()
    sent = watch.wait(SignalSent, tgid=process.pid, signal=signal.SIGKILL)

    assert (sent.info, sent.code) == (SignalInfo.PRIV, 128)
    assert watch.of(OomMark, tgid=process.pid) == []


@pytest.mark.parametrize(
    "line, status",
    [
        ("os._exit(0)", 0),
        ("os._exit(3)", 3 << 8),
        ("thread(lambda: os._exit(7))", 7 << 8),
        ("thread(lambda: alone(lambda: os._exit(5))); leave_alone()", 5 << 8),
        ("os.abort()", 6),
    ],
    ids=["zero", "three", "from_a_thread", "after_the_leader", "abort"],
)
def test_the_status_is_what_the_parent_waits_for(watch, hog, line, status):
    process = hog()
    process.do("import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))")
    watch.session.track(process.pid, start_ns(process.pid))
    process.tell(line)
    _, waited = os.waitpid(process.pid, 0)
    process.process.returncode = waited
    ended = watch.wait(ProcessExited, tgid=process.pid)

    assert ended.status == waited
    assert ended.status & ~CORE == status
    assert len(watch.of(ProcessExited, tgid=process.pid)) == 1


def test_a_leader_that_left_first_gives_the_status_when_all_threads_just_ended(watch, hog):
    process = hog()
    watch.session.track(process.pid, start_ns(process.pid))
    process.do("thread(lambda: alone(int))")
    process.tell("leave_alone()")
    _, waited = os.waitpid(process.pid, 0)
    process.process.returncode = waited

    assert watch.wait(ProcessExited, tgid=process.pid).status == waited == 0

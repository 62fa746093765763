# SPDX-License-Identifier: Apache-2.0
import os
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest

from tracer.events import process_id
from tracer.sources import processes as module
from tracer.sources.environ_names import ALLOWED_NAMES, ERROR_FILE, VALUE_CHARS, allowed
from tracer.sources.processes import ProcessSource
from tracer.sources.procfs import Stat
from tracer.units import TICK_NS

WAITS = "import sys; print('ready', flush=True); sys.stdin.read()"


@pytest.fixture
def start():
    """Starts Python programs that say when they are ready, and ends them."""
    started = []

    def run(program=WAITS, *arguments, **kwargs) -> subprocess.Popen:
        child = subprocess.Popen(
            [sys.executable, "-c", program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, **kwargs
        )
        started.append(child)
        assert child.stdout.readline() == b"ready\n"
        return child

    yield run
    for child in started:
        child.kill()
        child.communicate()


@pytest.fixture
def source():
    return ProcessSource()


def test_a_process_at_first_sight(start, source):
    child = start(
        WAITS, "--token", "s3cr3t", env={"RANK": "3", "LOCAL_RANK": "1", "HF_TOKEN": "s3cr3t", "PATH": "/bin"}
    )
    seen = source.seen(child.pid)

    assert seen is not None
    assert seen.source == "proc"
    assert (seen.tgid, seen.parent_tgid, seen.session_id) == (child.pid, os.getpid(), os.getsid(0))
    assert seen.comm.startswith("python")
    assert seen.cmdline == (sys.executable, "-c", WAITS, "--token", "***")
    assert seen.environ == {"LOCAL_RANK": "1", "RANK": "3"}
    assert seen.exe == os.path.realpath(sys.executable)
    assert seen.uid == os.geteuid()
    assert seen.foreign_user_ns is False
    assert seen.ns_pids is not None
    assert seen.ns_pids[0] == child.pid
    assert seen.start_ns == source.start_ns(child.pid)
    assert seen.start_ns % TICK_NS == 0
    boottime_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    assert 0 <= boottime_ns - seen.start_ns < 60e9


def test_a_secret_in_the_environment_never_leaves_the_process(start, source):
    child = start(env={"WANDB_API_KEY": "s3cr3t", "AWS_SECRET_ACCESS_KEY": "s3cr3t", "RANK": "0"})

    assert "s3cr3t" not in repr(source.seen(child.pid))


def test_the_limits_of_a_process_and_the_most_that_it_had_mapped(start, source):
    limit = "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))"
    child = start(f"{limit}; bytes(300 << 20); {WAITS}")
    sample = source.sample(child.pid, source.start_ns(child.pid))

    assert source.seen(child.pid).limits.address_bytes == 1 << 30
    assert source.looked(child.pid).limits.address_bytes == 1 << 30
    assert 300 << 20 < sample.peak_mapped_bytes <= 1 << 30
    assert source.seen(os.getpid()).limits.data_bytes > 0


def test_memory_of_a_process(start, source):
    child = start("x = bytearray(50 << 20)\n" + WAITS)
    start_ns = source.start_ns(child.pid)
    sample = source.sample(child.pid, start_ns)

    assert sample is not None
    assert (sample.tgid, sample.start_ns, sample.source) == (child.pid, start_ns, "proc")
    assert sample.comm is not None
    assert sample.rss_anon_bytes is not None
    assert sample.rss_anon_bytes > 50 << 20
    assert sample.rss_shmem_bytes == 0
    assert sample.state in ("S", "R")
    assert source.sample(child.pid, start_ns + TICK_NS - 1) is not None, (
        "the kernel's exact start time is the same process"
    )


def test_another_process_with_the_same_pid_is_not_sampled(start, source):
    child = start()

    assert source.sample(child.pid, source.start_ns(child.pid) + TICK_NS) is None


def test_a_zombie_has_a_state_and_no_memory(start, source):
    child = start()
    start_ns = source.start_ns(child.pid)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    sample, seen = source.sample(child.pid, start_ns), source.seen(child.pid)

    assert sample is not None
    assert (sample.state, sample.rss_anon_bytes) == ("Z", None)
    assert seen is not None
    assert (seen.cmdline, seen.exe) == (None, None)


def test_a_process_that_is_gone(start, source):
    child = start()
    start_ns = source.start_ns(child.pid)
    child.kill()
    child.wait()

    assert source.start_ns(child.pid) is None
    assert source.seen(child.pid) is None
    assert source.sample(child.pid, start_ns) is None
    assert child.pid not in {row.tgid for row in source.table()}


@pytest.mark.parametrize("pid", [-1, 0, 1 << 40])
def test_a_pid_that_cannot_be_is_gone(source, pid):
    assert source.start_ns(pid) is None
    assert source.seen(pid) is None


def test_a_thread_is_no_process(source):
    done, tids = threading.Event(), []
    thread = threading.Thread(target=lambda: (tids.append(threading.get_native_id()), done.wait()))
    thread.start()
    try:
        while not tids:
            pass
        assert tids[0] != os.getpid()
        assert source.seen(tids[0]) is None
    finally:
        done.set()
        thread.join()


def test_the_table_says_who_is_below_whom_since_when(start, source):
    spawns = f"import subprocess, sys; c = subprocess.Popen([sys.executable, '-c', {WAITS!r}], stdin=subprocess.PIPE)\n"
    child = start(spawns + "sys.stdin.read()")
    table = {row.tgid: row for row in source.table()}
    [grandchild] = [row for row in table.values() if row.parent_tgid == child.pid]

    assert table[child.pid][:3] == (child.pid, os.getpid(), source.start_ns(child.pid))
    assert grandchild.start_ns == source.start_ns(grandchild.tgid)
    assert set(table) >= {1, os.getpid()}
    os.kill(grandchild.tgid, signal.SIGKILL)


def test_the_table_leaves_out_what_is_no_process_or_cannot_be_read(tmp_path):
    rest = " 3 7 5 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0 55 " + "0 " * 30 + "\n"
    for name, text in (("7", f"7 (a) b (S) S{rest}"), ("8", "8 (torn) S 3"), ("9", ""), ("x", f"1 (x) S{rest}")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "stat").write_text(text)
    (tmp_path / "10").mkdir()
    (tmp_path / "11" / "stat").mkdir(parents=True)

    assert ProcessSource(str(tmp_path)).table() == [(7, 3, 55 * TICK_NS, "a) b (S", False)]


@pytest.mark.parametrize(
    "state, threads, ended", [("S", 1, False), ("Z", 1, True), ("X", 0, True), ("Z", 2, False), ("D", 1, False)]
)
def test_a_zombie_has_ended_unless_a_thread_of_it_lives(tmp_path, state, threads, ended):
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text(f"7 (a) {state} 3 7 5 0 -1 0 1 2 3 4 5 6 7 8 20 0 {threads} 0 55 0\n")

    [row] = ProcessSource(str(tmp_path)).table()
    assert row.ended == ended


def test_a_pid_that_is_taken_by_another_process_while_it_is_read_is_refused(start, source, monkeypatch):
    child = start()
    truth, answers = module.read_stat, iter([0, 1])

    def reused(root, pid):
        stat = truth(root, pid)
        later = next(answers) if pid == child.pid else 0
        return Stat(stat.comm, stat.state, stat.parent_tgid, stat.session_id, stat.start_tick + later)

    monkeypatch.setattr(module, "read_stat", reused)

    assert source.seen(child.pid) is None


def test_a_process_that_vanishes_while_it_is_read_is_refused(start, source, monkeypatch):
    child = start()
    truth = source._command

    def vanish(tgid):
        found = truth(tgid)
        child.kill()
        child.wait()
        return found

    monkeypatch.setattr(source, "_command", vanish)

    assert source.seen(child.pid) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_what_may_not_be_read_is_none_and_not_empty(start, source):
    child = start()
    os.seteuid(65534)
    try:
        seen = source.seen(child.pid)
    finally:
        os.seteuid(0)

    assert seen is not None
    assert (seen.environ, seen.exe) == (None, None)
    assert seen.tgid == child.pid


def test_a_name_that_is_no_text_is_shown(start, source):
    program = "import ctypes; ctypes.CDLL(None).prctl(15, b'\\xff(x)\\n y', 0, 0, 0)\n" + WAITS
    seen = source.seen(start(program).pid)

    assert seen.comm == "\\xff(x)\n y"


def test_arguments_that_are_no_text_are_shown(start, source):
    seen = source.seen(start(WAITS, os.fsdecode(b"caf\xe9")).pid)

    assert seen.cmdline[-1] == "caf\\xe9"


def test_the_root_is_an_argument(tmp_path):
    process = tmp_path / "7"
    process.mkdir()
    (process / "stat").write_text("7 (py) S 3 7 5 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0 55 " + "0 " * 30 + "\n")
    (process / "status").write_text("Name:\tpy\nTgid:\t7\nUid:\t1\t2\t3\t4\nNSpid:\t7\t2\n")
    (process / "cmdline").write_bytes(b"python\0train.py\0")
    (process / "environ").write_bytes(b"RANK=5\0SECRET=x\0")
    (process / "cgroup").write_text("0::/a\n")
    source = ProcessSource(str(tmp_path), clock=lambda: 42)
    seen = source.seen(7)
    ProcessSource()  # another root at the same time

    assert source.seen(7) == seen
    assert (seen.ts_ns, seen.start_ns, seen.cmdline, seen.environ) == (
        42, 55 * TICK_NS, ("python", "train.py"), {"RANK": "5"},
    )  # fmt: skip
    assert seen.ns_pids == (7, 2)


def test_of_an_environment_only_allowed_names_are_kept():
    environ = dict.fromkeys(["RANK", "HF_TOKEN", "rank", "RANK2", "MASTER_ADDR", "SLURM_PROCID"], "1")

    assert allowed(environ) == {"RANK": "1", "SLURM_PROCID": "1"}
    assert allowed({"RANK": "9" * 1000})["RANK"] == "9" * VALUE_CHARS


def test_no_allowed_name_looks_like_a_secret():
    words = ("TOKEN", "KEY", "SECRET", "PASS", "AUTH", "CRED", "URL", "ADDR", "PATH", "FILE")

    # One names a file that is read; its path is no more than the command lines hold.
    assert [name for name in ALLOWED_NAMES if any(word in name for word in words)] == [ERROR_FILE]


def test_identities_from_both_sides_are_equal(start, source):
    start_ns = source.start_ns(start().pid)

    assert process_id(1, start_ns) == process_id(1, start_ns + TICK_NS - 1)


def test_whoever_else_uses_psutil_still_finds_the_real_processes(tmp_path):
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text("7 (x) S 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0")
    (tmp_path / "7" / "status").write_text("Tgid:\t7\n")
    ProcessSource(str(tmp_path)).seen(7)

    assert psutil.Process().pid == os.getpid()


def test_what_a_process_set_up_for_itself(start, source):
    program = (
        "import os, signal, sys\n"
        "os.environ['RANK'] = '3'; os.environ['HF_TOKEN'] = 's3cr3t'\n"
        "signal.signal(signal.SIGTERM, print); signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
    )
    child = start(program + WAITS, env={"WORLD_SIZE": "4"})
    looked = source.looked(child.pid)

    assert looked is not None
    assert (looked.tgid, looked.start_ns) == (child.pid, source.start_ns(child.pid))
    assert looked.environ == {"RANK": "3", "WORLD_SIZE": "4"}
    assert looked.caught is not None
    assert looked.caught & 0xFFFF_FFFF == 1 << signal.SIGTERM - 1
    assert (looked.devices, looked.threads) == ((), ())
    assert "s3cr3t" not in repr(looked)


def test_a_closer_look_at_what_is_gone_or_a_thread_is_none(start, source):
    child = start("import sys, threading; threading.Thread(target=sys.stdin.read, daemon=True).start()\n" + WAITS)
    thread = next(int(name) for name in os.listdir(f"/proc/{child.pid}/task") if int(name) != child.pid)

    assert source.looked(thread) is None
    child.kill()
    child.wait()
    assert source.looked(child.pid) is None


def test_an_environment_that_was_wiped_is_not_an_empty_one(tmp_path):
    process = tmp_path / "7"
    process.mkdir()
    (process / "stat").write_text("7 (ray::IDLE) S 3 7 5 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0 55 " + "0 " * 30 + "\n")
    (process / "status").write_text("Name:\tpy\nTgid:\t7\n")
    (process / "cmdline").write_bytes(b"ray::IDLE" + bytes(60))
    (process / "environ").write_bytes(bytes(400))

    assert ProcessSource(str(tmp_path)).seen(7).environ is None


def test_gpus_handlers_and_threads_of_pytorch_are_read(tmp_path):
    process = tmp_path / "7"
    (process / "fd").mkdir(parents=True)
    for fd, target in enumerate(("/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidia0")):
        os.symlink(target, process / "fd" / str(fd))
    os.symlink("/tmp/dev/nvidia3", process / "fd" / "9")
    for tid, name in ((7, "pt_main_thread"), (8, "pt_data_pin"), (9, "cuda-EvtHandlr"), (10, "pt_data_pin")):
        (process / "task" / str(tid)).mkdir(parents=True)
        (process / "task" / str(tid) / "comm").write_text(name + "\n")
    (process / "stat").write_text("7 (py) S 3 7 5 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0 55 " + "0 " * 30 + "\n")
    (process / "status").write_text("Name:\tpy\nTgid:\t7\nSigCgt:\t00000001000044c2\n")
    looked = ProcessSource(str(tmp_path)).looked(7)

    assert looked is not None
    assert (looked.devices, looked.threads) == (("nvidia0", "nvidia1"), ("pt_data_pin",))
    assert (looked.caught, looked.environ) == (0x1_0000_44C2, None)


@pytest.mark.parametrize("mask", ["", "xyz", "-1", "0x12", "1" * 17])
def test_a_mask_that_is_none_is_unknown(tmp_path, mask):
    process = tmp_path / "7"
    process.mkdir()
    (process / "stat").write_text("7 (py) S 3 7 5 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0 55 " + "0 " * 30 + "\n")
    (process / "status").write_text(f"Name:\tpy\nTgid:\t7\nSigCgt:\t{mask}\n")
    looked = ProcessSource(str(tmp_path)).looked(7)

    assert looked is not None
    assert (looked.caught, looked.devices, looked.threads) == (None, None, None)

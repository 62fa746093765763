# SPDX-License-Identifier: Apache-2.0
"""The session's life: a light parent, a loader that is gone, losses that are counted, hooks that end with it."""

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.kernel.workload import Watch, filesystem_of
from tests.waiting import wait_for
from tracer.errors import LoaderFailed, PermissionDenied
from tracer.events import Kind, OomMark, SignalSent
from tracer.kernel import session as module
from tracer.kernel.bpfcalls import BPF_SYSCALL
from tracer.kernel.handover import PERF_BUFFER, RING_BUFFER, Limits
from tracer.kernel.session import open_session
from tracer.wire import HEAD

ROOT = Path(__file__).parents[2]
BPF_PROG_GET_FD_BY_ID = 13

by_each_way = pytest.mark.parametrize("transport", [RING_BUFFER, PERF_BUFFER])


def program_ids() -> set[int]:
    """Of all BPF links that this process holds."""
    found = set()
    for path in Path("/proc/self/fdinfo").iterdir():
        try:
            text = path.read_text()
        except FileNotFoundError:
            continue
        found |= {int(line.split()[1]) for line in text.splitlines() if line.startswith("prog_id:")}
    return found


def program_exists(program_id: int) -> bool:
    attribute = (ctypes.c_uint32 * 4)(program_id)
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.syscall(BPF_SYSCALL[os.uname().machine], BPF_PROG_GET_FD_BY_ID, attribute, 16)
    if fd >= 0:
        os.close(fd)
    return fd >= 0


def descriptors() -> set[tuple[str, str]]:
    """What is open of the kinds that a session has."""
    found = set()
    for path in Path("/proc/self/fd").iterdir():
        try:
            target = str(path.readlink())
        except FileNotFoundError:
            continue
        if any(kind in target for kind in ("bpf", "socket", "memfd")):
            found.add((path.name, target))
    return found


def test_every_required_hook_is_attached_and_an_optional_one_says_why_not(shared_session):
    hooks = {hook.name: hook for hook in shared_session.hooks}
    optional = [hook for hook in hooks.values() if not hook.required]

    assert {name for name, hook in hooks.items() if hook.required} == {
        "raw_tracepoint:mark_victim",
        "raw_tracepoint:signal_generate",
        "raw_tracepoint:sched_process_fork",
        "raw_tracepoint:sched_process_exec",
        "raw_tracepoint:sched_process_exit",
        "raw_tracepoint:mm_vmscan_memcg_reclaim_begin",
        "raw_tracepoint:mm_vmscan_memcg_reclaim_end",
        "raw_tracepoint:mm_vmscan_direct_reclaim_begin",
        "raw_tracepoint:mm_vmscan_direct_reclaim_end",
    }
    assert all(hook.attached and hook.why_not is None for hook in hooks.values() if hook.required)
    assert [hook.attached or bool(hook.why_not) for hook in optional] == [True]


def test_the_loader_is_gone_and_left_nothing(open_traced, monkeypatch):
    loaders = []

    class Recorded(subprocess.Popen):
        def __init__(self, *arguments, **keywords) -> None:
            super().__init__(*arguments, **keywords)
            loaders.append(self.pid)

    monkeypatch.setattr(module.subprocess, "Popen", Recorded)
    open_traced()
    mapped = Path("/proc/self/maps").read_text()

    assert len(loaders) == 1
    assert not Path(f"/proc/{loaders[0]}").exists()
    assert not list(Path("/tmp").glob(f"oomtrace-{loaders[0]}-*"))
    assert "bcc" not in sys.modules
    assert "libbcc" not in mapped
    assert "LLVM" not in mapped


def test_the_parent_stays_small(can_trace):
    program = (
        "from tracer.kernel.session import open_session\n"
        "from tracer.sources.live import LiveSource\n"
        "source = LiveSource(open_session())\nsource.read()\n"
        "print(sum(int(l.split()[1]) for l in open('/proc/self/smaps_rollup') if l.startswith('Private_')))\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)

    assert int(ran.stdout) < 24 * 1024


def test_another_header_is_refused_with_a_sentence(can_trace):
    before = descriptors()
    with pytest.raises(LoaderFailed, match="installation is mixed"):
        open_session(events_h_digest="another")

    assert descriptors() == before


def test_programs_that_do_not_compile_are_told_by_file_and_line(can_trace, tmp_path, monkeypatch):
    package = tmp_path / "tracer"
    (package / "kernel").mkdir(parents=True)
    (package / "bpf").mkdir()
    for path in (ROOT / "tracer" / "kernel").glob("*.py"):
        (package / "kernel" / path.name).write_bytes(path.read_bytes())
    for path in (ROOT / "bpf").iterdir():
        (package / "bpf" / path.name).write_bytes(path.read_bytes())
    broken = package / "bpf" / "process.c"
    broken.write_text("int on_no_such_thing(void *ctx) { return nothing; }\n" + broken.read_text())
    monkeypatch.setattr(module, "_PACKAGE", str(package))

    with pytest.raises(LoaderFailed, match=r"bpf/process\.c:1:\d+: error") as failed:
        open_session()
    assert failed.value.stage == "compile"
    assert "\n" not in str(failed.value)
    assert not list(package.rglob("__pycache__"))


def test_without_capabilities_it_is_refused_before_anything_starts(can_trace):
    program = (
        "import os; os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "from tracer.errors import PermissionDenied\nfrom tracer.kernel.session import open_session\n"
        "try: open_session()\nexcept PermissionDenied as error: print(error)\n"
    )
    program = "import tracer.kernel.session, tracer.errors\n" + program
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)

    assert ran.stdout == "cannot load BPF programs; needs root, or CAP_BPF and CAP_PERFMON\n", ran.stderr
    assert issubclass(PermissionDenied, Exception)


@by_each_way
def test_everything_is_detached_after_close(open_traced, transport):
    before, others = descriptors(), program_ids()
    with open_traced(transport=transport) as session:
        programs = program_ids() - others
        assert len(programs) >= 9
        assert all(map(program_exists, programs))
        fd = session.fileno()
    session.close()

    assert descriptors() == before
    assert not Path(f"/proc/self/fd/{fd}").exists()
    wait_for(lambda: not any(map(program_exists, programs)), "the programs to go")


def test_everything_is_detached_when_the_tracer_is_killed(can_trace):
    program = (
        "import sys; sys.path.insert(0, '')\n"
        "from tests.kernel.test_session import program_ids\n"
        "from tracer.kernel.session import open_session\n"
        "session = open_session()\nprint(*program_ids(), flush=True)\nsys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as tracer:
        programs = [int(number) for number in tracer.stdout.readline().split()]
        assert len(programs) >= 9
        assert all(map(program_exists, programs))
        tracer.kill()
    wait_for(lambda: not any(map(program_exists, programs)), "the programs to go")


def test_sessions_can_follow_each_other(open_traced, hog):
    for _ in range(3):
        with open_traced() as session:
            process = hog()
            process.process.kill()
            assert Watch(session).wait(SignalSent, tgid=process.pid).signal == signal.SIGKILL
            process.wait()


def test_two_sessions_see_the_same_kill(open_traced, memory_cgroup, hog):
    one, other = Watch(open_traced()), Watch(open_traced())
    memory_cgroup.limit(24 << 20)
    process = hog(memory_cgroup)
    process.tell("anon(64 << 20)")
    process.wait()
    first, second = one.wait(OomMark, tgid=process.pid), other.wait(OomMark, tgid=process.pid)

    # Each program reads the clock for itself.
    assert (first.start_ns, first.anon_rss_bytes) == (second.start_ns, second.anon_rss_bytes)


@by_each_way
def test_it_becomes_readable_when_a_record_comes(open_traced, hog, transport):
    with open_traced(transport=transport) as session:
        process = hog()
        list(session.records())
        process.process.kill()

        assert select.select([session], [], [], 10)[0] == [session]
        assert Watch(session).wait(SignalSent, tgid=process.pid)


@by_each_way
def test_a_stalled_reader_loses_records_and_every_one_is_counted(open_traced, hog, transport):
    with open_traced(transport=transport, limits=Limits(ring_bytes=4096)) as session:
        process = hog()
        process.do("signal.signal(signal.SIGTERM, signal.SIG_IGN)")
        for _ in range(101):
            os.kill(process.pid, signal.SIGTERM)
        lost, sent = session.drops(), session.sent()
        kinds = [HEAD.unpack_from(record)[1] for record in session.records()]
        told = Watch(session).source.losses(0).dropped["signal_sent"]
        lost_by_now, sent_by_now = session.drops(), session.sent()

        # Every process on the machine may add to it, none may take away.
        assert lost[Kind.SIGNAL_SENT] + sent[Kind.SIGNAL_SENT] >= 101
        assert lost[Kind.SIGNAL_SENT] > 0
        assert sent[Kind.SIGNAL_SENT] <= kinds.count(Kind.SIGNAL_SENT) <= sent_by_now[Kind.SIGNAL_SENT]
        assert lost[Kind.SIGNAL_SENT] <= told <= lost_by_now[Kind.SIGNAL_SENT]


@by_each_way
def test_after_a_loss_the_next_records_come_again(open_traced, hog, transport):
    with open_traced(transport=transport, limits=Limits(ring_bytes=4096)) as session:
        process = hog()
        process.do("signal.signal(signal.SIGTERM, signal.SIG_IGN)")
        for _ in range(101):
            os.kill(process.pid, signal.SIGTERM)
        watch = Watch(session)
        watch.read()
        process.process.kill()

        assert watch.wait(SignalSent, tgid=process.pid, signal=signal.SIGKILL)


def test_reclaim_is_counted_for_the_cgroup_of_the_task_that_waits(watch, memory_cgroup, hog):
    memory_cgroup.limit(24 << 20)
    process = hog(memory_cgroup)
    began_ns = time.monotonic_ns()
    process.tell("anon(64 << 20)")
    process.wait()
    elapsed_ns = time.monotonic_ns() - began_ns
    samples = {sample.cgroup_id: sample for sample in watch.source.reclaim(time.monotonic_ns())}
    sample = samples[memory_cgroup.id]

    assert sample.memcg_runs >= 1
    assert 0 < sample.memcg_stall_ns < elapsed_ns
    assert (sample.direct_runs, sample.direct_stall_ns) == (0, 0)
    assert watch.session.reclaim_lost() == 0


def test_reclaimed_pages_are_counted(watch, memory_cgroup, hog, tmp_path, does_not_apply):
    if filesystem_of(tmp_path) in {"tmpfs", "overlay"}:
        does_not_apply("temporary files are kept in memory")
    memory_cgroup.limit(24 << 20)
    process = hog(memory_cgroup)
    path = tmp_path / "file"
    process.do(f"file = open({str(path)!r}, 'wb')")
    for _ in range(8):
        process.do("file.write(bytes(8 << 20)); file.flush(); os.fsync(file.fileno())")
    totals = {total.cgroup_id: total for total in watch.session.reclaim()}

    assert totals[memory_cgroup.id].reclaimed_pages > 0


def test_arming_takes_little_longer_than_bcc_itself(shared_session):
    assert 0 < shared_session.start_to_armed_ns < 60_000_000_000

# SPDX-License-Identifier: Apache-2.0
"""Records by perf buffers, as on kernels without a ring buffer: forced here, where there is one."""

import json
import os
import select
import selectors
import signal
import subprocess
import sys

import pytest

from tests.architecture.checkout import ROOT
from tests.kernel.workload import Watch, start_ns
from tests.waiting import DEADLINE_S, wait_for
from tracer.events import (
    Armed,
    CgroupSample,
    Kind,
    Losses,
    OomMark,
    ProcessExeced,
    ProcessExited,
    ProcessForked,
    SignalSent,
)
from tracer.kernel import session as module
from tracer.kernel.bpfcalls import has_ring_buffer
from tracer.kernel.handover import DROPPED_AT, PERF_BUFFER, RING_BUFFER, Limits
from tracer.wire import HEAD

FORCED = """
import functools, sys
from tracer.doctor import kernel
from tracer.kernel.handover import PERF_BUFFER
from tracer.pipeline import machine
for each in (kernel, machine):
    each.open_session = functools.partial(each.open_session, transport=PERF_BUFFER)
from tracer.cli import main
sys.exit(main())
"""
STORM = (sys.executable, "-m", "tracer.repro.workloads.storm")


@pytest.fixture
def forced(can_trace, tmp_path):
    """Starts oomtrace in a way that its records come by perf buffers."""
    environ = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "80"}

    def start(*words):
        return subprocess.Popen(
            [sys.executable, "-c", FORCED, *words], cwd=tmp_path, env=environ, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    return start


def test_where_there_is_a_ring_buffer_it_is_taken(shared_session):
    assert shared_session.transport == (RING_BUFFER if has_ring_buffer(os.sysconf("SC_PAGE_SIZE")) else PERF_BUFFER)


def test_kills_are_proved_each_is_seen_and_the_report_names_the_way(forced, oomtrace):
    options = ("--record", "run.oomtrace", "--memory-max", "96M")
    run = oomtrace.finish(forced("run", *options, "--", *STORM, "--kills", "20", "--at-once", "4"))
    ours = {(fork.tgid, fork.start_ns) for fork in run.events(ProcessForked)}
    seen = {(mark.tgid, mark.start_ns) for mark in run.events(OomMark)} & ours
    counted = [sample.oom_kill for sample in run.events(CgroupSample) if sample.oom_kill is not None]

    assert (run.primary["cause"], run.primary["strength"]) == ("host_oom_cgroup", "proved")
    assert run.verdict["watched_by"][0].endswith("; perf buffers)")
    assert [armed.transport for armed in run.events(Armed)] == [PERF_BUFFER]
    assert (len(seen), max(counted)) == (20, 20)
    assert run.events(Losses)[-1].total == 0


def test_doctor_names_the_way(forced):
    out, _ = forced("doctor", "--json").communicate(timeout=DEADLINE_S)
    found = {row["id"]: row["found"] for row in json.loads(out)["capabilities"]}

    assert ", records come by perf buffer, armed in" in found["bpf_programs"]


def test_kills_that_nobody_reads_of_are_seen_or_counted_as_lost(open_traced, memory_cgroup):
    memory_cgroup.limit(48 << 20)
    with open_traced(transport=PERF_BUFFER, limits=Limits(ring_bytes=4096)) as session:
        join = f"open('{memory_cgroup.path}/cgroup.procs', 'w').write(str(os.getpid()))"
        storm = f"import os, sys; {join}; from tracer.repro.workloads.storm import main; main(['--kills', '12'])"
        subprocess.run([sys.executable, "-c", storm], cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
        counted = memory_cgroup.key("memory.events", "memory.oom_control", "oom_kill")
        lost, sent = session.drops(), session.sent()
        came = [HEAD.unpack_from(record)[1] for record in session.records()]
        sent_by_now = session.sent()

        # Kills elsewhere on this machine may add to it, nothing may take away.
        assert counted == 12
        assert sent[Kind.OOM_MARK] <= came.count(Kind.OOM_MARK) <= sent_by_now[Kind.OOM_MARK]
        assert lost[Kind.OOM_MARK] > 0
        assert came.count(Kind.OOM_MARK) + lost[Kind.OOM_MARK] >= 12


def test_what_the_kernel_says_of_losses_is_what_the_programs_counted(open_traced, hog):
    with open_traced(transport=PERF_BUFFER, limits=Limits(ring_bytes=4096)) as session:
        process = hog()
        process.do("signal.signal(signal.SIGTERM, signal.SIG_IGN)")
        watch = Watch(session)
        for cpu in os.sched_getaffinity(0):
            only_on(cpu, lambda: [os.kill(process.pid, signal.SIGTERM) for _ in range(101)])
        assert sum(session.drops().values()) >= 101
        watch.read()
        # The kernel tells once there is room again.
        for cpu in os.sched_getaffinity(0):
            only_on(cpu, lambda: os.kill(process.pid, signal.SIGTERM))
        watch.read()

        assert session.lost() == 0
        # As before Linux 5.1, where the programs are not told.
        assert session._buffer.lost(counted=0) == sum(session.drops().values())


def only_on(cpu, act):
    """Done on one CPU: a signal is generated where its sender runs."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    try:
        act()
    finally:
        os.sched_setaffinity(0, before)


def test_records_of_a_cpu_that_has_no_buffer_are_counted_as_lost(open_traced, hog, monkeypatch, does_not_apply):
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        does_not_apply("there is but one CPU")
    monkeypatch.setattr(module, "online_cpus", lambda: (cpus[0],))
    with open_traced(transport=PERF_BUFFER) as session:
        process = hog()
        process.do("signal.signal(signal.SIGTERM, signal.SIG_IGN)")
        before = session.drops().get(Kind.SIGNAL_SENT, 0)
        only_on(cpus[1], lambda: [os.kill(process.pid, signal.SIGTERM) for _ in range(7)])
        only_on(cpus[0], lambda: os.kill(process.pid, signal.SIGTERM))
        watch = Watch(session)

        assert len(watch.of(SignalSent, tgid=process.pid, signal=signal.SIGTERM)) == 1
        assert session.drops()[Kind.SIGNAL_SENT] - before >= 7


def test_a_process_is_born_before_it_does_anything_whatever_cpu_that_is_on(open_traced, hog):
    with open_traced(transport=PERF_BUFFER) as session:
        process = hog()
        session.track(process.pid, start_ns(process.pid))
        watch = Watch(session)
        # Every other one moves to another CPU between its birth and its program.
        process.do("import subprocess; cpus = sorted(os.sched_getaffinity(0)); os.sched_setaffinity(0, cpus[:1])")
        moves = "preexec_fn=lambda: os.sched_setaffinity(0, {cpus[n % len(cpus)]})"
        process.do(f"for n in range(60): subprocess.run(['true'], {moves})")
        process.tell("sys.exit(0)")
        wait_for(lambda: watch.of(ProcessExited, tgid=process.pid), "the end")
        lives: dict[int, list[type]] = {}
        for event in watch.events:
            if isinstance(event, ProcessExited) and not event.in_tree:
                continue  # a kill elsewhere on this machine
            if isinstance(event, ProcessForked | ProcessExeced | ProcessExited) and event.tgid != process.pid:
                lives.setdefault(event.tgid, []).append(type(event))

        assert len(lives) >= 60
        assert {tuple(life) for life in lives.values()} == {(ProcessForked, ProcessExeced, ProcessExited)}
        assert len({event.cpu for event in watch.of(ProcessExited)}) > 1 or len(os.sched_getaffinity(0)) == 1


def test_a_record_is_waiting_though_somebody_else_was_told_of_it(open_traced, hog):
    with open_traced(transport=PERF_BUFFER) as session:
        process = hog()
        watch = Watch(session)
        watch.read()
        process.process.kill()
        process.wait()
        assert select.select([session], [], [], 10)[0] == [session]
        with selectors.DefaultSelector() as selector:  # registering it asks, and so takes the answer away
            selector.register(session, selectors.EVENT_READ)
            selector.select(0)

            assert watch.source.pending
        assert watch.of(SignalSent, tgid=process.pid)


def test_what_was_sent_before_there_were_buffers_is_no_loss(can_trace, hog, monkeypatch):
    process = hog()
    process.do("signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    load = module.load

    def loaded(*arguments):
        report = load(*arguments)
        for _ in range(5):
            os.kill(process.pid, signal.SIGTERM)
        return report

    monkeypatch.setattr(module, "load", loaded)
    with module.open_session(transport=PERF_BUFFER) as session:
        before = session._by_kind(DROPPED_AT)

        assert before[Kind.SIGNAL_SENT] >= 5
        assert session.drops().get(Kind.SIGNAL_SENT, 0) < 5


def test_each_record_wakes_the_reader_anew(open_traced, hog):
    with open_traced(transport=PERF_BUFFER) as session:
        process = hog()
        process.do("signal.signal(signal.SIGTERM, signal.SIG_IGN)")
        watch = Watch(session)
        watch.read()
        for count in range(1, 4):
            for cpu in os.sched_getaffinity(0):
                only_on(cpu, lambda: os.kill(process.pid, signal.SIGTERM))
                assert select.select([session], [], [], 10)[0] == [session]
                wait_for(watch.read, "the record")
            wanted = count * len(os.sched_getaffinity(0))
            assert len(watch.of(SignalSent, tgid=process.pid, signal=signal.SIGTERM)) == wanted

# SPDX-License-Identifier: Apache-2.0
"""A whole run over stand-in sources, with real jobs: the order of things, and that no fault of ours costs the job."""

import errno
import os
import signal
import threading
import time

import msgspec
import pytest

from tests.unit.pipeline.stand_ins import START_NS, Cgroups, Feed, sources
from tests.waiting import SLOWER
from tracer.events import (
    Armed,
    CgroupSample,
    Clock,
    Disarmed,
    Header,
    HookStatus,
    JobEnded,
    JobStarted,
    LoggedKill,
    Losses,
    Note,
    OomMark,
    ProcessSample,
    ProcessSeen,
    TracerCost,
    TracerPlaced,
)
from tracer.job.identity import Caller
from tracer.pipeline import Pipeline, Plan
from tracer.pipeline.clocks import header_now
from tracer.recording import RecordingWriter, read_recording
from tracer.sources.processes import ProcessSource
from tracer.units import NS_PER_S


@pytest.fixture
def kernel():
    feed = Feed()
    yield feed
    feed.close()


@pytest.fixture
def log():
    feed = Feed()
    yield feed
    feed.close()


@pytest.fixture
def watched(tmp_path):
    """Runs a shell program under the pipeline; its outcome and all that was recorded."""

    def run(program, *, plan=(), argv=None, **given):
        caller = Caller(uid=os.getuid(), gid=os.getgid(), groups=(), environ={"PATH": os.environ["PATH"]})
        argv = argv or ("sh", "-c", program)
        path = tmp_path / "r.oomtrace"
        with RecordingWriter.create(path, header_now(cgroup_version=2)) as writer:
            outcome = Pipeline(
                Plan(argv=argv, recorded_argv=argv, caller=caller, **dict(plan)), sources(**given), writer
            ).run()
        return outcome, list(read_recording(path))

    return run


def of(kind, events):
    return [event for event in events if isinstance(event, kind)]


def notes(events):
    return [event.text for event in of(Note, events)]


def mark(tgid=10, **changes):
    fields = {name: 0 for name in OomMark.__struct_fields__ if name not in ("source", "comm", "trigger_comm")}
    return OomMark(**(fields | {"ts_ns": 5_000, "tgid": tgid, "tid": tgid, "comm": "a", "trigger_comm": "b"} | changes))


def test_things_happen_in_this_order(watched, kernel, log):
    outcome, events = watched("exit 3", kernel=kernel, log=log)

    frame = [type(event) for event in events if isinstance(event, Armed | JobStarted | JobEnded | Disarmed)]
    assert frame == [Armed, JobStarted, JobEnded, Disarmed]
    assert [event.transport for event in of(Armed, events)] == ["ring_buffer"]
    assert outcome.exit_code == 3
    assert [event.seq for event in events] == list(range(len(events)))


def test_the_job_is_in_the_tree_filter_under_its_own_start_time(watched, kernel):
    _, events = watched("exit 0", kernel=kernel)

    [started] = of(JobStarted, events)
    assert kernel.tracked == [(started.tgid, START_NS + 3)]
    assert (started.cgroup, started.cgroup_id, started.own_cgroup) == ("/job", 77, False)


def test_the_kernels_own_record_of_the_job_is_told_before_it(watched, kernel):
    _, events = watched("exit 0", kernel=kernel)

    [placed], [started] = of(TracerPlaced, events), of(JobStarted, events)
    assert (placed.tgid, placed.job_tgid, placed.job_start_ns) == (os.getpid(), started.tgid, started.start_ns)
    assert placed.seq < started.seq
    assert kernel.switched == [True, False]


def test_a_job_that_did_not_fit_into_the_tree_filter_is_not_said_to_be_followed(watched, kernel, monkeypatch):
    monkeypatch.setattr(kernel, "track", lambda *_: os.stat("/no/room/in/the/filter"))

    outcome, events = watched("exit 3", kernel=kernel)

    assert outcome.exit_code == 3
    assert of(TracerPlaced, events) == []
    assert len(of(JobStarted, events)) == 1
    assert any(text.startswith("tracking the job failed") for text in notes(events))


def test_the_end_says_what_was_lost_and_what_it_cost(watched, kernel):
    kernel.lost = Losses(ts_ns=1, dropped={"oom_mark": 2})
    _, events = watched("exit 0", kernel=kernel)

    after = events[[type(event) for event in events].index(Disarmed) :]
    assert of(Losses, after)[-1].total == 2
    assert of(TracerCost, after)[-1].cpu_ns > 0
    assert of(Clock, after)


def until_recorded(path, pattern, then="exit 3"):
    """Lines of a shell that wait until such a line stands in the recording."""
    again = "n=$((n + 1)); [ $n -lt 1500 ] || exit 9; sleep 0.02"
    return f"until grep -q '{pattern}' '{path}'; do {again}; done; {then}"


def test_the_first_process_is_looked_at_and_sampled(watched, tmp_path):
    outcome, events = watched(until_recorded(tmp_path / "r.oomtrace", '"kind":"ProcessSample"'))

    assert outcome.exit_code == 3
    [started] = of(JobStarted, events)
    assert {event.tgid for event in of(ProcessSeen, events)} == {started.tgid}
    assert {event.tgid for event in of(ProcessSample, events)} == {started.tgid}
    assert of(CgroupSample, events)


def test_it_does_not_run_before_it_was_looked_at(watched, tmp_path, monkeypatch):
    monkeypatch.setattr("tracer.pipeline.loop.FIRST_LOOKS_NS", 1000 * NS_PER_S)
    ran, given, had_run = tmp_path / "ran", sources(), []
    seen = given.processes.seen
    more = {"cmdline": ("oomtrace",), "exe": "/usr/bin/oomtrace", "session_id": 1}

    def slow(tgid):
        until = time.monotonic() + 0.3
        while not ran.exists() and time.monotonic() < until:
            pass
        had_run.append(ran.exists())
        return msgspec.structs.replace(seen(tgid), **more)

    given.processes.seen = slow
    outcome, events = watched(f": > '{ran}'; exit 3", processes=given.processes)

    assert (outcome.exit_code, had_run[0]) == (3, False)
    first = of(ProcessSeen, events)[0]
    assert (first.cmdline, first.exe, first.session_id) == (None, None, 1), "these are still ours"


def test_where_nobody_tells_of_its_program_it_is_looked_at_again_as_that(watched, tmp_path):
    job = until_recorded(tmp_path / "r.oomtrace", '"kind":"ProcessSeen".*marked-[4]711', "exit 3; : marked-4711")

    assert watched(job, processes=ProcessSource())[0].exit_code == 3


@pytest.mark.parametrize(
    "program, code",
    [("exit 0", 0), ("exit 200", 200), ("kill -KILL $$", 137), ("kill -SEGV $$", 139), ("kill -TERM $$", 143)],
)
def test_the_status_is_the_jobs_own(watched, program, code):
    outcome, events = watched(program)

    assert outcome.exit_code == code
    assert [event.status for event in of(JobEnded, events)] == [outcome.status]


def test_a_program_that_is_not_there_is_said(watched):
    outcome, events = watched("", argv=("/no/such/thing",))

    assert outcome.exit_code == 127
    assert outcome.failure is not None
    assert any("never ran" in text for text in notes(events))


def test_without_bpf_the_job_runs_and_nothing_is_claimed(watched):
    outcome, events = watched("exit 3")

    assert outcome.exit_code == 3
    assert not of(Armed, events)
    assert not of(Disarmed, events)
    hook = next(iter(of(HookStatus, events)))
    assert (hook.hook, hook.attached, hook.why_not) == ("bpf", False, "no BPF here")
    assert notes(events) == []


def test_signals_to_us_are_passed_on_to_the_job(watched):
    # The job's parent is the tracer: this process.
    program = "trap 'exit 9' TERM; kill -TERM $PPID; while :; do sleep 0.01; done"

    outcome, events = watched(program)

    assert outcome.exit_code == 9
    assert any("SIGTERM was sent to oomtrace" in text for text in notes(events))


def test_a_signal_reaches_the_jobs_children_as_well(watched, tmp_path):
    child = f"trap ': > {tmp_path}/got; exit' TERM; kill -TERM $PPID; while :; do sleep 0.01; done"

    watched(f"trap : TERM; ({child}) & wait; wait")

    assert (tmp_path / "got").exists()


def test_a_mark_brings_samples_and_is_on_disk_with_them(watched, kernel, log):
    kernel.say(mark())
    log.say(LoggedKill(ts_ns=1, source="kmsg", pid=10, comm="a", log_usec=5, trusted=True))

    _, events = watched("exit 0", kernel=kernel, log=log)

    assert len(of(OomMark, events)) == 1
    assert len(of(LoggedKill, events)) == 1


def test_a_mark_and_its_line_set_the_clock_of_the_log(watched, kernel, log):
    log.say(LoggedKill(ts_ns=1, source="kmsg", pid=10, comm="a", log_usec=5, trusted=True))
    kernel.say(mark())

    watched("exit 0", kernel=kernel, log=log)

    assert log.pairs == [(5_000, 5)]


@pytest.mark.parametrize("fault", [OSError(5, "input/output error"), ValueError("bad"), RuntimeError("worse")])
def test_a_ring_buffer_that_fails_costs_neither_the_job_nor_its_status(watched, kernel, fault):
    kernel.fault = fault
    kernel.say(mark())

    outcome, events = watched("exit 7", kernel=kernel)

    assert outcome.exit_code == 7
    assert any(text.startswith("the ring buffer failed") for text in notes(events))
    assert not of(Disarmed, events)


def test_a_proc_that_fails_costs_neither_the_job_nor_its_status(watched):
    given = sources()
    given.processes.fault = OSError(5, "input/output error")

    outcome, events = watched("sleep 0.2; exit 7", processes=given.processes)

    assert outcome.exit_code == 7
    assert any(text.startswith("reading processes failed") for text in notes(events))


def test_an_unforeseen_fault_in_the_loop_leaves_the_job_running(watched, monkeypatch):
    monkeypatch.setattr("tracer.pipeline.watch.Watch.tick", lambda *_: 1 / 0)

    outcome, events = watched("sleep 0.2; exit 7")

    assert outcome.exit_code == 7
    assert any(text.startswith("the loop failed: ZeroDivisionError") for text in notes(events))


def test_signals_are_passed_on_even_after_the_loop_has_failed(watched, monkeypatch):
    monkeypatch.setattr("tracer.pipeline.watch.Watch.tick", lambda *_: 1 / 0)

    outcome, _ = watched("trap 'exit 9' TERM; sleep 0.1; kill -TERM $PPID; while :; do sleep 0.01; done")

    assert outcome.exit_code == 9


def test_a_full_disk_costs_neither_the_job_nor_its_status(watched, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tracer.recording.RecordingWriter.append", full)
    monkeypatch.setattr("tracer.recording.RecordingWriter._begin", classmethod(lambda cls, fd, name, *_: cls(fd, name)))
    caller = Caller(uid=os.getuid(), gid=os.getgid(), groups=(), environ={"PATH": os.environ["PATH"]})
    with RecordingWriter.anonymous(header_now(cgroup_version=2)) as writer:
        argv = ("sh", "-c", "exit 7")
        outcome = Pipeline(Plan(argv=argv, recorded_argv=argv, caller=caller), sources(), writer).run()

    assert outcome.exit_code == 7


def test_who_waits_for_it_is_told_that_the_job_runs_under_watch(watched, tmp_path):
    ready = tmp_path / "ready"
    program = f"while ! [ -s {ready} ]; do sleep 0.01; done; exit 5"

    outcome, events = watched(program, plan={"ready": lambda pid: ready.write_text(str(pid))})

    assert outcome.exit_code == 5
    assert int(ready.read_text()) == of(JobStarted, events)[0].tgid


def test_a_ready_file_that_cannot_be_written_is_only_noted(watched):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    outcome, events = watched("exit 5", plan={"ready": full})

    assert outcome.exit_code == 5
    assert any("ready failed" in text for text in notes(events))


def test_our_signal_handlers_are_as_before_afterwards(watched):
    before = signal.getsignal(signal.SIGTERM)

    watched("exit 0")

    assert signal.getsignal(signal.SIGTERM) == before


def test_the_samples_of_a_cgroup_near_its_limit_are_all_there(watched, kernel):
    cgroups = Cgroups()
    cgroups.usage_bytes = 950
    real, reads = cgroups.sample, []

    def growing(path):
        cgroups.usage_bytes += 1
        reads.append(path)
        return real(path)

    cgroups.sample = growing

    _, events = watched("sleep 0.6", cgroups=cgroups, kernel=kernel)

    assert len(of(CgroupSample, events)) == reads.count("/job")


def test_without_bpf_new_processes_are_seen_within_half_a_second(watched, tmp_path):
    until_seen = until_recorded(tmp_path / "r.oomtrace", "\"tgid\":'$!',", "kill $!")
    one_by_one = f"for i in 1 2 3 4 5 6; do sleep 60 & {until_seen}; done; exit 3"

    outcome, events = watched(one_by_one, processes=ProcessSource())

    assert outcome.exit_code == 3, "each lives until it was seen"
    [header], [started] = of(Header, events), of(JobStarted, events)
    boot_ns = header.boottime_ns - header.ts_ns
    delays_ns = [e.ts_ns + boot_ns - e.start_ns for e in of(ProcessSeen, events) if e.parent_tgid == started.tgid]
    assert sorted(delays_ns)[1] < SLOWER * NS_PER_S / 2, "a machine under load may take longer now and then"


def test_looks_that_are_under_way_when_the_job_ends_are_waited_for_as_long_as_they_come(watched, monkeypatch):
    monkeypatch.setattr("tracer.pipeline.loop.GRACE_NS", 0)
    monkeypatch.setattr("tracer.pipeline.loop.HANGS_NS", 1000 * NS_PER_S)
    monkeypatch.setattr("tracer.pipeline.loop.GRACE_FOR_LOOKS_NS", 1000 * NS_PER_S)
    processes, calls = sources().processes, []
    seen = processes.seen

    def slow_from_the_second_on(tgid):
        until = time.monotonic() + 0.2 * len(calls)
        calls.append(tgid)
        while time.monotonic() < until:
            pass
        return seen(tgid)

    processes.seen = slow_from_the_second_on
    _, events = watched("exit 3", processes=processes)

    assert len(calls) == len(of(ProcessSeen, events)) == 2


@pytest.mark.parametrize("hangs", ["seen", "sync"])
def test_a_helper_that_hangs_holds_neither_the_job_nor_its_status_up(watched, monkeypatch, kernel, hangs):
    # As a target whose memory lock is held, or a disk that does not answer: the call never returns.
    released = threading.Event()
    given = sources(kernel=kernel)
    if hangs == "seen":
        given.processes.seen = lambda _: released.wait(60) and None
    else:
        monkeypatch.setattr("tracer.recording.RecordingWriter.sync", lambda _: released.wait(60) and None)
    monkeypatch.setattr("tracer.recording.RecordingWriter.close", lambda writer: writer.flush())
    monkeypatch.setattr("tracer.pipeline.helper.DEADLINE_NS", 1)
    began = time.monotonic()
    try:
        outcome, events = watched("sleep 0.3; exit 7", kernel=kernel, processes=given.processes)
    finally:
        released.set()

    assert outcome.exit_code == 7
    assert time.monotonic() - began < 30
    assert of(JobEnded, events)[0].status == 7 << 8
    assert of(Disarmed, events)

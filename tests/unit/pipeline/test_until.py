# SPDX-License-Identifier: Apache-2.0
"""When a job is ended that was asked to go only so far, and that it is so once, politely first."""

import os
import signal
import time

import pytest

from tests.unit.pipeline.stand_ins import sources
from tests.unit.verdict.scenes import Scene
from tracer.events import EndAsked, ProcessExited, ProcessSample, ProcessSeen, TrainingLine
from tracer.job.identity import Caller
from tracer.pipeline import Pipeline, Plan
from tracer.pipeline.clocks import header_now
from tracer.pipeline.until import GRACE_NS, SILENT_NS, Ender, Until
from tracer.recording import RecordingWriter, read_recording
from tracer.units import NS_PER_S


class Asked:
    """An ender with all that it does."""

    def __init__(self, **until):
        self.sent, self.events, self.said = [], [], []
        self.ender = Ender(Until(**until), self.sent.append, self.events.append, self.said.append)
        self.ender.begin()
        self.now_ns = time.monotonic_ns()

    def say(self, rank=None, **numbers):
        self.ender.line(TrainingLine(ts_ns=1, about="progress", text="x", stream="stdout", rank=rank, numbers=numbers))
        self.ender.look(self.now_ns)
        return bool(self.sent)

    def look_after(self, span_ns):
        self.ender.look(self.now_ns + span_ns)


def test_epochs_are_counted_from_the_first_that_was_told():
    asked = Asked(epochs=2)

    assert [asked.say(epoch=epoch) for epoch in (5, 5, 6, 6, 7)] == [False, False, False, False, True]
    assert asked.sent == [signal.SIGTERM]
    assert [(event.why, event.epochs) for event in asked.events] == [("epochs=2 was reached", 2)]


def test_fractions_of_epochs_count_too():
    asked = Asked(epochs=1)

    assert [asked.say(epoch=epoch) for epoch in (0.02, 0.5, 1.0, 1.03)] == [False, False, False, True]


def test_steps_are_counted_through_epochs():
    asked = Asked(steps=30)

    assert [asked.say(epoch=e, step=s) for e, s in ((1, 0), (1, 19), (2, 0), (2, 9), (2, 10))] == [
        False, False, False, False, True,
    ]  # fmt: skip


def test_ranks_that_tell_the_same_do_not_double_it():
    asked = Asked(steps=20)

    assert not any(asked.say(rank=rank, step=step) for step in range(20) for rank in (0, 1, 2))
    assert asked.say(rank=0, step=20)


def test_ranks_in_one_stream_that_lag_do_not_double_it():
    asked = Asked(steps=20)

    assert not any(asked.say(step=step - lag) for step in range(10, 30) for lag in (0, 1, 0))


def test_workers_that_are_started_anew_are_a_pass():
    asked = Asked(epochs=1)

    def worker(pid, *, ends=False):
        fields = {"ts_ns": 1, "tgid": pid, "start_ns": pid * 10**7}
        if ends:
            names = ProcessExited.__struct_fields__
            zeros = {name: 0 for name in names if name not in {"source", "comm", "seq", *fields}}
            asked.ender.event(ProcessExited(**zeros, **fields, comm="pt_data_worker"))
        else:
            asked.ender.event(ProcessSample(**fields, source="proc", comm="pt_data_worker"))
        asked.ender.look(asked.now_ns)

    for pid in (1, 2):
        worker(pid)
    worker(1, ends=True)
    worker(3)  # beside one that still runs
    assert asked.sent == []
    for pid in (2, 3):
        worker(pid, ends=True)
    worker(4)

    assert asked.sent == [signal.SIGTERM]
    assert "by starts of DataLoader workers" in asked.events[0].why


def test_a_time_ends_it_whatever_was_said():
    asked = Asked(epochs=1, for_ns=60 * NS_PER_S)
    asked.look_after(59 * NS_PER_S)
    assert asked.sent == []
    asked.look_after(61 * NS_PER_S)

    assert asked.sent == [signal.SIGTERM]
    assert asked.events[0].why == "60.0 s have passed, and no epoch or step was seen"


def test_who_does_not_end_is_killed_once():
    asked = Asked(steps=1)
    asked.say(step=1)
    asked.say(step=2)
    asked.look_after(GRACE_NS - NS_PER_S)
    assert asked.sent == [signal.SIGTERM]
    for _ in range(3):
        asked.look_after(GRACE_NS + NS_PER_S)

    assert asked.sent == [signal.SIGTERM, signal.SIGKILL]
    assert [event.signal for event in asked.events] == [15, 9]


def test_that_no_mark_comes_is_said_once():
    asked = Asked(epochs=1)
    for _ in range(3):
        asked.look_after(SILENT_NS + NS_PER_S)

    assert len(asked.said) == 1
    assert "--for" in asked.said[0]
    assert asked.sent == []


def test_a_job_is_ended_as_asked_and_the_exit_status_is_0(tmp_path):
    caller = Caller(uid=os.getuid(), gid=os.getgid(), groups=(), environ={"PATH": os.environ["PATH"]})
    argv, path = ("sleep", "600"), tmp_path / "r.oomtrace"
    plan = Plan(argv=argv, recorded_argv=argv, caller=caller, until=Until(for_ns=1))
    with RecordingWriter.create(path, header_now(cgroup_version=2)) as writer:
        outcome = Pipeline(plan, sources(), writer).run()

    assert os.WTERMSIG(outcome.status) == signal.SIGTERM
    assert outcome.as_asked
    assert outcome.exit_code == 0
    assert [event.signal for event in read_recording(path) if isinstance(event, EndAsked)] == [15]


@pytest.mark.parametrize("program", ["exit 0", "exit 7"])
def test_a_job_that_ends_first_keeps_its_own_status(tmp_path, program):
    caller = Caller(uid=os.getuid(), gid=os.getgid(), groups=(), environ={"PATH": os.environ["PATH"]})
    argv, path = ("sh", "-c", program), tmp_path / "r.oomtrace"
    plan = Plan(argv=argv, recorded_argv=argv, caller=caller, until=Until(for_ns=600 * NS_PER_S))
    with RecordingWriter.create(path, header_now(cgroup_version=2)) as writer:
        outcome = Pipeline(plan, sources(), writer).run()

    assert outcome.exit_code == int(program[-1])
    assert not outcome.as_asked


def test_a_job_that_has_ended_by_itself_by_then_was_not_ended_by_us(tmp_path):
    class Ended:
        def look(self):
            return True

    asked = Asked(for_ns=1)
    caller = Caller(uid=os.getuid(), gid=os.getgid(), groups=(), environ={})
    with RecordingWriter.create(tmp_path / "r.oomtrace", header_now(cgroup_version=2)) as writer:
        pipeline = Pipeline(Plan(argv=("x",), recorded_argv=("x",), caller=caller), sources(), writer)
        pipeline._ender = asked.ender
        assert pipeline._look(Ended())

    assert asked.sent == []
    assert not asked.ender.asked


@pytest.mark.parametrize(("victim", "as_asked"), [(4711, False), (4712, True)])
def test_who_lost_a_process_to_the_oom_killer_keeps_its_own_status(victim, as_asked):
    """A launcher that is about to end for that is no success, though we ended it; a kill elsewhere changes nothing."""
    asked = Asked(for_ns=NS_PER_S)
    asked.ender.event(ProcessSeen(ts_ns=1, source="proc", tgid=4711, start_ns=50, parent_tgid=1, comm="python3"))
    scene = Scene()
    scene.mark(victim, victim, start_ns=50)
    asked.ender.event(scene.items[-1])
    asked.look_after(2 * NS_PER_S)

    assert asked.sent == [signal.SIGTERM]
    assert asked.ender.asked is as_asked


@pytest.mark.parametrize(("until", "epochs", "told"), [
    ({"epochs": 2}, (1, 2), "The job ended before epochs=2 was reached: epochs=1, steps=0 were seen."),
    ({"steps": 9}, (), "The job ended before steps=9 was reached: no mark of it was seen."),
    ({"epochs": 1}, (1, 2), None),
    ({"for_ns": NS_PER_S}, (), None),
])  # fmt: skip
def test_of_a_job_that_ended_before_its_goal_that_is_said(until, epochs, told):
    asked = Asked(**until)
    for epoch in epochs:
        asked.say(epoch=epoch)

    assert asked.ender.unmet() == told

# SPDX-License-Identifier: Apache-2.0
"""How the watching of a cgroup ends: with the cgroup, or before it."""

import contextlib
import os
import signal
import time

import pytest

from tests.unit.pipeline.stand_ins import START_NS, Cgroups, Feed, Processes, sources
from tests.unit.pipeline.test_run import mark
from tracer.events import Note, ProcessExited
from tracer.pipeline import AttachedPipeline, Attachment, Ending, Target
from tracer.pipeline.clocks import header_now
from tracer.recording import RecordingWriter
from tracer.units import NS_PER_S

PID = 4_000_123


def exited(pid):
    return ProcessExited(
        ts_ns=9, cpu=0, start_ns=START_NS, tgid=pid, tid=pid, status=9, oom_marked=0, parent_tgid=1, in_tree=1, comm="x"
    )


class OneProcess(Cgroups):
    """It has one process, until `last_look` says otherwise."""

    def __init__(self, last_look):
        super().__init__()
        self.looks, self._last_look = 0, last_look

    def processes(self, path):
        self.looks += 1
        return (PID,) if self.looks < 3 else self._last_look()


class Table(Processes):
    def __init__(self):
        super().__init__()
        self.below = {1: [PID]}


@pytest.fixture
def watch(monkeypatch):
    """Watches such a cgroup to its end, which `last_look` brings about; gives how it ended and what was noted."""
    monkeypatch.setattr("tracer.pipeline.attach.LOOK_NS", 0)

    def run(feed, last_look):
        with contextlib.closing(feed):
            given = sources(kernel=feed, cgroups=OneProcess(last_look), processes=Table(), why_no_kernel=None)
            with RecordingWriter.anonymous(header_now(cgroup_version=2)) as writer:
                pipeline = AttachedPipeline(Attachment(target=Target(cgroup="/job")), given, writer)
                ending = pipeline.run()
                with writer.read_back() as recorded:
                    notes = [event.text for event in recorded if isinstance(event, Note)]
        return ending, pipeline.alive, notes

    return run


def test_who_ended_just_before_the_cgroup_went_is_not_said_to_run_still(watch):
    feed = Feed()

    def removed():
        feed.waiting.append(exited(PID))  # in the buffer, and nobody was woken for it yet

    ending, alive, notes = watch(feed, removed)
    assert (ending, alive) == (Ending.REMOVED, 0)
    assert not any("still ran" in note or "no process was" in note for note in notes)


def test_who_runs_when_the_watching_is_ended_is_said_to(watch):
    def interrupted():
        os.kill(os.getpid(), signal.SIGINT)
        return (PID,)

    ending, alive, notes = watch(Feed(), interrupted)
    assert (ending, alive) == (Ending.STOPPED, 1)
    assert any("1 process of it still ran" in note for note in notes)


class SlowToDie(Feed):
    """Its process is marked by the OOM killer, and ends a while after nothing else comes any more."""

    def __init__(self):
        super().__init__()
        self.ends_at_s = None

    def read(self):
        if self.ends_at_s is not None and time.monotonic() >= self.ends_at_s:
            self.waiting.append(exited(PID))
            self.ends_at_s = None
        return super().read()


def test_the_end_of_whom_the_oom_killer_chose_is_waited_for(watch, monkeypatch):
    monkeypatch.setattr("tracer.pipeline.loop.GRACE_FOR_LOOKS_NS", 1000 * NS_PER_S)
    monkeypatch.setattr("tracer.pipeline.loop.GRACE_NS", 0)
    monkeypatch.setattr("tracer.pipeline.loop.QUIET_WITH_SURVIVORS_NS", 0)
    feed = SlowToDie()

    def killed():
        if feed.ends_at_s is None:
            feed.waiting.append(mark(PID, start_ns=START_NS))
            feed.ends_at_s = time.monotonic() + 0.3
            os.kill(os.getpid(), signal.SIGINT)
        return (PID,)

    ending, alive, _ = watch(feed, killed)
    assert (ending, alive, feed.ends_at_s) == (Ending.STOPPED, 0, None)


def test_of_a_cgroup_that_nobody_was_in_that_is_said(watch, monkeypatch):
    monkeypatch.setattr(OneProcess, "processes", lambda self, path: self._last_look())
    looks = iter([(), (), None])

    ending, alive, notes = watch(Feed(), lambda: next(looks))
    assert (ending, alive) == (Ending.REMOVED, 0)
    assert "no process was in that cgroup while it was watched" in notes

# SPDX-License-Identifier: Apache-2.0
"""What is known of running processes by the time that somebody is told that they are under watch."""

import contextlib
import os
import signal
import threading

import pytest

from tests.unit.pipeline.stand_ins import START_NS, Feed, Processes, sources
from tracer.events import ProcessSample, ProcessSeen
from tracer.pipeline import AttachedPipeline, Attachment, Ending, Target
from tracer.pipeline.clocks import header_now
from tracer.recording import RecordingWriter
from tracer.units import NS_PER_MS, NS_PER_S

PIDS = (4_000_123, *range(4_000_200, 4_000_220))
DEADLINE_S = 20
ENDLESS_NS = 1000 * NS_PER_S


class Tree(Processes):
    """A process with children. What `seen` does first is up to the test."""

    def __init__(self, before_a_look):
        super().__init__()
        self.below = {1: PIDS[:1], PIDS[0]: PIDS[1:]}
        self.sampled, self.first_looks, self._before_a_look = threading.Event(), [], before_a_look

    def seen(self, tgid):
        self._before_a_look(self, tgid)
        self.first_looks.append(tgid)
        return super().seen(tgid)

    def sample(self, tgid, start_ns):
        self.sampled.set()
        return super().sample(tgid, start_ns)


@pytest.fixture
def attached(monkeypatch):
    """Watches such a tree until it is ready; gives how that ended and what was recorded by then."""
    monkeypatch.setattr("tracer.pipeline.loop.GRACE_NS", 0)

    def run(processes, *, patience_ns, ready=lambda: None):
        monkeypatch.setattr("tracer.pipeline.loop.FIRST_LOOKS_NS", patience_ns)
        known = []
        with contextlib.closing(Feed()) as feed:
            given = sources(kernel=feed, processes=processes, why_no_kernel=None)
            with RecordingWriter.anonymous(header_now(cgroup_version=2)) as writer:

                def by_now(count):
                    ready()
                    writer.flush()
                    with writer.read_back() as recorded:
                        known.extend(recorded)
                    os.kill(os.getpid(), signal.SIGINT)

                target = Target(processes=((PIDS[0], START_NS),))
                ending = AttachedPipeline(Attachment(target=target, ready=by_now), given, writer).run()
        return ending, known

    return run


def test_each_process_was_sampled_and_looked_at_before_it_is_said_to_be_under_watch(attached):
    # The looks begin when the main thread is past all that it does itself.
    processes = Tree(lambda tree, _: tree.sampled.wait(DEADLINE_S))

    ending, known = attached(processes, patience_ns=ENDLESS_NS)

    assert ending is Ending.STOPPED
    looked_at = [event.tgid for event in known if isinstance(event, ProcessSeen) and event.comm == "x"]
    assert sorted(looked_at) == sorted(PIDS)
    assert {event.tgid for event in known if isinstance(event, ProcessSample)} == set(PIDS)
    assert processes.first_looks[0] == PIDS[0]


def test_a_look_that_does_not_end_keeps_nobody_waiting(attached):
    go_on = threading.Event()
    processes = Tree(lambda _, tgid: tgid == PIDS[1] and go_on.wait(DEADLINE_S))

    ending, known = attached(processes, patience_ns=10 * NS_PER_MS, ready=go_on.set)

    assert ending is Ending.STOPPED
    assert {event.tgid for event in known if isinstance(event, ProcessSample)} == set(PIDS)


def test_a_signal_that_ends_the_watching_ends_the_waiting_for_looks(attached):
    go_on = threading.Event()

    def interrupted(_, tgid):
        if tgid == PIDS[1]:
            os.kill(os.getpid(), signal.SIGTERM)
            assert go_on.wait(DEADLINE_S)

    ending, _ = attached(Tree(interrupted), patience_ns=ENDLESS_NS, ready=go_on.set)

    assert ending is Ending.STOPPED
    assert go_on.is_set()


def test_those_that_are_gone_are_not_waited_for(attached):
    processes = Tree(lambda *_: None)
    processes.gone = set(PIDS[1:])

    ending, known = attached(processes, patience_ns=ENDLESS_NS)

    assert ending is Ending.STOPPED
    assert PIDS[0] in {event.tgid for event in known if isinstance(event, ProcessSample)}

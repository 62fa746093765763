# SPDX-License-Identifier: Apache-2.0
"""What an event sets off."""

import os
import time

import msgspec
import pytest

from tests.unit.pipeline.stand_ins import START_NS, Feed, sources
from tests.unit.pipeline.test_members import execed, exited, forked, started
from tests.unit.pipeline.test_sampler import Notebook
from tests.unit.verdict.scenes import Scene
from tracer.events import LogGap, Losses, ProcessSeen, SignalSent
from tracer.pipeline.watch import LOOK_AFTER_FORK_NS, MAX_FOREIGN_SIGNALS, Watch
from tracer.units import NS_PER_S


class Inspector:
    """Does at once what it is told, and remembers the results."""

    overdue = refused = 0

    def __init__(self):
        self.results, self.looks = [], 0

    def submit(self, work):
        self.looks += 1
        self.results += [result for result in [work()] if result is not None]

    def take(self):
        taken, self.results = self.results, []
        return taken

    def check(self, now_ns):
        pass

    def fileno(self):
        return 0


class Book(Notebook):
    def note(self, text):
        self.events.append(text)

    def flush(self):
        pass

    def secure(self):
        self.secured = True


class Bench:
    def __init__(self, **given):
        self.book, self.inspector, self.sources = Book(), Inspector(), sources(**given)
        self.watch = Watch(self.sources, self.book, self.inspector)


@pytest.fixture
def bench():
    return Bench()


def test_a_fork_is_looked_at_a_little_later(bench):
    bench.watch.take(forked(11, START_NS))
    bench.watch.tick(time.monotonic_ns())
    assert bench.inspector.looks == 0

    bench.watch.tick(time.monotonic_ns() + LOOK_AFTER_FORK_NS)
    bench.watch.read_all()

    assert [event.tgid for event in bench.book.of(ProcessSeen)] == [11]


def test_one_that_begins_a_program_is_looked_at_at_once_and_only_once(bench):
    bench.watch.take(forked(11, START_NS))
    bench.watch.take(execed(11, START_NS))
    assert bench.inspector.looks == 1

    bench.watch.tick(time.monotonic_ns() + LOOK_AFTER_FORK_NS)

    assert bench.inspector.looks == 1


def test_one_that_is_gone_by_then_is_not_looked_at(bench):
    bench.watch.take(forked(11, START_NS))
    bench.watch.take(exited(11, START_NS))

    bench.watch.tick(time.monotonic_ns() + LOOK_AFTER_FORK_NS)

    assert bench.inspector.looks == 0


def test_at_the_end_what_is_still_to_be_looked_at_is(bench):
    bench.watch.take(forked(11, START_NS))

    bench.watch.hurry()

    assert bench.inspector.looks == 1


def test_another_owner_of_the_pid_is_not_taken_for_the_one_that_was_meant(bench):
    bench.watch.take(forked(11, START_NS + NS_PER_S))
    bench.watch.hurry()
    bench.watch.read_all()

    assert bench.inspector.looks == 1
    assert bench.book.of(ProcessSeen) == []


def test_overwritten_log_records_are_counted_among_the_losses(bench):
    for lost in (3, 4):
        bench.watch.take(LogGap(ts_ns=1, source="kmsg", lost=lost))

    bench.watch.finish()

    assert bench.book.of(Losses)[-1].log_gaps == 7


@pytest.mark.parametrize("naming", [False, True])
def test_stacks_that_got_no_names_in_time_are_no_silent_loss(naming):
    kernel = Feed()
    kernel.naming = naming
    bench = Bench(kernel=kernel)
    bench.watch.finish()
    kernel.close()

    assert naming == any("did not get their names" in str(told) for told in bench.book.events)


def test_losses_are_recorded_when_they_move_and_at_the_end():
    kernel = Feed()
    bench = Bench(kernel=kernel)
    now_ns = time.monotonic_ns()
    bench.watch.tick(now_ns)
    assert bench.book.of(Losses) == []

    kernel.lost = Losses(ts_ns=1, dropped={"oom_mark": 1})
    bench.watch.tick(now_ns + NS_PER_S)
    bench.watch.tick(now_ns + 2 * NS_PER_S)
    assert [event.total for event in bench.book.of(Losses)] == [1]

    bench.watch.finish()
    assert [event.total for event in bench.book.of(Losses)] == [1, 1]
    kernel.close()


@pytest.mark.parametrize("counter", ["untracked", "short", "unknown", "reclaim"])
def test_each_loss_counter_is_recorded_when_it_moves(counter):
    kernel = Feed()
    bench = Bench(kernel=kernel)
    now_ns = time.monotonic_ns()
    bench.watch.tick(now_ns)
    kernel.lost = Losses(ts_ns=1, **{counter: 2})
    bench.watch.tick(now_ns + NS_PER_S)

    assert [getattr(event, counter) for event in bench.book.of(Losses)] == [2]
    kernel.close()


def test_the_first_process_of_the_job_is_looked_at_at_once(bench):
    bench.watch.take(started())

    assert bench.inspector.looks == 1


def test_a_read_that_failed_is_a_loss():
    kernel = Feed()
    bench = Bench(kernel=kernel)
    kernel.fault = OSError("torn")
    bench.watch.read_all()
    kernel.fault = None

    bench.watch.finish()

    assert bench.book.of(Losses)[-1].unknown == 1
    kernel.close()


def test_unreadable_loss_counters_are_not_recorded_as_nothing_lost(monkeypatch):
    kernel = Feed()
    bench = Bench(kernel=kernel)

    def fail(now_ns):
        raise OSError("gone")

    monkeypatch.setattr(kernel, "losses", fail)
    bench.watch.finish()

    assert bench.book.of(Losses) == []
    kernel.close()


@pytest.mark.parametrize(("status", "flushes"), [(9, 1), (256, 1), (0, 0)])
def test_the_exit_of_a_process_that_failed_goes_to_the_file_at_once(monkeypatch, status, flushes):
    kernel = Feed()
    bench = Bench(kernel=kernel)
    done = []
    monkeypatch.setattr(bench.book, "flush", lambda: done.append(1), raising=False)
    kernel.say(msgspec.structs.replace(exited(11, START_NS), status=status))
    bench.watch.read_all()

    assert len(done) == flushes
    kernel.close()


def foreign_signal(**fields):
    values = dict.fromkeys(SignalSent.__struct_fields__, 0) | {"source": "bpf", "comm": "", "sender_comm": ""}
    return SignalSent(**(values | {"sender_parent_comm": "", "signal": 15, "info": 3, "tgid": 5} | fields))


@pytest.mark.parametrize(
    ("fields", "recorded"),
    [({}, MAX_FOREIGN_SIGNALS), ({"in_tree": 1}, 300), ({"info": 1, "signal": 9}, 300), ({"tgid": os.getpid()}, 300)],
    ids=["others", "the job's", "the kernel's", "the tracer's"],
)
def test_a_flood_of_other_processes_signals_does_not_fill_the_recording(bench, fields, recorded):
    for _ in range(300):
        bench.watch.take(foreign_signal(**fields))
    bench.watch.finish()

    assert len(bench.book.of(SignalSent)) == recorded
    assert [e for e in bench.book.events if isinstance(e, str)] == (
        [] if recorded == 300 else ["200 signals between processes outside the job were not recorded"]
    )


@pytest.mark.parametrize(("marked", "ours"), [(11, True), (99, False)])
def test_a_victim_that_lived_and_died_within_one_batch_is_one_of_the_job(monkeypatch, marked, ours):
    kernel = Feed()
    bench = Bench(kernel=kernel)
    bench.watch.take(started())
    done = []
    monkeypatch.setattr(bench.watch.sampler, "at_mark", lambda _, **said: done.append(said))
    mark = Scene().mark(marked, marked, start_ns=START_NS)
    for event in (forked(11, START_NS), mark, exited(11, START_NS)):
        kernel.say(event)
    bench.watch.read_all()

    assert done == [{"ours": ours}]
    kernel.close()

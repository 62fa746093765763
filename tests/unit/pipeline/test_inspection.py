# SPDX-License-Identifier: Apache-2.0
"""Who is looked at, and what becomes of what was seen."""

import time

import pytest

from tests.unit.pipeline.bench import Bench
from tests.unit.pipeline.stand_ins import START_NS
from tests.unit.pipeline.test_members import execed, exited, forked, started
from tracer.events import ProcessLooked, ProcessSample, ProcessSeen, TrainingLine
from tracer.pipeline.inspection import LOOK_AFTER_FORK_NS, MOST_AGAIN
from tracer.pipeline.looks import AFTER_NS
from tracer.units import NS_PER_S

LAST_NS = max(AFTER_NS)


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


def test_what_ran_already_is_looked_at_at_the_next_tick_whatever_has_just_been_forked(bench):
    bench.watch.take(forked(11, START_NS))
    bench.watch.join(ProcessSeen(ts_ns=1, source="proc", start_ns=START_NS, tgid=12, parent_tgid=10, comm="x"))
    assert bench.inspector.looks == 0
    assert {identity.tgid for identity in bench.watch.inspection.unseen()} == {12}

    bench.watch.tick(time.monotonic_ns())
    bench.watch.read_all()

    assert [event.tgid for event in bench.book.of(ProcessSeen)] == [12, 12]
    assert not bench.watch.inspection.unseen()


@pytest.mark.parametrize("fault", [None, OSError("it went away")], ids=["gone", "unreadable"])
def test_a_look_that_finds_nothing_has_come_to_its_end_as_well(bench, fault):
    def look(_):
        if fault is not None:
            raise fault

    bench.sources.processes.seen = look
    bench.watch.take(started())
    bench.watch.read_all()

    assert not bench.watch.inspection.unseen()


def test_the_first_process_of_the_job_is_looked_at_at_once(bench):
    bench.watch.take(started())

    assert bench.inspector.looks == 1


def test_one_that_is_gone_by_then_is_not_looked_at(bench):
    bench.watch.take(forked(11, START_NS))
    bench.watch.take(exited(11, START_NS))

    bench.watch.tick(time.monotonic_ns() + LOOK_AFTER_FORK_NS)

    assert bench.inspector.looks == 0


def test_at_the_end_what_is_still_to_be_looked_at_is(bench):
    bench.watch.take(forked(11, START_NS))

    bench.watch.inspection.hurry()

    assert bench.inspector.looks == 1


def test_another_owner_of_the_pid_is_not_taken_for_the_one_that_was_meant(bench):
    bench.watch.take(forked(11, START_NS + NS_PER_S))
    bench.watch.inspection.hurry()
    bench.watch.read_all()

    assert bench.inspector.looks == 1
    assert bench.book.of(ProcessSeen) == []


def test_what_a_look_finds_is_recorded_while_it_changes():
    bench = Bench()
    bench.watch.take(forked(11, START_NS))
    bench.watch.take(execed(11, START_NS))
    now_ns = time.monotonic_ns()
    for after_ns in (*AFTER_NS, AFTER_NS[-1] + NS_PER_S):
        bench.watch.tick(now_ns + after_ns + LOOK_AFTER_FORK_NS)
        bench.watch.read_all()

    assert len(AFTER_NS) == len(bench.sources.processes.looks)
    assert 1 <= len(bench.book.of(ProcessLooked)) <= len(AFTER_NS)


def test_the_watch_wakes_up_for_it_and_not_after_the_end():
    bench = Bench()
    bench.watch.take(forked(11, START_NS))
    bench.watch.take(execed(11, START_NS))
    bench.watch.take(exited(11, START_NS))
    bench.watch.tick(time.monotonic_ns() + 2 * LAST_NS)

    assert [] == bench.sources.processes.looks


def test_a_pid_that_is_anothers_by_now_is_not_recorded():
    bench = Bench()
    bench.watch.take(forked(11, 5 * START_NS))
    bench.watch.take(execed(11, 5 * START_NS))
    bench.watch.tick(time.monotonic_ns() + 2 * LAST_NS)
    bench.watch.read_all()

    assert [] == bench.book.of(ProcessLooked)


def line(about):
    return TrainingLine(ts_ns=1, source="text", about=about, text="x", stream="stderr")


def test_when_the_job_writes_that_memory_was_refused_all_are_looked_at_at_once():
    bench = Bench()
    for pid in (11, 12):
        bench.watch.take(forked(pid, START_NS))
    bench.watch.told(line("host_alloc"))
    bench.watch.told(line("host_alloc"))  # a traceback says it several times

    assert [11, 12] == bench.sources.processes.looks
    assert {sample.tgid for sample in bench.book.of(ProcessSample)} == {11, 12}


@pytest.mark.parametrize("about", ["progress", "exception", "worker_killed"])
def test_other_lines_set_off_no_look(about):
    bench = Bench()
    bench.watch.take(forked(11, START_NS))
    bench.watch.told(line(about))

    assert [] == bench.sources.processes.looks


def test_very_many_are_not_looked_at_for_a_line():
    bench = Bench()
    for pid in range(11, 12 + MOST_AGAIN):
        bench.watch.take(forked(pid, START_NS))
    bench.watch.told(line("host_alloc"))

    assert [] == bench.sources.processes.looks

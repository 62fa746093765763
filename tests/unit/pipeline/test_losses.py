# SPDX-License-Identifier: Apache-2.0
"""What was lost is counted, and recorded when it moves."""

import time

import pytest

from tests.unit.pipeline.bench import Bench
from tests.unit.pipeline.stand_ins import Feed
from tracer.events import LogGap, Losses
from tracer.units import NS_PER_S


@pytest.fixture
def bench():
    return Bench()


def test_overwritten_log_records_are_counted_among_the_losses(bench):
    for lost in (3, 4):
        bench.watch.take(LogGap(ts_ns=1, source="kmsg", lost=lost))

    bench.watch.finish()

    assert bench.book.of(Losses)[-1].log_gaps == 7


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


@pytest.mark.parametrize("naming", [False, True])
def test_stacks_that_got_no_names_in_time_are_no_silent_loss(naming):
    kernel = Feed()
    kernel.naming = naming
    bench = Bench(kernel=kernel)
    bench.watch.finish()
    kernel.close()

    assert naming == any("did not get their names" in str(told) for told in bench.book.events)

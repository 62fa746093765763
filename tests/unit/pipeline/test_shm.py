# SPDX-License-Identifier: Apache-2.0
"""When it is looked whose the memory in /dev/shm is, and what that may cost."""

import pytest

from tests.unit.pipeline.stand_ins import START_NS, Processes
from tracer.events import JobStarted
from tracer.pipeline import shm
from tracer.pipeline.members import Members
from tracer.pipeline.shm import COST_SHARE, LEAST_BYTES, LONGEST_PAUSE_NS, NEAR_PAUSE_NS, PAUSE_NS, ShmWatch
from tracer.units import MIB, NS_PER_MS, NS_PER_S

SOME = 64 * MIB


class AtOnce:
    """A helper thread that has done it already, or never does."""

    def __init__(self, *, hangs=False):
        self.hangs, self.asked, self.results = hangs, 0, []

    def submit(self, work):
        self.asked += 1
        if not self.hangs:
            self.results.append(work())


class Bench:
    def __init__(self, **options):
        self.processes, self.helper, self.members = Processes(), AtOnce(**options), Members()
        self.members.apply(JobStarted(ts_ns=1, source="job", tgid=10, start_ns=START_NS))
        self.watch = ShmWatch(self.processes, self.helper, self.members)

    def used(self, now_ns, size, *, near=False, who="/job"):
        self.watch.used(now_ns, {who: size}, near=near)
        return self.helper.asked


def test_whose_it_is_is_asked_of_the_whole_job_as_it_grows():
    bench = Bench()

    assert bench.used(0, LEAST_BYTES - 1) == 0
    assert bench.used(1, LEAST_BYTES) == 1
    assert bench.processes.scans == [(10,)]


def test_what_stays_as_it_is_is_not_looked_at_again():
    bench = Bench()
    for second in range(100):
        bench.used(second * NS_PER_S, SOME + second * 1024)

    assert bench.helper.asked == 1


@pytest.mark.parametrize(("near", "pause_ns"), [(False, PAUSE_NS), (True, NEAR_PAUSE_NS)])
def test_growth_is_looked_at_so_often_and_more_often_near_a_limit(near, pause_ns):
    bench = Bench()
    bench.used(0, SOME, near=near)

    assert bench.used(pause_ns - 1, 2 * SOME, near=near) == 1
    assert bench.used(pause_ns, 2 * SOME, near=near) == 2


def test_a_limit_that_comes_near_ends_a_long_pause():
    bench = Bench()
    bench.used(0, SOME)

    assert bench.used(NEAR_PAUSE_NS, 2 * SOME, near=True) == 2


@pytest.mark.parametrize(
    ("cost_ns", "pause_ns"), [(10 * NS_PER_MS, COST_SHARE * 10 * NS_PER_MS), (NS_PER_S, LONGEST_PAUSE_NS)]
)
def test_a_look_that_costs_much_is_followed_by_a_long_pause_within_bounds(monkeypatch, cost_ns, pause_ns):
    bench = Bench()
    spent_ns = iter((0, cost_ns, 0, 0))
    monkeypatch.setattr(shm.time, "thread_time_ns", lambda: next(spent_ns))
    bench.used(0, SOME, near=True)

    assert bench.used(pause_ns - 1, 4 * SOME, near=True) == 1
    assert bench.used(pause_ns, 4 * SOME, near=True) == 2


def test_one_that_hangs_is_the_last():
    bench = Bench(hangs=True)
    for second in range(100):
        bench.used(second * NS_PER_S, (second + 1) * SOME)

    assert bench.helper.asked == 1


def test_one_that_fails_is_not_the_last():
    bench = Bench()

    def fail(tgids):
        raise OSError

    bench.processes.shm_files = fail
    with pytest.raises(OSError):  # noqa: PT011 - the helper counts it
        bench.used(0, SOME)

    with pytest.raises(OSError):  # noqa: PT011
        bench.used(PAUSE_NS, 2 * SOME)


def test_any_of_those_who_count_may_grow():
    bench = Bench()
    bench.watch.used(0, {"/job": SOME, "/dev/shm": 100 * SOME}, near=False)
    bench.watch.used(PAUSE_NS, {"/job": 2 * SOME, "/dev/shm": 101 * SOME}, near=False)

    assert bench.helper.asked == 2

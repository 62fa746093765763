# SPDX-License-Identifier: Apache-2.0
"""When samples are taken, and which are kept."""

import itertools
import time
from collections import Counter

import msgspec
import pytest

from tests.unit.pipeline.stand_ins import START_NS, Feed, sources
from tracer.events import (
    CgroupSample,
    JobStarted,
    ProcessGone,
    ProcessSample,
    ReclaimSample,
    TmpfsFill,
    TmpfsSample,
)
from tracer.pipeline.members import Members
from tracer.pipeline.sampler import (
    COST_SHARE,
    DENSE_NS,
    FAULTS,
    LONGEST_PAUSE_NS,
    MOST_MOVERS,
    WATCH_NS,
    Sampler,
    near_its_limit,
)
from tracer.units import NO_LIMIT_BYTES, NS_PER_S


class Notebook:
    """A journal that only remembers."""

    def __init__(self):
        self.events, self.last = [], {}

    def append(self, event):
        self.events.append(event)

    def append_changed(self, key, event, like=None):
        like = event if like is None else like
        if self.last.get(key) == like:
            return False
        self.last[key] = like
        self.events.append(event)
        return True

    def attempt(self, what, action, otherwise):
        try:
            return action()
        except OSError:
            return otherwise

    def gave_up(self, what):
        return False

    def forget(self, key):
        self.last.pop(key, None)

    def of(self, kind):
        return [event for event in self.events if isinstance(event, kind)]


class Bench:
    def __init__(self, **changes):
        self.notebook, self.members, self.sources = Notebook(), Members(), sources(**changes)
        self.members.apply(JobStarted(ts_ns=1, source="job", tgid=10, start_ns=START_NS))
        self.sampler = Sampler(self.sources, self.notebook, self.members)
        self.sampler.watch("/job")


@pytest.fixture
def bench():
    return Bench()


@pytest.fixture
def watched():
    """The same where the kernel tells of every process."""
    kernel = Feed()
    yield Bench(kernel=kernel)
    kernel.close()


def test_a_sample_that_does_not_change_is_kept_once(bench):
    now_ns = time.monotonic_ns()
    for second in range(3):
        bench.sampler.tick(now_ns + second * NS_PER_S)

    assert len(bench.notebook.of(ProcessSample)) == 1
    assert len(bench.notebook.of(CgroupSample)) == 1


def test_far_from_a_limit_samples_are_taken_once_a_second(watched):
    bench = watched
    now_ns = time.monotonic_ns()
    bench.sampler.tick(now_ns)
    bench.sources.processes.rss_bytes += 1
    bench.sampler.tick(now_ns + WATCH_NS)
    assert len(bench.notebook.of(ProcessSample)) == 1

    bench.sampler.tick(now_ns + NS_PER_S)

    assert len(bench.notebook.of(ProcessSample)) == 2
    assert bench.sampler.due_ns() >= now_ns + NS_PER_S + WATCH_NS


def test_near_a_limit_samples_are_dense(bench):
    now_ns = time.monotonic_ns()
    bench.sampler.tick(now_ns)
    bench.sources.cgroups.usage_bytes = 950

    bench.sampler.tick(now_ns + WATCH_NS)

    assert bench.notebook.of(CgroupSample)[-1].usage_bytes == 950
    assert bench.sampler.due_ns() == now_ns + WATCH_NS + DENSE_NS


def test_reclaim_in_the_jobs_own_cgroup_makes_samples_dense():
    kernel = Feed()
    bench = Bench(kernel=kernel)
    now_ns = time.monotonic_ns()
    bench.sampler.tick(now_ns)
    kernel.reclaim = lambda _: [
        ReclaimSample(ts_ns=1, cgroup_id=77, memcg_runs=1, memcg_stall_ns=1, direct_runs=0, direct_stall_ns=0)
    ]

    bench.sampler.tick(now_ns + WATCH_NS)

    assert bench.sampler.due_ns() == now_ns + WATCH_NS + DENSE_NS
    assert len(bench.notebook.of(ReclaimSample)) == 1
    kernel.close()


@pytest.mark.parametrize("ours, samples", [(True, 2), (False, 1)])
def test_a_mark_in_the_job_brings_a_round_at_once(watched, ours, samples):
    bench = watched
    now_ns = time.monotonic_ns()
    bench.sampler.tick(now_ns)
    bench.sources.processes.rss_bytes += 1

    bench.sampler.at_mark(now_ns + DENSE_NS, ours=ours)

    assert len(bench.notebook.of(ProcessSample)) == samples


def test_a_process_that_is_missing_is_gone_after_a_while_and_never_called_exited(watched):
    bench = watched
    now_ns = time.monotonic_ns()
    bench.sources.processes.gone.add(10)
    bench.sampler.tick(now_ns)
    assert bench.notebook.of(ProcessGone) == []

    bench.sampler.tick(now_ns + NS_PER_S)

    assert [(event.tgid, event.start_ns) for event in bench.notebook.of(ProcessGone)] == [(10, START_NS)]
    assert len(bench.members) == 0


def test_the_last_round_says_of_every_process_that_lives_that_it_does(watched):
    bench = watched
    now_ns = time.monotonic_ns()
    for _ in range(2):
        bench.sampler.tick(now_ns)
    before = len(bench.notebook.of(ProcessSample))
    bench.sampler.finish(now_ns)

    assert [10] == [sample.tgid for sample in bench.notebook.of(ProcessSample)[before:]]


def test_without_the_kernels_word_a_process_that_is_missing_is_gone_at_once(bench):
    bench.sources.processes.gone.add(10)
    bench.sampler.finish(time.monotonic_ns())

    assert [event.tgid for event in bench.notebook.of(ProcessGone)] == [10]


def test_without_the_kernels_word_it_looks_often_at_the_start(bench):
    now_ns = time.monotonic_ns()
    bench.sampler.tick(now_ns)
    assert bench.sampler.due_ns() == now_ns + DENSE_NS

    bench.sampler.tick(now_ns + 3 * NS_PER_S)

    assert bench.sampler.due_ns() == now_ns + 3 * NS_PER_S + WATCH_NS


@pytest.mark.parametrize("counted, samples", [(4, 1), (5, 2)])
def test_without_the_kernels_word_a_count_of_kills_that_rises_brings_a_round_at_once(bench, counted, samples):
    cgroups = bench.sources.cgroups
    cgroups.oom_kill = 4
    bench.sampler.watch("/job")
    now_ns = time.monotonic_ns() + 5 * NS_PER_S
    bench.sampler.tick(now_ns)
    bench.sources.processes.rss_bytes += 1
    cgroups.oom_kill = counted

    bench.sampler.tick(now_ns + WATCH_NS)

    assert len(bench.notebook.of(ProcessSample)) == samples


def test_what_was_counted_before_the_job_began_is_recorded(bench):
    assert len(bench.notebook.of(CgroupSample)) == 1


def test_without_the_kernels_word_proc_is_scanned_for_children(bench):
    bench.sources.processes.below = {1: [10], 10: [11]}

    found = bench.sampler.tick(time.monotonic_ns())

    assert [member.tgid for member in found] == [11]
    assert {event.tgid for event in bench.notebook.of(ProcessSample)} == {10, 11}


def test_a_busy_machine_makes_rounds_longer_and_not_rarer(bench, monkeypatch):
    real, slept_ns = time.monotonic_ns, [0]

    def crowded():
        slept_ns[0] += NS_PER_S  # each look at the clock finds that others had the CPU for a second
        return real() + slept_ns[0]

    now_ns = time.monotonic_ns()
    bench.sampler.tick(now_ns)  # the first time costs more
    monkeypatch.setattr("tracer.pipeline.sampler.time.monotonic_ns", crowded)
    bench.sampler.tick(now_ns + NS_PER_S)

    assert bench.sampler.due_ns() - (now_ns + NS_PER_S) < NS_PER_S / 2


@pytest.mark.parametrize(
    ("cost_ns", "pause_ns"), [(NS_PER_S // 20, COST_SHARE * NS_PER_S // 20), (6 * NS_PER_S, LONGEST_PAUSE_NS)]
)
def test_a_round_that_costs_much_is_followed_by_a_long_pause_within_bounds(bench, monkeypatch, cost_ns, pause_ns):
    spent_ns = iter((0, cost_ns))
    monkeypatch.setattr("tracer.pipeline.sampler.time.thread_time_ns", lambda: next(spent_ns))
    now_ns = time.monotonic_ns()
    bench.sampler.tick(now_ns)

    assert bench.sampler.due_ns() == now_ns + pause_ns


PROCESSES = 64


class Counted:
    """A tree of many processes near the limit for 10 s by a clock of its own, and what was read of it.

    Args:
        moving: of each ten processes so many hold something else at each look.
        round_ns: what a round takes of a CPU.
    """

    def __init__(self, monkeypatch, *, usage, moving=0, round_ns=0):
        kernel = Feed()
        bench = Bench(kernel=kernel)
        for pid in range(11, 10 + PROCESSES):
            bench.members.apply(JobStarted(ts_ns=1, source="job", tgid=pid, start_ns=START_NS))
        self.samples = self.glances = self.rounds = 0
        self.by_pid = Counter()
        spent_ns = itertools.count(0, round_ns)
        monkeypatch.setattr("tracer.pipeline.sampler.time.thread_time_ns", lambda: next(spent_ns))
        processes = bench.sources.processes
        processes.moved = lambda tgid, start_ns: self._glance() and tgid * (tgid % 10 < moving)
        sample = processes.sample
        processes.sample = lambda tgid, start_ns: self._sample(tgid) and sample(tgid, start_ns)
        bench.sources.cgroups.usage_bytes = usage
        now_ns = began_ns = time.monotonic_ns()
        while now_ns < began_ns + 10 * NS_PER_S:
            bench.sampler.tick(now_ns)
            self.rounds += 1
            now_ns = max(now_ns + 1, bench.sampler.due_ns())
        kernel.close()

    def _glance(self):
        self.glances += 1
        return True

    def _sample(self, tgid):
        self.samples += 1
        self.by_pid[tgid] += 1
        return True


def test_far_from_a_limit_each_process_is_read_once_a_second_and_nothing_in_between(monkeypatch):
    counted = Counted(monkeypatch, usage=10)

    assert 9 * PROCESSES <= counted.samples <= 11 * PROCESSES
    assert counted.glances == 0
    assert counted.rounds <= 10 * NS_PER_S // WATCH_NS + 1


def test_near_a_limit_each_process_is_glanced_at_ten_times_a_second_and_read_once(monkeypatch):
    counted = Counted(monkeypatch, usage=950)

    assert 95 <= counted.rounds <= 101
    assert 85 * PROCESSES <= counted.glances <= 91 * PROCESSES
    assert 9 * PROCESSES <= counted.samples <= 11 * PROCESSES


def test_near_a_limit_those_that_move_most_are_read_ten_times_a_second_and_all_once(monkeypatch):
    counted = Counted(monkeypatch, usage=950, moving=10)

    assert 85 * MOST_MOVERS + 9 * PROCESSES <= counted.samples <= 91 * MOST_MOVERS + 11 * PROCESSES
    often = {pid for pid, count in counted.by_pid.items() if count > 50}
    assert often == set(range(10 + PROCESSES - MOST_MOVERS, 10 + PROCESSES))
    assert min(counted.by_pid.values()) >= 9


@pytest.mark.parametrize("round_ns", [NS_PER_S // 500, NS_PER_S // 100, NS_PER_S // 20])
def test_however_near_the_limit_sampling_takes_no_more_than_its_share(monkeypatch, round_ns):
    counted = Counted(monkeypatch, usage=950, moving=10, round_ns=round_ns)

    assert counted.rounds * round_ns <= 10 * NS_PER_S // COST_SHARE + 2 * round_ns
    assert counted.samples <= PROCESSES * counted.rounds


def test_a_few_page_faults_are_no_news_and_many_are(watched):
    bench, faults = watched, iter((0, 10, FAULTS - 1, FAULTS))
    sample = bench.sources.processes.sample
    bench.sources.processes.sample = lambda *process: msgspec.structs.replace(sample(*process), minflt=next(faults))
    bench.notebook.events.clear()
    bench.notebook.last.clear()
    now_ns = time.monotonic_ns()
    for second in range(4):
        bench.sampler.tick(now_ns + second * NS_PER_S)

    assert [event.minflt for event in bench.notebook.of(ProcessSample)] == [0, FAULTS]


def test_the_shared_memory_in_use_is_told_in_each_round(watched):
    bench, told = watched, []
    bench.sampler.shared = lambda now_ns, used, *, near: told.append((used, near))
    fill = TmpfsFill(mount_point="/dev/shm", size_bytes=100, free_bytes=5)
    bench.sources.processes.shm = lambda tgid: TmpfsSample(ts_ns=1, source="proc", tgid=tgid, mounts=(fill,))
    sample = bench.sources.cgroups.sample
    bench.sources.cgroups.sample = lambda path: (one := sample(path)) and msgspec.structs.replace(one, shmem_bytes=7)
    bench.sampler.tick(time.monotonic_ns())

    assert told == [({"/job": 7, "/dev/shm": 95}, True)]


@pytest.mark.parametrize(
    "near, usage, limit, file, shmem",
    [
        (True, 900, 1000, 0, 0),
        (False, 899, 1000, 0, 0),
        (False, 1000, 1000, 500, 0),  # page cache: the kernel takes it back
        (True, 1000, 1000, 500, 450),  # but not shared memory
        (False, 1000, NO_LIMIT_BYTES, 0, 0),
        (False, None, 1000, 0, 0),
        (False, 1000, None, 0, 0),
        (True, 950, 1000, None, None),
    ],
)
def test_near_a_limit_is_what_cannot_be_reclaimed(near, usage, limit, file, shmem):
    sample = CgroupSample(ts_ns=1, path="/", usage_bytes=usage, limit_bytes=limit, file_bytes=file, shmem_bytes=shmem)

    assert near_its_limit(sample) is near

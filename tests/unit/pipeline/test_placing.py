# SPDX-License-Identifier: Apache-2.0
"""Where we stand in the kernel's eyes: believed only where its record of the job's fork agrees with all else."""

import os

import pytest

from tests.unit.pipeline.bench import Book, Inspector
from tests.unit.pipeline.stand_ins import START_NS, Feed, forked, sources
from tests.unit.pipeline.test_members import exited
from tracer.events import Event, ProcessForked
from tracer.pipeline import placing
from tracer.pipeline.placing import Place, Placer
from tracer.pipeline.translation import PidTable, TranslatedKernel, TranslatedProcesses
from tracer.pipeline.watch import Watch
from tracer.sources.namespaces import INITIAL, Namespaces
from tracer.units import NS_PER_S, TICK_NS

JOB, KERNEL_JOB = 10, 5010
INSIDE = Namespaces(own_pids=True)


@pytest.fixture
def feed():
    made = Feed()
    made.tells_forks = False
    yield made
    made.close()


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(placing, "DEADLINE_S", 0.05)


class Bench:
    """A placer in given namespaces, with /proc translated where a run would do that."""

    def __init__(self, feed, here):
        plain = sources(kernel=feed)
        pids = PidTable() if here.own_pids and here.proc_above == 0 else None
        self.processes = plain.processes
        self.sources = sources(
            kernel=feed if feed is None else TranslatedKernel(feed, here, pids),
            processes=plain.processes if pids is None else TranslatedProcesses(plain.processes, pids),
            namespaces=here,
            pids=pids,
        )
        self.feed, self.book = feed, Book()
        self.watch = Watch(self.sources, self.book, Inspector())
        self.placer = Placer(self.sources, self.watch, self.book)

    @property
    def notes(self):
        return [text for text in self.book.events if isinstance(text, str)]

    @property
    def recorded(self):
        return [event for event in self.book.events if isinstance(event, Event)]

    def find(self, *events):
        """With these records sent after the fork."""
        self.placer.begin()
        self.feed.say(*(event() if callable(event) else event for event in events))
        return self.placer.find(JOB)


@pytest.fixture
def bench(feed):
    return lambda here=INITIAL: Bench(feed, here)


def inside(**changes):
    """The job's fork in a container: pid 10 here, 5010 to the kernel."""
    return forked(KERNEL_JOB, **({"own_tgid": JOB, "parent_tgid": 5000, "ns_tgid": JOB, "ns_level": 1} | changes))


def test_outside_of_all_namespaces_the_record_confirms_what_is_known(bench):
    placed = bench().find(lambda: forked(JOB))

    assert (placed.tgid, placed.start_ns, placed.proc_pid, placed.to_track) == (JOB, START_NS + 3, JOB, True)
    assert (placed.event.tgid, placed.event.job_tgid, placed.event.proc) == (os.getpid(), JOB, "same")


def test_in_a_container_the_record_tells_what_the_kernel_calls_us(bench):
    it = bench(INSIDE)
    placed = it.find(inside)

    assert (placed.tgid, placed.start_ns, placed.proc_pid, placed.to_track) == (KERNEL_JOB, START_NS + 3, JOB, True)
    assert (placed.event.tgid, placed.event.job_own_tgid, placed.event.job_ns_level) == (5000, JOB, 1)
    assert placed.event.proc == "own"
    assert (it.watch.own_tgid, it.sources.pids.in_use, it.notes) == (5000, True, [])


@pytest.mark.parametrize(
    "level, proc, shown, hidden", [(1, "initial", KERNEL_JOB, False), (2, "none", None, True)], ids=["host", "other"]
)
def test_a_proc_of_a_namespace_above_is_used_only_where_that_is_the_kernels(bench, level, proc, shown, hidden):
    it = bench(Namespaces(own_pids=True, proc_above=1))
    placed = it.find(lambda: inside(ns_level=level))

    assert (placed.tgid, placed.proc_pid, placed.event.proc) == (KERNEL_JOB, shown, proc)
    assert it.watch.members.hidden is hidden
    assert len(it.notes) == hidden


@pytest.mark.parametrize("here", [INITIAL, INSIDE])
@pytest.mark.parametrize(
    "changes, why",
    [
        ({"start_ns": START_NS + TICK_NS}, "its start by /proc is another one"),
        ({"start_ns": START_NS - 1}, "its start by /proc is another one"),
        ({"ts_ns": 5}, "its clock is not ours"),
        ({"ts_ns": 1 << 62}, "its clock is not ours"),
    ],
)
def test_a_record_that_contradicts_is_not_believed_and_nothing_is_tracked(bench, here, changes, why):
    it = bench(here)
    placed = it.find(lambda: inside(**changes))

    assert placed == Place(JOB, START_NS, JOB, to_track=False)
    assert why in it.notes[0]
    assert it.watch.own_tgid == os.getpid()
    assert it.sources.pids is None or not it.sources.pids.in_use


def test_a_time_namespace_that_is_translated_contradicts_nothing(bench):
    here = Namespaces(monotonic_shift_ns=500 * NS_PER_S, boottime_shift_ns=-2 * TICK_NS)
    start_ns = START_NS + 2 * TICK_NS + 3
    placed = bench(here).find(lambda: forked(JOB, ts_ns=forked(JOB).ts_ns - 500 * NS_PER_S, start_ns=start_ns))

    assert placed.event.job_start_ns == START_NS + 3


def test_a_process_that_proc_does_not_show_is_not_placed(bench):
    it = bench()
    it.processes.gone.add(JOB)

    assert it.find(lambda: forked(JOB)) == Place(JOB, None, JOB, to_track=False)
    assert "does not show" in it.notes[0]


@pytest.mark.parametrize(
    "others",
    [
        [],
        [lambda: inside(own_parent_tgid=4242)],
        [lambda: inside(own_tgid=11)],
        [lambda: inside(own_tgid=0)],
        [lambda: inside(own_tgid=None, own_parent_tgid=None)],
        [inside, lambda: inside(tgid=5011)],
    ],
    ids=["none", "of another parent", "of another child", "not shown", "old", "two that fit"],
)
@pytest.mark.parametrize("here", [INITIAL, INSIDE])
def test_without_the_one_record_the_weaker_way_is_used_and_said(bench, here, others):
    it = bench(here)

    assert it.find(*others) == Place(JOB, START_NS, JOB, to_track=not here.own_pids)
    assert "no record" in it.notes[0]


def test_where_proc_is_of_another_namespace_nothing_is_looked_up_by_our_pid(bench):
    it = bench(Namespaces(own_pids=True, proc_above=1))

    assert it.find() == Place(JOB, None, None, to_track=False)
    assert "no record" in it.notes[0]
    assert "nothing there was used" in it.notes[1]


@pytest.mark.parametrize("here", [Namespaces(own_pids=None, proc_above=None), INITIAL], ids=["unknown", "initial"])
def test_without_bpf_or_a_known_namespace_nobody_is_followed(feed, here):
    it = Bench(None if here is INITIAL else feed, here)
    it.placer.begin()
    found = it.placer.find(JOB)

    assert found.event is None
    assert (feed.switched, len(it.notes)) == ([], here is not INITIAL)
    assert (found.start_ns is None) == (here is not INITIAL)


def test_all_is_followed_only_until_the_record_is_there_and_forks_of_others_are_not_recorded(bench, feed):
    it = bench()
    foreign, ended = forked(4242, own_parent_tgid=1), exited(4243)
    ours = forked(20, in_tree=1)
    it.find(lambda: forked(JOB), foreign, ours)
    feed.say(foreign, ended, type(ended)(**{n: getattr(ended, n) for n in ended.__struct_fields__} | {"in_tree": 0}))
    it.watch.read_all()

    assert feed.switched == [True, False]
    assert it.recorded == [ours, ended]


def test_a_ring_buffer_that_fails_ends_the_search_and_the_following(bench, feed):
    it = bench()
    feed.fault = OSError(5, "input/output error")

    assert it.find(lambda: forked(JOB)).event is None
    assert feed.switched == [True, False]


def test_a_mark_of_a_foreign_process_that_ends_is_told_even_so(bench, feed):
    it = bench()
    fields = {n: getattr(exited(4243), n) for n in exited(4243).__struct_fields__}
    feed.say(type(exited(4243))(**fields | {"in_tree": 0, "oom_marked": 1}))
    it.watch.read_all()

    assert [event.tgid for event in it.recorded] == [4243]
    assert not any(isinstance(event, ProcessForked) for event in it.recorded)

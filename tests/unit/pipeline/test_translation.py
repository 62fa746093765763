# SPDX-License-Identifier: Apache-2.0
"""Pids and clocks of a container, made those of the kernel; what is not known is not guessed."""

import msgspec
import pytest

from tests.unit.pipeline.stand_ins import START_NS, Feed, Processes, forked
from tests.unit.pipeline.test_members import exited
from tracer.events import OomMark, ShmFiles, ShmFilesSample, SignalSent
from tracer.pipeline.translation import PidTable, TranslatedKernel, TranslatedProcesses, in_our_clocks
from tracer.sources.namespaces import INITIAL, Namespaces
from tracer.units import TICK_NS

TRACER, JOB, WORKER = 900, 1000, 1001
"""As the kernel calls them; to us they are 1, 10 and 11."""


@pytest.fixture
def table():
    """What two forks tell."""
    told = PidTable()
    told.learn(forked(JOB, own_tgid=10, parent_tgid=TRACER, own_parent_tgid=1))
    told.learn(forked(WORKER, own_tgid=11, parent_tgid=JOB, own_parent_tgid=10, parent_start_ns=START_NS + 3))
    told.in_use = True
    return told


@pytest.fixture
def inner():
    return Processes()


@pytest.fixture
def processes(inner, table):
    return TranslatedProcesses(inner, table)


def test_a_fork_tells_the_pids_of_the_child_and_of_its_parent(table):
    assert [table.own(tgid) for tgid in (JOB, WORKER, TRACER)] == [10, 11, 1]
    assert table.kernel(11, START_NS) == WORKER
    assert table.kernel(1, 7) == TRACER


def test_a_pid_of_ours_with_another_start_is_another_process(table):
    assert table.kernel(11, START_NS + TICK_NS) is None


def test_an_end_is_forgotten_and_that_of_an_earlier_owner_is_not(table):
    table.learn(exited(WORKER, START_NS + TICK_NS))
    assert table.own(WORKER) == 11

    table.learn(exited(WORKER, START_NS + 3))
    assert (table.own(WORKER), table.kernel(11, START_NS)) == (None, None)


def test_a_pid_of_ours_that_was_taken_again_leads_to_its_new_owner(table):
    table.learn(forked(2000, own_tgid=11, start_ns=START_NS + TICK_NS))

    assert (table.kernel(11, START_NS + TICK_NS), table.kernel(11, START_NS)) == (2000, WORKER)


def test_what_our_namespace_does_not_show_has_no_pid_here(table):
    table.learn(forked(3000, own_tgid=0, own_parent_tgid=None))

    assert table.own(3000) is None


def test_a_process_is_seen_under_the_kernels_pids_with_ours_told(processes, inner, monkeypatch):
    whole = inner.seen(11)
    monkeypatch.setattr(
        inner,
        "seen",
        lambda tgid: msgspec.structs.replace(
            whole, tgid=tgid, parent_tgid=10, parent_start_ns=START_NS, ns_pids=(11, 4), session_id=10
        ),
    )
    seen = processes.seen(WORKER)

    assert (seen.tgid, seen.parent_tgid, seen.parent_start_ns, seen.ns_pids) == (WORKER, JOB, START_NS, (WORKER, 11, 4))
    assert seen.session_id is None


def test_a_parent_that_no_fork_told_of_is_unknown(processes, inner, monkeypatch):
    whole = inner.seen(11)
    monkeypatch.setattr(
        inner, "seen", lambda _: msgspec.structs.replace(whole, tgid=11, parent_tgid=77, parent_start_ns=5)
    )

    assert (processes.seen(WORKER).parent_tgid, processes.seen(WORKER).parent_start_ns) == (0, None)


def test_whoever_took_the_pid_over_is_not_seen_for_it(processes, inner, monkeypatch):
    late = msgspec.structs.replace(inner.seen(11), start_ns=START_NS + TICK_NS)
    monkeypatch.setattr(inner, "seen", lambda _: late)

    assert processes.seen(WORKER) is None


def test_samples_and_starts_are_of_our_own_pid(processes, inner):
    inner.gone.add(WORKER)
    sample = processes.sample(WORKER, START_NS)

    assert (sample.tgid, processes.start_ns(WORKER)) == (WORKER, START_NS)
    inner.gone.add(11)
    assert processes.sample(WORKER, START_NS) is None
    assert processes.start_ns(WORKER) is None


def test_whether_memory_moved_is_asked_of_our_own_pid(processes, inner, monkeypatch):
    monkeypatch.setattr(inner, "moved", lambda tgid, start_ns: 5 * tgid)

    assert processes.moved(WORKER, START_NS) == 55
    assert processes.moved(4242, START_NS) == 1


def test_who_has_shared_memory_open_is_told_in_the_kernels_pids(processes, inner, monkeypatch):
    groups = (ShmFiles(kind="torch", creator=11, holders=(10, 11), files=1, size_bytes=5),)
    answer = ShmFilesSample(ts_ns=1, source="proc", tgid=10, groups=groups)
    monkeypatch.setattr(inner, "shm_files", lambda tgids: answer if tgids == (10, 11) else None)
    sample = processes.shm_files([JOB, WORKER, 4242])

    assert (sample.tgid, sample.groups[0].holders, sample.groups[0].creator) == (JOB, (JOB, WORKER), 11)
    assert processes.shm_files([4242]) is None


@pytest.mark.parametrize("tgid", [10, 11, 4242])
def test_a_pid_that_no_fork_told_of_is_not_taken_for_one_of_ours(processes, tgid):
    assert processes.start_ns(tgid) is None
    assert processes.seen(tgid) is None
    assert processes.sample(tgid, START_NS) is None


def test_the_table_of_all_holds_what_can_be_named(processes, inner):
    inner.below = {10: [11, 12], 0: [10]}

    assert {tuple(row) for row in processes.table()} == {
        (JOB, 0, START_NS, "", False),
        (WORKER, JOB, START_NS, "", False),
    }


def test_where_the_recording_speaks_our_own_pids_nothing_is_changed(processes, inner, table):
    table.in_use = False
    inner.below = {10: [11]}

    assert processes.seen(11) == inner.seen(11)
    assert processes.sample(11, START_NS) == inner.sample(11, START_NS)
    assert processes.start_ns(11) == START_NS
    assert [row.tgid for row in processes.table()] == [11]


@pytest.fixture
def feed():
    made = Feed()
    yield made
    made.close()


SHIFTED = Namespaces(monotonic_shift_ns=500, boottime_shift_ns=30)


def test_one_that_runs_already_is_put_in_and_taken_out_by_the_kernels_clock(feed):
    kernel = TranslatedKernel(feed, SHIFTED, None)
    kernel.track_running(7, 1030)
    kernel.untrack(7, 1030)

    assert (feed.tracked, feed.untracked) == ([(7, 1000)], [(7, 1000)])


def test_records_come_in_our_clocks_and_are_tracked_in_the_kernels(feed):
    kernel, event = TranslatedKernel(feed, SHIFTED, None), forked(WORKER, ts_ns=1, start_ns=2, parent_start_ns=0)
    feed.say(event)
    kernel.track(WORKER, 1030)

    assert kernel.read() == [msgspec.structs.replace(event, ts_ns=501, start_ns=32)]
    assert feed.tracked == [(WORKER, 1000)]


@pytest.mark.parametrize("kind", [OomMark, SignalSent])
def test_all_starts_of_a_record_are_moved_and_no_other_number(kind):
    before = kind(**{n: 9 for n in kind.__struct_fields__ if n != "source"})
    after = in_our_clocks(before, SHIFTED)
    moved = {n for n in kind.__struct_fields__ if getattr(before, n) != getattr(after, n)}

    assert moved == {"ts_ns"} | {n for n in kind.__struct_fields__ if n.endswith("start_ns")}


def test_each_fork_is_learned_from_on_the_way(feed, table):
    kernel = TranslatedKernel(feed, INITIAL, table)
    feed.say(forked(3000, own_tgid=30))
    kernel.read()

    assert table.own(3000) == 30

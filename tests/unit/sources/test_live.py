# SPDX-License-Identifier: Apache-2.0
"""Records to events: counting what is lost, stacks that get their names in a thread, reclaim that changed."""

import threading

import pytest
from hypothesis import given, strategies as st

from tests.unit.record_strategies import events
from tracer.events import LAYOUTS, KernelStack, Kind, OomStack, ReclaimSample
from tracer.kernel.handover import digest_of
from tracer.kernel.session import Reclaim
from tracer.sources.live import MAX_NAMES, MAX_RECORDS, LiveSource, events_h_digest
from tracer.wire import HEAD

STACK = OomStack(ts_ns=50, cpu=0, tgid=7, depth=3, addresses=(10, 20, 30))
PLAIN = [layout for kind, layout in LAYOUTS.items() if kind not in (Kind.OOM_STACK, Kind.PRINTED)]


class Records:
    """A session whose records are put in by hand."""

    def __init__(self, *records: bytes) -> None:
        self.to_come = list(records)
        self.unannounced = False
        self.dropped: dict[int, int] = {}
        self.lost_besides = 0
        self.totals: tuple[Reclaim, ...] = ()

    def fileno(self) -> int:
        return 99

    def waiting(self) -> bool:
        return self.unannounced

    def records(self):
        while self.to_come:
            yield self.to_come.pop(0)

    def drops(self):
        return self.dropped

    def lost(self) -> int:
        return self.lost_besides

    def untracked(self) -> int:
        return 4

    def cuda_lost(self) -> int:
        return 0

    def reclaim_lost(self) -> int:
        return 6

    def reclaim(self):
        return self.totals


def stack(ts_ns: int = 50, addresses: tuple[int, ...] = STACK.addresses) -> bytes:
    changed = OomStack(ts_ns=ts_ns, cpu=0, tgid=7, depth=3, addresses=addresses)
    return LAYOUTS[Kind.OOM_STACK].encode(changed)


def named(*names):
    return lambda addresses: dict(zip(sorted(set(addresses)), names, strict=False))


@given(st.lists(st.sampled_from(PLAIN).flatmap(lambda layout: events(layout).map(lambda e: (layout, e))), max_size=10))
def test_every_record_becomes_its_event_in_order(pairs):
    source = LiveSource(Records(*(layout.encode(event) for layout, event in pairs)))

    assert source.read() == [event for _, event in pairs]
    assert source.losses(0).total == 4


def test_unknown_kinds_and_wrong_sizes_are_counted_and_do_not_stop_the_rest():
    good = LAYOUTS[Kind.PROCESS_EXECED].encode(
        LAYOUTS[Kind.PROCESS_EXECED].event(ts_ns=1, cpu=0, start_ns=2, tgid=3, old_tid=3, comm="x")
    )
    source = LiveSource(Records(HEAD.pack(1, 99, 0), good[:-1], good + b"\0", b"", b"torn", good))

    assert len(source.read()) == 1
    losses = source.losses(5)
    assert (losses.unknown, losses.short) == (1, 4)


def test_records_that_were_lost_and_nobody_knows_of_what_kind_are_losses():
    records = Records(HEAD.pack(1, 99, 0))
    records.lost_besides = 5
    source = LiveSource(records)
    source.read()
    losses = source.losses(12)

    assert losses.unknown == 6
    assert losses.total == 6 + losses.untracked


def test_losses_are_named_by_the_kind_of_record():
    records = Records()
    records.dropped = {Kind.OOM_LEVEL: 3, 31: 1}
    losses = LiveSource(records).losses(12)

    assert losses.ts_ns == 12
    assert losses.dropped == {"oom_level": 3, "31": 1}
    assert losses.untracked == 4


def test_reclaim_that_found_no_room_is_told_and_weakens_no_proof():
    losses = LiveSource(Records()).losses(12)

    assert losses.reclaim == 6
    assert losses.total == losses.untracked


def test_a_stack_comes_later_as_names():
    source = LiveSource(Records(stack()), resolve=named("bpf_trace_run2", "__oom_kill_process", None))

    first = source.read()
    assert source.finish(5)
    assert first + source.read() == [KernelStack(ts_ns=50, mark_ts_ns=50, tgid=7, frames=("__oom_kill_process", "?"))]
    assert not source.pending


def test_addresses_behind_the_depth_are_not_looked_up():
    asked = []
    record = LAYOUTS[Kind.OOM_STACK].encode(OomStack(ts_ns=1, cpu=0, tgid=7, depth=2, addresses=(10, 20, 0)))
    source = LiveSource(Records(record), resolve=lambda a: asked.extend(a) or {})
    source.read()
    source.finish(5)

    assert asked == [10, 20]


@pytest.fixture
def gate():
    """A resolver that waits to be let go, and counts its passes."""

    class Gate:
        def __init__(self) -> None:
            self.open, self.entered, self.passes = threading.Event(), threading.Event(), 0

        def __call__(self, addresses):
            self.passes += 1
            self.entered.set()
            assert self.open.wait(10)
            return dict.fromkeys(addresses, "f")

    held = Gate()
    yield held
    held.open.set()


def test_reading_does_not_wait_for_names(gate):
    records = Records(stack())
    source = LiveSource(records, resolve=gate)

    assert source.read() == []
    assert source.pending
    assert not source.finish(0.01)
    gate.open.set()
    assert source.finish(5)
    assert len(source.read()) == 1


def test_stacks_that_come_meanwhile_share_one_pass(gate):
    records = Records(stack(1))
    source = LiveSource(records, resolve=gate)
    source.read()
    assert gate.entered.wait(5)
    records.to_come = [stack(ts_ns, (ts_ns, 5, 6)) for ts_ns in (2, 3, 4)]
    source.read()
    gate.open.set()

    assert source.finish(5)
    assert [event.mark_ts_ns for event in source.read()] == [1, 2, 3, 4]
    assert gate.passes == 2


def test_a_later_stack_starts_a_thread_again():
    records = Records(stack(1))
    source = LiveSource(records, resolve=named("a", "b", "c"))
    source.read()
    source.finish(5)
    source.read()
    records.to_come = [stack(2)]
    seen = source.read()

    assert source.finish(5)
    assert [event.mark_ts_ns for event in seen + source.read()] == [2]


def test_a_resolver_that_fails_gives_stacks_without_names():
    def broken(_):
        raise ValueError("kallsyms is garbage")

    source = LiveSource(Records(stack()), resolve=broken)
    seen = source.read()

    assert source.finish(5)
    assert seen + source.read() == [KernelStack(ts_ns=50, mark_ts_ns=50, tgid=7, frames=("?", "?", "?"))]


def test_the_kernels_own_functions_are_looked_up_once_and_those_of_modules_each_time():
    asked = []

    def resolve(addresses):
        asked.append(sorted(addresses))
        names = {10: "mark_oom_victim", 20: "xfs_read [xfs]", 30: None}
        return {address: names[address] for address in addresses}

    records = Records(stack(1))
    source = LiveSource(records, resolve=resolve)
    for ts_ns in (1, 2, 3):
        records.to_come = [stack(ts_ns)]
        seen = source.read()
        assert source.finish(10)
        (last,) = [*seen, *source.read()]

        assert last == KernelStack(
            ts_ns=ts_ns, mark_ts_ns=ts_ns, tgid=7, frames=("mark_oom_victim", "xfs_read [xfs]", "?")
        )
    assert asked == [[10, 20, 30], [20, 30], [20, 30]]


def test_of_names_only_so_many_are_kept():
    records = Records(stack())
    source = LiveSource(records, resolve=lambda addresses: dict.fromkeys(addresses, "f"))
    source._names.update(dict.fromkeys(range(1000, 1000 + MAX_NAMES), "g"))
    seen = source.read()

    assert source.finish(10)
    assert [stack.frames for stack in [*seen, *source.read()]] == [("f", "f", "f")]
    assert len(source._names) == MAX_NAMES


def test_there_is_nothing_to_wait_for_without_stacks():
    source = LiveSource(Records())

    assert source.finish(0)
    assert not source.pending


def test_reclaim_is_told_when_it_changed():
    records = Records()
    source = LiveSource(records)
    records.totals = (Reclaim(5, 1, 100, 0, 0, 32), Reclaim(6, 0, 0, 1, 10, 0))
    first = source.reclaim(1)
    records.totals = (Reclaim(5, 1, 100, 0, 0, 32), Reclaim(6, 0, 0, 2, 30, 4))
    second = source.reclaim(2)

    assert [sample.cgroup_id for sample in first] == [5, 6]
    direct = {"direct_runs": 2, "direct_stall_ns": 30, "reclaimed_pages": 4}
    assert second == [ReclaimSample(ts_ns=2, cgroup_id=6, memcg_runs=0, memcg_stall_ns=0, **direct)]
    assert source.reclaim(3) == []


def test_it_is_polled_where_the_session_is():
    assert LiveSource(Records()).fileno() == 99


def test_the_digest_is_of_the_header_that_is_committed(request):
    assert events_h_digest() == digest_of((request.config.rootpath / "bpf" / "events.h").read_bytes())


def test_one_read_ends_whoever_floods_the_ring_buffer():
    class Endless(Records):
        def records(self):
            while True:
                yield stack()[:8]

    source = LiveSource(Endless())

    assert source.read() == []
    assert source.losses(0).short == MAX_RECORDS
    assert source.pending


def test_records_that_the_descriptor_does_not_announce_are_pending():
    records = Records(b"")
    source = LiveSource(records)
    records.unannounced = True

    assert source.pending
    assert not source.naming


def test_a_read_that_took_everything_leaves_nothing_pending():
    source = LiveSource(Records(b"", b""))
    source.read()

    assert not source.pending

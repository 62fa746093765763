# SPDX-License-Identifier: Apache-2.0
"""The reader against perf buffers that lie in ordinary memory, laid out as the kernel does."""

import mmap
import os
import struct

import pytest
from hypothesis import given, strategies as st

from tracer.kernel import perfbuf
from tracer.kernel.perfbuf import CpuBuffer, PerfBuffer, online_cpus, size_each

PAGE = mmap.PAGESIZE
LOST, THROTTLE, SAMPLE = 2, 5, 9


class Producer:
    """The kernel's side of one CPU: entries that wrap, and losses that are told once there is room again."""

    def __init__(self, size_bytes: int = PAGE) -> None:
        self.size_bytes = size_bytes
        self.memory = mmap.mmap(-1, PAGE + size_bytes)
        self.head = self.missing = self.lost = 0

    @property
    def tail(self) -> int:
        return int(struct.unpack_from("=Q", self.memory, 1032)[0])

    def start_at(self, position: int) -> None:
        self.head = position
        struct.pack_into("=QQ", self.memory, 1024, position, position)

    def entry(self, kind: int, body: bytes, size: int | None = None) -> None:
        data = struct.pack("=IHH", kind, 0, 8 + len(body) if size is None else size) + body
        at = self.head % self.size_bytes
        first = data[: self.size_bytes - at]
        self.memory[PAGE + at : PAGE + at + len(first)] = first
        self.memory[PAGE : PAGE + len(data) - len(first)] = data[len(first) :]
        self.head += len(data)
        struct.pack_into("=Q", self.memory, 1024, self.head)

    def send(self, data: bytes) -> bool:
        """As perf_output_begin(): an entry, after what was lost before it; or one more that is lost."""
        body = struct.pack("=I", (len(data) + 4 + 7) // 8 * 8 - 4) + data
        body += bytes(-len(body) % 8)
        told = 24 if self.missing else 0
        if self.head + told + 8 + len(body) - self.tail > self.size_bytes:
            self.missing += 1
            self.lost += 1
            return False
        if told:
            self.entry(LOST, struct.pack("=QQ", 77, self.missing))
            self.missing = 0
        self.entry(SAMPLE, body)
        return True


def record(ts_ns: int, rest: bytes = b"") -> bytes:
    return struct.pack("=Q", ts_ns) + rest


@pytest.fixture
def buffer():
    producer = Producer()
    reader = CpuBuffer(producer.memory)
    yield producer, reader
    reader.close()


def joined(monkeypatch, count: int) -> tuple[list[Producer], PerfBuffer]:
    """Buffers of several CPUs as one, without a kernel."""
    producers = [Producer() for _ in range(count)]
    reader = PerfBuffer(-1, (), PAGE)
    monkeypatch.setattr(reader, "_buffers", [CpuBuffer(producer.memory) for producer in producers])
    return producers, reader


def test_records_come_out_as_they_went_in_without_what_fills_them_up(buffer):
    producer, reader = buffer
    for data in (record(1), record(2, b"eight by" * 5), b""):
        producer.send(data)

    assert list(reader.take()) == [record(1), record(2, b"eight by" * 5), b""]
    assert producer.tail == producer.head
    assert (reader.lost, reader.torn) == (0, 0)


def test_room_is_given_back_record_by_record(buffer):
    producer, reader = buffer
    producer.send(record(1))
    half = producer.head
    producer.send(record(2))
    taken = reader.take()
    next(taken)

    assert producer.tail == half


def test_what_comes_while_reading_is_for_the_next_time(buffer):
    producer, reader = buffer
    producer.send(record(1))
    taken = reader.take()
    assert next(taken) == record(1)
    producer.send(record(2))

    assert list(taken) == []
    assert list(reader.take()) == [record(2)]


@pytest.mark.parametrize("at", [PAGE - 8, PAGE - 16, PAGE - 24, (1 << 40) + PAGE - 8])
def test_an_entry_that_wraps_is_whole(buffer, at):
    producer, reader = buffer
    producer.start_at(at)
    producer.send(record(3, bytes(range(64))))

    assert list(reader.take()) == [record(3, bytes(range(64)))]


def test_losses_are_counted_as_the_kernel_tells_them(buffer):
    producer, reader = buffer
    while producer.send(record(1, bytes(256))):
        pass
    while producer.lost < 5:
        producer.send(record(2, bytes(256)))
    before = len(list(reader.take()))
    producer.send(record(3))

    assert before == PAGE // 280
    assert list(reader.take()) == [record(3)]
    assert reader.lost == 5


def test_entries_of_other_kinds_are_nothing_of_ours(buffer):
    producer, reader = buffer
    producer.entry(THROTTLE, bytes(24))
    producer.send(record(1))

    assert list(reader.take()) == [record(1)]
    assert (reader.lost, reader.torn) == (0, 0)


@pytest.mark.parametrize("size", [0, 7, 8, 12, 20, 4096, 65535])
def test_an_entry_that_is_none_is_counted_and_the_rest_up_to_the_producer_skipped(buffer, size):
    producer, reader = buffer
    producer.send(record(1))
    producer.entry(SAMPLE, bytes(16), size=size)
    producer.send(record(2))
    assert list(reader.take()) == [record(1)]
    producer.send(record(3))

    assert list(reader.take()) == [record(3)]
    assert reader.torn == 1


def test_a_sample_that_says_it_is_longer_than_its_entry_is_counted(buffer):
    producer, reader = buffer
    producer.entry(SAMPLE, struct.pack("=I", 4000) + bytes(12))

    assert list(reader.take()) == [bytes(12)]
    assert reader.torn == 1


def test_a_producer_that_is_further_ahead_than_there_is_room_is_not_believed(buffer):
    producer, reader = buffer
    producer.send(record(1))
    struct.pack_into("=Q", producer.memory, 1024, 3 * PAGE)

    assert list(reader.take()) == []
    assert (reader.torn, producer.tail) == (1, 3 * PAGE)


@given(st.binary(min_size=1, max_size=64), st.integers(0, 2 * PAGE), st.integers(0, 1 << 62))
def test_garbage_ends_the_reading_and_never_the_reader(garbage, ahead, at):
    producer = Producer()
    producer.memory[PAGE:] = (garbage * PAGE)[:PAGE]
    producer.start_at(at // 8 * 8)
    struct.pack_into("=Q", producer.memory, 1024, producer.head + ahead)
    reader = CpuBuffer(producer.memory)
    taken = list(reader.take())
    left = list(reader.take())
    tail = producer.tail
    reader.close()

    assert sum(map(len, taken)) <= ahead
    assert left == []
    assert tail == producer.head + ahead


@given(st.lists(st.one_of(st.none(), st.integers(0, 60)), max_size=200), st.integers(0, PAGE // 8 - 1))
def test_what_is_taken_and_what_is_lost_is_what_was_sent_however_often_it_wraps(steps, at):
    producer = Producer()
    producer.start_at(at * 8)
    reader = CpuBuffer(producer.memory)
    wanted, taken = [], []
    for number, step in enumerate(steps):
        if step is None:
            taken += reader.take()
            continue
        data = record(number, bytes([number % 251]) * 8 * step)
        if producer.send(data):
            wanted.append(data)
    taken += reader.take()
    told = producer.lost - producer.missing
    lost = (reader.lost, reader.torn)
    reader.close()

    assert taken == wanted
    assert lost == (told, 0)


def test_records_of_several_cpus_come_in_order_of_time(monkeypatch):
    (one, two), reader = joined(monkeypatch, 2)
    for ts_ns in (1, 4, 5):
        one.send(record(ts_ns))
    for ts_ns in (2, 3, 6):
        two.send(record(ts_ns))

    assert list(reader.records()) == [record(ts_ns) for ts_ns in range(1, 7)]
    reader.close()


def test_records_of_one_time_and_cpu_keep_their_order(monkeypatch):
    (one, two), reader = joined(monkeypatch, 2)
    parts = [record(7, bytes([n]) * 8) for n in range(6)]
    two.send(record(6))
    for part in parts:
        one.send(part)

    assert list(reader.records()) == [record(6), *parts]
    reader.close()


def test_a_cause_that_is_sent_between_the_looks_at_two_cpus_comes_before_its_effect(monkeypatch):
    """The first CPU is looked at while it is empty; then a fork is sent there, and on the second the child's exec."""
    (one, two), reader = joined(monkeypatch, 2)
    fork, execed, later = record(10), record(20), record(30)
    two.send(record(1))
    look = CpuBuffer.take
    looks = []

    def busy(buffer):
        taken = list(look(buffer))
        looks.append(taken)
        if len(looks) == 1:
            one.send(fork)
            two.send(execed)
        if len(looks) == 3:
            one.send(later)
        return iter(taken)

    monkeypatch.setattr(CpuBuffer, "take", busy)

    assert list(reader.records()) == [record(1), fork, execed, later]
    assert looks[0] == []
    reader.close()


@given(st.data())
def test_no_record_comes_before_one_that_was_sent_before_its_time(data):
    """CPUs send whenever the reader looks; each record's time is taken before it is sent, by a clock for all."""
    clock = 0
    producers = [Producer() for _ in range(3)]
    reader = PerfBuffer(-1, (), PAGE)
    reader._buffers = [CpuBuffer(producer.memory) for producer in producers]
    under_way: dict[int, int] = {}
    sent_at: dict[int, int] = {}
    look = CpuBuffer.take

    def step() -> None:
        nonlocal clock
        cpu = data.draw(st.integers(0, 2))
        clock += 1
        if cpu in under_way:
            ts_ns = under_way.pop(cpu)
            if producers[cpu].send(record(ts_ns)):
                sent_at[ts_ns] = clock
        else:
            under_way[cpu] = clock

    def busy(buffer):
        for _ in range(data.draw(st.integers(0, 4)) if clock < 60 else 0):
            step()
        return look(buffer)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CpuBuffer, "take", busy)
        came = [struct.unpack_from("=Q", each)[0] for _ in range(30) for each in reader.records()]
    reader.close()

    assert sorted(came) == sorted(sent_at)
    for place, ts_ns in enumerate(came):
        assert [later for later in came[place:] if sent_at[later] < ts_ns] == []


@pytest.mark.parametrize(("told", "counted", "lost"), [(0, 0, 0), (5, 5, 0), (5, 9, 0), (5, 0, 5), (5, 2, 3)])
def test_a_loss_that_the_programs_have_counted_is_not_counted_again(monkeypatch, told, counted, lost):
    (one, two), reader = joined(monkeypatch, 2)
    one.entry(LOST, struct.pack("=QQ", 1, told - told // 2))
    two.entry(LOST, struct.pack("=QQ", 1, told // 2))
    assert list(reader.records()) == []
    assert reader.lost(counted=counted) == lost

    two.entry(SAMPLE, bytes(16), size=7)
    assert list(reader.records()) == []
    assert reader.lost(counted=counted) == lost + 1
    reader.close()


@pytest.mark.parametrize(
    ("text", "cpus"), [("0\n", (0,)), ("0-3\n", (0, 1, 2, 3)), ("0-1,4,6-7\n", (0, 1, 4, 6, 7)), ("\n", ())]
)
def test_cpus_that_are_in_use_are_read_as_the_kernel_lists_them(tmp_path, text, cpus):
    (tmp_path / "online").write_text(text)

    assert online_cpus(str(tmp_path / "online")) == cpus


@given(st.integers(1, 1 << 24), st.integers(1, 4096), st.sampled_from([4096, 65536]))
def test_a_buffer_is_a_power_of_two_of_pages(ring_bytes, cpus, page_bytes):
    pages, rest = divmod(size_each(ring_bytes, cpus, page_bytes), page_bytes)

    assert rest == 0
    assert pages.bit_count() == 1


@pytest.mark.parametrize(("cpus", "kib"), [(1, 512), (8, 512), (16, 256), (64, 64), (512, 64)])
def test_many_cpus_have_smaller_buffers(cpus, kib):
    assert size_each(1 << 20, cpus, 4096) == kib << 10


def test_records_are_waiting_until_they_are_read(monkeypatch):
    (one, two), reader = joined(monkeypatch, 2)
    assert not reader.waiting()
    two.send(record(2))
    one.send(record(1))
    assert reader.waiting()
    came = reader.records()
    assert next(came) == record(1)
    assert reader.waiting()  # the other one has been taken, and is still to come

    assert list(came) == [record(2)]
    assert not reader.waiting()
    reader.close()


def test_a_buffer_that_cannot_be_had_leaves_nothing_open(monkeypatch):
    before = os.listdir("/proc/self/fd")

    def refuse(_: int) -> int:
        raise PermissionError(1, "perf_event_open for CPU 0: Operation not permitted")

    monkeypatch.setattr(perfbuf, "open_bpf_output", refuse)

    with pytest.raises(PermissionError, match="CPU 0"):
        PerfBuffer(-1, (0,), PAGE)
    assert os.listdir("/proc/self/fd") == before

# SPDX-License-Identifier: Apache-2.0
"""The reader against a ring buffer that lies in an ordinary file in memory, laid out as the kernel does."""

import mmap
import os
import struct

import pytest
from hypothesis import given, strategies as st

from tracer.kernel.ringbuf import RingBuffer

PAGE = mmap.PAGESIZE
BUSY, DISCARDED = 1 << 31, 1 << 30


class Producer:
    """The kernel's side: two positions and the data, which the file has to hold twice."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.fd = os.memfd_create("ring")
        os.ftruncate(self.fd, 2 * PAGE + 2 * size_bytes)
        self.position = 0

    def consumed(self) -> int:
        return int.from_bytes(os.pread(self.fd, 8, 0), "little")

    def put(self, data: bytes, flags: int = 0) -> int:
        """The record's place, for `submit`."""
        place = self.position
        self.write(place, struct.pack("=II", len(data) | flags, 0) + data)
        self.position += (8 + len(data) + 7) & ~7
        os.pwrite(self.fd, struct.pack("=Q", self.position), PAGE)
        return place

    def submit(self, place: int, length: int) -> None:
        self.write(place, struct.pack("=I", length))

    def write(self, place: int, data: bytes) -> None:
        for index, byte in enumerate(data):
            at = (place + index) % self.size_bytes
            for copy in (0, self.size_bytes):
                os.pwrite(self.fd, bytes([byte]), 2 * PAGE + copy + at)


@pytest.fixture
def ring():
    producer = Producer(PAGE)
    reader = RingBuffer(producer.fd, PAGE)
    yield producer, reader
    reader.close()
    os.close(producer.fd)


def test_records_come_out_as_they_went_in(ring):
    producer, reader = ring
    for data in (b"one", b"", b"sixteen bytes ok"):
        producer.put(data)

    assert list(reader.records()) == [b"one", b"", b"sixteen bytes ok"]
    assert producer.consumed() == producer.position


def test_a_reserved_record_holds_back_what_follows_until_it_is_submitted(ring):
    producer, reader = ring
    producer.put(b"first")
    place = producer.put(b"later", BUSY)
    producer.put(b"last")

    assert list(reader.records()) == [b"first"]
    producer.submit(place, 5)
    assert list(reader.records()) == [b"later", b"last"]


def test_a_discarded_record_is_skipped(ring):
    producer, reader = ring
    producer.put(b"gone", DISCARDED)
    producer.put(b"here")

    assert list(reader.records()) == [b"here"]
    assert producer.consumed() == producer.position


def test_a_record_that_wraps_is_whole(ring):
    producer, reader = ring
    producer.put(b"x" * (PAGE - 24))
    assert list(reader.records()) == [b"x" * (PAGE - 24)]
    producer.put(bytes(range(64)))

    assert list(reader.records()) == [bytes(range(64))]


def test_room_is_given_back_record_by_record(ring):
    producer, reader = ring
    producer.put(b"a" * 8)
    producer.put(b"b" * 8)
    records = reader.records()
    next(records)

    assert producer.consumed() == 16


def test_what_comes_while_reading_is_read_too(ring):
    producer, reader = ring
    producer.put(b"one")
    records = reader.records()
    assert next(records) == b"one"
    producer.put(b"two")

    assert list(records) == [b"two"]


@given(st.lists(st.binary(max_size=300), max_size=60))
def test_any_records_pass_in_order_however_often_they_wrap(datas):
    producer = Producer(PAGE)
    reader = RingBuffer(producer.fd, PAGE)
    read = []
    for data in datas:
        producer.put(data)
        read += reader.records()
    reader.close()
    os.close(producer.fd)

    assert read == datas

# SPDX-License-Identifier: Apache-2.0
"""The one message between loader and session, and what both agree on."""

import json
import os
import socket

import pytest
from hypothesis import given, strategies as st

from tracer.events import LAYOUTS, Kind
from tracer.kernel import handover
from tracer.kernel.handover import Failure, Limits, Report
from tracer.kernel.probes import Hook

texts = st.text(max_size=50)
hooks = st.builds(Hook, texts, st.booleans(), st.none() | texts, st.booleans())
transports = st.sampled_from([handover.RING_BUFFER, handover.PERF_BUFFER])
some_hooks, some_texts = st.lists(hooks, max_size=20).map(tuple), st.lists(texts, max_size=50).map(tuple)
contents = st.builds(Report, texts, some_hooks, transports, some_texts, st.booleans()) | st.builds(
    Failure, texts, texts, st.booleans()
)


@pytest.fixture
def ends():
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    yield pair
    for end in pair:
        end.close()


@given(contents)
def test_what_is_sent_is_received(content):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        handover.send(theirs, content, [])

        assert handover.receive(ours) == (content, [])


def test_descriptors_arrive_in_order_and_are_not_inherited(ends):
    ours, theirs = ends
    pipe = os.pipe()
    handover.send(theirs, Report("digest", ()), list(pipe))
    _, received = handover.receive(ours)

    assert [os.fstat(fd).st_ino for fd in received] == [os.fstat(fd).st_ino for fd in pipe]
    assert [os.get_inheritable(fd) for fd in received] == [False, False]
    for fd in (*received, *pipe):
        os.close(fd)


def test_an_end_that_leaves_without_a_word_is_none(ends):
    ours, theirs = ends
    theirs.close()

    assert handover.receive(ours) == (None, [])


@pytest.mark.parametrize(
    "message",
    [
        b"{",
        b"[]",
        b'{"type": "Report"}',
        b'{"type": "Report", "content": [1]}',
        b'{"type": "Report", "content": ["", [[1]], "ring_buffer"]}',
        b'{"type": "Report", "content": ["", []]}',
        b'{"type": "Report", "content": ["", [], "pigeon"]}',
    ],
    ids=["torn", "list", "empty", "short", "hook", "no transport", "unknown transport"],
)
def test_a_message_that_is_not_ours_is_refused_and_its_descriptors_closed(ends, message):
    ours, theirs = ends
    before = os.listdir("/proc/self/fd")
    pipe = os.pipe()
    socket.send_fds(theirs, [message], list(pipe))
    for fd in pipe:
        os.close(fd)

    with pytest.raises(ValueError, match="not understood"):
        handover.receive(ours)
    assert os.listdir("/proc/self/fd") == before


def test_json_carries_it_and_nothing_that_runs_code(ends):
    ours, theirs = ends
    handover.send(theirs, Failure("btf", "no type information", True), [])

    assert json.loads(ours.recv(1000))["content"] == ["btf", "no type information", True]


def test_counter_slots_do_not_overlap():
    kinds = handover.KIND_SLOTS
    spans = [
        range(handover.DROPPED_AT, handover.DROPPED_AT + kinds),
        range(handover.SENT_AT, handover.SENT_AT + kinds),
        [handover.UNTRACKED_AT],
        [handover.RECLAIM_LOST_AT],
        [handover.FULL_AT],
        [handover.CUDA_LOST_AT],
    ]
    slots = [slot for span in spans for slot in span]

    assert sorted(slots) == list(range(handover.COUNTER_SLOTS))


def test_a_ring_buffer_has_at_least_one_page():
    assert handover.constants(Limits(ring_bytes=1), 4096)["RING_PAGES"] == 1
    assert handover.constants(Limits(ring_bytes=1 << 20), 65536)["RING_PAGES"] == 16


def test_every_record_fits_into_the_room_that_a_perf_buffers_programs_have_for_its_kind():
    assert max(LAYOUTS) < handover.RECORD_KINDS
    assert max(layout.size_bytes for layout in LAYOUTS.values()) <= handover.ROOM_BYTES
    assert all(kind.value < handover.RECORD_KINDS for kind in Kind)


@given(st.binary(), st.binary())
def test_different_headers_have_different_digests(one, other):
    assert (handover.digest_of(one) == handover.digest_of(other)) == (one == other)

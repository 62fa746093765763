# SPDX-License-Identifier: Apache-2.0
import zlib

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from tests.strategies import EVENT_CLASSES, events, events_of, raw_text
from tracer.events import Note
from tracer.recording.line import MAX_LINE_BYTES, BadLine, LineDecoder, LineEncoder, NotUnderstood, intact


def line_of(event) -> bytes:
    buffer = bytearray()
    assert LineEncoder().append(event, buffer)
    assert buffer.endswith(b"\n")
    assert buffer.count(b"\n") == 1
    return bytes(buffer[:-1])


@pytest.mark.parametrize("kind", EVENT_CLASSES, ids=lambda kind: kind.__name__)
@settings(max_examples=25)
@given(data=st.data())
def test_every_event_class_comes_back_as_it_was(kind, data):
    event = data.draw(events_of(kind))

    assert LineDecoder().decode(line_of(event)) == event


@given(event=events(raw_text))
def test_text_that_is_no_unicode_is_written_escaped_and_read_back(event):
    decoded = LineDecoder().decode(line_of(event))

    assert type(decoded) is type(event)
    assert (decoded.ts_ns, decoded.seq) == (event.ts_ns, event.seq)


def test_bytes_that_are_no_utf_8_are_escaped_as_in_kernel_records():
    smuggled = b"caf\xe9 \xff".decode("utf-8", "surrogateescape")

    assert LineDecoder().decode(line_of(Note(ts_ns=1, text=smuggled))).text == "caf\\xe9 \\xff"


def test_a_line_is_json_that_any_tool_reads():
    line = msgspec.json.decode(line_of(Note(ts_ns=7, seq=3, source="tracer", text="x")))

    assert {key: line[key] for key in ("kind", "ts_ns", "seq", "text")} == {
        "kind": "Note", "ts_ns": 7, "seq": 3, "text": "x",
    }  # fmt: skip


@given(event=events(), place=st.integers(min_value=0), bit=st.integers(0, 7))
def test_any_flipped_bit_is_noticed(event, place, bit):
    line = bytearray(line_of(event))
    line[place % len(line)] ^= 1 << bit

    assert not intact(bytes(line))


@given(event=events(), place=st.integers(min_value=0))
def test_a_cut_line_is_noticed(event, place):
    line = line_of(event)

    assert not intact(line[: place % len(line)])


@given(st.binary(max_size=200))
def test_foreign_bytes_are_never_an_event(line):
    with pytest.raises(BadLine):
        LineDecoder().decode(line)


def sealed(body: bytes) -> bytes:
    """A whole line as another version would have written it."""
    return body + b',"crc":"%08x"}' % zlib.crc32(body)


@pytest.mark.parametrize(
    "body",
    [
        b'{"kind":"FromTheFuture","ts_ns":1,"seq":9,"what":[{"a":{}}]',
        b'{"kind":"Note","ts_ns":1,"seq":9,"text":{"now":"structured"}',
        b'{"kind":"Note","ts_ns":1,"seq":9,"source":"quantum","text":"x"',
    ],
    ids=["kind", "type", "source"],
)
def test_what_a_newer_version_wrote_is_whole_but_not_understood(body):
    with pytest.raises(NotUnderstood) as raised:
        LineDecoder().decode(sealed(body))

    assert raised.value.seq == 9


def test_a_field_that_a_newer_version_added_is_passed_over():
    line = sealed(b'{"kind":"Note","ts_ns":1,"seq":9,"text":"x","added":[1,2,{"y":null}]')

    assert LineDecoder().decode(line) == Note(ts_ns=1, seq=9, text="x")


@pytest.mark.parametrize(
    "body", [b'{"ts_ns":1', b'{"kind":"Note","deep":' + b"[" * 5000 + b"]" * 5000], ids=["kind", "depth"]
)
def test_a_whole_line_that_no_version_writes_is_damage(body):
    with pytest.raises(BadLine):
        LineDecoder().decode(sealed(body))


def test_what_does_not_fit_into_a_line_leaves_no_trace():
    buffer = bytearray(b"before\n")

    assert not LineEncoder().append(Note(ts_ns=1, text="x" * MAX_LINE_BYTES), buffer)
    assert buffer == b"before\n"


@pytest.mark.parametrize("number", [10**400, 1 << 64, -(1 << 64)])
@pytest.mark.parametrize("place", [{"ts_ns": None}, {"kind": "Losses", "dropped": {"a": None}}], ids=["flat", "nested"])
def test_a_number_that_no_source_can_have_written_is_no_event(number, place):
    body = msgspec.json.encode({"kind": "Losses", "ts_ns": 1} | place).replace(b"null", str(number).encode())
    line = body[:-1]
    line += b',"crc":"%08x"}' % zlib.crc32(line)

    with pytest.raises(NotUnderstood):
        LineDecoder().decode(line)

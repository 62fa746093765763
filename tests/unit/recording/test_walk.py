# SPDX-License-Identifier: Apache-2.0
"""Where a recording is damaged: the line, the byte, the numbers that lack, and between which times."""

import os

import pytest
from hypothesis import given, strategies as st

from tests.unit.recording.test_reader import lines_of, notes, reader_of
from tracer.errors import RecordingError
from tracer.events import Header, Note
from tracer.recording import MAX_LINE_BYTES, MOST_PLACES, Damage, Inspection, Place
from tracer.recording.line import LineDecoder
from tracer.recording.walk import Walk, lines_of as split


def walked(content: bytes, *, chunk_bytes: int = 1 << 20) -> tuple[list, Damage]:
    chunks = (content[n : n + chunk_bytes] for n in range(0, len(content), chunk_bytes))
    walk = Walk(chunks, LineDecoder())
    return list(walk), walk.damage


def inspected(content: bytes) -> tuple[list, Inspection]:
    fd = os.memfd_create("recording")
    os.write(fd, content)
    inspection = Inspection(fd, "recording")
    return list(inspection), inspection


def at(lines: list[bytes], number: int) -> int:
    """Where a line begins, counted from 0."""
    return sum(map(len, lines[:number]))


def test_a_damaged_line_is_told_with_its_place_and_the_times_around_it():
    lines = notes(5)
    lines[3] = lines[3].replace(b"note 2", b"note 7")
    _, damage = walked(b"".join(lines))

    assert damage.places == (
        Place("damaged", at(lines, 3), 4, 1, len(lines[3]), first_seq=3, last_seq=3, after_ns=1, before_ns=3),
    )
    assert damage.places[0].missing == 1
    assert f"line 4, at byte {at(lines, 3)}" in damage.statements()[0]


def test_damaged_lines_in_a_row_are_one_place():
    lines = notes(8)
    for number in (2, 3, 4, 7):
        lines[number] = lines[number][::-1].replace(b"\n", b"") + b"\n"
    _, damage = walked(b"".join(lines))

    first, second = damage.places
    assert (first.line, first.lines, first.first_seq, first.last_seq) == (3, 3, 2, 4)
    assert (second.line, second.lines, second.missing) == (8, 1, 1)
    assert (damage.damaged_lines, damage.missing, damage.gaps) == (4, 4, 2)
    assert "the first is line 3" in damage.statements()[0]


def test_numbers_that_lack_without_a_trace_are_told_at_the_line_behind_them():
    lines = notes(9)
    del lines[3:6]
    _, damage = walked(b"".join(lines))

    assert damage.places == (Place("missing", at(lines, 3), 4, first_seq=3, last_seq=5, after_ns=1, before_ns=5),)


def test_lines_that_come_again_are_one_place_and_no_event_of_it_is_read_twice():
    lines = notes(4)
    found, damage = walked(b"".join([*lines[:4], *lines[1:4], lines[4]]))

    assert [event.seq for event in found] == [0, 1, 2, 3, 4]
    assert damage.places == (Place("repeated", at(lines, 4), 5, 3, sum(map(len, lines[1:4])), after_ns=2),)


@pytest.mark.parametrize(
    ("end", "torn", "places"),
    [
        (b'{"kind":"No', "the last line is cut", ["torn"]),
        (b"damaged\n", "the last line is damaged", ["torn"]),
        (b"\n", "an empty line", ["torn"]),
        (b"damaged\nand cut", "the last line is cut", ["damaged"]),
    ],
    ids=["cut", "damaged", "empty", "both"],
)
def test_a_torn_end_is_a_place(end, torn, places):
    lines = notes(2)
    _, damage = walked(b"".join(lines) + end)

    assert damage.torn == torn
    assert [place.wrong for place in damage.places] == places
    assert (damage.places[0].offset_bytes, damage.places[0].line) == (at(lines, 3), 4)
    assert damage.places[0].before_ns is None


def test_an_end_without_its_newline_alone_loses_nothing():
    lines = notes(2)
    found, damage = walked(b"".join(lines)[:-1])

    assert len(found) == 3
    assert damage.missing == 0
    assert [place.wrong for place in damage.places] == ["torn"]
    assert not damage.whole


def test_what_a_newer_version_wrote_is_no_damage():
    assert Damage(unknown=3).whole
    assert not Damage(duplicates=1).whole
    assert not Damage(torn="cut").whole


def test_of_very_many_places_the_first_are_told_and_the_others_counted():
    lines = notes(3 * MOST_PLACES)
    lines[1::2] = [b"x\n"] * len(lines[1::2])
    _, damage = walked(b"".join(lines))

    assert len(damage.places) == MOST_PLACES
    assert damage.places_left_out == len(lines[1::2]) - MOST_PLACES
    assert damage.damaged_lines == len(lines[1::2])


@given(st.lists(st.sampled_from([b"a\n", b"\n", b"bc", b"y" * 3000, b"\0\n"]), max_size=12), st.integers(1, 5000))
def test_however_it_is_cut_into_pieces_lines_stand_where_they_stand(parts, chunk_bytes):
    content = b"".join(parts)
    found = list(split(content[n : n + chunk_bytes] for n in range(0, len(content), chunk_bytes)))

    assert [line.content for line in found] == content.removesuffix(b"\n").split(b"\n") * bool(content)
    assert [line.end_bytes for line in found][-1:] == [len(content)][: len(found)]
    assert all(content[line.end_bytes - 1 : line.end_bytes] == b"\n" for line in found if line.whole)


def test_behind_a_line_that_is_too_long_places_are_still_right():
    lines = notes(3)
    lines[2:2] = [b"y" * (3 * MAX_LINE_BYTES + 5) + b"\n"]
    lines[4] = lines[4].replace(b"note", b"nota")
    _, damage = walked(b"".join(lines), chunk_bytes=1000)

    first, last = damage.places
    assert (first.offset_bytes, first.size_bytes) == (at(lines, 2), len(lines[2]))
    assert last.offset_bytes == at(lines, 4)


def test_without_its_header_the_rest_is_inspected_and_no_reader_takes_it():
    lines = notes(4)
    for first in (lines[0].replace(b"0.0", b"0.1"), b"\0" * 200 + b"\n", b""):
        content = first + b"".join(lines[1:])
        found, inspection = inspected(content)

        assert [event.seq for event in found] == [1, 2, 3, 4]
        assert inspection.header is None
        assert inspection.walk.damage.missing == 1
        with pytest.raises(RecordingError):
            reader_of(content)


def test_a_damaged_header_names_the_command_that_says_what_is_left():
    lines = notes(1)
    with pytest.raises(RecordingError) as raised:
        reader_of(lines[0].replace(b"0.0", b"0.1") + lines[1])

    assert raised.value.next_command == "oomtrace verify recording"


@pytest.mark.parametrize("content", [b"", b"\n" * 9, b"hello\nyou\n", bytes(3000), notes(0)[0][:50]], ids=repr)
def test_where_no_event_can_be_read_it_is_no_recording(content):
    with pytest.raises(RecordingError):
        inspected(content)


def test_another_format_is_not_taken_for_damage():
    header = Header(ts_ns=1, source="tracer", version="9", realtime_ns=2, boottime_ns=3, schema="oomtrace.recording/2")
    content = b"".join(lines_of(header, Note(ts_ns=1, source="tracer", text="x")))

    with pytest.raises(RecordingError, match="is of format"):
        inspected(content)

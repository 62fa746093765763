# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys
import textwrap
import zlib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, strategies as st

from tests.strategies import events, headers
from tracer.errors import InputError, PermissionDenied, RecordingError
from tracer.events import Header, Note
from tracer.recording import MAX_LINE_BYTES, Damage, RecordingReader, RecordingWriter, read_recording
from tracer.recording.line import LineEncoder

HEADER = Header(ts_ns=1, source="tracer", version="0.0", realtime_ns=2, boottime_ns=3)


def lines_of(*recorded, numbered: bool = True) -> list[bytes]:
    encoder, lines = LineEncoder(), []
    for seq, event in enumerate(recorded):
        buffer = bytearray()
        encoder.append(msgspec.structs.replace(event, seq=seq) if numbered else event, buffer)
        lines.append(bytes(buffer))
    return lines


def notes(count: int) -> list[bytes]:
    return lines_of(HEADER, *(Note(ts_ns=n, source="tracer", text=f"note {n}") for n in range(count)))


def reader_of(content: bytes) -> RecordingReader:
    fd = os.memfd_create("recording")
    os.write(fd, content)
    return RecordingReader(fd, "recording")


def read(content: bytes) -> tuple[list, Damage]:
    with reader_of(content) as reader:
        return list(reader), reader.damage


@given(headers, st.lists(events(), max_size=8))
def test_what_was_written_is_read_back(header, recorded):
    lines = lines_of(header, *recorded)
    found, damage = read(b"".join(lines))

    assert len(found) == len(lines)
    assert lines_of(*found) == lines
    assert damage == Damage()


@given(headers, st.lists(events(), max_size=6), st.integers(min_value=0))
def test_cut_anywhere_every_whole_event_is_read(header, recorded, place):
    lines = lines_of(header, *recorded)
    content = b"".join(lines)
    place = len(lines[0]) + place % (len(content) - len(lines[0]) + 1)
    # An event is whole once its last byte but the newline is there.
    whole = sum(sum(map(len, lines[: n + 1])) - 1 <= place for n in range(len(lines)))
    found, damage = read(content[:place])

    assert len(found) == whole
    assert lines_of(*found) == lines[:whole]
    assert (damage.torn is None) == content[:place].endswith(b"\n")
    assert (damage.damaged_lines, damage.missing, damage.duplicates) == (0, 0, 0)


@given(st.integers(min_value=0), st.integers(1, 4096))
def test_a_hole_of_nul_bytes_costs_only_the_lines_that_it_touches(place, size):
    lines = notes(60)
    content = b"".join(lines)
    start = len(lines[0]) + place % (len(content) - len(lines[0]))
    holed = content[:start] + bytes(len(content[start : start + size])) + content[start + size :]
    touched = {
        n for n in range(61) if sum(map(len, lines[:n])) < start + size and sum(map(len, lines[: n + 1])) > start
    }
    found, damage = read(holed)
    expected = [n for n in range(61) if n not in touched]

    # Where only a newline is gone, the line behind it is glued to an event that was whole.
    assert {event.seq for event in found} <= set(expected)
    assert len(found) >= len(expected) - 1
    assert damage.damaged_lines >= 1 or damage.torn is not None
    assert damage.missing <= len(touched) + 1


@given(st.integers(min_value=0), st.integers(0, 7))
def test_a_flipped_bit_is_never_read_as_a_fact(place, bit):
    lines = notes(20)
    content = bytearray(b"".join(lines))
    place = len(lines[0]) + place % (len(content) - len(lines[0]))
    content[place] ^= 1 << bit
    found, damage = read(bytes(content))

    assert set(lines_of(*found, numbered=False)) <= set(lines)
    assert damage.damaged_lines or damage.torn


@given(st.binary(max_size=400))
def test_whatever_follows_the_header_the_reader_does_not_fail(garbage):
    found, damage = read(notes(2)[0] + garbage)

    assert found[0] == HEADER
    assert len(found) == 1
    assert bool(garbage) == bool(damage.damaged_lines or damage.torn)


@given(st.binary(max_size=400))
def test_what_is_no_recording_is_said_so(content):
    with pytest.raises(RecordingError) as raised:
        read(content)

    assert "\n" not in str(raised.value)


def test_a_line_in_the_middle_that_is_damaged_is_counted_and_its_number_is_missing():
    lines = notes(5)
    found, damage = read(b"".join([*lines[:3], lines[3].replace(b"note 2", b"note 7"), *lines[4:]]))

    assert [event.seq for event in found] == [0, 1, 2, 4, 5]
    assert damage == Damage(damaged_lines=1, gaps=1, missing=1)
    assert len(damage.statements()) == 2


def test_missing_and_repeated_numbers_are_counted():
    lines = notes(9)
    found, damage = read(b"".join([*lines[:3], *lines[5:7], *lines[8:], lines[4], lines[8]]))

    assert [event.seq for event in found] == [0, 1, 2, 5, 6, 8, 9]
    assert damage == Damage(gaps=2, missing=3, duplicates=2)


def test_two_recordings_in_one_file_are_not_mixed():
    found, damage = read(b"".join(notes(3) + notes(2)))

    assert [event.seq for event in found] == [0, 1, 2, 3]
    assert damage.duplicates == 3


def test_events_of_a_newer_version_are_counted_and_leave_no_gap():
    body = b'{"kind":"FromTheFuture","ts_ns":1,"seq":2'
    lines = notes(3)
    lines[2] = body + b',"crc":"%08x"}\n' % zlib.crc32(body)
    found, damage = read(b"".join(lines))

    assert [event.seq for event in found] == [0, 1, 3]
    assert damage == Damage(unknown=1)
    assert "newer version" in damage.statements()[0]


def test_a_newer_format_is_refused_and_a_newer_minor_one_is_not():
    newer, minor = (
        lines_of(msgspec.structs.replace(HEADER, schema=schema))[0]
        for schema in ("oomtrace.recording/2", "oomtrace.recording/1.7")
    )

    with pytest.raises(RecordingError, match=r"oomtrace\.recording/2.*reads oomtrace\.recording/1"):
        read(newer)
    assert len(read(minor)[0]) == 1


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is empty"),
        (b"\n", "is not a recording"),
        (bytes(5000), "is not a recording"),
        (b"{}\n", "is not a recording"),
        (b'{"kind":"Header","schema":"somebody.else/1"}\n', "is not a recording"),
        (b"[ 670.5] oom-kill:constraint=CONSTRAINT_MEMCG\n", "is not a recording"),
        (b"\x1f\x8b\x08\x00gzip", "is not a recording"),
        (notes(0)[0].replace(b"0.0", b"0.1"), "header, is damaged"),
        (notes(0)[0][:70], "header, is damaged"),
        (notes(1)[1], "is not a recording"),
    ],
    ids=["empty", "newline", "nul", "json", "schema", "log", "gzip", "flipped", "cut", "no-header"],
)
def test_why_a_file_is_no_recording(content, why):
    with pytest.raises(RecordingError, match=why) as raised:
        read(content)

    assert len(str(raised.value)) < 200


def test_a_line_without_end_is_skipped_in_bounded_memory():
    lines = notes(2)
    endless = b"y" * (3 * MAX_LINE_BYTES)
    found, damage = read(lines[0] + lines[1] + endless + b"\n" + lines[2])

    assert [event.seq for event in found] == [0, 1, 2]
    assert damage.damaged_lines == 1
    assert read(lines[0] + endless)[1].torn is not None


def test_an_iteration_can_be_repeated_and_a_growing_file_is_read_on(tmp_path):
    writer = RecordingWriter.create(tmp_path / "x", HEADER)
    with read_recording(tmp_path / "x") as reader:
        assert len(list(reader)) == 1
        writer.append(Note(ts_ns=1, text="later"))
        writer.flush()
        assert len(list(reader)) == 2
    writer.close()


def test_a_folder_a_fifo_and_a_missing_file_are_said_in_one_line(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for name, why in (
        ("", "is a folder"),
        ("fifo", "no regular file"),
        ("missing", "No such file"),
        ("a\0b", "NUL|null"),
    ):
        with pytest.raises(InputError, match=f"(?i){why}") as raised:
            read_recording(f"{tmp_path}/{name}")
        assert "\n" not in str(raised.value)


def test_a_file_of_another_user_is_a_matter_of_permission(tmp_path):
    path = tmp_path / "x"
    path.touch(0o000)
    if os.geteuid() == 0:
        for folder in (tmp_path, *tmp_path.parents[:3]):
            folder.chmod(0o755)
        os.seteuid(65534)
    try:
        with pytest.raises(PermissionDenied, match="cannot read"):
            read_recording(path)
    finally:
        if os.getuid() == 0:
            os.seteuid(0)


def test_a_large_file_streams(tmp_path):
    """A hundred times more file than memory: the reader's peak does not follow the size."""
    path = tmp_path / "large"
    lines = notes(1)
    with path.open("wb") as file:
        file.write(b"".join(lines))
        file.truncate(1 << 30)  # a gigabyte of NUL bytes, as a crashed file system leaves it
    program = f"""
        import resource
        from tracer.recording import read_recording
        limit = 256 << 20
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        reader = read_recording({str(path)!r})
        print(len(list(reader)), reader.torn)
        print(*[line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM:")])
    """
    root = Path(__file__).parents[3]
    child = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=root, env={"PYTHONPATH": str(root)}, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip

    # Not ru_maxrss: that of a child begins with what its parent had.
    said, peak_kib = child.stdout.splitlines()

    assert said == "2 the last line is cut"
    assert int(peak_kib) < 200 * 1024

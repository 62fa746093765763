# SPDX-License-Identifier: Apache-2.0
"""What the command line knows of its output."""

import io
import os
import pty

import pytest

from tracer.cli.console import look_of, write


@pytest.fixture
def terminal():
    master, slave = pty.openpty()
    with open(slave, "w", encoding="utf-8") as stream:
        yield stream
    os.close(master)


def piped(encoding):
    return io.TextIOWrapper(io.BytesIO(), encoding=encoding)


def test_a_terminal_has_colour_unless_someone_objects(terminal):
    assert look_of(terminal, {}).color
    assert not look_of(terminal, {"NO_COLOR": "1"}).color
    assert not look_of(terminal, {"TERM": "dumb"}).color
    assert look_of(terminal, {"NO_COLOR": ""}).color


def test_a_pipe_has_no_colour_and_no_width_of_its_own():
    look = look_of(piped("utf-8"), {})

    assert (look.color, look.width, look.ascii_only) == (False, None, False)


def test_columns_decides_the_width(terminal):
    assert look_of(terminal, {"COLUMNS": "72"}).width == 72
    assert look_of(piped("utf-8"), {"COLUMNS": "72"}).width == 72


@pytest.mark.parametrize("columns", ["", "0", "-3", "x", "99999999999", "٣"])
def test_a_width_that_is_none_is_ignored(columns):
    assert look_of(piped("utf-8"), {"COLUMNS": columns}).width is None


@pytest.mark.parametrize("encoding, ascii_only", [("utf-8", False), ("ascii", True), ("latin-1", True)])
def test_only_utf_8_gets_more_than_ascii(encoding, ascii_only):
    assert look_of(piped(encoding), {}).ascii_only is ascii_only


def test_what_an_encoding_cannot_hold_is_escaped():
    stream = piped("ascii")

    write(stream, "a→\udc80")

    assert stream.buffer.getvalue() == b"a\\u2192\\udc80"


def test_a_stream_that_is_closed_or_missing_takes_nothing():
    stream = piped("utf-8")
    stream.close()

    write(stream, "x")
    write(None, "x")

    assert not look_of(stream, {}).color
    assert look_of(None, {}).width is None

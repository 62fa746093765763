# SPDX-License-Identifier: Apache-2.0
"""torch elastic's error file, as it is written and as somebody may have written it."""

import json

import pytest
from hypothesis import given, strategies as st

from tracer.logs.training.error_file import MAX_BYTES, parse_error_file

WRITTEN = {
    "message": {
        "message": "RuntimeError: DataLoader worker (pid(s) 12) exited unexpectedly\nmore",
        "extraInfo": {"py_callstack": "Traceback ...", "timestamp": "1795990012"},
    }
}


def parsed(document):
    return parse_error_file(json.dumps(document).encode())


def test_a_whole_one_gives_its_first_line_and_when_it_was_written():
    told = parsed(WRITTEN)

    assert told.message == "RuntimeError: DataLoader worker (pid(s) 12) exited unexpectedly"
    assert told.at_s == 1795990012


def test_the_short_form_has_a_message_alone():
    assert parsed({"message": "ValueError: x"}) == ("ValueError: x", None)


@pytest.mark.parametrize(
    "document",
    [[], {}, 1, None, {"message": 5}, {"message": {}}, {"message": {"message": {}}}, {"message": ""},
     {"message": " \n "}, {"message": {"message": None, "extraInfo": 3}}],
    ids=str,
)  # fmt: skip
def test_what_is_none_gives_nothing(document):
    assert parsed(document) is None


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"\xff", b'{"message": "cut', b"[" * 100_000, b'{"message":' * 20_000], ids=range(6)
)
def test_what_is_no_json_gives_nothing(raw):
    assert parse_error_file(raw) is None


@pytest.mark.parametrize("stamp", ["", "soon", "nan", "inf", "-5", 1e308, "9" * 40, [], None, True], ids=range(10))
def test_a_time_that_is_none_is_unknown(stamp):
    told = parsed({"message": {"message": "x", "extraInfo": {"timestamp": stamp}}})

    assert told.message == "x"
    assert told.at_s is None or told.at_s == 1


def test_a_longer_one_is_not_read():
    assert parse_error_file(json.dumps({"message": "x" * MAX_BYTES}).encode()) is None


@given(st.binary(max_size=60))
def test_whatever_is_in_it_does_no_harm(raw):
    parse_error_file(raw)

# SPDX-License-Identifier: Apache-2.0
"""Sizes as people write them."""

import contextlib

import pytest
from hypothesis import given, strategies as st

from tracer.cli.sizes import parse_limit, parse_size
from tracer.errors import UsageError


@pytest.mark.parametrize(
    "text, size_bytes",
    [
        ("0", 0),
        ("1048576", 1 << 20),
        ("512M", 512 << 20),
        ("64G", 64 << 30),
        ("64g", 64 << 30),
        ("64GB", 64 << 30),
        ("1.5GiB", 3 << 29),
        ("1.5 GiB", 3 << 29),
        ("10k", 10240),
        ("2TiB", 2 << 40),
        ("7b", 7),
        (" 1M ", 1 << 20),
    ],
)
def test_a_size_may_be_written_in_many_ways(text, size_bytes):
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize(
    "text", ["", "G", "-1", "1e9", "1.G", "64X", "64 G B", "0x10", "1_000", "٣M", "inf", "9999P", "1M\n2M"]
)
def test_what_is_no_size_is_refused(text):
    with pytest.raises(UsageError):
        parse_size(text)


@given(st.text(max_size=20))
def test_any_text_is_a_size_or_a_usage_error(text):
    with contextlib.suppress(UsageError):
        assert parse_size(text) >= 0


@given(st.integers(0, 1 << 61))
def test_bytes_are_taken_exactly(size_bytes):
    if size_bytes < 10**18:
        assert parse_size(str(size_bytes)) == size_bytes


def test_a_limit_may_be_max_which_is_none():
    assert parse_limit("max") is None
    assert parse_limit("1M") == 1 << 20
    with pytest.raises(UsageError):
        parse_limit("Max ")

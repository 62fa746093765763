# SPDX-License-Identifier: Apache-2.0
"""Numbers become text in one place, whatever the number."""

import pytest
from hypothesis import given, strategies as st

from tracer.units import (
    GIB,
    KIB,
    MIB,
    NO_LIMIT_BYTES,
    NS_PER_MS,
    NS_PER_S,
    format_bytes,
    format_duration,
    format_limit,
    format_utc,
)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "?"),
        (0, "0 B"),
        (1023, "1023 B"),
        (12 * KIB, "12 KiB"),
        (402 * MIB, "402 MiB"),
        (5 * MIB, "5 MiB"),
        (GIB + GIB // 2, "1.5 GiB"),
        (1000 * MIB, "0.98 GiB"),
        (-3 * MIB, "-3 MiB"),
        (2048 * GIB, "2 TiB"),
    ],
)
def test_sizes(size: int | None, text: str) -> None:
    assert text == format_bytes(size)


def test_a_counter_at_its_maximum_has_no_limit() -> None:
    assert "no limit" == format_limit(NO_LIMIT_BYTES)
    assert "?" == format_limit(None)


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (None, "?"),
        (900_000, "900 us"),
        (3_100_000, "3.1 ms"),
        (212 * NS_PER_MS, "212 ms"),
        (4_200 * NS_PER_MS, "4.2 s"),
        (125 * NS_PER_S, "2 min 5 s"),
        (3 * 3600 * NS_PER_S, "3 h 0 min"),
        (-3_100_000, "-3.1 ms"),
    ],
)
def test_durations(span: int | None, text: str) -> None:
    assert text == format_duration(span)


def test_times_are_utc_with_microseconds() -> None:
    assert "2026-11-30T14:02:31.118204Z" == format_utc(1796047351_118204_999)


@given(st.integers())
def test_any_moment_has_a_text_or_none(realtime_ns: int) -> None:
    text = format_utc(realtime_ns)

    assert text is None or text.endswith("Z")


@given(st.integers(-(1 << 65), 1 << 65))
def test_any_number_has_a_short_text(number: int) -> None:
    assert len(format_bytes(number)) < 24
    assert len(format_duration(number)) < 40

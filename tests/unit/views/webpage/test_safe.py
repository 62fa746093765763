# SPDX-License-Identifier: Apache-2.0
"""Outside text is made visible: nothing of it hides, reorders what stands beside it, or piles up."""

import unicodedata

import pytest
from hypothesis import given, strategies as st

from tracer.views.webpage.safe import MOST_CHARACTERS, visible


@pytest.mark.parametrize(
    "text, shown",
    [
        ("plain text, 42 %", "plain text, 42 %"),
        ("grüße €", "grüße €"),
        ("a\x00b", "a\\x00b"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\u202egnp", "\\u202egnp"),
        ("\u2066x\u2069", "\\u2066x\\u2069"),
        ("soft\u00adhyphen", "soft\\xadhyphen"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("no\u00a0break", "no\\xa0break"),
        ("\udc80", "\\udc80"),
        ("\U000e0041", "\\U000e0041"),
        ("blank \u2800\u3164", "blank \\u2800\\u3164"),
        ("e\u0301", "e\u0301"),
        ("e\u0301\u0302", "e\u0301\\u0302"),
        ("\u0301", "\\u0301"),
        ("\\x00 as written", "\\x00 as written"),
    ],
)
def test_what_does_not_show_is_written_out(text, shown):
    assert visible(text) == shown


def test_what_is_written_from_right_to_left_is_set_apart():
    hebrew = "\u05e9\u05dc\u05d5\u05dd"

    assert visible(f"pid {hebrew} 12") == f"pid \u2068{hebrew}\u2069 12"


def test_long_texts_are_cut_and_say_by_how_much():
    assert visible("x" * (MOST_CHARACTERS + 5)) == "x" * MOST_CHARACTERS + " (5 more characters)"


@given(st.text(max_size=300))
def test_nothing_is_left_that_a_page_would_not_show(text):
    shown = visible(text)

    assert all(unicodedata.category(c)[0] != "C" or c in "\u2068\u2069" for c in shown)
    assert shown.count("\u2068") == shown.count("\u2069")
    shown.encode()

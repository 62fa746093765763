# SPDX-License-Identifier: Apache-2.0
"""What makes outside text safe, on its own."""

import unicodedata

import pytest
from hypothesis import given, strategies as st
from rich.cells import cell_len

from tests.strategies_model import hostile_text
from tests.unit.views.kills import GROUP_KILL
from tracer.views.terminal.safe import MOST_CHARACTERS, safe_report, visible

any_character = st.characters(exclude_categories=())


@pytest.mark.parametrize(
    "text, shown",
    [
        ("pt_data_worker", "pt_data_worker"),
        ("a\nb\tc\rd", r"a\nb\tc\rd"),
        ("\x1b[2J", r"\x1b[2J"),
        ("\x9b2J\x7f\x00", r"\x9b2J\x7f\x00"),
        ("\u202eevil", r"\u202eevil"),
        ("zero\u200bwidth", r"zero\u200bwidth"),
        ("\udc80", r"\udc80"),
        ("e\u0301", r"e\u0301"),
        ("\U000e0041", r"\U000e0041"),
        ("\u3164", r"\u3164"),
        ("\u0915\u0903", "\u0915" + r"\u0903"),
        ("\U0001f44d\U0001f3fb", "\U0001f44d" + r"\U0001f3fb"),
        ("\U0001f1e9\U0001f1ea", r"\U0001f1e9\U0001f1ea"),
        ("\u05d0 12", r"\u05d0 12"),
        ("日本語 é µ ≥ 🚀", "日本語 é µ ≥ 🚀"),
        (r"dev-disk\x2dby.slice", r"dev-disk\x2dby.slice"),
        ("two  spaces", "two  spaces"),
        ("a    b", r"a  \x20\x20b"),
        ("✓ 1 the kernel killed it", r"\u2713 1 the kernel killed it"),
    ],
)
def test_what_a_terminal_could_act_on_is_spelled_out(text, shown):
    assert shown == visible(text)


def test_ascii_spells_out_all_else():
    assert visible("café 日 🚀", ascii_only=True) == r"caf\xe9 \u65e5 \U0001f680"


def test_a_long_text_is_cut_and_says_by_how_much():
    assert visible("x" * (MOST_CHARACTERS + 8000)) == "x" * MOST_CHARACTERS + " (8000 more characters)"


@given(hostile_text, st.booleans())
def test_every_character_that_comes_out_takes_cells_of_its_own(text, ascii_only):
    shown = visible(text, ascii_only=ascii_only)

    assert {c for c in shown if c != " " and unicodedata.category(c)[0] in "CMZ"} == set()
    assert {c for c in shown if unicodedata.bidirectional(c) in {"R", "AL", "AN"}} == set()
    assert sum(map(cell_len, shown)) == cell_len(shown)
    assert all(cell_len(c) in {1, 2} for c in shown)
    assert "   " not in shown


@given(st.text(any_character, max_size=50))
def test_what_was_made_visible_stays_as_it_is(text):
    once = visible(text)

    assert once == visible(once)


@given(
    st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=50).filter(lambda text: "   " not in text)
)
def test_plain_text_is_left_alone(text):
    assert text == visible(text)


def test_a_harmless_report_comes_back_equal():
    assert safe_report(GROUP_KILL) == GROUP_KILL

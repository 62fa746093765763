# SPDX-License-Identifier: Apache-2.0
"""A page: whatever is written on it fits its width."""

import shlex

import pytest
from hypothesis import given, strategies as st
from rich.cells import cell_len
from rich.text import Text

from tracer.views.terminal.fit import command_rows
from tracer.views.terminal.page import UNICODE, Page

WORDS = st.lists(st.text("abc", min_size=1, max_size=12), min_size=1, max_size=30).map(" ".join)


@pytest.mark.parametrize("badge", ["", "proved"])
@given(WORDS, st.integers(40, 80))
def test_a_title_fits_with_a_badge_and_without(badge, words, width):
    page = Page(width, UNICODE)
    page.title(Text(words), Text(badge))

    assert [line for line in page.written(color=False).splitlines() if cell_len(line) > width] == []


ARGUMENTS = st.lists(st.text("ab \"'\\;$x=", min_size=1, max_size=5), min_size=1, max_size=12)


@given(ARGUMENTS, st.integers(40, 80))
def test_a_command_that_is_broken_into_rows_is_the_same_to_a_shell(arguments, width):
    page = Page(width, UNICODE)
    page.command(Text("check: "), shlex.join(arguments), indent=5)

    typed = page.written(color=False).partition("check:")[2].replace("\\\n", "")
    assert shlex.split(typed) == arguments


def test_a_command_that_follows_another_one_begins_its_own_row():
    assert command_rows("oomtrace run --until epochs=1 -- sh -c 'a; b'; oomtrace compare a b", 44) == [
        "oomtrace run --until epochs=1 -- sh -c \\",
        "'a; b'",
        "oomtrace compare a b",
    ]


def test_of_an_open_quote_no_word_is_lost():
    assert command_rows("echo it's open; ls", 80) == ["echo it's open", "ls"]

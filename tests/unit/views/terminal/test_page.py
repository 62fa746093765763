# SPDX-License-Identifier: Apache-2.0
"""A page: whatever is written on it fits its width."""

import pytest
from hypothesis import given, strategies as st
from rich.cells import cell_len
from rich.text import Text

from tracer.views.terminal.page import UNICODE, Page

WORDS = st.lists(st.text("abc", min_size=1, max_size=12), min_size=1, max_size=30).map(" ".join)


@pytest.mark.parametrize("badge", ["", "proved"])
@given(WORDS, st.integers(40, 80))
def test_a_title_fits_with_a_badge_and_without(badge, words, width):
    page = Page(width, UNICODE)
    page.title(Text(words), Text(badge))

    assert [line for line in page.written(color=False).splitlines() if cell_len(line) > width] == []

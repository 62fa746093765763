# SPDX-License-Identifier: Apache-2.0
"""Shortening in the middle."""

import pytest
from hypothesis import given, strategies as st
from rich.cells import cell_len

from tests.strategies_model import hostile_text
from tracer.views.terminal.fit import pad, shorten, shorten_words
from tracer.views.terminal.safe import visible


@pytest.mark.parametrize(
    "text, room, short",
    [
        ("/a/b", 4, "/a/b"),
        ("/slurm/uid_1000/job_88/step_0", 22, "/slurm/…/job_88/step_0"),
        ("/slurm/uid_1000/job_88/step_0", 15, "/slurm/…/step_0"),
        ("/slurm/uid_1000/job_88/step_0", 9, "…/step_0"),
        ("/slurm/uid_1000/job_88/step_number_zero", 15, "…/step_n…r_zero"),
        ("/a/docker-" + "0123456789ab" * 6 + ".scope", 40, "/a/docker-0123456789ab….scope"),
        ("averylongname", 7, "ave…ame"),
        ("日本語日本語", 7, "日…本語"),
        ("abcdef", 1, "a"),
        ("abcdef", 0, ""),
    ],
)
def test_the_middle_goes_and_the_end_stays(text, room, short):
    assert short == shorten(text, room, ellipsis="…")


@given(hostile_text.map(visible), st.integers(0, 60), st.sampled_from(["…", "..."]))
def test_the_result_always_fits(text, room, ellipsis):
    assert cell_len(shorten(text, room, ellipsis=ellipsis)) <= room


@given(hostile_text.map(visible), st.integers(1, 60))
def test_each_word_fits_and_a_short_sentence_is_left_alone(text, room):
    short = shorten_words(text, room, ellipsis="…")

    assert all(cell_len(word) <= room for word in short.split(" ")) or cell_len(text) <= room
    assert cell_len(text) > room or short == text


def test_padding_counts_cells_and_not_characters():
    assert pad("日", 4) == "日  "
    assert pad("日", 4, right=True) == "  日"

# SPDX-License-Identifier: Apache-2.0
"""How doctor and selftest look on a terminal: whole outputs, and what must hold for any of them however hostile."""

import pathlib
import unicodedata

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from rich.cells import cell_len

from tests.strategies_model import structs
from tests.unit.views.findings import DIAGNOSES, SELFTESTS
from tracer.doctor.model import Diagnosis, Selftest
from tracer.views import document, terminal

DATA = pathlib.Path(__file__).parents[2] / "data" / "views"
HEADINGS = (
    "Missing", "Not known", "Proof", "There", "Hooks", "By the way", "A kill", "Control", "Caveats",
)  # fmt: skip
GOLDEN = [(name, 80, "plain") for name in DIAGNOSES] + [
    ("nobody", 80, "ascii"),
    ("good", 80, "color"),
    ("nobody", 40, "plain"),
]

large_to_draw = settings(
    max_examples=40, suppress_health_check=[*settings.default.suppress_health_check, HealthCheck.data_too_large]
)


@pytest.mark.parametrize("name, width, how", GOLDEN)
def test_the_whole_diagnosis_is_as_it_should_be(name, width, how):
    expected = (DATA / f"doctor_{name}.{width}.{how}.txt").read_text(encoding="utf-8")

    assert expected == terminal.render_diagnosis(
        DIAGNOSES[name], width=width, color=how == "color", ascii_only=how == "ascii"
    )


@pytest.mark.parametrize("name", SELFTESTS)
def test_the_whole_selftest_is_as_it_should_be(name):
    expected = (DATA / f"selftest_{name}.80.plain.txt").read_text(encoding="utf-8")

    assert expected == terminal.render_selftest(SELFTESTS[name])


def rendered(found, width, ascii_only):
    render = terminal.render_diagnosis if isinstance(found, Diagnosis) else terminal.render_selftest
    return render(found, width=width, ascii_only=ascii_only)


@large_to_draw
@given(structs(Diagnosis) | structs(Selftest), st.integers(40, 130), st.booleans())
def test_whatever_was_found_every_line_fits_and_shows_nothing_but_itself(found, width, ascii_only):
    text = rendered(found, width, ascii_only)
    characters = set(text) - {"\n", " "}

    assert [line for line in text.splitlines() if cell_len(line) > width] == []
    assert {c for c in characters if unicodedata.category(c)[0] in "CMZ"} == set()
    assert not ascii_only or all("!" <= c <= "~" for c in characters)


@large_to_draw
@given(structs(Diagnosis) | structs(Selftest), st.integers(60, 130))
def test_outside_text_never_begins_a_line_of_its_own(found, width):
    lines = rendered(found, width, ascii_only=False).split("\n")

    assert [line for line in lines[1:] if line and not line.startswith(("  ", *HEADINGS))] == []


@large_to_draw
@given(structs(Diagnosis) | structs(Selftest))
def test_the_document_is_ascii_and_reads_back(found):
    text = document.render_document(found)

    assert text.isascii()
    assert type(msgspec.json.decode(text, type=type(found), strict=False)) is type(found)


def test_what_fails_stands_above_what_is_there():
    text = terminal.render_diagnosis(DIAGNOSES["nobody"])

    assert text.index("Missing") < text.index("No module named") < text.index("There")
    assert text.index("BPF programs") < text.index("oom_kill_process hook"), "what a proof rests on comes first"


def test_the_last_lines_say_what_to_expect_for_both_users():
    last = terminal.render_diagnosis(DIAGNOSES["nobody"]).splitlines()[-3:]

    assert any('"oomtrace run" by user 1000 would give: possible' in line for line in last)
    assert any('"sudo oomtrace run" would give: likely' in line for line in last), last

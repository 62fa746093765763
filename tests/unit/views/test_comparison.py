# SPDX-License-Identifier: Apache-2.0
"""The page of `compare`: whole, at a fixed width, and safe whatever the recordings say."""

import pathlib

import pytest
from hypothesis import given, settings, strategies as st
from rich.cells import cell_len

from tests.strategies_model import structs
from tests.unit.verdict.comparison.growing import run
from tracer.units import MIB
from tracer.verdict.comparison import Comparison, compare, judged
from tracer.views import terminal

DATA = pathlib.Path(__file__).parents[2] / "data" / "views"


def leaking(mib_per_epoch):
    scene = run(lambda at_s: (200 + mib_per_epoch * at_s / 10) * MIB, seconds=100, epoch_s=10)
    return judged(scene.events, f"leak-{mib_per_epoch}.oomtrace")


@pytest.fixture(scope="module")
def compared():
    return {name: compare(leaking(100), leaking(rate)) for name, rate in (("fixed", 0), ("reduced", 30))}


PAGES = [("fixed", 80, "plain"), ("reduced", 80, "ascii"), ("reduced", 40, "plain")]


@pytest.mark.parametrize(("name", "width", "how"), PAGES)
def test_the_whole_page_is_as_it_should_be(compared, name, width, how):
    expected = (DATA / f"compared_{name}.{width}.{how}.txt").read_text(encoding="utf-8")

    assert expected == terminal.render_comparison(compared[name], width=width, ascii_only=how == "ascii")


@settings(max_examples=60, deadline=None)
@given(structs(Comparison), st.sampled_from([40, 60, 80, 120]), st.booleans())
def test_any_document_fits_and_cannot_change_the_terminal(document, width, ascii_only):
    page = terminal.render_comparison(document, width=width, ascii_only=ascii_only)

    assert all(cell_len(line) <= width for line in page.splitlines())
    assert "\x1b" not in page
    assert page.isascii() or not ascii_only

# SPDX-License-Identifier: Apache-2.0
"""Whatever a text holds: an answer comes, it is never a proof, and it can be shown in every form."""

from hypothesis import given, settings, strategies as st

from tests.explained import cases, explained
from tracer.views.explained import render, render_brief, render_editor

LINES = sorted({line for case in cases() for _, _, raw in case.texts() for line in raw.splitlines()})
lines = st.one_of(st.sampled_from(LINES), st.binary(max_size=80))
texts = st.lists(
    st.tuples(
        st.sampled_from(["a.log", "b.log"]),
        st.sampled_from(["kernel", "training", "mixed"]),
        st.lists(lines, max_size=25).map(b"\n".join),
    ),
    min_size=1,
    max_size=3,
)


@settings(max_examples=150, deadline=None)
@given(texts)
def test_any_lines_in_any_order_have_an_answer_that_can_be_shown(given_texts):
    verdict = explained(given_texts)

    assert verdict.incidents
    assert all(one.strength in {"likely", "possible"} for one in verdict.incidents)
    for width in (40, 80):
        page = render(verdict, width=width, ascii_only=True)
        assert page.isascii()
        assert not set(page) & set(map(chr, (*range(10), *range(11, 32), 127)))
    render_brief(verdict)
    for row in render_editor(verdict).splitlines():
        assert row.split(":", 4)[3].strip() in {"error", "warning", "info"}


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=2000), st.integers(1, 50))
def test_any_bytes_cut_anywhere_give_the_same_answer(raw, chunk):
    assert explained([("x", "mixed", raw)], chunk) == explained([("x", "mixed", raw)])


@settings(max_examples=60, deadline=None)
@given(st.lists(lines, max_size=25).map(b"\n".join))
def test_nothing_in_a_training_log_is_a_record_of_the_kernel(raw):
    verdict = explained([("train.log", "training", raw)])

    assert not any(link.rung == "kernel_log" for one in verdict.incidents for link in one.proof)

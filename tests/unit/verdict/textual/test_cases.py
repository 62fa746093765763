# SPDX-License-Identifier: Apache-2.0
"""Logs of all kinds of ends: what is said of them, how sure it is, and what must not be said."""

import json
from typing import get_args

import msgspec
import pytest

from tests.architecture.checkout import ROOT
from tests.explained import BEGIN, DATA, END, at, cases, explained, table, written
from tracer.logs.reports import KINDS as REPORTED
from tracer.verdict.model import Cause
from tracer.verdict.textual.citing import _KINDS
from tracer.views.explained import render, render_brief, render_editor

ALL = cases()
NOT_IN_TEXT = {"kernel_sigkill_other", "memory_stall"}
"""No line of a log tells of these."""

each_case = pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)


@each_case
def test_a_log_is_explained_as_it_happened(case):
    verdict = explained(case.texts())
    document = json.loads(msgspec.json.encode(verdict))

    assert {path: at(document, path) for path in case.expect} == case.expect


@each_case
def test_the_whole_document_is_as_it_was_looked_at(case):
    """`python -m tests.explained --write` writes it anew."""
    assert written(case) == (DATA / case.name / "document.json").read_text(encoding="utf-8")


@each_case
def test_the_page_says_what_it_must_and_nothing_that_it_must_not(case):
    verdict = explained(case.texts())
    page = render(verdict, width=120)
    together = " ".join(page.split())

    for words in case.says:
        assert words in together
    for words in case.never:
        assert words not in together
        assert words not in render_brief(verdict)
        assert words not in render_editor(verdict)


@each_case
def test_nothing_is_ever_proved_and_each_statement_can_be_looked_up(case):
    verdict = explained(case.texts())
    lines = [raw.count(b"\n") + 1 for _, _, raw in case.texts()]

    for incident in verdict.incidents:
        assert incident.strength in {"likely", "possible"}
    known = {one.seq for one in verdict.cited}
    for link in verdict.incidents[0].proof:
        assert set(link.evidence) <= known
    files = [name for name, _, _ in case.texts()]
    assert all(1 <= one.line <= lines[files.index(one.file)] for one in verdict.cited)


@each_case
def test_where_chunks_end_changes_nothing(case):
    assert explained(case.texts(), 7) == explained(case.texts())


@each_case
def test_a_page_keeps_to_its_width_but_for_commands(case):
    verdict = explained(case.texts())
    commands = {remedy.verify for incident in verdict.incidents for remedy in incident.remedies}
    for width in (40, 80):
        for row in render(verdict, width=width).splitlines():
            assert len(row) <= width or row.strip() in commands


def test_every_cause_that_a_text_can_tell_of_has_a_case():
    told = {case.expect.get("incidents.0.cause") for case in ALL}

    assert set(get_args(Cause)) - told == NOT_IN_TEXT
    assert len(ALL) >= 60


def test_every_kind_of_line_has_words():
    assert set(REPORTED) - {"not_oom_killed", "crash"} <= set(_KINDS)


def test_each_case_has_its_texts():
    for case in ALL:
        assert {path.name for path in (DATA / case.name).iterdir()} == {name for name, _, _ in case.texts()} | {
            "expected.json",
            "document.json",
        }


def test_the_table_in_the_documentation_is_that_of_the_cases():
    text = (ROOT / "tests" / "README.md").read_text(encoding="utf-8")

    assert text.partition(BEGIN)[2].partition(END)[0].strip() == table()


@pytest.mark.parametrize("name", ["worker-by-pid", "minus-nine", "cuda-oom"])
def test_a_whole_page_is_as_it_was_looked_at(name):
    case = next(case for case in ALL if case.name == name)
    page = (DATA.parent / "views" / f"explain-{name}.txt").read_text(encoding="utf-8")

    assert render(explained(case.texts()), width=80) == page


def test_of_many_kills_that_were_survived_the_last_ones_are_told_first():
    line = "[{}.000001] Out of memory: Killed process {} (python3) total-vm:9kB, anon-rss:{}kB, file-rss:0kB\n"
    raw = "".join(line.format(1000 * n, n, n) for n in range(100, 130)).encode()
    verdict = explained([("dmesg", "kernel", raw)])

    assert [one.victim.pid for one in verdict.incidents] == list(range(129, 109, -1))
    assert "10 more kills, longer before, were left out." in verdict.caveats
    assert "and 13 more (--json has them)" in render(verdict)

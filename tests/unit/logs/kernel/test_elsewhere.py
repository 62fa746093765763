# SPDX-License-Identifier: Apache-2.0
"""Kernel logs of all kernels, in all formats: each is read as its truth says, wherever it is cut into chunks."""

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.kernel_logs import BEGIN, DATA, END, cases, dumped, read, table, unlike_the_truth
from tests.logforms import FORMS
from tracer.events import LoggedKill

ALL = cases()
ROOT = Path(__file__).parents[4]

each_case = pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)


@each_case
def test_a_log_is_read_as_it_happened(case):
    assert unlike_the_truth(case, read(case.raw)) == []


@each_case
def test_a_log_gives_the_events_next_to_it(case):
    assert dumped(read(case.raw)) == case.events


@each_case
def test_where_chunks_end_changes_nothing(case):
    whole = read(case.raw)

    assert read(case.raw, 97) == whole
    assert read(case.raw, len(case.raw) // 2 + 1) == whole


@each_case
def test_what_a_log_says_is_never_trusted_and_tells_where_it_stands(case):
    lines = case.raw.replace(b"\0", b"").decode("utf-8", "replace").split("\n")
    for event in read(case.raw):
        assert event.trusted is False
        assert event.log_line is None or 1 <= event.log_line <= len(lines)
        if isinstance(event, LoggedKill) and event.log_line is not None:
            assert re.search(r"Kill|111,? ?111,? ?109", lines[event.log_line - 1][max(event.log_column - 1, 0) :])


def test_there_are_enough_of_them_and_each_has_both_files():
    assert len(ALL) >= 120
    assert {path.stem for path in DATA.glob("*.log")} == {path.stem for path in DATA.glob("*.json")}
    assert {form for form in FORMS if not any(case.format == form for case in ALL)} == set()
    assert len({case.kernel for case in ALL}) >= 18


def test_the_table_in_the_documentation_is_that_of_the_logs():
    text = (ROOT / "tests" / "README.md").read_text(encoding="utf-8")

    assert text.partition(BEGIN)[2].partition(END)[0].strip() == table()


def test_a_truth_that_does_not_hold_is_found():
    case = next(case for case in ALL if case.truth.get("victims"))
    truth = {**case.truth, "victims": [[1, "init"]]}

    assert len(unlike_the_truth(case._replace(truth=truth), read(case.raw))) == 1


def test_kinds_of_events_are_all_there():
    kinds = Counter(event["kind"] for case in ALL for event in case.events)

    assert kinds.keys() >= {
        "LoggedInvocation", "LoggedTrigger", "LoggedUsage", "LoggedStats", "LoggedTasks", "LoggedOwner", "LoggedChoice",
        "LoggedDecision", "LoggedKill", "LoggedGroupKill", "LoggedReaped", "LoggedOther", "LoggedSwap", "LogGap",
    }  # fmt: skip

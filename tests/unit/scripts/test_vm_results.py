# SPDX-License-Identifier: Apache-2.0
"""scripts/guest/results.py and table.py: from what a guest left to a cell, kept for the next run, in a table."""

import dataclasses
import json
import re

import pytest
from hypothesis import given, strategies as st

from scripts.guest.errors import VmError
from scripts.guest.results import BROKEN, FAIL, NOT_APPLICABLE, PASS, Result, Store, last_words, parse, read, write
from scripts.guest.table import BEGIN, END, put_into, table, totals


@pytest.fixture
def left(tmp_path):
    """What a guest left of one scenario, read."""

    def read(ended, stdout="", stderr=""):
        for name, content in (("ended.json", ended), ("stdout", stdout), ("stderr", stderr)):
            if content is not None:
                (tmp_path / name).write_text(content if isinstance(content, str) else json.dumps(content))
        return parse(tmp_path, died="the guest answered no more")

    return read


def ended(status, *, timed_out=False):
    return {"exit": status, "timed_out": timed_out, "seconds": 7.5}


def cell(outcome=PASS, scenario="leaf", kernel="6.1", reason=None, profile="v2"):
    return Result(scenario, kernel, profile, outcome, reason, 7.5, f"{kernel}.0-1-amd64", "0.26.0")


@pytest.mark.parametrize(
    ("status", "document", "outcome", "reason"),
    [
        (0, {"outcome": "pass", "reason": None}, PASS, None),
        (0, {"schema": "oomtrace.doctor/1"}, PASS, None),
        (1, {"outcome": "fail", "reason": "cause: crash"}, FAIL, "cause: crash"),
        (5, {"outcome": "not_applicable", "reason": "there is no swap"}, NOT_APPLICABLE, "there is no swap"),
        (1, {"outcome": "pass"}, BROKEN, "exit 1, but its document says pass"),
        (0, {"outcome": "fail"}, BROKEN, "exit 0, but its document says fail"),
        (3, {"outcome": "fail"}, BROKEN, "exit 3: no probe"),
        (-9, {}, BROKEN, "exit -9: no probe"),
    ],
    ids=str,
)
def test_exit_code_and_document_say_the_same_or_it_is_no_answer(left, status, document, outcome, reason):
    assert left(ended(status), document, "warning\nno probe\n") == (outcome, reason, 7.5)


def test_a_comparison_that_does_not_agree_is_the_reason(left):
    wrong = {"run": "kill", "what": "cause", "expected": "host_oom_cgroup", "found": "crash", "agrees": False}
    right = {**wrong, "what": "strength", "agrees": True}

    assert left(ended(1), {"comparisons": [right, wrong]}) == (FAIL, "kill, cause: crash", 7.5)


def test_what_the_doctor_found_missing_is_the_reason(left):
    row = {"name": "BPF programs", "found": "not permitted", "ok": "no", "weight": "proof"}
    rows = [{**row, "ok": "yes"}, row, {**row, "weight": "help"}]

    assert left(ended(1), {"capabilities": rows}) == (FAIL, "BPF programs: not permitted", 7.5)


def test_the_commands_own_line_tells_more_than_what_to_type_next(left):
    said = "oomtrace: the loader failed\ntry: oomtrace doctor\n"

    assert left(ended(5), "", said) == (BROKEN, "exit 5: the loader failed", 7.5)


def test_what_never_ended_is_no_answer(left):
    assert left(None, '{"outcome": "pass"}') == (BROKEN, "the guest answered no more", 0)
    assert left(ended(0, timed_out=True)) == (BROKEN, "it did not end within 8 s", 7.5)


@given(st.binary(max_size=60), st.binary(max_size=60), st.sampled_from([0, 1, 5, 139, None, "x"]))
def test_whatever_a_guest_left_is_read_without_an_error(tmp_path_factory, stdout, stderr, status):
    folder = tmp_path_factory.mktemp("left")
    (folder / "ended.json").write_text(json.dumps({"exit": status, "seconds": 1}))
    (folder / "stdout").write_bytes(stdout)
    (folder / "stderr").write_bytes(stderr)
    outcome, reason, _ = parse(folder, died="")

    assert outcome in {PASS, FAIL, NOT_APPLICABLE, BROKEN}
    assert outcome == PASS or (reason and reason.isprintable())


def test_escape_codes_of_a_guest_do_not_reach_the_terminal(left):
    _, reason, _ = left(ended(5), {"outcome": "not_applicable", "reason": "no\x1b[31m swap\n\x07 here"})

    assert reason == "no [31m swap here"


def test_a_panic_is_the_reason_why_a_guest_ended(tmp_path):
    console = tmp_path / "console"
    assert last_words(console) == "the guest ended and left no word"
    console.write_bytes(
        b"oomtrace-guest: started\r\n\xff[ 9.1] Kernel panic - not syncing: System is deadlocked on memory\r\n"
    )

    assert last_words(console) == "\ufffd[ 9.1] Kernel panic - not syncing: System is deadlocked on memory"


@pytest.mark.parametrize(("outcome", "again"), [(PASS, False), (NOT_APPLICABLE, False), (FAIL, True), (BROKEN, True)])
def test_what_is_settled_is_not_run_again(tmp_path, outcome, again):
    store = Store(tmp_path / "digest")
    store.keep(cell(outcome, reason="why"))
    found = Store(tmp_path / "digest").settled("6.1", "v2", "leaf")

    assert found == (None if again else cell(outcome, reason="why"))


@pytest.mark.parametrize("asked", [("6.12", "v2", "leaf"), ("6.1", "v1", "leaf"), ("6.1", "v2", "other")])
def test_a_result_is_of_its_own_kernel_machine_and_scenario(tmp_path, asked):
    Store(tmp_path).keep(cell())

    assert Store(tmp_path).settled(*asked) is None
    assert Store(tmp_path / "other checkout").settled("6.1", "v2", "leaf") is None


@pytest.mark.parametrize("content", ["", "{", "[]", '{"scenario": "leaf"}', '{"nonsense": 1}'])
def test_a_kept_result_that_cannot_be_read_is_none(tmp_path, content):
    store = Store(tmp_path)
    store.keep(cell())
    (tmp_path / "6.1" / "v2" / "leaf.json").write_text(content)

    assert store.settled("6.1", "v2", "leaf") is None


def test_the_table_has_a_row_for_each_scenario_and_says_why_below():
    results = [
        cell(),
        cell(kernel="5.10", outcome=NOT_APPLICABLE, reason="there is no | here"),
        cell(scenario="storm", outcome=FAIL, reason="cause: crash"),
        cell(scenario="storm", kernel="5.10", outcome=NOT_APPLICABLE, reason="there is no | here"),
        cell(scenario="old", kernel="5.10", profile="v1+swap"),
    ]

    assert table(results, ["leaf", "storm", "old"], ["5.10", "6.1", "newest"]) == (
        "| scenario | 5.10.0-1-amd64, bcc 0.26.0 | 6.1.0-1-amd64, bcc 0.26.0 | newest |\n"
        "|---|---|---|---|\n"
        "| `leaf` | n/a (1) | pass |  |\n"
        "| `storm` | n/a (1) | FAIL (2) |  |\n"
        "| `old` | pass v1+swap |  |  |\n"
        "\n"
        "1. there is no \\| here\n"
        "2. cause: crash\n"
    )


def test_a_table_of_passes_alone_has_no_reasons():
    assert table([cell()], ["leaf"], ["6.1"]).splitlines()[-1] == "| `leaf` | pass |"


def test_totals_name_what_there_was():
    assert totals([cell(), cell(), cell(BROKEN)]) == "2 pass, 1 BROKEN"
    assert totals([]) == "nothing was run"


def test_a_table_goes_between_its_marks_and_nowhere_else(tmp_path):
    document = tmp_path / "README.md"
    document.write_text(f"# Tests\n\n{BEGIN}\nold\n{END}\n\nafter\n")
    put_into(document, "new\n")
    once = document.read_text()
    put_into(document, "new\n")

    assert once == f"# Tests\n\n{BEGIN}\n\nnew\n\n{END}\n\nafter\n"
    assert document.read_text() == once


@pytest.mark.parametrize("text", ["", BEGIN, END, f"{END}\n{BEGIN}\n"])
def test_a_document_without_marks_is_left_alone(tmp_path, text):
    document = tmp_path / "README.md"
    document.write_text(text)
    with pytest.raises(VmError, match=re.escape(BEGIN)):
        put_into(document, "new\n")

    assert document.read_text() == text


def test_programs_get_every_cell_of_a_run(tmp_path):
    write(tmp_path / "results.json", [cell(), cell(BROKEN)])
    document = json.loads((tmp_path / "results.json").read_text())

    assert document["schema"] == "oomtrace.vm/1"
    assert [each["outcome"] for each in document["results"]] == ["pass", "broken"]
    assert Result(**document["results"][0]) == cell()


def test_a_document_that_cannot_be_written_is_one_line(tmp_path):
    with pytest.raises(VmError, match="No such file or directory"):
        write(tmp_path / "none" / "results.json", [])


def test_of_a_cell_that_several_runs_have_the_last_one_counts(tmp_path):
    write(tmp_path / "a.json", [cell(BROKEN), dataclasses.replace(cell(), kernel="6.12")])
    write(tmp_path / "b.json", [cell()])

    assert [each.outcome for each in read([tmp_path / "a.json", tmp_path / "b.json"])] == ["pass", "pass"]
    assert [each.outcome for each in read([tmp_path / "b.json", tmp_path / "a.json"])] == ["broken", "pass"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": "oomtrace.vm/1", "results": [{}]}'])
def test_what_no_run_wrote_is_refused(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(VmError, match=r"a\.json (is not what|was written by)"):
        read([tmp_path / "a.json"])

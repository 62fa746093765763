# SPDX-License-Identifier: Apache-2.0
"""`oomtrace repro`: the list, what is refused and how, and which exit code an outcome becomes."""

import json
import os

import pytest

from tracer.cli import main
from tracer.repro import needs, runner
from tracer.repro.catalogue import SCENARIOS
from tracer.repro.scenario import Counters, Result

GUEST = [scenario.name for scenario in SCENARIOS if scenario.where == "guest"]


@pytest.fixture
def played(monkeypatch):
    """What would have been played; each gets this outcome."""
    names = []

    def outcome(outcome, reason=None):
        def play(scenario, environ, *, record=None, log=None):
            names.append((scenario.name, record))
            return Result(
                scenario=scenario.name, outcome=outcome, reason=reason, expected={"cause": ["exited"]},
                found={} if outcome == "not_applicable" else {"cause": "exited", "victim": "a\x1b[31mb"},
                counters=Counters(seen=0, lost=0, kernel=None), kernel_release="6.1", seconds=1.25,
            )  # fmt: skip

        monkeypatch.setattr(runner, "play", play)
        return names

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return outcome


def test_the_list_names_every_scenario_and_fits_eighty_columns(capsys):
    assert main(["repro", "--list"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == [each.name for each in SCENARIOS]
    assert [line for line in lines if len(line) > 80] == []


def test_the_list_as_a_document_has_what_a_program_needs(capsys):
    assert main(["repro", "--list", "--json"]) == 0

    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "oomtrace.repro-list/1"
    named = ("name", "what", "why", "where", "needs", "seconds")
    assert {frozenset(each) for each in document["scenarios"]} == {frozenset(named)}
    assert {each["where"] for each in document["scenarios"]} == {"here", "guest"}
    assert len(document["scenarios"]) == len(SCENARIOS)


@pytest.mark.parametrize("name", GUEST)
def test_what_uses_a_machine_up_is_refused_outside_of_a_guest_in_one_line(played, capsys, monkeypatch, tmp_path, name):
    names = played("pass")
    (tmp_path / "cmdline").write_text("quiet\n")
    monkeypatch.setattr(runner, "is_guest", lambda _: needs.is_guest(str(tmp_path)))

    assert main(["repro", name]) == 4
    assert names == []
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"oomtrace: {name} uses the whole machine up; needs a test VM")
    assert len(said.err.splitlines()) == 1


def test_the_player_itself_refuses_as_well(monkeypatch):
    monkeypatch.setattr(runner, "is_guest", lambda *_: False)
    monkeypatch.setattr(runner, "find_hierarchy", lambda: pytest.fail("went on"))
    scenario = next(each for each in SCENARIOS if each.where == "guest")

    with pytest.raises(runner.PermissionDenied):
        runner.play(scenario, {})


@pytest.mark.parametrize("outcome, code", [("pass", 0), ("fail", 1), ("not_applicable", 5)])
def test_each_outcome_has_its_exit_code_and_its_document(played, capsys, outcome, code):
    names = played(outcome, None if outcome == "pass" else "for a reason")

    assert main(["repro", "memcg-leaf", "--json", "--record", "x"]) == code
    document = json.loads(capsys.readouterr().out)
    assert document["outcome"] == outcome
    assert set(document) == {
        "schema", "scenario", "outcome", "reason", "expected", "found", "counters", "kernel_release", "seconds",
    }  # fmt: skip
    assert names == [("memcg-leaf", "x")]


@pytest.mark.parametrize("outcome", ["pass", "fail", "not_applicable"])
def test_a_page_for_a_person_fits_and_holds_no_escape_codes(played, capsys, outcome):
    played(outcome, "for a reason \x1b[31m")
    main(["repro", "memcg-leaf"])

    out = capsys.readouterr().out
    assert "memcg-leaf" in out
    assert "\x1b" not in out
    assert [line for line in out.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize(
    "words, next_command",
    [
        (["repro"], "oomtrace repro --list"),
        (["repro", "memcg-laef"], "sudo oomtrace repro memcg-leaf"),
        (["repro", "zzz"], "oomtrace repro --list"),
        (["repro", "--list", "memcg-leaf"], "oomtrace repro --list"),
    ],
)
def test_a_wrong_word_is_told_with_what_to_type(capsys, words, next_command):
    assert main(words) == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"try: {next_command}"


def test_without_root_it_says_what_to_type(monkeypatch, capsys):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert main(["repro", "memcg-leaf"]) == 4
    assert (
        capsys.readouterr().err.splitlines()[0].endswith('needs root: sudo "$(command -v oomtrace)" repro memcg-leaf')
    )

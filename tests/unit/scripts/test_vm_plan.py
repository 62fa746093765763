# SPDX-License-Identifier: Apache-2.0
"""scripts/guest/plan.py: which boots a run takes, of which machines, and how long it is said to take."""

import json

import pytest
from hypothesis import given, strategies as st

from scripts.guest.errors import VmError
from scripts.guest.plan import (
    BOOT_S,
    CHECKS,
    PER_BOOT,
    SCENARIO_S,
    Profile,
    Scenario,
    batches,
    choose,
    estimate_s,
    in_words,
    parse_list,
    profile_of,
    timeout_s,
)


def scenario(name: str, *needs: str) -> Scenario:
    return Scenario(name, ("-m", "tracer", "repro", name), needs=frozenset(needs))


LISTED = {
    "schema": "oomtrace.scenarios/1",
    "scenarios": [
        {"name": "leaf", "what": "a limit", "why": "so", "where": "here", "needs": []},
        {"name": "global", "what": "all", "why": "so", "where": "guest", "needs": ["swap"], "seconds": 120},
    ],
}


@pytest.mark.parametrize("document", [LISTED, LISTED["scenarios"]], ids=["document", "list"])
def test_the_catalogue_says_what_there_is(document):
    leaf, everything = parse_list(json.dumps(document))

    assert leaf.command == ("-m", "tracer", "repro", "leaf", "--json", "--record", "{record}")
    assert (everything.needs, everything.seconds) == ({"swap"}, 120)


def test_what_needs_pytorch_is_not_run_in_guests():
    assert parse_list(json.dumps([{"name": "mechanism-x", "what": "x", "needs": ["torch", "shm"]}])) == []


@pytest.mark.parametrize("text", ["", "{}", "[1]", "null", '[{"name": "x"}]', '{"scenarios": 3}'])
def test_what_is_no_catalogue_is_said_to_be_none(text):
    with pytest.raises(VmError, match="no list of scenarios"):
        parse_list(text)


@pytest.mark.parametrize("name", ["../../etc", "a/b", "", ".", "a b", "{record}", "-x"])
def test_a_name_that_could_be_a_path_is_refused(name):
    with pytest.raises(VmError, match="no list of scenarios"):
        parse_list(json.dumps([{"name": name, "what": "x"}]))


def test_scenarios_come_in_the_order_of_the_catalogue():
    known = [scenario("a"), scenario("b"), scenario("c")]

    assert [each.name for each in choose(known, ["c", "a"])] == ["a", "c"]
    assert choose(known, []) == known


def test_a_name_that_is_nobodys_is_refused():
    with pytest.raises(VmError, match="no scenario is called d, e: "):
        choose([scenario("a")], ["a", "e", "d"])


@pytest.mark.parametrize(
    ("needs", "cgroup", "name"),
    [
        ((), None, "v2"),
        (("swap", "memsw"), None, "v2+swap"),
        (("cgroup_v1",), None, "v1"),
        (("freezer_v1",), None, "v1"),
        (("numa", "cgroup_v2"), None, "v2+numa"),
        (("systemd",), "v1", "v1+systemd"),
        (("cgroup_v1",), "v2", "v2"),
        (("swap", "numa", "systemd"), "v1", "v1+swap+numa+systemd"),
        (("lockdown",), None, "v2+lockdown"),
    ],
    ids=str,
)
def test_a_machine_has_what_the_scenario_needs(needs, cgroup, name):
    assert profile_of(scenario("a", *needs), cgroup).name == name


def test_scenarios_that_need_the_same_share_a_boot():
    known = [scenario("a"), scenario("b", "swap"), scenario("c")]
    planned = batches(["6.1", "6.12"], known, None, PER_BOOT)

    assert [(each.kernel, each.profile.name, [one.name for one in each.scenarios]) for each in planned] == [
        ("6.1", "v2", ["a", "c"]),
        ("6.1", "v2+swap", ["b"]),
        ("6.12", "v2", ["a", "c"]),
        ("6.12", "v2+swap", ["b"]),
    ]


@given(
    st.lists(st.sets(st.sampled_from(["swap", "numa", "systemd", "cgroup_v1", "psi"]))),
    st.integers(1, 5),
    st.integers(1, 3),
)
def test_every_scenario_runs_once_on_every_kernel(needs, per_boot, columns):
    known = [scenario(f"s{number}", *each) for number, each in enumerate(needs)]
    kernels = [f"k{number}" for number in range(columns)]
    planned = batches(kernels, known, None, per_boot)
    run = [(batch.kernel, each.name) for batch in planned for each in batch.scenarios]

    assert sorted(run) == sorted((kernel, each.name) for kernel in kernels for each in known)
    assert all(0 < len(batch.scenarios) <= per_boot for batch in planned)
    assert all(profile_of(each, None) == batch.profile for batch in planned for each in batch.scenarios)


def test_what_was_measured_is_better_than_a_guess():
    planned = batches(["6.1"], [scenario("a"), scenario("b")], None, PER_BOOT)

    assert estimate_s(planned, "tcg", {}) == BOOT_S["tcg"] + 2 * SCENARIO_S["tcg"]
    assert estimate_s(planned, "tcg", {"6.1/tcg/boot": 20, "6.1/tcg/a": 3, "6.1/tcg/b": 4, "6.1/kvm/a": 99}) == 27
    assert estimate_s([], "kvm", {}) == 0


def test_a_scenario_that_takes_long_by_its_declaration_has_more_time_and_none_has_less():
    long = Scenario("storm", (), seconds=300)

    assert timeout_s(scenario("a"), "tcg") < timeout_s(long, "tcg")
    assert timeout_s(Scenario("quick", (), seconds=1), "kvm") == timeout_s(scenario("a"), "kvm")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "1 s"), (59.6, "60 s"), (89, "89 s"), (90, "2 min"), (5940, "99 min"), (6000, "1 h 40 min")],
)
def test_a_duration_is_said_in_words(seconds, words):
    assert in_words(seconds) == words


def test_the_commands_own_checks_need_nothing():
    assert [(each.name, profile_of(each, None)) for each in CHECKS] == [("selftest", Profile()), ("doctor", Profile())]

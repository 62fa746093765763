# SPDX-License-Identifier: Apache-2.0
"""Every declaration of the catalogue is whole: names, reasons, needs, acts, and an expectation that can fail."""

import re

import pytest

from tracer.repro.catalogue import SCENARIOS, by_name
from tracer.repro.needs import PROBES
from tracer.repro.scenario import HOST_OOM
from tracer.repro.workloads.__main__ import ACTS

ORDER = ("possible", "likely", "proved")
PROGRAMS = ("dataloader", "mechanism", "storm")
MACHINE_WIDE = {
    "machine",
    "machine-beside",
    "machine-with-swap",
    "swapped-in-a-scope",
    "memory-policy",
    "largest",
    "growing-slowly",
    "clock-steps",
    "pid-reuse",
}


@pytest.fixture(params=SCENARIOS, ids=lambda scenario: scenario.name)
def scenario(request):
    return request.param


def test_names_are_words_and_each_is_given_once():
    assert len(by_name()) == len(SCENARIOS)
    assert [name for name in by_name() if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)] == []


def test_it_says_what_happens_and_which_fact_makes_the_verdict_so(scenario):
    assert 10 < len(scenario.what) <= 120
    assert len(scenario.why) > 20
    # A file or a function of the kernel, or what a number means.
    assert re.search(r"\w\.c\b|\w\(\)|\w\(2\)|kernel/|[.]h\b", scenario.why) or scenario.name == "exit-137"


def test_what_it_needs_can_be_looked_for(scenario):
    assert set(scenario.needs) <= set(PROBES)


def test_what_it_plays_is_there(scenario):
    assert scenario.act[0] in {*ACTS, *PROGRAMS}
    assert scenario.actor is None or scenario.actor[0] in ACTS


def test_what_uses_a_machine_up_is_for_guests_alone(scenario):
    changes = bool(scenario.stage.sysctls) or (
        scenario.stage.memory_mib is None and "memory.high" not in scenario.stage.files
    )
    if (
        scenario.act[0] in MACHINE_WIDE
        or changes
        or (scenario.actor or ("",))[0] in {"sysrq", "earlyoom", "systemd-oomd"}
    ):
        assert scenario.where == "guest"


def test_what_it_expects_does_not_contradict_itself(scenario):
    expected = scenario.expected
    low, high = expected.killed

    assert expected.cause
    assert not set(expected.cause) & set(expected.never)
    assert not set(expected.also) & set(expected.never)
    assert ORDER.index(expected.at_least) <= ORDER.index(expected.at_most)
    assert 0 <= low <= high
    assert expected.victims is None or low <= len(expected.victims) <= high
    assert expected.not_blamed is None or expected.not_blamed != expected.victim


def test_a_kill_is_expected_exactly_where_the_oom_killer_is_the_cause(scenario):
    expected = scenario.expected
    by_oom_killer = bool(set(expected.cause) & {*HOST_OOM, "operator_oom"})

    assert by_oom_killer == (expected.killed[1] > 0)
    # Elsewhere a claim of one is the worst that could be said.
    assert by_oom_killer or set(HOST_OOM) <= set(expected.never)


def test_of_a_cgroups_kill_the_limit_is_named(scenario):
    if scenario.expected.cause == ("host_oom_cgroup",):
        known = {".", *(node.path for node in scenario.stage.below)}
        limit, of = scenario.expected.limit, scenario.expected.limit_of
        # A cgroup that somebody else makes is known by what it is.
        assert limit in known or (limit is None and of is not None)

# SPDX-License-Identifier: Apache-2.0
"""Every rule on every recording: it says what it is there for, and never anything wrong without doubt."""

import random

import msgspec
import pytest

from tests.recorded_mechanisms import recorded
from tests.unit.verdict.mechanisms.jobs import KILLED, evidence, of, once_a_second, with_table, without, without_table
from tracer.events import CgroupSample, LoggedUsage, PressureSample, ProcessSample
from tracer.verdict.judge import judge
from tracer.verdict.mechanisms.choose import RULES, choose

CASES = [(run, table) for run in KILLED for table in (False, True)]
IDS = [f"{run}{'-with-table' if table else ''}" for run, table in CASES]


def right(run):
    """The mechanism, and those that leave the same traces."""
    return {run.truth.mechanism, *run.truth.among}


@pytest.mark.parametrize(("run", "table"), CASES, ids=IDS)
def test_what_is_named_is_in_the_class_of_what_it_was(run, table):
    named = choose(evidence(with_table(run) if table else without_table(run)))

    assert named is not None
    assert named.name in right(run)
    assert named.because
    assert run.truth.mechanism in {named.name, *named.also}


@pytest.mark.parametrize(("run", "table"), CASES, ids=IDS)
def test_no_rule_alone_says_a_wrong_thing_that_would_be_taken(run, table):
    found = evidence(with_table(run) if table else without_table(run))
    taken = choose(found)
    wrong = [named for rule in RULES if (named := rule(found)) and named.name not in right(run)]

    assert all(named.share < taken.share or taken.strength == "possible" for named in wrong)


@pytest.mark.parametrize("run", KILLED, ids=str)
def test_looks_once_a_second_never_make_it_wrong_without_doubt(run):
    named = choose(evidence(once_a_second(run.events())))

    assert named is None or named.name in right(run) or named.strength == "possible"


@pytest.mark.parametrize("run", KILLED, ids=str)
@pytest.mark.parametrize("kind", [CgroupSample, ProcessSample, PressureSample, LoggedUsage])
def test_without_one_kind_of_sample_nothing_wrong_is_named_without_doubt(run, kind):
    report = judge(without(with_table(run), kind)).verdict
    mechanism = report.incidents[report.primary].mechanism

    assert mechanism is None or mechanism.name in right(run) or mechanism.strength == "possible"


@pytest.mark.parametrize("run", [r for r in recorded() if not r.name.endswith("-killed")], ids=str)
def test_a_job_that_lived_has_no_mechanism(run):
    report = judge(run.events()).verdict

    assert all(incident.mechanism is None for incident in report.incidents)


@pytest.mark.parametrize("run", KILLED, ids=str)
def test_the_incident_says_it_with_a_picture_and_what_to_do(run):
    report = judge(with_table(run)).verdict
    incident = report.incidents[report.primary]

    assert incident.mechanism is not None
    assert incident.picture is not None
    assert incident.remedies
    assert all(remedy.why and remedy.costs and remedy.verify for remedy in incident.remedies)
    assert bool(incident.mechanism.decide) >= bool(incident.mechanism.or_) or incident.mechanism.against


@pytest.mark.parametrize("run", KILLED, ids=str)
@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_where_events_are_missing_nothing_is_named_without_doubt(run, share):
    chance = random.Random(f"{run} {share}")
    report = judge(event for event in with_table(run) if chance.random() > share).verdict
    mechanism = report.incidents[report.primary].mechanism

    assert mechanism is None or mechanism.strength == "possible"


def test_page_cache_is_never_named_however_much_of_it_there_is():
    found = of("worker_cache")
    cache = msgspec.structs.replace(
        found,
        now=msgspec.structs.replace(found.now, anon_bytes=1 << 20, cache_bytes=found.now.usage_bytes - (1 << 20)),
        people=(),
    )

    assert choose(cache) is None


def test_two_that_explain_as_much_are_both_in_doubt():
    found = of("worker_cache")
    kernel_bytes = (found.now.kernel_bytes or 0) + found.grown_bytes * 9 // 10
    named = choose(msgspec.structs.replace(found, now=msgspec.structs.replace(found.now, kernel_bytes=kernel_bytes)))

    assert named.strength == "possible"
    assert {named.name, *named.also} >= {"worker_cache", "kernel_memory"}

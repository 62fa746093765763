# SPDX-License-Identifier: Apache-2.0
"""Of real recordings most samples are left out: what is said may be less, and is never another thing as likely."""

import pytest

from tests.recorded_mechanisms import recorded
from tracer.events import CgroupSample, PressureSample, ProcessSample, VmstatSample
from tracer.verdict.incident import Case
from tracer.verdict.judge import judge_case
from tracer.verdict.story import Story
from tracer.verdict.thinning import Thinning

KILLED = [run for run in recorded() if run.name.endswith("-killed")]
SAMPLES = (CgroupSample, PressureSample, ProcessSample, VmstatSample)


def primary(verdict):
    return verdict.incidents[verdict.primary]


@pytest.mark.parametrize("run", KILLED, ids=lambda run: run.name)
@pytest.mark.parametrize("share", [0.5, 0.1, 0.02])
def test_a_mechanism_that_few_samples_tell_is_no_more_than_possible(run, share):
    events = list(run.events())
    thinning = Thinning(events, max(20, round(share * sum(isinstance(event, SAMPLES) for event in events))))
    kept = list(thinning.kept(events))
    whole = primary(judge_case(Case(Story(events))).verdict)
    part = primary(thinning.tempered(judge_case(Case(Story(kept, left_out=thinning.left_out))).verdict))

    assert thinning.near_step > 1
    assert (part.cause, part.strength, part.victim) == (whole.cause, whole.strength, whole.victim)
    assert part.mechanism is None or part.mechanism.strength == "possible"
    assert part.mechanism is None or "samples was looked at" in part.mechanism.against[-1]


def test_where_all_near_a_kill_was_looked_at_nothing_is_weaker():
    [run] = [run for run in KILLED if run.name == "worker_cache-killed"]
    events = list(run.events())
    verdict = judge_case(Case(Story(events))).verdict

    assert Thinning(events).tempered(verdict) is verdict
    assert primary(verdict).mechanism.strength == "likely"

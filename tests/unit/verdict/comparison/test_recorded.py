# SPDX-License-Identifier: Apache-2.0
"""Real PyTorch jobs: each with its fixed twin, with itself, and with whatever is left of a recording."""

import random

import msgspec
import pytest

from tests.recorded_mechanisms import recorded
from tracer.events import CgroupSample, TrainingLine
from tracer.verdict.comparison import compare, judged, project

BY_NAME = {run.name: run for run in recorded()}
PROGRAMS = sorted(name.removesuffix("-killed") for name in BY_NAME if name.endswith("-killed"))


def of(name):
    return judged(BY_NAME[name].events(), name)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_fixed_twin_is_fixed(program):
    assert compare(of(f"{program}-killed"), of(f"{program}-fixed")).outcome == "fixed"


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_same_run_again_is_unchanged(program):
    assert compare(of(f"{program}-killed"), of(f"{program}-killed")).outcome == "unchanged"


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_other_way_round_nothing_is_fixed(program):
    assert compare(of(f"{program}-fixed"), of(f"{program}-killed")).outcome != "fixed"


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("kind", [TrainingLine, CgroupSample])
def test_without_marks_or_cgroups_the_same_is_never_fixed(program, kind):
    events = [event for event in BY_NAME[f"{program}-killed"].events() if not isinstance(event, kind)]
    left = [msgspec.structs.replace(event, seq=seq) for seq, event in enumerate(events)]

    assert compare(judged(left), judged(left)).outcome != "fixed"


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_run_that_was_cut_off_before_its_kill_is_never_fixed(program):
    """As if oomtrace had died: no end, no counts of what was lost."""
    events = BY_NAME[f"{program}-killed"].events()
    kill_ns = min((e.ts_ns for e in events if type(e).__name__ in {"OomMark", "SignalSent"}), default=0)
    begin_ns = events[0].ts_ns
    for share in (0.5, 0.8, 0.95):
        cut = [e for e in events if e.ts_ns < begin_ns + share * (kill_ns - begin_ns)]

        assert compare(of(f"{program}-killed"), judged(cut)).outcome != "fixed"


@pytest.mark.parametrize("program", PROGRAMS)
def test_with_any_events_missing_the_same_is_never_fixed(program):
    rng = random.Random(program)
    events = BY_NAME[f"{program}-killed"].events()
    for share in (0.1, 0.5, 0.9):
        left = [event for event in events if rng.random() > share]

        assert compare(judged(events), judged(left)).outcome != "fixed"
        compare(judged(left), judged(events))
        part = judged(left)
        project(part.case, part.verdict)

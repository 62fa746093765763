# SPDX-License-Identifier: Apache-2.0
"""What real PyTorch jobs did is judged as it was when it happened, and rules have all that they need of it."""

import re

import pytest

from tests.recorded_mechanisms import DATA, recorded
from tracer.events import OutputWatched, ProcessSample, TrainingLine
from tracer.repro.catalogue.mechanisms import SCENARIOS
from tracer.repro.corpus import stem
from tracer.repro.expectations import differences
from tracer.repro.replay import ground_in, seen_in

ALL = tuple(recorded())
KILLED = [each for each in ALL if each.name.endswith("-killed")]
MOST_BYTES = 3 << 19


def test_there_is_one_of_each_and_no_more():
    files = {path.name.partition(".")[0] for path in DATA.iterdir()}

    assert files == {each.name for each in ALL} == {stem(scenario) for scenario in SCENARIOS}
    assert sum(path.stat().st_size for path in DATA.iterdir()) < MOST_BYTES


@pytest.mark.parametrize("run", ALL, ids=str)
def test_its_verdict_is_as_declared(run):
    events = run.events()

    assert [
        str(each) for each in differences(run.scenario.expected, seen_in(events, run.scenario, ground_in(events, None)))
    ] == []


@pytest.mark.parametrize("run", ALL, ids=str)
def test_it_holds_memory_over_time_and_the_jobs_own_steps(run):
    events = run.events()
    sampled = {event.ts_ns for event in events if isinstance(event, ProcessSample)}

    assert len(sampled) >= 3
    assert any(isinstance(event, TrainingLine | OutputWatched) for event in events)  # of one nothing was over yet


@pytest.mark.parametrize("run", KILLED, ids=str)
def test_the_kernels_report_has_the_memory_of_the_cgroup_and_of_each_task(run):
    report = run.report()
    limit = re.search(r";memory: usage (\d+)kB, limit (\d+)kB", report)

    assert int(limit[2]) == run.scenario.stage.memory_mib << 10
    assert int(limit[1]) > 0.98 * int(limit[2])
    assert re.search(r";\[ +\d+\] +\d+ +\d+ +\d+ +\d+", report)
    assert "Killed process" in report


def test_where_nothing_was_killed_there_is_no_report():
    assert [run.name for run in ALL if run not in KILLED and run.report() is not None] == []


def test_nothing_names_the_machine_that_it_was_made_on():
    for run in ALL:
        text = repr(run.events()) + (run.report() or "")

        assert "/root" not in text
        assert not re.search(r"/oomtrace/wt|\.pyenv/versions/\S+/home", text)

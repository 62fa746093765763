# SPDX-License-Identifier: Apache-2.0
"""Very many samples: what matters is judged whole, the rest in part, and the verdict is the same."""

from collections import Counter

import pytest

from tests.unit.verdict.scenes import RANK, WORKERS, Scene, primary, worker_killed
from tracer.events import CgroupSample, PressureSample, ProcessSample, VmstatSample
from tracer.units import MIB, NS_PER_S
from tracer.verdict import growth
from tracer.verdict.incident import Case
from tracer.verdict.judge import judge, judge_case
from tracer.verdict.story import Story
from tracer.verdict.thinning import BEFORE_NS, MOST_SAMPLES, Thinning, few_enough

SAMPLES = (ProcessSample, CgroupSample, PressureSample, VmstatSample)


def hours(count: int = 3, step_s: int = 5) -> list:
    """A job that is sampled all the time, and a kill at the end."""
    scene = Scene()
    scene.job()
    for step in range(count * 3600 // step_s):
        scene.pass_time(step_s * NS_PER_S)
        for pid in (RANK, *WORKERS):
            scene.sample(pid, 50 + step // 100)
        scene.cgroup_sample(77, "/oomtrace/run-7f3", usage_bytes=step * MIB // 10, limit_bytes=512 * MIB, oom_kill=0)
    scene.grow()
    scene.kill()
    return scene.finish()


def thinned(events, most):
    thinning = Thinning(events, most)
    return thinning, list(thinning.kept(events))


def test_few_are_taken_as_they_are():
    events = worker_killed()

    assert few_enough(events) == events
    assert few_enough(events, most=3) is None
    assert few_enough(iter(events), most=10_000) == events


@pytest.mark.parametrize("most", [100, 1000, 3000, 10_000])
def test_there_are_no_more_than_asked_for_but_for_first_and_last(most):
    thinning, kept = thinned(hours(), most)

    samples = sum(isinstance(event, SAMPLES) for event in kept)
    assert samples <= most + 2 * 6 + 10
    assert thinning.left_out == thinning.samples - samples


def test_what_is_no_sample_stays():
    events = hours()
    _, kept = thinned(events, 1000)

    assert [e for e in kept if not isinstance(e, SAMPLES)] == [e for e in events if not isinstance(e, SAMPLES)]


def test_all_before_a_kill_stay_where_there_is_room():
    events = hours()
    [kill] = [e.ts_ns for e in events if type(e).__name__ == "OomMark"]
    near = [e for e in events if isinstance(e, SAMPLES) and kill - growth.WINDOW_NS <= e.ts_ns]
    _, kept = thinned(events, 2000)

    assert {e.seq for e in near} <= {e.seq for e in kept}
    assert growth.WINDOW_NS < BEFORE_NS


def test_the_first_and_the_last_of_each_subject_stay():
    events = hours()
    _, kept = thinned(events, 100)
    for pid in (RANK, *WORKERS):
        own = [e.seq for e in events if isinstance(e, ProcessSample) and e.tgid == pid]

        assert {own[0], own[-1]} <= {e.seq for e in kept}


def test_both_readings_between_which_a_count_rose_stay():
    scene = Scene()
    scene.job()
    for step in range(2000):
        scene.pass_time(NS_PER_S)
        scene.cgroup_sample(77, "/oomtrace/run-7f3", oom_kill=0 if step < 1001 else 1)
    scene.pass_time(1000 * NS_PER_S)
    events = scene.finish()
    own = [e for e in events if isinstance(e, CgroupSample)]
    _, kept = thinned(events, 50)

    assert {own[1000].seq, own[1001].seq} <= {e.seq for e in kept}


@pytest.mark.parametrize("most", [500, 3000])
def test_the_verdict_is_the_same(most):
    events = hours()
    thinning, kept = thinned(events, most)
    whole = judge(events)
    part = judge_case(Case(Story(kept, left_out=thinning.left_out)))

    assert primary(part).strength == "proved"
    assert part.verdict.caveats == whole.verdict.caveats
    assert primary(part).proof == primary(whole).proof
    assert primary(part).victim == primary(whole).victim


def test_samples_left_out_are_not_missing_but_what_is_missing_still_is():
    events = hours()
    del events[20]
    thinning, kept = thinned(events, 1000)

    assert Story(kept, left_out=thinning.left_out).missing_events == 1


def test_what_was_done_is_said_with_its_numbers():
    thinning, kept = thinned(hours(), 3000)
    count = Counter(isinstance(e, SAMPLES) for e in kept)[True]

    assert f"Of {thinning.samples} samples {count} were looked at" in thinning.statement()


def test_the_bound_is_one_that_a_laptop_holds():
    assert MOST_SAMPLES * 600 < 150 * MIB

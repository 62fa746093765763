# SPDX-License-Identifier: Apache-2.0
"""A recording along time says what the report says, of the same processes at the same moments."""

from itertools import pairwise

import pytest

from tests.recorded_mechanisms import recorded
from tests.recordings import everything, nothing_killed
from tests.unit.verdict.scenes import LAUNCHER, RANK, WORKERS, Scene, identity, primary, worker_killed
from tracer.events import Header, process_id
from tracer.units import NS_PER_S
from tracer.verdict.incident import Case
from tracer.verdict.judge import judge, judge_case
from tracer.verdict.legible import legible
from tracer.verdict.story import Story
from tracer.verdict.tracks import MEASURES, Samples, lay


def laid(events):
    case = Case(Story(events))
    return lay(case, judge_case(case))


def test_victims_and_collateral_are_those_of_the_verdict():
    incident, tracks = primary(judge(worker_killed())), laid(worker_killed())

    parts = {actor.id: actor.parts for actor in tracks.actors}
    assert {who for who, part in parts.items() if "victim" in part} == {identity(incident.victim.pid)}
    assert {who.tgid for who, part in parts.items() if "collateral" in part} == {c.pid for c in incident.collateral}


def test_a_process_lives_from_its_fork_to_its_end_and_the_names_of_a_rank_stand_together():
    people = {actor.id.tgid: actor for actor in laid(worker_killed()).actors}

    assert [people[pid].name for pid in (LAUNCHER, RANK, *WORKERS)] == [
        "launcher", "rank 0", "rank 0 worker 0", "rank 0 worker 1", "rank 0 worker 2", "rank 0 worker 3",
    ]  # fmt: skip
    assert people[WORKERS[2]].end == "signal 9 (SIGKILL)"
    assert people[WORKERS[2]].parent == identity(RANK)


def test_of_one_whose_end_was_not_seen_that_is_said():
    scene = Scene()
    scene.job()
    scene.pass_time(NS_PER_S)
    tracks = laid(scene.finish(root_exit=False))

    assert {actor.end for actor in tracks.actors} == {None}
    assert {actor.ended_ns for actor in tracks.actors} == {tracks.to_ns}


def test_the_moment_is_that_of_the_report():
    report, tracks = judge(worker_killed()), laid(worker_killed())
    [kill] = [one for one in tracks.moments if one.kind == "kill"]

    assert tracks.at_ns == kill.at_ns == next(e.at_ns for e in report.timeline if e.offset_ns == 0)
    assert kill.primary


def test_what_led_to_what_is_what_the_verdict_calls_collateral():
    tracks = laid(worker_killed())
    led = [(tracks.moments[f.cause], tracks.moments[f.effect]) for f in tracks.flows]

    assert [(cause.kind, effect.actor) for cause, effect in led] == [
        ("kill", identity(RANK)), ("kill", identity(LAUNCHER)),
    ]  # fmt: skip


def test_where_nothing_went_wrong_nothing_led_to_anything():
    tracks = laid(nothing_killed())

    assert tracks.flows == ()
    assert [one.kind for one in tracks.moments if one.kind in {"kill", "signal"}] == []


def test_a_header_alone_is_a_story_without_anybody():
    events = [e for e in worker_killed() if isinstance(e, Header)]

    assert laid(events).actors == ()


def test_of_reclaim_no_span_overlaps_another_of_its_cgroup():
    spans = laid(everything()).spans

    assert all(a.to_ns <= b.from_ns for a, b in pairwise(spans))
    assert all(span.from_ns < span.to_ns for span in spans)
    assert {span.of_job for span in spans} == {True}


@pytest.mark.parametrize("run", list(recorded()), ids=str)
def test_of_real_jobs_everybody_is_told_once_and_in_time(run):
    tracks = laid(run.events())

    assert len({actor.id for actor in tracks.actors}) == len(tracks.actors)
    assert all(actor.began_ns <= actor.ended_ns for actor in tracks.actors)
    assert [one.at_ns for one in tracks.moments] == sorted(one.at_ns for one in tracks.moments)
    lanes = [[s for s in tracks.spans if s.cgroup_id == key] for key in {s.cgroup_id for s in tracks.spans}]
    assert all(a.to_ns <= b.from_ns for lane in lanes for a, b in pairwise(lane))
    ours = {actor.id for actor in tracks.actors}
    assert {one.actor for one in tracks.moments if one.kind in {"exit", "log", "gone"}} <= {*ours, None}


@pytest.mark.parametrize("run", list(recorded())[::6], ids=str)
def test_of_real_jobs_every_number_has_a_name_that_is_explained(run):
    story = Story(run.events())
    samples = Samples(story)
    rows = [row for event in story.events for row in samples.rows(event)]

    assert {name for row in rows for name in row.values} <= set(MEASURES)
    assert {row.subject.kind for row in rows} >= {"process", "cgroup", "machine"}


def test_a_name_is_the_same_for_one_process_and_not_for_another():
    samples = Samples(Story(everything()))
    rows = [row for event in everything() for row in samples.rows(event) if row.subject.kind == "process"]

    assert len({row.subject.key for row in rows}) == len({row.subject.id for row in rows}) == 5
    assert all(process_id(row.subject.pid, row.subject.start_ns) == row.subject.id for row in rows)


@pytest.mark.parametrize(
    "text, shown", [("a b", "a b"), ("\n\x1b\x85", "\\n\\x1b\\x85"), ("é\u202e\udc80", "é\\u202e\\udc80")]
)
def test_text_shows_what_it_is(text, shown):
    assert legible(text) == shown

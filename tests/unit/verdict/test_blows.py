# SPDX-License-Identifier: Apache-2.0
"""What somebody outside ended at one stroke is one incident with all its victims; two strokes are two."""

from typing import Any

import pytest

from tests.unit.verdict.scenes import LAUNCHER, RANK, WORKERS, Scene, primary, start_of
from tracer.units import NS_PER_MS, NS_PER_S
from tracer.verdict.judge import judge
from tracer.verdict.model import Report

OUTSIDE = {"sender_tgid": 7, "sender_tid": 7, "sender_start_ns": 1}
OTHER = {"sender_tgid": 8, "sender_tid": 8, "sender_start_ns": 1}
OTHER_RANK = RANK + 1


def blows(*struck: tuple[int, int, dict[str, Any]], number: int = 9) -> Report:
    """Each of these processes is killed, so much later than the one before, by that sender."""
    scene = Scene()
    scene.job()
    scene.fork(OTHER_RANK, LAUNCHER)
    scene.seen(OTHER_RANK, LAUNCHER, "python3", {"RANK": "1", "LOCAL_RANK": "1", "TORCHELASTIC_RUN_ID": "x"})
    scene.pass_time(NS_PER_S)
    for pid, after_ns, sender in struck:
        scene.pass_time(after_ns)
        scene.signal(pid, number, **sender)
        scene.pass_time(1)
        scene.exit(pid, number)
    return judge(scene.finish())


def victims(report: Report) -> list[list[int]]:
    return [[victim.pid for victim in incident.victims] for incident in report.verdict.incidents]


@pytest.mark.parametrize("number", [9, 15])
def test_what_one_sender_ended_at_one_stroke_is_one_incident(number: int) -> None:
    struck = [(pid, NS_PER_MS, OUTSIDE) for pid in (RANK, OTHER_RANK, *WORKERS)]
    report = blows(*struck, number=number)

    assert [[RANK, OTHER_RANK, *WORKERS]] == victims(report)
    assert primary(report).summary.endswith(", from outside the job, and so did 5 more within 5.0 ms.")
    assert ("proved", RANK) == (primary(report).strength, primary(report).victim.pid)  # type: ignore[union-attr]


def test_who_went_down_with_any_of_them_is_the_collateral_of_all() -> None:
    report = blows((RANK, 0, OUTSIDE), (OTHER_RANK, NS_PER_MS, OUTSIDE))

    assert [[RANK, OTHER_RANK]] == victims(report)
    assert [LAUNCHER] == [one.pid for one in primary(report).collateral]


@pytest.mark.parametrize(
    ("after_ns", "sender"), [(NS_PER_MS, OTHER), (NS_PER_S + 1, OUTSIDE)], ids=["another sender", "later"]
)
def test_two_strokes_are_two_incidents(after_ns: int, sender: dict[str, Any]) -> None:
    assert [[RANK], [OTHER_RANK]] == victims(blows((RANK, 0, OUTSIDE), (OTHER_RANK, after_ns, sender)))


def test_one_that_was_killed_and_one_that_was_told_to_end_are_two_incidents() -> None:
    scene = Scene()
    scene.job()
    scene.fork(OTHER_RANK, LAUNCHER)
    scene.seen(OTHER_RANK, LAUNCHER, "python3", {"RANK": "1", "LOCAL_RANK": "1", "TORCHELASTIC_RUN_ID": "x"})
    for pid, number in ((RANK, 15), (OTHER_RANK, 9)):
        scene.signal(pid, number, **OUTSIDE)
        scene.exit(pid, number)

    assert ["sigterm", "sigkill"] == [one.cause for one in judge(scene.finish()).verdict.incidents]


def test_a_death_that_was_not_seen_in_full_is_told_apart_from_one_that_was() -> None:
    scene = Scene()
    scene.job()
    scene.signal(RANK, 9, **OUTSIDE)
    scene.exit(RANK, 9)
    scene.signal(500, 9, **OUTSIDE)  # of the job, by the tree filter; its fork was lost
    scene.exit(500, 9, start_ns=start_of(500))
    incidents = judge(scene.finish()).verdict.incidents

    assert {("proved", 1), ("likely", 1)} == {(one.strength, len(one.victims)) for one in incidents}


def test_crashes_are_no_stroke_of_one_sender() -> None:
    scene = Scene()
    scene.job()
    for pid in WORKERS[:2]:
        scene.signal(pid, 11, code=1)
        scene.exit(pid, 11)

    assert [[WORKERS[0]]] == victims(judge(scene.finish()))  # the other one is its collateral

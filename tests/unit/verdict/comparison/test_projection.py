# SPDX-License-Identifier: Apache-2.0
"""Where a job that lives is going: when its limit is reached, what all epochs need, or that no growth was seen."""

import pytest

from tests.unit.verdict.comparison.growing import LIMIT, run
from tracer.events import EndAsked, TrainingLine
from tracer.units import MIB
from tracer.verdict.comparison import judged, project


def foretold(scene):
    one = judged(scene.events)
    return project(one.case, one.verdict)


def asked(scene):
    """As if oomtrace had ended it."""
    end = next(place for place, event in enumerate(scene.items) if type(event).__name__ == "JobEnded")
    ask = EndAsked(ts_ns=scene.items[end].ts_ns - 1, source="job", why="epochs=4 was reached", signal=15)
    rest, scene.items = scene.items[end:], scene.items[:end]
    for event in (ask, *rest):
        scene.add(event)
    return scene


def grows(mib_per_epoch, seconds=40, **given):
    return asked(run(lambda at_s: (200 + mib_per_epoch * at_s / 10) * MIB, seconds=seconds, epoch_s=10, **given))


def test_growth_is_carried_on_to_the_limit():
    found = foretold(grows(100))

    assert found.grows
    assert found.unit == "epoch"
    assert found.growth_bytes.value == pytest.approx(100 * MIB, rel=0.05)
    assert found.limit_in_s.value == pytest.approx(40, abs=3)
    assert found.limit_in_s.low <= found.limit_in_s.value <= found.limit_in_s.high
    assert found.limit_at == pytest.approx(9, abs=0.5)
    assert "the limit of 0.98 GiB is reached about" in found.statement


def test_what_all_epochs_need_is_told_where_the_job_says_how_many():
    scene = grows(100)
    for event in scene.items:
        if isinstance(event, TrainingLine):
            event.numbers["epochs"] = 30
    found = foretold(scene)

    assert found.epochs == 30
    assert found.needed_bytes.value == pytest.approx((200 + 30 * 100) * MIB, rel=0.05)
    assert "all 30 epochs need" in found.statement


def test_no_growth_is_bounded():
    found = foretold(grows(0))

    assert found.grows is False
    assert found.limit_bytes == LIMIT
    assert found.statement.startswith("No growth seen over 4 epochs")


def test_too_short_a_run_says_so():
    found = foretold(grows(100, seconds=0.2))

    assert found.grows is None
    assert "too short" in found.statement


def test_a_job_that_was_killed_or_came_to_a_level_end_has_none():
    assert foretold(run(lambda at_s: at_s * 100 * MIB, seconds=100, epoch_s=10)) is None
    assert foretold(run(lambda _: 200 * MIB, seconds=100, epoch_s=10)) is None
    assert foretold(run(lambda at_s: (200 + at_s) * MIB, seconds=100, epoch_s=10)).grows

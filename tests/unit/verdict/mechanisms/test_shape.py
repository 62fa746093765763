# SPDX-License-Identifier: Apache-2.0
"""How memory came to its last value; that it grew on and on must be shown, not be what is left."""

import msgspec
import pytest

from tests.unit.verdict.mechanisms.jobs import KILLED, evidence, of, once_a_second, with_table
from tracer.events import TrainingLine
from tracer.units import MIB, NS_PER_S
from tracer.verdict.mechanisms.choose import choose
from tracer.verdict.mechanisms.rules import limit_too_tight, main_process_growth, model_duplication, one_off
from tracer.verdict.mechanisms.shape import course

replace = msgspec.structs.replace

SLOW_FIRST_STEP = (
    (105.8, 226), (104.7, 286), (101.1, 301), (97.0, 326), (92.9, 331), (88.6, 342), (82.1, 355), (80.9, 392),
    (79.8, 455), (78.7, 500), (77.7, 507), (76.5, 537), (75.3, 513), (73.1, 527), (72.0, 537), (70.9, 510), (68.6, 507),
    (66.4, 537), (63.1, 523), (61.9, 507), (58.4, 537), (54.9, 501), (51.5, 537), (48.2, 501), (44.8, 537), (41.5, 511),
    (38.2, 537), (34.9, 501), (31.3, 509), (29.0, 537), (26.8, 501), (23.6, 522), (20.2, 501), (16.8, 516), (13.5, 537),
    (10.0, 529), (6.5, 537), (3.1, 537), (2.0, 525), (0.93, 585), (0.67, 632), (0.55, 650), (0.41, 658), (0.27, 663),
    (0.16, 673), (0.04, 680),
)  # fmt: skip
"""Seconds before the kill and MiB: Adam's first step of a job on a machine with far more to do than it could. Within
the last half second the level had been left already, and so it was said to have grown on and on."""


def points(*values):
    return [(second * NS_PER_S, round(value * MIB)) for second, value in enumerate(values)]


def shape(*values, last):
    return course(points(*values), len(values) * NS_PER_S, last * MIB).shape


def test_a_straight_line_grows_and_a_level_with_a_step_is_a_jump():
    assert shape(0, 10, 20, 30, 40, 50, 60, 70, 80, 90, last=100) == "growing"
    assert shape(0, 70, 80, 79, 80, 78, 80, 80, 79, 80, last=100) == "jump"
    assert shape(0, 70, last=100) == "unclear"


def test_slow_growth_near_the_limit_is_no_level():
    slow = [0, 40, 80, *(93 + second / 20 for second in range(120))]
    found = course(points(*slow), 123 * NS_PER_S, 99 * MIB)

    assert found.shape == "growing"
    assert found.from_ns >= 3 * NS_PER_S


def test_one_allocation_on_a_slow_machine_is_no_growth():
    looks = [(round((200 - before_s) * NS_PER_S), mib * MIB) for before_s, mib in SLOW_FIRST_STEP]
    found = course(looks, 200 * NS_PER_S, 680 * MIB)

    assert found.shape == "rise"
    assert found.level_bytes == 537 * MIB
    assert found.level_ns > 70 * NS_PER_S


@pytest.mark.parametrize("at", range(1, 39))
@pytest.mark.parametrize("width", [0, 1, 2])
def test_a_single_step_is_never_growth_wherever_it_lies(at, width):
    values = [60 if second < at else 100 if second >= at + width else 80 for second in range(40)]

    assert shape(30, *values, last=100) != "growing"


def test_a_staircase_of_some_steps_grows():
    stairs = [50 + 10 * (second // 10) for second in range(60)]

    assert shape(*stairs, last=110) == "growing"


def test_growth_that_begins_at_the_end_of_a_long_level_is_in_doubt():
    late = [*(60 for _ in range(80)), *(60 + 5 * second for second in range(8))]

    assert shape(30, *late, last=100) in {"rise", "unclear"}


def rising(name):
    return replace(of(name), shape="rise")


def test_what_took_seconds_is_in_doubt_unless_the_job_says_what_it_did():
    found = rising("optimizer_state")
    said = TrainingLine(
        ts_ns=found.at_ns - NS_PER_S, source="text", about="optimizer_step", text="x", stream="stdout", what="steps"
    )
    unsaid = one_off.judge(replace(found, doing=replace(found.doing, saving=None, stepping=None)))

    assert unsaid.strength == "possible"
    assert "main_process_growth" in unsaid.also
    assert "at once" not in unsaid.statement
    assert one_off.judge(replace(found, doing=replace(found.doing, stepping=said))).strength == "likely"


def test_without_a_level_the_jobs_words_make_it_possible_and_no_more():
    found = replace(of("optimizer_state"), shape="unclear")
    unsaid = replace(found, doing=replace(found.doing, saving=None, stepping=None))

    assert found.doing.stepping is not None
    assert (choose(found).name, choose(found).strength) == ("optimizer_state", "possible")
    assert one_off.judge(unsaid) is None
    assert one_off.judge(replace(found, shape="growing")) is None


def test_a_level_that_was_left_slowly_near_the_limit_may_be_growth():
    found = limit_too_tight.judge(rising("limit_too_tight"))

    assert found.strength == "possible"
    assert "main_process_growth" in found.also


def test_copies_in_each_rank_on_top_of_a_level_may_be_the_optimizers():
    found = model_duplication.judge(replace(of("model_duplication"), shape="jump"))

    assert found.strength == "possible"
    assert "optimizer_state" in found.also


def test_one_process_that_did_not_grow_steadily_is_in_doubt():
    found = main_process_growth.judge(replace(of("main_process_growth"), shape="unclear"))

    assert found.strength == "possible"
    assert {"optimizer_state", "checkpoint_spike"} <= set(found.also)


@pytest.mark.parametrize("run", KILLED, ids=str)
@pytest.mark.parametrize("slower", [3, 10])
def test_the_same_on_a_slower_machine_is_nothing_wrong_without_doubt(run, slower):
    """As if each second had taken so many: an allocation that is made at once takes longer than half a second then."""
    found = evidence(once_a_second(with_table(run)))
    looks = [(look.at_ns * slower, look.held_bytes) for look in found.limited.looks]
    again = course(looks, found.at_ns * slower, found.now.held_bytes)
    named = choose(replace(found, shape=again.shape, level_bytes=again.level_bytes, level_ns=again.level_ns))

    assert named.name in {run.truth.mechanism, *run.truth.among} or named.strength == "possible"

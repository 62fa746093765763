# SPDX-License-Identifier: Apache-2.0
"""Of steps and of repetitions a few are recorded; the last step before a failure always is."""

from hypothesis import given, strategies as st

from tracer.events import TrainingLine
from tracer.logs.training import Thinning
from tracer.logs.training.thinning import FIRST_EPOCHS, FIRST_LINES, MAX_WRITERS
from tracer.units import NS_PER_S


def step(number, at_s, epoch=None, **fields):
    numbers = {"step": number} | ({} if epoch is None else {"epoch": epoch})
    return TrainingLine(
        ts_ns=round(at_s * NS_PER_S),
        about="progress",
        text=f"step {number}",
        stream="stdout",
        numbers=numbers,
        **fields,
    )


def failure(at_s, about="worker_killed"):
    return TrainingLine(ts_ns=round(at_s * NS_PER_S), about=about, text="x", stream="stderr")


def steps(lines):
    return [line.numbers["step"] for line in lines if line.about == "progress"]


def test_steps_are_recorded_every_second():
    thinning = Thinning()

    assert steps(thinning.take(step(number, number / 10) for number in range(60))) == [0, 10, 20, 30, 40, 50]
    assert thinning.left_out == 54


def test_over_days_steps_become_rare():
    thinning = Thinning()
    recorded = list(thinning.take(step(second, second) for second in range(3 * 86400)))

    assert len(recorded) < 1000


def test_a_new_epoch_is_recorded_at_once():
    thinning = Thinning()
    lines = [step(number, number * 2, epoch=number // 3) for number in range(9)]

    assert {0, 3, 6} <= set(steps(thinning.take(lines)))


def test_the_last_step_of_an_epoch_is_recorded_before_the_next_one():
    thinning = Thinning()
    lines = [step(number % 40, number / 10, epoch=number // 40) for number in range(120)]

    recorded = list(thinning.take(lines))
    told = [(line.numbers["epoch"], line.numbers["step"]) for line in recorded]
    assert told.index((0, 39)) + 1 == told.index((1, 0))
    assert told.index((1, 39)) + 1 == told.index((2, 0))
    assert thinning.left_out == len(lines) - len(recorded)


def test_the_last_step_before_a_failure_is_recorded_before_it():
    thinning = Thinning()
    lines = [*(step(number, number / 10) for number in range(8)), failure(1)]

    recorded = list(thinning.take(lines))
    assert [(line.about, line.numbers.get("step")) for line in recorded] == [
        ("progress", 0), ("progress", 7), ("worker_killed", None),
    ]  # fmt: skip
    assert thinning.left_out == 6


def test_the_last_step_of_all_comes_at_the_end():
    thinning = Thinning()
    list(thinning.take(step(number, number / 10) for number in range(8)))

    assert steps(thinning.rest()) == [7]
    assert steps(thinning.rest()) == []


def test_each_rank_has_its_own_steps():
    thinning = Thinning()
    lines = [step(number, number / 10, rank=rank) for number in range(3) for rank in (0, 1)]

    assert steps(thinning.take(lines)) == [0, 0]
    assert steps(thinning.rest()) == [2, 2]


def test_what_is_said_over_and_over_is_recorded_a_hundred_times_and_then_rarely():
    thinning = Thinning()

    assert len(list(thinning.take(failure(number / 1000) for number in range(5000)))) == FIRST_LINES
    assert len(list(thinning.take([failure(60), failure(61), failure(61, "device_oom")]))) == 2


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 10**6), st.booleans()), max_size=60))
def test_nothing_is_recorded_that_was_not_said_and_all_is_counted(plan):
    thinning = Thinning()
    lines = [
        failure(at / 100) if fails else step(number, at / 100, epoch=number)
        for number, at, fails in sorted(plan, key=lambda p: p[1])
    ]
    recorded = [*thinning.take(lines), *thinning.rest()]

    assert all(line in lines for line in recorded)
    assert thinning.left_out == len(lines) - len(recorded)


def test_so_many_writers_as_nobody_has_are_not_kept():
    thinning = Thinning()
    recorded = list(thinning.take(step(1, 1, rank=rank) for rank in range(MAX_WRITERS * 3)))

    assert len(recorded) == MAX_WRITERS


def test_a_short_epoch_is_recorded_when_it_begins_and_not_some_steps_later():
    thinning = Thinning()
    lines = [step(number % 12, number / 10, epoch=number // 12) for number in range(120)]

    told = [(line.numbers["epoch"], line.numbers["step"]) for line in thinning.take(lines)]
    assert {(epoch, 0) for epoch in range(10)} <= set(told)


def test_of_very_many_short_epochs_few_are_recorded():
    thinning = Thinning()
    recorded = list(thinning.take(step(0, number / 100, epoch=number) for number in range(10_000)))

    assert len(recorded) < 2 * FIRST_EPOCHS + 2 * 100

# SPDX-License-Identifier: Apache-2.0
"""Of one allocation that is made once: what the job's own words, and the time, make of it."""

import msgspec
import pytest

from tests.unit.verdict.mechanisms.jobs import BY_NAME, evidence, of, renumbered, with_table, without
from tracer.events import OutputWatched, TrainingLine
from tracer.units import NS_PER_S
from tracer.verdict.mechanisms.rules import one_off
from tracer.verdict.mechanisms.rules.one_off import LATE_NS

ONCE = ("optimizer_state", "checkpoint_spike")


def silent(name):
    """The recording without what its own job said."""
    return without(with_table(BY_NAME[name]), TrainingLine, OutputWatched)


def told(name, *lines):
    """The recording with lines that came so long before its kill: (seconds, about, what, numbers)."""
    events = silent(name)
    at_ns = of(name).at_ns
    added = [
        TrainingLine(ts_ns=at_ns - round(before_s * NS_PER_S), source="text", about=about, text="x", stream="stdout",
                     what=what, numbers=numbers)
        for before_s, about, what, numbers in lines
    ]  # fmt: skip
    added.append(OutputWatched(ts_ns=events[0].ts_ns, source="tracer"))
    return one_off.judge(evidence(renumbered(sorted([*events, *added], key=lambda event: event.ts_ns))))


def names(named):
    return (named.name, *named.also)


@pytest.mark.parametrize("name", ONCE)
def test_without_words_the_whole_class_is_named(name):
    found = one_off.judge(evidence(silent(name)))

    assert set(names(found)) == {*ONCE, "main_process_growth"}
    assert "what the job wrote was not read" in found.against[0]


@pytest.mark.parametrize("name", ONCE)
def test_that_it_saved_last_makes_it_a_checkpoint(name):
    found = told(name, (0.4, "progress", "saves", {"epoch": 1, "step": 25}))

    assert names(found) == ("checkpoint_spike", "main_process_growth")
    assert "the last that it told, 400 ms before: that it saves a checkpoint" in found.because


@pytest.mark.parametrize("name", ONCE)
def test_that_it_stepped_last_makes_it_the_optimizer(name):
    found = told(name, (0.4, "optimizer_step", "steps", {}))

    assert names(found) == ("optimizer_state", "main_process_growth")


def test_a_checkpoint_after_which_it_went_on_is_none():
    found = told("optimizer_state", (2, "checkpoint", "saves", {}), (0.3, "progress", None, {"epoch": 0, "step": 1}))

    assert found.name == "optimizer_state"
    assert "checkpoint_spike" in found.also
    assert found.against == ("no line that was read says that a checkpoint was saved or an optimizer stepped",)


@pytest.mark.parametrize("line", [(0.3, "checkpoint", "saved", {}), (90, "checkpoint", "saves", {})])
def test_one_that_is_over_or_long_ago_is_none(line):
    assert set(names(told("optimizer_state", line))) == {*ONCE, "main_process_growth"}


def test_an_epoch_that_was_over_rules_the_first_step_out():
    epochs = [(3 - n, "progress", None, {"epoch": n}) for n in range(3)]
    found = told("checkpoint_spike", *epochs)

    assert names(found) == ("checkpoint_spike", "main_process_growth")
    assert "2 epochs were over: the optimizer had stepped long before" in found.because


def test_steps_alone_do_not_since_gradients_may_be_summed_up_first():
    steps = [(2.5 - n / 2, "progress", None, {"step": n}) for n in range(5)]

    assert "optimizer_state" in names(told("optimizer_state", *steps))


def test_late_in_life_a_checkpoint_comes_first():
    found = one_off.judge(msgspec.structs.replace(evidence(silent("optimizer_state")), level_ns=LATE_NS))

    assert names(found) == ("checkpoint_spike", "optimizer_state", "main_process_growth")

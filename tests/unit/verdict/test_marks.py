# SPDX-License-Identifier: Apache-2.0
"""Epochs and steps: of one writer, in order, by the log or else by workers; and what may not be counted."""

import pytest
from hypothesis import given, strategies as st

from tests.unit.verdict.comparison.growing import Growing
from tracer.units import NS_PER_S
from tracer.verdict.marks import marks_of, place_at, reached
from tracer.verdict.story import Story


@pytest.fixture
def scene():
    found = Growing()
    found.alone()
    return found


def marks(scene):
    return marks_of(Story(scene.events))


def numbers(found):
    return [mark.number for mark in found]


def test_each_epoch_is_one_mark_at_its_first_line(scene):
    for at_s, epoch, step in ((1, 1, 0), (2, 1, 50), (3, 2, 0), (4, 2, 50), (5, 3, 0)):
        scene.say(at_s, epoch=epoch, step=step)
    found = marks(scene)

    assert numbers(found.epochs) == [1, 2, 3]
    assert [mark.at_ns for mark in found.epochs] == [scene.events[0].ts_ns + s * NS_PER_S for s in (1, 3, 5)]
    assert found.known_by == "log"


def test_steps_that_are_counted_anew_in_each_epoch_go_on(scene):
    for at_s, epoch, step in ((1, 1, 0), (2, 1, 99), (3, 2, 0), (4, 2, 99), (5, 3, 0)):
        scene.say(at_s, epoch=epoch, step=step)

    assert numbers(marks(scene).steps) == [0, 99, 100, 199, 200]


def test_steps_that_are_counted_through_are_left_as_they_are(scene):
    for at_s, epoch, step in ((1, 1, 0), (2, 1, 99), (3, 2, 100), (4, 2, 199)):
        scene.say(at_s, epoch=epoch, step=step)

    assert numbers(marks(scene).steps) == [0, 99, 100, 199]


def test_an_epoch_of_unknown_length_ends_the_count_of_steps(scene):
    for at_s, epoch, step in ((1, 1, 0), (11, 2, 0), (21, 2, 60)):
        scene.say(at_s, epoch=epoch, step=step)
    found = marks(scene)

    assert numbers(found.epochs) == [1, 2]
    assert numbers(found.steps) == [0]


def test_several_ranks_that_tell_the_same_do_not_double_it(scene):
    for at_s in range(4):
        for rank in (1, 0, 2):
            scene.say(at_s + rank / 10, rank=rank, epoch=at_s + 1, step=at_s)
    found = marks(scene)

    assert numbers(found.epochs) == [1, 2, 3, 4]
    assert [mark.at_ns % NS_PER_S for mark in found.epochs] == [0] * 4  # rank 0's


def test_ranks_without_a_name_in_one_stream_do_not_double_it(scene):
    for at_s in range(4):
        for late_s in (0, 0.1, 1.05):  # the last one lags behind
            scene.say(at_s + late_s, epoch=at_s + 1, step=0)
    found = marks(scene)

    assert numbers(found.epochs) == [1, 2, 3, 4]
    assert not found.began_again


def test_a_bar_of_validation_is_no_step(scene):
    for at_s, step, steps in ((1, 10, 100), (2, 90, 100), (3, 5, 20), (4, 19, 20), (5, 10, 100), (6, 20, 100)):
        scene.say(at_s, step=step, steps=steps)

    assert numbers(marks(scene).steps) == [10, 90, 110, 120]


def test_fractions_of_epochs_are_marks_too(scene):
    for at_s in range(5):
        scene.say(at_s, epoch=0.02 * at_s)

    assert numbers(marks(scene).epochs) == pytest.approx([0, 0.02, 0.04, 0.06, 0.08])


def test_what_came_before_a_second_beginning_is_left_out(scene):
    for at_s, epoch in enumerate((1, 2, 3, 1, 2, 2, 2, 3, 4)):
        scene.say(at_s, epoch=epoch)
    found = marks(scene)

    assert found.began_again
    assert numbers(found.epochs) == [1, 2, 3, 4]
    assert found.epochs[0].at_ns == scene.events[0].ts_ns + 3 * NS_PER_S


def test_workers_that_are_started_anew_are_marks_where_nothing_is_said(scene):
    for pid, began, ended in ((61, 1, 5), (62, 1.1, 5.2), (63, 6, 9), (64, 6.1, 9), (65, 9.5, None), (66, 9.6, None)):
        scene.worker(pid, began, ended)
    found = marks(scene)

    assert found.known_by == "workers"
    assert numbers(found.epochs) == [0, 1, 2]


def test_persistent_workers_give_their_start_alone(scene):
    for pid in (61, 62):
        scene.worker(pid, 1)

    assert numbers(marks(scene).epochs) == [0]


def test_workers_of_a_second_loader_that_live_beside_the_first_are_no_mark(scene):
    for pid, began, ended in ((61, 1, 20), (62, 5, 6), (63, 8, 9)):
        scene.worker(pid, began, ended)

    assert numbers(marks(scene).epochs) == [0]


def test_nothing_said_and_no_workers_is_no_mark():
    scene = Growing()
    scene.begin()

    assert marks(scene).known_by is None
    assert marks(scene).begin_ns is None


def test_a_place_between_two_marks_is_on_a_straight_line(scene):
    for at_s, epoch in ((1, 1), (3, 2), (7, 3)):
        scene.say(at_s, epoch=epoch)
    found = marks(scene).epochs
    began = scene.events[0].ts_ns

    assert place_at(found, began + 2 * NS_PER_S) == 1.5
    assert place_at(found, began + 9 * NS_PER_S) == 3.5
    assert place_at(found[:1], began) is None
    assert reached(found, 2).number == 2
    assert reached(found, 4) is None


LINES = st.lists(
    st.tuples(
        st.integers(0, 1000),
        st.none() | st.integers(0, 5) | st.floats(0, 5),
        st.none() | st.integers(0, 10**12),
        st.none() | st.integers(0, 10**12),
        st.sampled_from([None, 0, 1]),
    ),
    max_size=30,
)


@given(LINES)
def test_whatever_is_said_marks_are_in_order_of_time_and_of_number(lines):
    scene = Growing()
    scene.begin()
    for at_s, epoch, step, steps, rank in sorted(lines, key=lambda line: line[0]):
        scene.say(at_s, rank=rank, epoch=epoch, step=step, steps=steps)
    found = marks(scene)

    for kind in (found.epochs, found.steps):
        assert numbers(kind) == sorted(set(numbers(kind)))
        assert [mark.at_ns for mark in kind] == sorted(mark.at_ns for mark in kind)

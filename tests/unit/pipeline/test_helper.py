# SPDX-License-Identifier: Apache-2.0
"""The helper thread: work that blocks must block nobody else."""

import select
import threading
import time

import pytest

from tracer.events import Note
from tracer.pipeline.helper import MAX_THREADS, MAX_WAITING, Helper

DEADLINE_S = 20


def note(text):
    return Note(ts_ns=1, text=text)


@pytest.fixture
def helper():
    made = Helper("test", deadline_ns=1)
    yield made
    made.close()


def results(helper, count):
    taken, deadline = [], time.monotonic() + DEADLINE_S
    while len(taken) < count:
        assert time.monotonic() < deadline
        select.select([helper], [], [], 1)
        taken += helper.take()
    return taken


def settle(helper):
    deadline = time.monotonic() + DEADLINE_S
    while not helper.idle():
        assert time.monotonic() < deadline
        select.select([helper], [], [], 1)
        helper.take()


def test_results_come_in_the_order_of_the_work(helper):
    for text in "abc":
        helper.submit(lambda text=text: note(text))

    assert [event.text for event in results(helper, 3)] == ["a", "b", "c"]
    assert helper.idle()


def test_work_without_a_result_is_done_and_gives_none(helper):
    done = []
    helper.submit(lambda: done.append(1))
    settle(helper)

    assert done == [1]
    assert helper.take() == []


def test_work_that_fails_is_counted_and_the_next_is_done(helper):
    helper.submit(lambda: 1 / 0)
    helper.submit(lambda: note("after"))

    assert [event.text for event in results(helper, 1)] == ["after"]
    assert helper.failed == 1


def test_a_thread_that_is_stuck_is_replaced_and_its_late_result_still_counts(helper):
    stuck, go_on = threading.Event(), threading.Event()

    def slow():
        stuck.set()
        go_on.wait(DEADLINE_S)
        return note("late")

    helper.submit(slow)
    assert stuck.wait(DEADLINE_S)
    helper.submit(lambda: note("quick"))
    helper.check(time.monotonic_ns())

    assert [event.text for event in results(helper, 1)] == ["quick"]
    assert helper.overdue == 1
    assert helper.idle()
    go_on.set()
    assert [event.text for event in results(helper, 1)] == ["late"]


def test_work_that_hangs_is_told_from_work_that_is_there(helper):
    go_on, begun = threading.Event(), threading.Event()
    helper.submit(lambda: begun.set() or (go_on.wait(DEADLINE_S) and None))
    assert begun.wait(DEADLINE_S)
    helper.submit(lambda: None)
    later_ns = time.monotonic_ns() + 1000

    assert (helper.hangs(later_ns, 0), helper.hangs(later_ns, DEADLINE_S * 10**9)) == (True, False)
    assert (helper.submitted, helper.ended) == (2, 0)
    go_on.set()
    settle(helper)
    assert not helper.hangs(time.monotonic_ns(), 0)
    assert (helper.submitted, helper.ended) == (2, 2)


def test_stuck_threads_do_not_multiply_without_end(helper):
    go_on, begun = threading.Event(), threading.Semaphore(0)

    def slow():
        begun.release()
        go_on.wait(DEADLINE_S)

    for _ in range(MAX_THREADS + 3):
        helper.submit(slow)
    for _ in range(MAX_THREADS):
        assert begun.acquire(timeout=DEADLINE_S)
        helper.check(time.monotonic_ns())

    assert helper.overdue == MAX_THREADS
    assert not begun.acquire(blocking=False)
    go_on.set()


def test_too_much_work_is_refused_and_counted(helper):
    go_on = threading.Event()
    helper.submit(lambda: go_on.wait(DEADLINE_S) and None)
    for _ in range(MAX_WAITING + 10):
        helper.submit(lambda: None)

    assert helper.refused >= 9
    go_on.set()


def test_nothing_is_taken_after_the_end():
    helper = Helper("test")
    helper.submit(lambda: None)
    helper.close()
    helper.submit(lambda: None)

    assert helper.refused == 1


def test_where_no_thread_can_be_started_the_work_waits_for_one(helper, monkeypatch):
    def refuse(_):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        helper.submit(lambda: note("late"))
        helper.check(time.monotonic_ns())
        assert helper.take() == []

    helper.check(time.monotonic_ns())
    assert [event.text for event in results(helper, 1)] == ["late"]

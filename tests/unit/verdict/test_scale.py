# SPDX-License-Identifier: Apache-2.0
"""Thousands of kills, processes and remarks are judged in seconds: the job's own status waits for it."""

import time
from collections.abc import Callable

import pytest

from tests.unit.verdict.scenes import LAUNCHER, Scene, start_of
from tracer.events import AnyEvent, Note
from tracer.verdict.judge import judge


def own_kills(count: int) -> list[AnyEvent]:
    scene = Scene()
    scene.begin()
    for pid in range(100_000, 100_000 + count):
        scene.fork(pid, LAUNCHER)
        scene.kill(pid)
    return scene.finish()


def outside_kills(count: int) -> list[AnyEvent]:
    scene = Scene()
    scene.begin()
    for pid in range(100_000, 100_000 + count):
        mark = scene.mark(pid, pid)
        scene.levels(mark)
        scene.exit(pid, 9, oom_marked=1, in_tree=0)
    return scene.finish()


def deep_chain(count: int) -> list[AnyEvent]:
    scene = Scene()
    scene.begin()
    parent = LAUNCHER
    for pid in range(100_000, 100_000 + count):
        scene.fork(pid, parent)
        parent = pid
    scene.kill(parent)
    for pid in range(100_000, 100_000 + count - 1):
        scene.exit(pid, 1 << 8)
    return scene.finish()


def failed_and_ended(count: int) -> list[AnyEvent]:
    """Of as many ranks each second one fails by itself, and a watchdog of the job ends the others."""
    scene = Scene()
    scene.begin()
    scene.fork(300, LAUNCHER, comm="watchdog")
    for pid in range(100_000, 100_000 + count):
        scene.fork(pid, LAUNCHER)
        scene.seen(pid, LAUNCHER, "python3", {"RANK": str(pid), "TORCHELASTIC_RUN_ID": "x"})
    for pid in range(100_000, 100_000 + count):
        scene.pass_time(1)
        if pid % 2:
            scene.signal(pid, 9, sender_tgid=300, sender_tid=300, sender_start_ns=start_of(300))
        scene.exit(pid, 9 if pid % 2 else 1 << 8)
    return scene.finish()


def remarks(count: int) -> list[AnyEvent]:
    scene = Scene()
    scene.begin()
    for number in range(count):
        scene.add(Note(ts_ns=scene.now_ns, text=f"remark {number}"))
    return scene.finish(0)


def seconds(make: Callable[[int], list[AnyEvent]], count: int) -> float:
    events = make(count)
    began = time.process_time()
    judge(events)
    return time.process_time() - began


@pytest.mark.parametrize("make", [own_kills, outside_kills, deep_chain, remarks])
def test_ten_times_the_events_take_nowhere_near_a_hundred_times_as_long(
    make: Callable[[int], list[AnyEvent]],
) -> None:
    few, many = seconds(make, 200), seconds(make, 2000)

    assert many < 60 * max(few, 0.03)


def test_a_thousand_ranks_that_fail_or_are_ended_take_no_thousand_times_as_long_as_a_hundred() -> None:
    assert seconds(failed_and_ended, 1000) < 60 * max(seconds(failed_and_ended, 100), 0.03)


def test_remarks_are_told_up_to_a_number() -> None:
    assert 31 == len(judge(remarks(500)).verdict.caveats)

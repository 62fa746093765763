# SPDX-License-Identifier: Apache-2.0
"""Many processes and storms of refusals are judged in seconds: the job's own status waits for it."""

import time
from collections.abc import Callable

import pytest

from tests.unit.verdict.cuda.cuda_scenes import CODE_BYTES, LIBCUDA, CudaScene
from tests.unit.verdict.scenes import LAUNCHER, RANK
from tracer.events import AnyEvent, CudaMemory
from tracer.units import GIB, MIB
from tracer.verdict.judge import judge


def killed_callers(count: int) -> list[AnyEvent]:
    scene = CudaScene()
    scene.begin()
    scene.probed()
    for pid in range(100_000, 100_000 + count):
        scene.fork(pid, LAUNCHER)
        scene.looked(pid, (LIBCUDA,) if pid % 2 else ())
        scene.code(pid, CODE_BYTES)
        scene.call(pid, MIB)
        scene.totals(pid)
    for pid in range(100_000, 100_000 + count):
        scene.kill(pid)
    return scene.finish()


def refusals(count: int) -> list[AnyEvent]:
    scene = CudaScene()
    scene.watched_job()
    for number in range(count):
        scene.refused(RANK, GIB + number)
        scene.survived(RANK, MIB, CudaMemory.PINNED)
    scene.cuda_exit(RANK)
    return scene.finish()


@pytest.mark.parametrize("make", [killed_callers, refusals])
def test_ten_times_the_events_take_nowhere_near_a_hundred_times_as_long(make: Callable[[int], list[AnyEvent]]) -> None:
    def seconds(count: int) -> float:
        events = make(count)
        began = time.process_time()
        judge(events)
        return time.process_time() - began

    few, many = seconds(100), seconds(1000)

    assert many < 60 * max(few, 0.03)

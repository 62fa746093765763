# SPDX-License-Identifier: Apache-2.0
"""Who was refused memory of the device, went on, and ended of something else: that is not proved to be an OOM."""

from collections.abc import Callable

import pytest

from tests.unit.verdict.cuda.cuda_scenes import CudaScene, ended, of_cause, training
from tests.unit.verdict.scenes import RANK, changed
from tracer.events import CudaCall
from tracer.units import GIB, MIB, NS_PER_MS, NS_PER_S
from tracer.verdict.judge import judge
from tracer.verdict.model import Report


def likely(report: Report) -> str:
    """Why it is no more than likely."""
    found = of_cause(report, "cuda_oom")
    assert "likely" == found.strength
    return "; ".join(link.statement for link in found.proof if link.status == "not_observed" and link.link <= 4)


def held_after() -> CudaScene:
    scene = training()
    scene.refused(RANK, 20 * GIB)
    scene.call(RANK, 10 * GIB)
    scene.pass_time(NS_PER_S)
    scene.cuda_exit(RANK)
    return scene


def given_back_after() -> CudaScene:
    scene = training()
    scene.refused(RANK, 20 * GIB)
    scene.pass_time(3 * NS_PER_S)
    scene.call(RANK, MIB)
    scene.free(RANK, 64 * MIB)
    scene.pass_time(NS_PER_S)
    scene.cuda_exit(RANK)
    return scene


def freed_and_got_less_at_once() -> CudaScene:
    scene = training()
    scene.refused(RANK, 20 * GIB)
    scene.free(RANK, 20 * GIB)
    scene.call(RANK, 10 * GIB)
    scene.pass_time(300 * NS_PER_MS)
    scene.cuda_exit(RANK)
    return scene


@pytest.mark.parametrize("made", [held_after, given_back_after, freed_and_got_less_at_once], ids=lambda f: f.__name__)
def test_it_is_not_proved_where_memory_was_asked_for_after(made: Callable[[], CudaScene]) -> None:
    assert "it asked for memory once more after" in likely(ended(made()))


@pytest.mark.parametrize(
    "made, why",
    [(held_after, "it held more at its end"), (given_back_after, "whether it got less after was not seen")],
)
def test_nor_where_calls_were_not_counted_and_it_may_have_been(made: Callable[[], CudaScene], why: str) -> None:
    scene = made()
    scene.pass_time(NS_PER_S)

    assert why in likely(judge(changed(scene.finish(), CudaCall, asked=None)))


@pytest.mark.parametrize("code", [129, 130, 137, 143])
def test_it_is_not_proved_where_its_status_tells_of_a_signal(code: int) -> None:
    scene = training()
    scene.refused(RANK, 20 * GIB)
    scene.pass_time(NS_PER_S)
    scene.cuda_exit(RANK, code << 8)

    assert "a status that tells of a signal" in likely(ended(scene))


def test_of_a_storm_of_refusals_no_count_is_given_of_what_was_not_recorded() -> None:
    scene = training()
    scene.refused(RANK, 20 * GIB)
    scene.totals(RANK, ended=True, calls_untold=173_462)
    scene.exit(RANK, 1 << 8)

    assert "; calls that matter were too many to be recorded" in likely(ended(scene))

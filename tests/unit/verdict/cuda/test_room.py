# SPDX-License-Identifier: Apache-2.0
"""Whether a device had room as a call was refused, by what the process itself was told before and after."""

import pytest

from tests.unit.verdict.cuda.cuda_scenes import CudaScene, ended, training
from tests.unit.verdict.scenes import RANK, primary
from tracer.units import GIB, NS_PER_MS, NS_PER_S
from tracer.verdict.model import Link


def asked_after(scene: CudaScene, *, free_gib: int, after_ns: int = NS_PER_MS) -> Link:
    """Link 2 of a refusal of 20 GiB, where the process asks its device after it, and exits."""
    scene.refused(RANK, 20 * GIB)
    scene.pass_time(after_ns)
    info = {"info_ns": scene.now_ns, "info_free_bytes": free_gib * GIB, "info_total_bytes": 80 * GIB}
    scene.pass_time(NS_PER_S)
    scene.totals(RANK, ended=True, **info)
    scene.exit(RANK, 1 << 8)
    return primary(ended(scene)).proof[1]


def watched() -> CudaScene:
    scene = CudaScene()
    scene.watched_job()
    scene.trains(3)
    return scene


def test_what_was_asked_in_answer_to_a_refusal_stands_in_the_totals_and_counts() -> None:
    link = asked_after(watched(), free_gib=1)

    assert "present" == link.status
    assert "its device had 1 GiB of 80 GiB free just then (cuMemGetInfo), and 20 GiB were asked for" == link.statement


@pytest.mark.parametrize("free_gib, after_ns", [(30, NS_PER_MS), (60, NS_PER_MS), (1, 3 * NS_PER_S)])
def test_enough_that_was_free_and_what_was_asked_much_later_prove_nothing(free_gib: int, after_ns: int) -> None:
    assert "not_observed" == asked_after(watched(), free_gib=free_gib, after_ns=after_ns).status


def test_of_a_process_on_several_devices_nobody_knows_which_it_asked_about() -> None:
    scene = training()
    scene.gpu(10, index=1)
    link = asked_after(scene, free_gib=1)

    assert ("not_observed", "how much of the device was free was not seen") == (link.status, link.statement)


def test_where_nvml_does_not_tell_who_uses_which_of_several_it_was_told_of_its_own() -> None:
    scene = watched()
    scene.gpu(10, index=0, pids=())
    scene.gpu(10, index=1, pids=())

    assert "present" == asked_after(scene, free_gib=1).status

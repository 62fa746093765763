# SPDX-License-Identifier: Apache-2.0
"""Link 5 where NVML or a process's end says otherwise than its mappings and its calls: nothing is ruled out."""

from collections.abc import Callable

import pytest

from tests.unit.verdict.cuda.cuda_scenes import CODE_BYTES, LIBCUDA, CudaScene, killed, link5, started
from tests.unit.verdict.scenes import LAUNCHER, RANK, WORKERS
from tracer.events import CodeLooked
from tracer.units import NS_PER_MS, NS_PER_S

CHILD = 500


def on_a_gpu_unmapped() -> CudaScene:
    """Its libcuda has another name, or it needs none."""
    scene = started()
    scene.gpu(3, pids=(RANK,))
    return scene


def on_a_gpu_without_a_call() -> CudaScene:
    """Someone has written over the probes in its memory; those of another process work."""
    scene = started(RANK, LAUNCHER)
    scene.trains(3, LAUNCHER)
    scene.gpu(3, pids=(LAUNCHER, RANK))
    return scene


def failed_soon_after_it_was_mapped() -> CudaScene:
    scene = started()
    scene.pass_time(NS_PER_S)
    scene.looked(RANK, (LIBCUDA,))
    scene.pass_time(300 * NS_PER_MS)
    scene.probed()
    scene.trains(1)
    scene.cuda_exit(RANK)
    return scene


def crashed_before_it_was_looked_at() -> CudaScene:
    scene = started(RANK)
    scene.trains()
    scene.forget(*(e for e in scene.items if isinstance(e, CodeLooked) and e.tgid == WORKERS[0]))
    scene.pass_time(NS_PER_S)
    scene.exit(WORKERS[0], 11, comm="pt_data_worker")
    return scene


def young_and_failed() -> CudaScene:
    """A fork of one that has mapped nothing: in 360 ms a driver may be loaded, and refuse memory."""
    return forked_and_ended(360, 1 << 8)


def failed_after_it_was_looked_at() -> CudaScene:
    scene = started()
    scene.rest(2)
    scene.looked(WORKERS[0])
    scene.pass_time(400 * NS_PER_MS)
    scene.exit(WORKERS[0], 1 << 8, comm="pt_data_worker")
    return scene


def forked_and_ended(after_ms: int, status: int) -> CudaScene:
    scene = started()
    scene.pass_time(NS_PER_S)
    scene.round()
    scene.fork(CHILD, RANK)
    scene.pass_time(after_ms * NS_PER_MS)
    scene.exit(CHILD, status)
    return scene


UNSEEN: list[tuple[Callable[[], CudaScene], str]] = [
    (on_a_gpu_unmapped, "was on GPU 0 as NVML has it, and was not seen to have libcuda mapped"),
    (on_a_gpu_without_a_call, "was on GPU 0 as NVML has it, and no call of it was seen"),
    (failed_soon_after_it_was_mapped, "ended of a failure, and may have called libcuda for 1.3 s before"),
    (young_and_failed, "ended of a failure, 360 ms after it was last known not to have libcuda mapped"),
    (failed_after_it_was_looked_at, "ended of a failure, 400 ms after it was last known"),
    (crashed_before_it_was_looked_at, "was not looked at"),
]


@pytest.mark.parametrize(("scene", "why"), UNSEEN, ids=[made.__name__ for made, _ in UNSEEN])
def test_what_another_witness_denies_is_not_ruled_out(scene: Callable[[], CudaScene], why: str) -> None:
    link = link5(killed(scene()))

    assert "not_observed" == link.status
    assert why in link.statement


@pytest.mark.parametrize(("after_ms", "status"), [(360, 0), (360, 15), (90, 1 << 8)])
def test_a_fork_that_ended_well_or_at_once_does_not_matter(after_ms: int, status: int) -> None:
    assert "present" == link5(killed(forked_and_ended(after_ms, status))).status


def test_another_process_on_a_gpu_is_not_the_jobs() -> None:
    scene = started()
    scene.gpu(3, pids=(7, 8))
    scene.gpu(3, index=1, pids=())

    assert "present" == link5(killed(scene)).status


def test_who_was_on_a_gpu_before_it_became_another_program_is_not_on_it_now() -> None:
    scene = started()
    scene.gpu(3, pids=(RANK,))
    scene.pass_time(NS_PER_MS)
    scene.execs(RANK)
    scene.looked(RANK)
    scene.code(RANK, CODE_BYTES)

    assert "present" == link5(killed(scene)).status

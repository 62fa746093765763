# SPDX-License-Identifier: Apache-2.0
"""Host memory that CUDA would not pin: called "out of memory" as well, and none of the device."""

import pytest

from tests.unit.verdict.cuda.cuda_scenes import causes, ended, refused, training
from tests.unit.verdict.scenes import RANK, primary, statuses
from tracer.events import CudaMemory
from tracer.units import GIB


@pytest.mark.parametrize("memory", [CudaMemory.PINNED, CudaMemory.REGISTERED])
def test_pinned_memory_that_was_refused_is_of_the_host(memory: CudaMemory) -> None:
    scene = training()
    scene.round(mem_available_bytes=2 * GIB)
    scene.says("cuda_error", "RuntimeError: CUDA error: out of memory")
    report = ended(refused(scene, memory=memory))
    found = primary(report)

    assert ("pinned_host_memory", "proved", ["present"] * 5) == (found.cause, found.strength, statuses(found))
    assert "CUDA refused 20 GiB of pinned host memory: no GPU memory, whatever the error says" == found.headline
    assert found.proof[1].statement.endswith("asks for memory of the host: 2 GiB of 64 GiB were available")
    assert ["pinned_host_memory"] == causes(report)
    assert () == found.caveats


def test_pinned_memory_that_was_refused_with_room_enough_may_be_a_limit() -> None:
    scene = training()
    scene.round(mem_available_bytes=60 * GIB)
    found = primary(ended(refused(scene, memory=CudaMemory.PINNED)))

    assert "pinned_host_memory" == found.cause
    assert any("vm.max_map_count" in caveat for caveat in found.caveats)


def test_the_last_thing_that_was_refused_is_told() -> None:
    scene = training()
    scene.refused(RANK, GIB, CudaMemory.PINNED)
    scene.survived(RANK, GIB, CudaMemory.PINNED)

    assert "cuda_oom" == primary(ended(refused(scene))).cause

# SPDX-License-Identifier: Apache-2.0
"""Host memory that CUDA holds: of what a limit counts a large part is a reason, and pinned pages are in no cgroup."""

from typing import Any

import pytest

from tests.unit.verdict.cuda.cuda_scenes import VICTIM, CudaScene, killed, link5, started
from tests.unit.verdict.scenes import RANK, primary
from tracer.events import CudaMemory
from tracer.units import GIB, MIB, NS_PER_S
from tracer.verdict.judge import judge
from tracer.verdict.model import Report


def test_managed_memory_that_a_limit_counts_speaks_against_it() -> None:
    scene = started(RANK)
    scene.call(RANK, 100 * MIB, CudaMemory.MANAGED)
    scene.totals(RANK)
    link = link5(killed(scene))

    assert ("absent", "of 512 MiB the job held 100 MiB managed: host memory by way of CUDA") == (
        link.status,
        link.statement,
    )


def test_pinned_memory_is_in_no_cgroup_and_is_stated() -> None:
    scene = started(RANK)
    scene.call(RANK, 20 * GIB, CudaMemory.PINNED)
    scene.call(RANK, 3 * MIB, CudaMemory.REGISTERED)
    scene.totals(RANK)
    link = link5(killed(scene))

    assert "present" == link.status
    assert "; 20 GiB pinned, 0 B managed, 3 MiB registered; " in link.statement


def machine_wide(scene: CudaScene, **meminfo: Any) -> Report:
    """A worker is killed because the whole machine has run out."""
    scene.pass_time(NS_PER_S)
    scene.round(**meminfo)
    stack = ("mark_oom_victim", "__oom_kill_process", "oom_kill_process", "out_of_memory", "__alloc_pages_slowpath")
    scene.kill(frames=stack)
    scene.log_decision(VICTIM, oom_memcg=None)
    return judge(scene.end())


@pytest.mark.parametrize(("gib", "status"), [(1, "present"), (20, "absent")])
def test_much_pinned_memory_is_a_reason_where_the_machine_ran_out(gib: int, status: str) -> None:
    scene = started(RANK)
    scene.call(RANK, gib * GIB, CudaMemory.PINNED)
    scene.totals(RANK)
    report = machine_wide(scene)

    assert "host_oom_global" == primary(report).cause
    assert status == link5(report).status

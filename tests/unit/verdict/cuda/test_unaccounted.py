# SPDX-License-Identifier: Apache-2.0
"""Memory of the machine that no account has: its growth is named where the machine ran out, and proves nothing."""

import pytest

from tests.unit.verdict.cuda.cuda_scenes import CudaScene, link5
from tests.unit.verdict.scenes import RANK, primary
from tracer.events import CallWhy, CudaMemory, PressureSample
from tracer.units import GIB, MIB, NS_PER_S
from tracer.verdict.cuda.unaccounted import unaccounted, unaccounted_bytes
from tracer.verdict.judge import judge
from tracer.verdict.model import Incident
from tracer.verdict.story import Story

STACK = ("mark_oom_victim", "__oom_kill_process", "oom_kill_process", "out_of_memory", "__alloc_pages_slowpath")
ACCOUNTS = {
    "anon_bytes": 5 * GIB,
    "cached_bytes": 4 * GIB,
    "buffers_bytes": GIB,
    "slab_bytes": 2 * GIB,
    "kernel_stack_bytes": 0,
    "page_tables_bytes": 0,
}


def meminfo(free_gib: float, **more: int | None) -> dict[str, int | None]:
    return {"mem_total_bytes": 64 * GIB, "mem_free_bytes": round(free_gib * GIB), **ACCOUNTS, **more}


def sample(**values: int | None) -> PressureSample:
    return PressureSample(ts_ns=1, source="pressure", **values)


def test_it_is_what_is_neither_free_nor_in_any_account() -> None:
    assert 2 * GIB == unaccounted_bytes(sample(**meminfo(50)))
    assert GIB == unaccounted_bytes(sample(**meminfo(50, percpu_bytes=512 * MIB, hugetlb_bytes=512 * MIB)))


@pytest.mark.parametrize("missing", ["mem_total_bytes", "mem_free_bytes", *ACCOUNTS])
def test_without_one_of_the_accounts_nothing_is_computed(missing: str) -> None:
    assert unaccounted_bytes(sample(**meminfo(50, **{missing: None}))) is None


def test_what_was_there_at_the_start_is_the_kernels_own() -> None:
    scene = CudaScene()
    scene.begin()
    scene.round(**meminfo(50))
    scene.pass_time(NS_PER_S)
    scene.round(**meminfo(38))
    found = unaccounted(Story(scene.events), scene.now_ns)

    assert found is not None
    assert (2 * GIB, 12 * GIB, True) == (found.first_bytes, found.grown_bytes, found.material)


def killed(grown_gib: float, *, pinned_gib: float = 0, frames: tuple[str, ...] = STACK) -> Incident:
    """The machine runs out; so much more than at the start is in no account."""
    scene = CudaScene()
    scene.job()
    scene.round(**meminfo(50))
    scene.look_round(RANK)
    if pinned_gib:
        scene.call(RANK, round(pinned_gib * GIB), CudaMemory.PINNED, why=CallWhy.PINNED)
        scene.totals(RANK)
    scene.pass_time(NS_PER_S)
    scene.round(**meminfo(50 - grown_gib))
    scene.kill(frames=frames)
    report = judge(scene.end())
    assert "proved" != link5(report).status
    return primary(report)


def remarks(incident: Incident) -> str:
    return " ".join(caveat for caveat in incident.caveats if "no account" in caveat)


def test_growth_beside_as_much_pinned_memory_is_named_with_it() -> None:
    found = killed(30, pinned_gib=29)

    assert remarks(found).startswith("30 GiB of the machine's memory, more than at the start, is in no account")
    assert "CUDA had 29 GiB pinned for the job" in remarks(found)
    assert "absent" == found.proof[4].status
    assert found.cuda is not None
    assert 30 * GIB == found.cuda.unaccounted_bytes


def test_growth_without_pinned_memory_of_the_job_is_named_as_what_it_may_be() -> None:
    assert "pages that a driver holds" in remarks(killed(30))
    assert "pages of a driver, or zram" in remarks(killed(30, pinned_gib=2))


@pytest.mark.parametrize("grown_gib", [0, 0.5, 2])
def test_little_growth_is_not_named(grown_gib: float) -> None:
    assert "" == remarks(killed(grown_gib))


def test_the_limit_of_a_cgroup_has_accounts_of_its_own() -> None:
    frames = ("mark_oom_victim", "__oom_kill_process", "oom_kill_process", "mem_cgroup_out_of_memory")

    assert "" == remarks(killed(30, frames=frames))

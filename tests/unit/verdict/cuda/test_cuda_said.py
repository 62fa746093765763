# SPDX-License-Identifier: Apache-2.0
"""Out of CUDA memory by the words of the job's own log alone: likely at most, and with the reason why."""

from typing import Any

import pytest

from tests.unit.verdict.cuda.cuda_scenes import AMD, CudaScene, causes, ended, of_cause
from tests.unit.verdict.scenes import LAUNCHER, RANK, WORKERS, primary
from tracer.units import GIB, NS_PER_S
from tracer.verdict.model import Report

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB."


def said(scene: CudaScene, about: str = "device_oom", *, status: int = 1 << 8, **more: Any) -> Report:
    """The log says it, and a second later the rank exits."""
    scene.says(about, OOM, **more)
    scene.pass_time(NS_PER_S)
    scene.cuda_exit(RANK, status)
    return ended(scene)


def training() -> CudaScene:
    scene = CudaScene()
    scene.watched_job()
    scene.trains(10)
    return scene


def test_where_no_call_of_the_driver_failed_the_framework_refused_it_itself() -> None:
    numbers = {"requested_bytes": 20 * GIB, "free_bytes": GIB, "total_bytes": 80 * GIB}
    found = primary(said(training(), numbers=numbers))

    assert ("cuda_oom", "likely") == (found.cause, found.strength)
    assert "Probably out of GPU memory, by the words of its own log" == found.headline
    assert found.proof[0].statement == (
        "its log says so; none of its 10 device allocations failed in the driver: "
        "a limit of the framework's own, its pool or a wrapper refused it"
    )
    assert "by its own words 20 GiB asked for, 1 GiB of 80 GiB free" == found.proof[1].statement


def test_where_calls_failed_and_were_survived_that_is_said() -> None:
    scene = training()
    scene.refused(RANK, 20 * GIB)
    scene.survived(RANK, 20 * GIB)
    scene.rest(20)
    found = primary(said(scene))

    assert ("cuda_oom", "likely") == (found.cause, found.strength)
    assert "of its 12 device allocations 1 failed, and not just then" in found.proof[0].statement


def test_where_nothing_was_watched_that_is_said() -> None:
    scene = CudaScene()
    scene.job()
    found = primary(said(scene))

    assert ("cuda_oom", "likely") == (found.cause, found.strength)
    assert "its log says so; GPU calls were not watched" == found.proof[0].statement


def test_where_its_calls_were_not_watched_the_reason_is_said() -> None:
    scene = CudaScene()
    scene.job()
    scene.look_round(RANK, probed=False)

    assert "its calls were not watched (no probes on it)" in primary(said(scene)).proof[0].statement


def test_another_vendors_library_is_named() -> None:
    scene = CudaScene()
    scene.job()
    scene.look_round()
    scene.looked(RANK, (AMD,))

    assert "libamdhip64.so.6 (amd) mapped" in primary(said(scene)).proof[0].statement


def test_of_a_process_without_libcuda_the_words_are_doubtful() -> None:
    scene = CudaScene()
    scene.job()
    scene.look_round()
    found = primary(said(scene))

    assert ("cuda_oom", "possible") == (found.cause, found.strength)
    assert "but it had not mapped libcuda" in found.proof[0].statement


@pytest.mark.parametrize(("more", "strength"), [({}, "possible"), ({"rank": 0}, "likely")])
def test_words_that_another_rank_may_have_written_make_it_possible(more: dict[str, int], strength: str) -> None:
    scene, other = training(), 42210
    scene.fork(other, LAUNCHER)
    scene.seen(other, LAUNCHER, "python3", {"RANK": "1", "LOCAL_RANK": "1", "TORCHELASTIC_RUN_ID": "x"})
    found = next(one for one in said(scene, **more).verdict.incidents if one.cause == "cuda_oom")

    assert found.strength == strength
    assert found.proof[0].statement.startswith("its log" if more else "a line of the job that does not say whose")


def test_words_that_may_mean_anything_in_cuda_make_it_possible() -> None:
    found = primary(said(training(), "cuda_error"))

    assert ("cuda_oom", "possible") == (found.cause, found.strength)
    assert found.headline.startswith("Perhaps out of memory in CUDA")


def test_words_about_pinned_memory_mean_memory_of_the_host() -> None:
    found = primary(said(training(), "pinned_alloc"))

    assert ("pinned_host_memory", "likely") == (found.cause, found.strength)


def test_words_that_were_followed_by_a_step_make_it_possible() -> None:
    scene = training()
    scene.says("device_oom", OOM)
    scene.pass_time(NS_PER_S)
    scene.says("progress", "step 12")
    scene.pass_time(NS_PER_S)
    scene.cuda_exit(RANK)

    assert "possible" == of_cause(ended(scene), "cuda_oom").strength


@pytest.mark.parametrize("about", ["device_retry", "device_budget", "host_alloc", "exception"])
def test_other_words_are_no_oom_of_the_device(about: str) -> None:
    assert "cuda_oom" not in causes(said(training(), about))


def test_words_of_a_rank_that_ended_well_are_no_incident() -> None:
    assert "cuda_oom" not in causes(said(training(), status=0))


def test_words_of_long_before_are_no_incident() -> None:
    scene = training()
    scene.says("device_oom", OOM)
    scene.rest(90)
    scene.cuda_exit(RANK)

    assert "cuda_oom" not in causes(ended(scene))


def test_words_of_another_rank_are_not_of_this_one() -> None:
    assert "cuda_oom" not in causes(said(training(), rank=3))


def test_a_kernels_kill_is_not_explained_by_words() -> None:
    scene = training()
    scene.says("device_oom", OOM)
    scene.round()
    scene.kill(RANK, comm="python3")

    assert ["host_oom_cgroup"] == causes(ended(scene))


def test_words_never_prove_anything() -> None:
    for about in ("device_oom", "cuda_error", "pinned_alloc"):
        report = said(training(), about)
        assert "proved" not in {i.strength for i in report.verdict.incidents if i.cause != "exited"}


def test_a_plain_program_below_a_shell_is_known_as_well() -> None:
    scene = CudaScene()
    scene.begin()
    scene.fork(300, LAUNCHER)
    scene.pass_time(NS_PER_S)
    scene.says("device_oom", OOM)
    scene.pass_time(NS_PER_S)
    scene.exit(300, 1 << 8)
    found = primary(ended(scene))

    assert found.victim is not None
    assert ("cuda_oom", 300) == (found.cause, found.victim.pid)
    assert 300 not in WORKERS

# SPDX-License-Identifier: Apache-2.0
"""Refusals of the driver that ended a process: of device memory, of pinned host memory; and all that is neither."""

from collections.abc import Callable

import pytest

from tests.unit.verdict.cuda.cuda_scenes import (
    CudaScene,
    causes,
    ended,
    of_cause,
    out_of_device_memory,
    refused,
    training,
)
from tests.unit.verdict.scenes import LAUNCHER, RANK, WORKERS, changed, primary, start_of, statuses, without
from tracer.events import CudaCall, CudaMemory, CudaSymbol, CudaTotals, Losses, ProcessExited
from tracer.units import GIB, MIB, NS_PER_MS, NS_PER_S
from tracer.verdict.judge import judge
from tracer.verdict.model import Report


def test_a_refusal_without_a_later_success_and_an_exit_are_an_oom_of_the_device() -> None:
    report = ended(out_of_device_memory())
    found = primary(report)

    assert ("cuda_oom", "proved", ["present"] * 5) == (found.cause, found.strength, statuses(found))
    assert found.victim is not None
    assert RANK == found.victim.pid
    assert ("Out of GPU memory: CUDA refused 20 GiB", 1) == (found.headline, found.exit_code)
    assert "cuMemAlloc_v2 of 20 GiB returned 2 (out of memory) 3 times" in found.proof[0].statement
    assert "GPU 0 had 1.2 GiB of 80 GiB free" in found.proof[1].statement
    assert ["cuda_oom"] == causes(report)


def test_others_that_end_because_of_it_are_collateral() -> None:
    scene = out_of_device_memory()
    scene.pass_time(NS_PER_S)
    by = {"sender_tgid": LAUNCHER, "sender_tid": LAUNCHER, "sender_start_ns": start_of(LAUNCHER)}
    for pid in WORKERS:
        scene.signal(pid, 15, **by)
        scene.exit(pid, 15, comm="pt_data_worker")
    report = judge(scene.finish())

    assert ["cuda_oom"] == causes(report)
    assert {LAUNCHER, *WORKERS} == {one.pid for one in primary(report).collateral}


def test_its_words_in_the_log_of_the_job_are_an_echo() -> None:
    scene = training()
    scene.refused(RANK, 20 * GIB)
    scene.says("device_oom", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB.")
    scene.pass_time(NS_PER_S)
    scene.cuda_exit(RANK)
    report = ended(scene)

    assert ["cuda_oom"] == causes(report)
    assert "proved" == primary(report).strength
    assert primary(report).proof[0].statement.endswith("; the job's own log says so too")


def survived_first() -> CudaScene:
    """What was refused was got, and then the program failed for another reason."""
    scene = training()
    scene.refused(RANK, 20 * GIB)
    scene.survived(RANK, 20 * GIB)
    scene.pass_time(NS_PER_S)
    scene.cuda_exit(RANK)
    return scene


def ended_well() -> CudaScene:
    scene = training()
    scene.refused(RANK, 20 * GIB)
    scene.pass_time(NS_PER_S)
    scene.cuda_exit(RANK, 0)
    return scene


def long_before() -> CudaScene:
    scene = training()
    scene.refused(RANK, 20 * GIB)
    scene.rest(90)
    scene.cuda_exit(RANK)
    return scene


def another_error() -> CudaScene:
    scene = training()
    scene.call(RANK, 20 * GIB, result=700)
    scene.cuda_exit(RANK)
    return scene


def killed_by_hand() -> CudaScene:
    scene = training()
    scene.refused(RANK, 20 * GIB)
    scene.signal(RANK, 9, sender_tgid=7, sender_tid=7, sender_start_ns=1)
    scene.exit(RANK, 9)
    return scene


def segfault() -> CudaScene:
    scene = training()
    scene.refused(RANK, 20 * GIB)
    scene.signal(RANK, 11, info=2, code=1)
    scene.exit(RANK, 11)
    return scene


@pytest.mark.parametrize(
    "made", [survived_first, ended_well, long_before, another_error, killed_by_hand, segfault], ids=lambda f: f.__name__
)
def test_what_is_no_oom_of_the_device(made: Callable[[], CudaScene]) -> None:
    assert "cuda_oom" not in causes(ended(made()))


def test_a_kernels_kill_of_who_was_refused_is_a_kernels_kill() -> None:
    scene = training()
    scene.refused(RANK, 20 * GIB)
    scene.kill(RANK, comm="python3")
    scene.totals(RANK, ended=True)
    report = ended(scene)

    assert ["host_oom_cgroup"] == causes(report)
    assert "absent" == primary(report).proof[4].status


def likely(report: Report) -> str:
    """Why it is no more than likely."""
    found = of_cause(report, "cuda_oom")
    assert "likely" == found.strength
    return "; ".join(link.statement for link in found.proof if link.status == "not_observed" and link.link <= 4)


def test_it_is_not_proved_where_a_step_was_told_after() -> None:
    scene = training()
    scene.refused(RANK, 20 * GIB)
    scene.pass_time(3 * NS_PER_S)
    scene.says("progress", "step 12")
    scene.cuda_exit(RANK)

    assert "a step was told in between" in likely(ended(scene))


def test_it_is_not_proved_where_it_exited_long_after() -> None:
    scene = training()
    scene.refused(RANK, 20 * GIB)
    scene.rest(30)
    scene.cuda_exit(RANK)

    assert "it may have gone on meanwhile" in likely(ended(scene))


def test_frees_at_its_end_do_not_matter_where_nothing_was_asked_for_in_between() -> None:
    scene = training()
    scene.refused(RANK, 20 * GIB)
    scene.pass_time(NS_PER_S)
    scene.totals(RANK)
    scene.pass_time(3 * NS_PER_S)
    scene.free(RANK, 64 * MIB)
    scene.cuda_exit(RANK)

    assert "proved" == primary(ended(scene)).strength


def test_it_is_not_proved_where_it_had_been_told_to_end() -> None:
    scene = training()
    scene.refused(RANK, 20 * GIB)
    scene.signal(RANK, 15, sender_tgid=7, sender_tid=7, sender_start_ns=1)
    scene.cuda_exit(RANK)

    assert "it had got SIGTERM meanwhile" in likely(ended(scene))


def test_an_exception_that_nobody_caught_is_likely_to_be_that_one() -> None:
    scene = training()
    scene.refused(RANK, 20 * GIB)
    scene.signal(RANK, 6, code=-6)
    scene.cuda_exit(RANK, 6)
    report = ended(scene)

    assert ["cuda_oom"] == causes(report)
    assert "an exception that nobody caught" in likely(report)


def test_it_is_not_proved_without_a_figure_of_the_device() -> None:
    scene = CudaScene()
    scene.watched_job()
    scene.trains(3)

    assert "how much of the device was free was not seen" in likely(ended(refused(scene)))


def test_what_the_process_was_told_of_its_device_counts() -> None:
    scene = CudaScene()
    scene.watched_job()
    scene.trains(3)
    info = {"info_ns": scene.now_ns, "info_free_bytes": GIB, "info_total_bytes": 80 * GIB}
    found = primary(ended(refused(scene, **info)))

    assert "proved" == found.strength
    assert "its device had 1 GiB of 80 GiB free just then (cuMemGetInfo), and 20 GiB were asked for" == (
        found.proof[1].statement
    )


def test_of_several_devices_that_it_uses_nobody_knows_which_was_full() -> None:
    scene = training()
    scene.gpu(10, index=1)

    assert "how much of the device was free was not seen" in likely(ended(refused(scene)))


def test_room_enough_before_leaves_it_open() -> None:
    scene = CudaScene()
    scene.watched_job()
    scene.trains(3)
    scene.gpu(10)

    assert "which would have been enough" in likely(ended(refused(scene)))


def test_a_device_with_plenty_of_room_before_and_after_was_not_full() -> None:
    scene = CudaScene()
    scene.watched_job()
    scene.trains(3)
    scene.gpu(10)
    scene.refused(RANK, GIB)
    scene.pass_time(500 * NS_PER_MS)
    scene.gpu(10)
    scene.pass_time(NS_PER_S)
    scene.cuda_exit(RANK)
    found = primary(ended(scene))

    assert ("cuda_oom", "possible", "absent") == (found.cause, found.strength, found.proof[1].status)
    assert "error 2 has other causes than a full device" in found.proof[1].statement
    assert found.headline.startswith("Perhaps")


def test_pieces_of_a_larger_request_say_nothing_of_room() -> None:
    scene = CudaScene()
    scene.watched_job()
    scene.trains(3)
    scene.gpu(10)
    scene.refused(RANK, 20 * MIB, symbol=CudaSymbol.cuMemCreate)
    scene.pass_time(500 * NS_PER_MS)
    scene.gpu(10)
    scene.pass_time(NS_PER_S)
    scene.cuda_exit(RANK)

    assert "likely" == primary(ended(scene)).strength


def test_managed_memory_may_have_been_short_on_the_host() -> None:
    assert "managed memory may lie on the device and on the host" in likely(
        ended(refused(training(), memory=CudaMemory.MANAGED))
    )


def test_a_context_that_could_not_be_made_is_never_proved_to_be_an_oom_of_the_device() -> None:
    report = ended(refused(training(), size=None, memory=CudaMemory.OTHER))

    assert "may want memory of the device and of the host" in likely(report)
    assert "Probably out of memory in CUDA: cuDevicePrimaryCtxRetain failed" == primary(report).headline


@pytest.mark.parametrize("lost", [{"cuda_call": 1}, {"signal_sent": 1}])
def test_lost_records_near_it_leave_it_likely(lost: dict[str, int]) -> None:
    scene = out_of_device_memory()
    scene.pass_time(NS_PER_S)
    events = changed(scene.finish(), Losses, dropped=lost)

    assert "likely" == of_cause(judge(events), "cuda_oom").strength


@pytest.mark.parametrize("kind", [CudaTotals, ProcessExited, Losses])
def test_without_one_kind_of_records_nothing_is_proved(kind: type) -> None:
    scene = out_of_device_memory()
    scene.pass_time(NS_PER_S)
    found = [i for i in judge(without(scene.finish(), kind)).verdict.incidents if i.cause == "cuda_oom"]

    assert "proved" not in {incident.strength for incident in found}


def test_totals_with_calls_that_could_not_be_told_prove_nothing() -> None:
    scene = out_of_device_memory()
    scene.pass_time(NS_PER_S)

    assert "likely" == of_cause(judge(changed(scene.finish(), CudaTotals, untold=1)), "cuda_oom").strength


def test_an_earlier_refusal_comes_first_and_a_later_kill_is_another_incident() -> None:
    scene = out_of_device_memory()
    scene.pass_time(3 * NS_PER_S)
    scene.round()
    scene.kill(WORKERS[0])
    report = ended(scene)

    assert ["cuda_oom", "host_oom_cgroup"] == causes(report)
    assert "cuda_oom" == primary(report).cause


def test_a_kill_long_after_a_refusal_that_ended_one_process_is_not_called_its_doing() -> None:
    scene = out_of_device_memory()
    scene.rest(600)
    scene.kill(WORKERS[0])
    found = of_cause(ended(scene), "host_oom_cgroup")

    assert "not_observed" == found.proof[4].status
    assert found.proof[4].statement.endswith("though the job went on")


def test_of_a_kill_and_a_later_refusal_the_kill_comes_first() -> None:
    scene = training()
    scene.round()
    scene.kill(WORKERS[0])
    report = ended(refused(scene))

    assert "host_oom_cgroup" == primary(report).cause
    assert "cuda_oom" in causes(report)


def test_the_refusal_of_one_that_a_job_got_over_is_told_beside_its_end() -> None:
    scene = out_of_device_memory()
    scene.pass_time(NS_PER_S)
    report = judge(scene.finish(0))

    assert "exited" == primary(report).cause
    assert "cuda_oom" in causes(report)


def test_the_document_says_what_was_seen_of_cuda() -> None:
    facts = primary(ended(out_of_device_memory())).cuda
    assert facts is not None
    (rank,) = facts.processes

    assert (RANK, "watched", 412) == (rank.pid, rank.covered, rank.device_calls)
    assert (412 * 64 * MIB, 0) == (rank.device_bytes, rank.pinned_bytes)
    assert 5 == facts.unmapped
    assert [(0, 80 * GIB)] == [(one.index, one.total_bytes) for one in facts.devices]


def test_a_call_without_an_end_of_its_process_is_no_incident() -> None:
    scene = training()
    scene.refused(RANK, 20 * GIB)
    report = judge(scene.events)

    assert "cuda_oom" not in causes(report)
    assert isinstance(scene.items[-1], CudaCall)

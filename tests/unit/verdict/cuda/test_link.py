# SPDX-License-Identifier: Apache-2.0
"""Link 5: that it was no CUDA allocation is said where that was seen, and nowhere else."""

from collections.abc import Callable

import pytest

from tests.unit.verdict.cuda.cuda_scenes import (
    AMD,
    CODE_BYTES,
    LIBCUDA,
    VICTIM,
    CudaScene,
    causes,
    host_kill_beside_a_gpu,
    killed,
    link5,
    started,
)
from tests.unit.verdict.scenes import (
    KILL_STACK,
    LAUNCHER,
    RANK,
    WORKERS,
    changed,
    primary,
    start_of,
    without,
    worker_killed,
)
from tracer.events import (
    CodeLooked,
    CudaCall,
    CudaMemory,
    CudaTotals,
    GpuSample,
    JobStarted,
    Losses,
    ProcessForked,
)
from tracer.units import GIB, MIB, NS_PER_MS, NS_PER_S
from tracer.verdict.judge import judge

RULED_OUT = "not CUDA"


def test_calls_that_were_watched_and_went_well_rule_cuda_out() -> None:
    report = judge(host_kill_beside_a_gpu().end())
    link = link5(report)

    assert ("present", "bpf", ("uprobe:libcuda",)) == (link.status, link.rung, link.via)
    assert link.statement.startswith("0 of 412 device allocations failed, GPU 0 held 31.2 GiB of 80 GiB; no host")
    assert primary(report).headline.endswith(RULED_OUT)


def test_a_job_in_which_nobody_mapped_libcuda_was_killed_for_want_of_host_memory_alone() -> None:
    report = killed(started())

    assert "no process of the job had mapped libcuda (6 processes, as of 100 ms before)" == link5(report).statement
    assert ("present", "proc") == (link5(report).status, link5(report).rung)
    assert primary(report).headline.endswith(RULED_OUT)


def test_without_a_look_at_any_mapping_nothing_is_said_of_cuda() -> None:
    report = judge(worker_killed())

    assert ("not_observed", None) == (link5(report).status, link5(report).rung)
    assert "GPU calls were not watched: this speaks of host RAM alone" == link5(report).statement
    assert RULED_OUT not in primary(report).headline
    assert primary(report).cuda is None


def not_looked_at() -> CudaScene:
    scene = started(RANK)
    scene.trains()
    scene.forget(*(e for e in scene.items if isinstance(e, CodeLooked) and e.tgid == WORKERS[0]))
    return scene


def unreadable() -> CudaScene:
    scene = started(RANK)
    scene.trains()
    scene.looked(WORKERS[0], (), complete=False, why_not="not permitted")
    return scene


def more_code() -> CudaScene:
    scene = started()
    scene.pass_time(NS_PER_S)
    scene.code(VICTIM, CODE_BYTES + 9 * MIB)
    return scene


def amd() -> CudaScene:
    scene = started()
    scene.looked(RANK, (AMD,))
    return scene


def unprobed() -> CudaScene:
    return started(RANK, probed=False)


def refused_probes() -> CudaScene:
    scene = CudaScene()
    scene.job()
    scene.probed(symbols=(), why_not="uprobes are not available")
    scene.look_round(RANK, probed=False)
    return scene


def one_refused_probe() -> CudaScene:
    scene = CudaScene()
    scene.job()
    scene.probed(refused={"cuMemCreate": "EPERM"})
    scene.look_round(RANK, probed=False)
    scene.trains()
    return scene


def probed_late() -> CudaScene:
    scene = started()
    scene.pass_time(NS_PER_S)
    scene.looked(RANK, (LIBCUDA,))
    scene.rest(4)
    scene.probed()
    scene.trains()
    return scene


def coherent() -> CudaScene:
    scene = host_kill_without_the_kill()
    scene.node(64, 0)
    return scene


def host_kill_without_the_kill() -> CudaScene:
    scene = started(RANK)
    scene.trains()
    return scene


def untold() -> CudaScene:
    scene = host_kill_without_the_kill()
    scene.totals(RANK, untold=3)
    return scene


def failure_not_recorded() -> CudaScene:
    scene = host_kill_without_the_kill()
    scene.refused(RANK, GIB)
    scene.items.pop()
    return scene


def no_call() -> CudaScene:
    return started(RANK)


def caller_unmapped() -> CudaScene:
    scene = started()
    scene.trains(3)
    return scene


def stale() -> CudaScene:
    """No round of samples came through for long: the machine had other worries."""
    scene = started()
    scene.pass_time(20 * NS_PER_S)
    return scene


UNSEEN: list[tuple[Callable[[], CudaScene], str]] = [
    (not_looked_at, "worker 0 of rank 0 (pid 41231) was not looked at"),
    (unreadable, "could not be looked into (not permitted)"),
    (more_code, "loaded code 1.1 s before, not looked at"),
    (amd, "libamdhip64.so.6 (amd) mapped: not NVIDIA's"),
    (unprobed, "had libcuda.so.1 mapped, and its calls were not watched (no probes on it)"),
    (refused_probes, "(uprobes are not available)"),
    (one_refused_probe, "may have called cuMemCreate, which could not be watched"),
    (probed_late, "may have called libcuda for 5.0 s before that was watched"),
    (coherent, "NUMA node 1 has 96 GiB and no CPU"),
    (untold, "3 of its calls could not be told"),
    (failure_not_recorded, "1 of its calls failed, and 0 were recorded"),
    (no_call, "no call of it was seen"),
    (caller_unmapped, "called libcuda, and was not seen to have it mapped"),
]


@pytest.mark.parametrize(("scene", "why"), UNSEEN, ids=[made.__name__ for made, _ in UNSEEN])
def test_what_was_not_seen_is_not_ruled_out(scene: Callable[[], CudaScene], why: str) -> None:
    report = killed(scene())

    assert "not_observed" == link5(report).status
    assert why in link5(report).statement
    assert link5(report).statement.endswith("this speaks of host RAM alone")
    assert RULED_OUT not in primary(report).headline


def test_a_look_of_long_before_does_not_speak_for_the_kill() -> None:
    scene = stale()
    scene.kill()
    report = judge(scene.end())

    assert "not_observed" == link5(report).status
    assert "was last looked at 20.0 s before" in link5(report).statement


@pytest.mark.parametrize("kind", ["cuda_call", "cuda_totals", "process_forked"])
def test_lost_records_of_calls_or_forks_leave_it_open(kind: str) -> None:
    scene = host_kill_beside_a_gpu()
    events = changed(scene.end(), Losses, dropped={kind: 1})

    assert "not_observed" == link5(judge(events)).status


@pytest.mark.parametrize(("mapped", "said"), [((RANK,), True), ((), False)])
def test_functions_that_are_not_watched_are_named_where_somebody_may_have_called_them(
    mapped: tuple[int, ...], said: bool
) -> None:
    scene = CudaScene()
    scene.job()
    scene.probed(unknown=("cuMemAllocManaged_v9",))
    scene.look_round(*mapped, probed=False)
    if mapped:
        scene.trains(3)
    report = killed(scene)

    assert "present" == link5(report).status
    assert said == any("not watched: cuMemAllocManaged_v9" in caveat for caveat in primary(report).caveats)


def test_a_recording_without_an_end_leaves_it_open() -> None:
    assert "not_observed" == link5(judge(without(host_kill_beside_a_gpu().end(), Losses))).status


@pytest.mark.parametrize("kind", [CudaTotals, CodeLooked, ProcessForked])
def test_a_recording_without_one_kind_of_records_does_not_rule_cuda_out(kind: type) -> None:
    events = without(host_kill_beside_a_gpu().end(), kind)
    found = [i for i in judge(events).verdict.incidents if i.cause.startswith("host_oom")]

    assert "present" not in {link.status for i in found for link in i.proof if link.link == 5}


def test_of_a_job_that_ran_already_nobody_knows_what_it_had_called() -> None:
    events = changed(host_kill_beside_a_gpu().end(), JobStarted, attached=True)

    assert "present" not in {i.proof[4].status for i in judge(events).verdict.incidents if len(i.proof) > 4}


def test_without_samples_of_the_device_the_calls_still_speak() -> None:
    link = link5(judge(without(host_kill_beside_a_gpu().end(), GpuSample)))

    assert "present" == link.status
    assert "device memory unknown (not sampled)" in link.statement


def test_the_proof_of_the_kill_is_as_strong_whatever_link_5_says() -> None:
    strengths = {primary(killed(made())).strength for made, _ in UNSEEN}

    assert {"proved"} == strengths


def test_a_refusal_that_was_survived_is_told_and_rules_nothing_in() -> None:
    scene = started(RANK)
    scene.trains()
    for _ in range(2):
        scene.refused(RANK, 20 * GIB)
    scene.survived(RANK, 20 * GIB)
    report = killed(scene)

    assert ["host_oom_cgroup"] == causes(report)
    assert "present" == link5(report).status
    assert "2 of 415 device allocations failed, and each was got later" in link5(report).statement
    rows = [entry.text for entry in report.timeline if entry.kind == "gpu"]
    assert "cuMemAlloc_v2 of 20 GiB failed, 2 times: 2 (out of memory)" in rows
    assert any("got 20 GiB" in row and row.endswith("survived") for row in rows)


@pytest.mark.parametrize("memory", [CudaMemory.DEVICE, CudaMemory.MANAGED, CudaMemory.PINNED])
def test_a_refusal_that_was_not_survived_speaks_against_it(memory: CudaMemory) -> None:
    scene = started(RANK)
    scene.trains()
    scene.refused(RANK, 20 * GIB, memory)
    report = killed(scene)

    assert "absent" == link5(report).status
    assert "refused rank 0 (pid 41210) 20 GiB 1.1 s before, and it never got that much after" in link5(report).statement
    assert RULED_OUT not in primary(report).headline


def test_a_refusal_of_long_before_leaves_it_open() -> None:
    scene = started(RANK)
    scene.trains()
    scene.refused(RANK, 20 * GIB)
    scene.rest(120)
    report = killed(scene)

    assert "not_observed" == link5(report).status
    assert link5(report).statement.endswith("though the job went on")


def test_a_failure_for_another_reason_is_no_refusal() -> None:
    scene = started(RANK)
    scene.trains()
    scene.call(RANK, GIB, result=700)
    link = link5(killed(scene))

    assert "present" == link.status
    assert "0 of 413 device allocations failed (1 more not for want of memory)" in link.statement


def test_where_rounds_of_samples_came_after_the_kill_as_well_nobody_counts_back() -> None:
    scene = started()
    scene.rest(2)
    scene.oom_signal(VICTIM, VICTIM)
    mark = scene.mark(VICTIM, VICTIM, comm="pt_data_worker")
    scene.levels(mark)
    scene.rest(3)
    scene.exit(VICTIM, 9, oom_marked=1, comm="pt_data_worker")
    scene.stack(mark, KILL_STACK)

    assert "(6 processes, looked at until then)" in link5(judge(scene.end())).statement


def test_what_watched_is_named() -> None:
    report = judge(host_kill_beside_a_gpu().end())

    assert ("libcuda (uprobes)", "NVML") == tuple(w for w in report.verdict.watched_by if w[0] in "lN")
    assert ("libcuda (uprobes)" in killed(started()).verdict.watched_by) is False


def test_processes_that_ended_well_before_they_could_be_looked_at_are_said() -> None:
    scene = started()
    scene.fork(300, LAUNCHER, comm="ldconfig")
    scene.execs(300, "ldconfig")
    scene.exit(300, 0, comm="ldconfig")
    link = link5(killed(scene))

    assert "present" == link.status
    assert "(6 processes, as of 100 ms before)" in link.statement
    assert link.statement.endswith("; of 1 that had ended before, 1 were not looked at")


@pytest.mark.parametrize(("lived_ns", "status"), [(50 * NS_PER_MS, "present"), (NS_PER_S, "not_observed")])
def test_one_that_failed_unseen_counts_unless_its_life_was_too_short_for_a_gpu(lived_ns: int, status: str) -> None:
    scene = started(RANK)
    scene.trains()
    scene.add(
        ProcessForked(
            ts_ns=scene.now_ns,
            cpu=0,
            start_ns=start_of(300),
            parent_start_ns=start_of(LAUNCHER),
            anon_rss_bytes=0,
            tgid=300,
            parent_tgid=LAUNCHER,
            ns_tgid=300,
            ns_level=0,
            comm="which",
        )
    )
    scene.execs(300, "which")
    scene.pass_time(lived_ns)
    scene.exit(300, 1 << 8, comm="which")

    link = link5(killed(scene))

    assert status == link.status, link.statement


def test_a_worker_that_was_forked_with_libcuda_mapped_needs_no_look_of_its_own() -> None:
    scene = CudaScene()
    scene.begin()
    scene.looked(LAUNCHER)
    scene.fork(RANK, LAUNCHER)
    scene.seen(RANK, LAUNCHER, "python3", {"RANK": "0", "LOCAL_RANK": "0"})
    scene.probed()
    scene.looked(RANK, (LIBCUDA,))
    scene.trains()
    for pid in WORKERS:
        scene.fork(pid, RANK)
        scene.seen(pid, RANK, "pt_data_worker", {"RANK": "0", "LOCAL_RANK": "0"})
        scene.code(pid, CODE_BYTES + MIB)
    link = link5(killed(scene))

    assert "present" == link.status
    assert "the 5 processes with libcuda were watched" in link.statement


def test_no_call_of_a_worker_is_missing_where_only_its_rank_calls() -> None:
    events = host_kill_beside_a_gpu().end()

    assert all(e.tgid == RANK for e in events if isinstance(e, CudaCall | CudaTotals))
    assert "present" == link5(judge(events)).status

# SPDX-License-Identifier: Apache-2.0
"""Host memory that was refused: likely by words, possible without, and its bound only where that was seen."""

import pytest

from tests.unit.verdict.refusing import UNLIMITED, causes, link, training
from tests.unit.verdict.scenes import LAUNCHER, RANK, WORKERS, primary, start_of
from tracer.events import ProcessExeced, ProcessLimits
from tracer.units import GIB, MIB, NS_PER_S


def test_words_and_an_exit_make_it_likely_and_never_more() -> None:
    scene = training()
    scene.limited(RANK, ProcessLimits(address_bytes=2 * GIB))
    scene.mapped(RANK, 2 * GIB)
    scene.memory_error()
    found = primary(scene.fails())

    assert ("host_allocation_failed", "likely") == (found.cause, found.strength)
    assert "Probably an allocation of host memory was refused; nobody was killed" == found.headline
    assert link(found, 2) == (
        "present",
        "its address space is limited to 2 GiB (RLIMIT_AS, ulimit -v): 2 GiB of that had been mapped 0 us before that",
    )
    assert "not_observed" == link(found, 1)[0]
    assert "ulimit -v" in found.remedies[0].do


def test_a_limit_that_was_not_near_is_told_as_such() -> None:
    scene = training()
    scene.limited(RANK, ProcessLimits(address_bytes=8 * GIB))
    scene.mapped(RANK, 2 * GIB)
    scene.memory_error()
    found = primary(scene.fails())

    assert "likely" == found.strength
    assert "not_observed" == link(found, 2)[0]
    assert "its address space is limited to 8 GiB, and 2 GiB had been mapped" in link(found, 2)[1]
    assert "ulimit -v unlimited" not in found.remedies[0].do


def test_what_was_asked_for_counts_towards_the_limit() -> None:
    scene = training()
    scene.limited(RANK, ProcessLimits(address_bytes=8 * GIB))
    scene.mapped(RANK, 2 * GIB)
    scene.says("host_alloc", what="DefaultCPUAllocator", numbers={"requested_bytes": 7 * GIB})
    found = primary(scene.fails())

    assert "present" == link(found, 2)[0]
    assert link(found, 2)[1].endswith(", and 7 GiB were asked for")
    assert "was refused 7 GiB" in found.summary


def test_what_was_mapped_by_the_program_before_does_not_count() -> None:
    scene = training()
    scene.mapped(RANK, 8 * GIB)
    scene.add(ProcessExeced(ts_ns=scene.now_ns + 1, cpu=0, start_ns=start_of(RANK), tgid=RANK, old_tid=RANK, comm="x"))
    scene.pass_time(NS_PER_S)
    scene.limited(RANK, ProcessLimits(address_bytes=8 * GIB))
    scene.memory_error()

    assert "not_observed" == link(primary(scene.fails()), 2)[0]


def test_strict_overcommit_is_named_where_its_bound_was_near() -> None:
    scene = training()
    scene.limited(RANK, UNLIMITED)
    scene.machine(overcommit=2, commit_limit_bytes=32 * GIB, committed_bytes=31 * GIB)
    scene.memory_error()
    found = primary(scene.fails())

    assert "present" == link(found, 2)[0]
    assert "vm.overcommit_memory=2" in link(found, 2)[1]
    assert "vm.overcommit_memory=0" in found.remedies[0].do


def test_strict_overcommit_with_room_is_not_blamed() -> None:
    scene = training()
    scene.limited(RANK, UNLIMITED)
    scene.machine(overcommit=2, commit_limit_bytes=32 * GIB, committed_bytes=3 * GIB)
    scene.memory_error()

    assert "not_observed" == link(primary(scene.fails()), 2)[0]


@pytest.mark.parametrize(("overcommit", "status"), [(0, "present"), (1, "not_observed"), (None, "not_observed")])
def test_more_than_the_machine_has_is_refused_unless_it_promises_all(overcommit: int | None, status: str) -> None:
    scene = training()
    scene.machine(overcommit=overcommit)
    scene.says("host_alloc", what="numpy", numbers={"requested_bytes": 100 * GIB})

    assert status == link(primary(scene.fails()), 2)[0]


def test_where_no_bound_was_seen_none_is_named() -> None:
    scene = training()
    scene.limited(RANK, UNLIMITED)
    scene.machine(overcommit=0)
    scene.memory_error()
    status, statement = link(primary(scene.fails()), 2)

    assert "not_observed" == status
    assert statement == (
        "which bound refused it was not seen: its address space has no limit, vm.overcommit_memory is 0, "
        "50 GiB of 64 GiB of RAM were available"
    )


def test_a_worker_that_was_refused_is_named_and_its_own_limit_counts() -> None:
    scene = training()
    scene.limited(WORKERS[1], ProcessLimits(address_bytes=GIB))
    scene.mapped(WORKERS[1], GIB)
    scene.says("worker_raised", "MemoryError: Caught MemoryError in DataLoader worker process 1.",
               what="MemoryError", worker=1)  # fmt: skip
    found = primary(scene.fails())

    assert found.victim is not None
    assert (WORKERS[1], 1) == (found.victim.pid, found.victim.worker)
    assert "present" == link(found, 2)[0]
    assert "DataLoader worker 1 of rank 0 (pid 41232) was refused memory" in found.summary
    assert "rank 0 (pid 41210) ended by exit 1" in found.summary


def test_c_plus_plus_ends_on_it_by_sigabrt() -> None:
    scene = training()
    scene.says("host_alloc", "terminate called after throwing an instance of 'std::bad_alloc'", what="std::bad_alloc")
    report = scene.fails(6)

    assert ("host_allocation_failed", "likely") == (primary(report).cause, primary(report).strength)
    assert "crash" not in causes(report)


def test_sigabrt_from_somebody_else_is_no_refusal() -> None:
    scene = training()
    scene.memory_error()
    scene.signal(RANK, 6, sender_tgid=77, sender_start_ns=start_of(77), code=0)

    assert "host_allocation_failed" not in causes(scene.fails(6))


def test_words_that_were_followed_by_a_step_make_it_possible() -> None:
    scene = training()
    scene.memory_error()
    scene.pass_time(NS_PER_S)
    scene.says("progress", "step 12")
    report = scene.fails()
    [found] = [one for one in report.verdict.incidents if one.cause == "host_allocation_failed"]

    assert "possible" == found.strength
    assert "a step was told in between" in link(found, 4)[1]


def test_words_of_long_before_are_no_refusal() -> None:
    scene = training()
    scene.memory_error()

    assert "host_allocation_failed" not in causes(scene.fails(after_ns=90 * NS_PER_S))


def test_words_of_another_rank_are_not_of_this_one() -> None:
    scene = training()
    scene.memory_error(rank=3)

    assert "host_allocation_failed" not in causes(scene.fails())


def test_words_that_another_rank_may_have_written_make_it_possible() -> None:
    scene, other = training(), 42210
    scene.fork(other, LAUNCHER)
    scene.seen(other, LAUNCHER, "python3", {"RANK": "1", "LOCAL_RANK": "1", "TORCHELASTIC_RUN_ID": "x"})
    scene.memory_error()

    assert "possible" == primary(scene.fails()).strength


def test_a_kernels_kill_is_not_explained_by_words() -> None:
    scene = training()
    scene.memory_error()
    scene.grow()
    scene.kill()
    scene.pass_time(NS_PER_S)
    scene.memory_error()
    report = scene.fails()

    assert "host_oom_cgroup" == primary(report).cause


def test_cuda_that_refused_is_not_the_hosts_memory() -> None:
    scene = training()
    scene.says("device_oom", "torch.OutOfMemoryError: CUDA out of memory.")
    scene.memory_error()

    assert "cuda_oom" == primary(scene.fails()).cause


def test_without_words_an_end_at_the_limit_is_possible() -> None:
    scene = training()
    scene.limited(RANK, ProcessLimits(address_bytes=2 * GIB))
    scene.mapped(RANK, 2 * GIB - MIB)
    found = primary(scene.fails())

    assert ("host_allocation_failed", "possible") == (found.cause, found.strength)
    assert found.headline.startswith("Perhaps ")
    assert link(found, 1) == ("not_observed", "no line that says so was read: by its end and its bound alone")


def test_a_launcher_that_fails_at_a_bound_is_not_looked_at() -> None:
    scene = training()
    scene.limited(LAUNCHER, ProcessLimits(address_bytes=2 * GIB))
    scene.mapped(LAUNCHER, 2 * GIB)

    assert "host_allocation_failed" not in causes(scene.fails())


def test_an_old_recording_without_limits_still_has_words() -> None:
    scene = training()
    scene.memory_error()
    found = primary(scene.fails())

    assert "likely" == found.strength
    assert link(found, 2)[1] == "which bound refused it was not seen: the limit of its address space was not read"


@pytest.mark.parametrize(
    ("after_s", "rank", "strength"),
    [(0, None, "possible"), (1, None, "possible"), (5, None, "possible"), (1, 1, "likely")],
)
def test_another_exception_that_came_later_may_be_the_reason(after_s: int, rank: int | None, strength: str) -> None:
    """Even at once: the first one may have been caught and printed. That of another rank follows from it."""
    scene = training()
    scene.memory_error()
    scene.pass_time(after_s * NS_PER_S)
    scene.says("exception", "ValueError: no such label", what="ValueError", rank=rank)
    [found] = [one for one in scene.fails().verdict.incidents if one.cause == "host_allocation_failed"]

    assert strength == found.strength

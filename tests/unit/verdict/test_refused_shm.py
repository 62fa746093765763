# SPDX-License-Identifier: Apache-2.0
"""Room in /dev/shm that was refused: likely by words, possible where it was seen to be full, else not said."""

import msgspec
import pytest

from tests.unit.verdict.refusing import Refusing, causes, link, training
from tests.unit.verdict.scenes import LAUNCHER, RANK, WORKERS, primary, start_of
from tracer.events import ProcessLimits, ProcessSample
from tracer.units import GIB, MIB, NS_PER_MS, NS_PER_S
from tracer.verdict.judge import judge


def test_of_two_refusals_the_one_that_was_not_survived_is_told() -> None:
    scene = training()
    scene.memory_error()
    scene.pass_time(NS_PER_S)
    scene.says("progress", "step 12")
    scene.pass_time(NS_PER_S)
    scene.no_space()

    assert ("shm_exhausted", "likely") == ((found := primary(scene.fails())).cause, found.strength)


@pytest.mark.parametrize("status", [0, 9, 11, 15])
def test_an_end_of_another_kind_is_no_refusal(status: int) -> None:
    scene = training()
    scene.memory_error()
    scene.no_space()

    assert not {"host_allocation_failed", "shm_exhausted"} & set(causes(scene.fails(status)))


def test_shared_memory_that_was_refused_with_dev_shm_full() -> None:
    scene = training()
    scene.shm(2)
    scene.pass_time(NS_PER_S)
    scene.no_space()
    found = primary(scene.fails())

    assert ("shm_exhausted", "likely") == (found.cause, found.strength)
    assert "Probably /dev/shm was full: shared memory was refused" == found.headline
    assert link(found, 2) == ("present", "/dev/shm had 2 MiB of 64 MiB free 1.0 s before that")
    assert "size=128m" in found.remedies[0].do
    assert "the default of container runtimes" in (found.remedies[0].why or "")
    assert "num_workers=2 instead of 4" in found.remedies[1].do


def test_shared_memory_that_was_refused_with_room_is_told_as_such() -> None:
    scene = training()
    scene.shm(40)
    scene.no_space()
    status, statement = link(primary(scene.fails()), 2)

    assert "not_observed" == status
    assert statement.endswith(
        "40 MiB of 64 MiB free 0 us before that: enough, unless more than that was wanted at once"
    )


def test_shared_memory_that_was_refused_unseen() -> None:
    scene = training()
    scene.no_space()
    found = primary(scene.fails())

    assert "likely" == found.strength
    assert link(found, 2) == ("not_observed", "how full /dev/shm was just then was not seen")


@pytest.mark.parametrize(
    ("what", "errno"), [("Too many open files", None), ("/torch_1_2", 24), ("/torch_1_2", 2), ("/torch_1_2", 13)]
)
def test_other_trouble_with_shared_memory_is_no_want_of_room(what: str, errno: int | None) -> None:
    scene = training()
    scene.shm(60)
    scene.says("shm", "x", what=what, numbers={} if errno is None else {"errno": errno})

    assert "shm_exhausted" not in causes(scene.fails())


@pytest.mark.parametrize(
    ("text", "free_mib", "strength"),
    [
        ("OSError: [Errno 28] No space left on device", 1, "possible"),
        ("OSError: [Errno 28] No space left on device: '/dev/shm/cache.npy'", 60, "likely"),
        ("OSError: [Errno 28] No space left on device", 60, None),
        ("OSError: [Errno 28] No space left on device: '/data/out.pt'", 0, None),
    ],
)
def test_a_file_that_did_not_fit_is_told_by_its_path_or_by_a_full_tmpfs(
    text: str, free_mib: int, strength: str | None
) -> None:
    scene = training()
    scene.shm(free_mib)
    scene.says("exception", text, what="OSError")
    found = [one.strength for one in scene.fails().verdict.incidents if one.cause == "shm_exhausted"]

    assert found == ([] if strength is None else [strength])


def test_without_words_an_end_with_dev_shm_brimful_is_possible() -> None:
    scene = training()
    scene.shm(0)

    assert ("shm_exhausted", "possible") == ((found := primary(scene.fails())).cause, found.strength)


@pytest.mark.parametrize("free_mib", [2, 60])
def test_without_words_a_tmpfs_with_room_is_not_blamed(free_mib: int) -> None:
    scene = training()
    scene.shm(free_mib)

    assert "shm_exhausted" not in causes(scene.fails())


def test_without_words_another_tmpfs_is_not_blamed() -> None:
    scene = training()
    scene.shm(0, mount_point="/tmp")

    assert "shm_exhausted" not in causes(scene.fails())


def test_other_words_that_were_read_are_the_reason() -> None:
    scene = training()
    scene.read()
    scene.shm(0)
    scene.limited(RANK, ProcessLimits(address_bytes=2 * GIB))
    scene.mapped(RANK, 2 * GIB)
    scene.says("exception", "ValueError: no such label", what="ValueError")

    assert not {"host_allocation_failed", "shm_exhausted"} & set(causes(scene.fails()))


def test_who_fails_at_a_bound_after_a_worker_crashed_fails_because_of_that() -> None:
    scene = training()
    scene.shm(0)
    scene.signal(WORKERS[0], 11, code=1)
    scene.exit(WORKERS[0], 11)

    assert "crash" == primary(scene.fails()).cause


@pytest.mark.parametrize("code", [0, 137, 143])
def test_without_words_an_end_that_somebody_asked_for_is_no_refusal(code: int) -> None:
    scene = training()
    scene.shm(0)

    assert "shm_exhausted" not in causes(scene.fails(code << 8))


def test_nothing_of_it_is_ever_proved() -> None:
    scene = training()
    scene.limited(RANK, ProcessLimits(address_bytes=2 * GIB))
    scene.mapped(RANK, 2 * GIB)
    scene.shm(0)
    scene.memory_error(tgid=RANK, start_ns=start_of(RANK))
    scene.no_space(tgid=RANK, start_ns=start_of(RANK))
    report = scene.fails(after_ns=NS_PER_MS)

    assert all(one.strength != "proved" for one in report.verdict.incidents if one.cause != "exited")
    assert msgspec.to_builtins(report.verdict)


@pytest.mark.parametrize(("mapped_mib", "first"), [(50, "Let rank 0 (pid 41210) keep no batches"), (2, "More room")])
def test_who_has_most_of_it_mapped_is_told_to_keep_less(mapped_mib: int, first: str) -> None:
    scene = training()
    scene.shm(2)
    start_ns = start_of(RANK)
    values: dict[str, int] = {"rss_shmem_bytes": mapped_mib * MIB, "rss_anon_bytes": MIB}
    scene.add(ProcessSample(ts_ns=scene.now_ns, source="proc", tgid=RANK, start_ns=start_ns, **values))  # type: ignore[arg-type]
    scene.no_space()

    assert primary(scene.fails()).remedies[0].do.startswith(first)


@pytest.mark.parametrize(("code", "after_s", "blamed"), [(3, 1, True), (1, 1, False), (3, 60, False)])
def test_of_a_shells_commands_only_the_one_that_it_failed_with_counts(code: int, after_s: int, blamed: bool) -> None:
    scene, command = Refusing(), 43000
    scene.begin()
    scene.fork(command, LAUNCHER)
    scene.seen(command, LAUNCHER, "grep", {})
    scene.shm(0)
    scene.pass_time(10 * NS_PER_S)
    scene.exit(command, code << 8, comm="grep")
    scene.pass_time(after_s * NS_PER_S)
    scene.shm(60)  # there is room again
    scene.pass_time(5 * NS_PER_S if after_s > 1 else 0)

    assert ("shm_exhausted" in causes(judge(scene.finish(3 << 8)))) == blamed

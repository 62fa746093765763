# SPDX-License-Identifier: Apache-2.0
"""SIGBUS for a tmpfs that is full: likely at most, and only by a tmpfs that was seen to be full just then."""

from typing import Any

import pytest

from tests.unit.verdict.scenes import RANK, WORKERS, Scene, primary
from tracer.events import SignalInfo, TmpfsFill, TmpfsSample
from tracer.units import MIB, NS_PER_MS, NS_PER_S
from tracer.verdict.judge import judge
from tracer.verdict.model import Incident

WORKER = WORKERS[0]


def ended(
    *fills: tuple[str, int, int],
    after_ns: int = 2 * NS_PER_MS,
    signalled: int | None = WORKER,
    code: int = 2,
    number: int = 7,
    **sent: Any,
) -> Incident:
    """A worker gets SIGBUS, its rank fails; fills are (mount point, size, free) in MiB."""
    scene = Scene()
    scene.job()
    scene.pass_time(10 * NS_PER_S)
    signal = scene.signal(WORKER, number, code=code, **sent)
    mounts = tuple(TmpfsFill(mount_point=p, size_bytes=s * MIB, free_bytes=f * MIB) for p, s, f in fills)
    if mounts:
        at_ns = signal.ts_ns + after_ns
        scene.add(TmpfsSample(ts_ns=at_ns, source="proc", tgid=RANK, signalled_tgid=signalled, mounts=mounts))
    scene.exit(WORKER, number)
    scene.pass_time(NS_PER_MS)
    scene.exit(RANK, 1 << 8)
    return primary(judge(scene.finish()))


def test_a_worker_that_wrote_into_a_full_dev_shm_was_ended_by_that_likely() -> None:
    found = ended(("/run", 800, 700), ("/dev/shm", 64, 0))

    assert ("shm_exhausted", "likely") == (found.cause, found.strength)
    assert found.victim is not None
    assert (WORKER, "dataloader_worker") == (found.victim.pid, found.victim.role)
    assert "the tmpfs /dev/shm had 0 B of 64 MiB free 2.0 ms after the signal" in found.proof[1].statement
    assert any(one.pid == RANK for one in found.collateral)


@pytest.mark.parametrize("mount_point", ["/tmp", "/run/user/1000", "/dev/shm/mine"])
def test_another_tmpfs_that_was_full_may_have_nothing_to_do_with_it(mount_point: str) -> None:
    found = ended((mount_point, 64, 0), ("/dev/shm", 64, 60))

    assert ("shm_exhausted", "possible") == (found.cause, found.strength)
    assert "Ended by SIGBUS while a tmpfs was full" == found.headline
    assert f"the tmpfs {mount_point} had 0 B of 64 MiB free" in found.proof[1].statement


def test_where_several_are_full_dev_shm_is_told() -> None:
    found = ended(("/tmp", 64, 0), ("/dev/shm", 64, 0))

    assert "likely" == found.strength
    assert "the tmpfs /dev/shm had" in found.proof[1].statement
    assert "1 more had none either" in found.proof[1].statement


def test_a_sample_of_the_jobs_dev_shm_from_just_before_counts() -> None:
    found = ended(("/dev/shm", 64, 1), after_ns=-NS_PER_S, signalled=None)

    assert "shm_exhausted" == found.cause
    assert "1 MiB of 64 MiB free 1.0 s before the signal" in found.proof[1].statement


@pytest.mark.parametrize(
    ("fills", "more"),
    [
        ([], {}),
        ([("/dev/shm", 64, 2)], {}),  # room for a page, and more
        ([("/dev/shm", 16_000, 100)], {}),
        ([("/dev/shm", 64, 0)], {"after_ns": 5 * NS_PER_S}),
        ([("/dev/shm", 64, 0)], {"after_ns": -5 * NS_PER_S}),
        ([("/dev/shm", 64, 0)], {"signalled": RANK}),  # what another process saw
        ([("/dev/shm", 64, 0)], {"code": 1}),  # of alignment
        ([("/dev/shm", 64, 0)], {"code": 4}),  # a memory error of the machine
        ([("/dev/shm", 64, 0)], {"code": 0}),  # kill -BUS
        ([("/dev/shm", 64, 0)], {"info": SignalInfo.NOINFO}),
        ([("/dev/shm", 64, 0)], {"number": 11}),
    ],
)
def test_any_other_sigbus_is_a_crash(fills: list[tuple[str, int, int]], more: dict[str, Any]) -> None:
    assert "shm_exhausted" != ended(*fills, **more).cause


@pytest.mark.parametrize(
    ("fills", "more", "strength"),
    [
        ([("/dev/shm", 64, 60)], {}, "proved"),
        ([], {}, "likely"),
        ([("/dev/shm", 64, 60)], {"signalled": None}, "likely"),  # what did not fit came after that, or went before
        ([("/dev/shm", 64, 60)], {"signalled": RANK}, "likely"),
        ([], {"code": 1}, "proved"),
        ([], {"code": 0}, "proved"),
        ([], {"number": 11}, "proved"),
    ],
)
def test_a_crash_is_proved_to_be_no_want_of_room_only_where_somebody_looked(
    fills: list[tuple[str, int, int]], more: dict[str, Any], strength: str
) -> None:
    found = ended(*fills, **more)

    assert ("crash", strength) == (found.cause, found.strength)

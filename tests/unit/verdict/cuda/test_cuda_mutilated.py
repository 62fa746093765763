# SPDX-License-Identifier: Apache-2.0
"""Recordings of which parts are gone, and no number says so: CUDA is not ruled out, nor proved to be it, wrongly."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from tests.unit.verdict.cuda.cuda_scenes import (
    AMD,
    CODE_BYTES,
    LIBCUDA,
    CudaScene,
    host_kill_beside_a_gpu,
    out_of_device_memory,
)
from tests.unit.verdict.scenes import LAUNCHER, RANK, WORKERS
from tracer.events import AnyEvent, CudaMemory, Event, GpuLibrary
from tracer.units import GIB, MIB, NS_PER_S
from tracer.verdict.judge import judge

REFUSED = {"cuda_oom", "pinned_host_memory"}


def begun(*more: GpuLibrary) -> CudaScene:
    """The rank trains on a GPU, and a worker may have a library of its own."""
    scene = CudaScene()
    scene.job()
    scene.probed()
    for pid in (LAUNCHER, RANK, *WORKERS):
        libraries = (LIBCUDA,) if pid == RANK else more if pid == WORKERS[1] else ()
        scene.looked(pid, libraries)
        scene.code(pid, CODE_BYTES + len(libraries) * MIB)
    scene.gpu_status()
    scene.trains(30)
    scene.gpu(78.8)
    scene.rest(2)
    return scene


def refused_and_killed() -> Sequence[AnyEvent]:
    scene = begun()
    scene.refused(RANK, 20 * GIB)
    scene.totals(RANK)
    scene.kill_worker()
    return scene.end()


def survived_then_failed() -> Sequence[AnyEvent]:
    """What was refused was got and held; the program exits with 1 for another reason, at once."""
    scene = begun()
    scene.refused(RANK, 20 * GIB)
    scene.survived(RANK, 20 * GIB)
    scene.totals(RANK)
    scene.pass_time(NS_PER_S // 2)
    scene.cuda_exit(RANK)
    return _over(scene)


def caught_and_went_on() -> Sequence[AnyEvent]:
    scene = begun()
    scene.refused(RANK, 20 * GIB)
    scene.rest(80)
    scene.call(RANK, GIB)
    scene.cuda_exit(RANK)
    return _over(scene)


def other_vendor_and_killed() -> Sequence[AnyEvent]:
    scene = begun(AMD)
    scene.kill_worker()
    return scene.end()


def managed_and_killed() -> Sequence[AnyEvent]:
    scene = begun()
    for _ in range(5):
        scene.call(RANK, 2 * GIB, CudaMemory.MANAGED)
        scene.totals(RANK)
    scene.kill_worker()
    return scene.end()


def failed_for_another_reason() -> Sequence[AnyEvent]:
    scene = begun()
    scene.call(RANK, GIB, result=700)
    scene.cuda_exit(RANK)
    return _over(scene)


def refused_and_ended_well() -> Sequence[AnyEvent]:
    scene = begun()
    scene.refused(RANK, 20 * GIB)
    scene.rest(2)
    scene.cuda_exit(RANK, 0)
    return _over(scene)


def _over(scene: CudaScene) -> Sequence[AnyEvent]:
    scene.pass_time(NS_PER_S)
    for pid in WORKERS:
        scene.exit(pid, 0, comm="pt_data_worker")
    return scene.finish()


GUILTY: list[Callable[[], Sequence[AnyEvent]]] = [refused_and_killed, other_vendor_and_killed, managed_and_killed]
"""CUDA, or another GPU library, may not be ruled out."""
INNOCENT: list[Callable[[], Sequence[AnyEvent]]] = [
    survived_then_failed, caught_and_went_on, failed_for_another_reason, refused_and_ended_well,
]  # fmt: skip
"""Nobody ended for want of device memory."""


def host_memory_alone() -> Sequence[AnyEvent]:
    return host_kill_beside_a_gpu().end()


def device_memory() -> Sequence[AnyEvent]:
    return _over(out_of_device_memory())


def renumbered(events: Sequence[Event]) -> list[AnyEvent]:
    return [msgspec.structs.replace(e, seq=n) for n, e in enumerate(events)]  # type: ignore[misc]


def wrong(events: Sequence[Event]) -> list[str]:
    """What is claimed and not so, of a scene that is guilty of what it is not or innocent of what it is."""
    found = []
    for incident in judge(renumbered(events)).verdict.incidents:
        if incident.cause in REFUSED and incident.strength == "proved":
            found.append(incident.headline)
        if "not CUDA" in incident.headline:
            found.append(incident.headline)
        found += [link.statement for link in incident.proof if link.name == "not CUDA" and link.status == "present"]
    return found


@pytest.mark.parametrize("made", [*GUILTY, *INNOCENT], ids=lambda f: f.__name__)
def test_the_whole_recording_claims_nothing_wrong(made: Callable[[], Sequence[AnyEvent]]) -> None:
    assert [] == wrong(made())


@pytest.mark.parametrize("made", [host_memory_alone, device_memory], ids=lambda f: f.__name__)
def test_a_whole_recording_of_what_was_so_claims_it(made: Callable[[], Sequence[AnyEvent]]) -> None:
    assert [] != wrong(made())


@given(made=st.sampled_from([*GUILTY, *INNOCENT]), data=st.data())
@settings(max_examples=200, deadline=None)
def test_without_some_kinds_of_events_nothing_wrong_is_claimed(
    made: Callable[[], Sequence[AnyEvent]], data: st.DataObject
) -> None:
    events = made()
    kinds = sorted({type(event).__name__ for event in events})
    gone = data.draw(st.sets(st.sampled_from(kinds), min_size=1, max_size=3))

    assert [] == wrong([event for event in events if type(event).__name__ not in gone])


@given(made=st.sampled_from([*GUILTY, *INNOCENT]), data=st.data())
@settings(max_examples=200, deadline=None)
def test_without_one_piece_of_the_recording_nothing_wrong_is_claimed(
    made: Callable[[], Sequence[AnyEvent]], data: st.DataObject
) -> None:
    events = made()
    first = data.draw(st.integers(0, len(events) - 1))
    last = data.draw(st.integers(first, len(events)))

    assert [] == wrong([*events[:first], *events[last:]])


@given(
    made=st.sampled_from(INNOCENT),
    random=st.randoms(use_true_random=False),
    share=st.sampled_from([0.05, 0.3]),
)
@settings(max_examples=200, deadline=None)
def test_without_many_events_and_with_others_twice_nobody_is_said_to_have_run_out(
    made: Callable[[], Sequence[AnyEvent]], random: Any, share: float
) -> None:
    events = made()
    left = [event for event in events if random.random() > share]
    left += random.choices(events, k=random.randrange(10))

    assert [] == wrong(left)

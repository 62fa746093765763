# SPDX-License-Identifier: Apache-2.0
"""From when on a process's calls were watched, and until when it had no GPU library: no more than was seen."""

import pytest
from hypothesis import given, settings, strategies as st

from tests.unit.verdict.cuda.cuda_scenes import CODE_BYTES, LIBCUDA, OTHER_LIBCUDA, CudaScene
from tests.unit.verdict.scenes import LAUNCHER, RANK, identity
from tracer.units import MIB, NS_PER_MS, NS_PER_S
from tracer.verdict.cuda.coverage import Coverage, Watch
from tracer.verdict.story import Story

CHILD = 500


def begun() -> CudaScene:
    """A job of one process, sampled."""
    scene = CudaScene()
    scene.begin()
    scene.fork(RANK, LAUNCHER)
    scene.execs(RANK)
    scene.code(RANK, CODE_BYTES)
    return scene


def watch(scene: CudaScene, pid: int = RANK, at_ns: int | None = None) -> Watch:
    return Coverage(Story(scene.events)).of(identity(pid), scene.now_ns if at_ns is None else at_ns)


def test_probes_that_stood_before_its_program_began_saw_all_its_calls() -> None:
    scene = CudaScene()
    scene.begin()
    scene.probed()
    scene.fork(RANK, LAUNCHER)
    scene.execs(RANK)
    began_ns = scene.now_ns
    scene.pass_time(NS_PER_S)
    scene.looked(RANK, (LIBCUDA,))

    assert ("watched", began_ns, 0) == ((found := watch(scene)).state, found.from_ns, found.gap_ns)


def test_of_a_library_that_was_mapped_between_two_looks_the_gap_is_counted_from_the_first() -> None:
    scene = begun()
    scene.looked(RANK)
    scene.rest(2)
    scene.pass_time(300 * NS_PER_MS)
    scene.code(RANK, CODE_BYTES + MIB)
    scene.looked(RANK, (LIBCUDA,))
    scene.pass_time(200 * NS_PER_MS)
    scene.probed()
    found = watch(scene)

    assert ("watched", scene.now_ns) == (found.state, found.from_ns)
    assert found.gap_ns is not None
    assert 500 * NS_PER_MS <= found.gap_ns <= NS_PER_S + 500 * NS_PER_MS


def test_of_one_that_ran_already_with_the_library_nobody_knows_since_when() -> None:
    scene = CudaScene()
    scene.begin()
    scene.seen(RANK, LAUNCHER, "python3", {}, parent_start_ns=scene.items[-1].start_ns)  # type: ignore[attr-defined]
    scene.probed()
    scene.looked(RANK, (LIBCUDA,))

    assert ("watched", None) == (watch(scene).state, watch(scene).gap_ns)


def test_a_new_program_has_to_be_looked_at_anew() -> None:
    scene = begun()
    scene.looked(RANK)
    scene.pass_time(NS_PER_S)
    scene.execs(RANK)
    scene.pass_time(NS_PER_S)
    scene.round()

    assert ("unknown", "was not looked at") == (watch(scene).state, watch(scene).why)


def test_two_libraries_need_probes_on_both() -> None:
    scene = begun()
    scene.probed()
    scene.looked(RANK, (LIBCUDA, OTHER_LIBCUDA))

    assert "unknown" == watch(scene).state
    scene.probed(OTHER_LIBCUDA)
    assert "watched" == watch(scene).state


def test_two_processes_with_different_libraries_are_told_apart() -> None:
    scene = begun()
    scene.fork(CHILD, LAUNCHER)
    scene.execs(CHILD)
    scene.probed()
    scene.looked(RANK, (LIBCUDA,))
    scene.looked(CHILD, (OTHER_LIBCUDA,))

    assert ("watched", "unknown") == (watch(scene).state, watch(scene, CHILD).state)


@pytest.mark.parametrize("prefix", ["cuMemFree_v2", "cuMemGetInfo_v2", "cuMemRelease"])
def test_a_probe_that_is_missing_on_a_free_hides_no_failure(prefix: str) -> None:
    scene = begun()
    scene.probed(refused={prefix: "EPERM"})
    scene.looked(RANK, (LIBCUDA,))

    assert "watched" == watch(scene).state


def test_a_fork_has_what_its_parent_had_as_long_as_it_loads_nothing() -> None:
    scene = begun()
    scene.probed()
    scene.looked(RANK, (LIBCUDA,))
    scene.fork(CHILD, RANK)
    scene.code(CHILD, CODE_BYTES + MIB)
    scene.rest(5)

    assert "watched" == watch(scene, CHILD).state
    scene.code(CHILD, CODE_BYTES + 2 * MIB)
    assert "unknown" == watch(scene, CHILD).state


def test_a_sample_of_its_own_speaks_for_a_process_until_then() -> None:
    scene = begun()
    scene.looked(RANK)
    scene.pass_time(5 * NS_PER_S)
    scene.code(RANK, CODE_BYTES)
    sampled_ns = scene.now_ns
    scene.pass_time(NS_PER_S)

    assert ("unmapped", sampled_ns) == ((found := watch(scene)).state, found.until_ns)


def test_what_is_mapped_later_was_not_before() -> None:
    scene = begun()
    scene.looked(RANK)
    scene.rest(2)
    before_ns = scene.now_ns - NS_PER_S
    scene.pass_time(NS_PER_S)
    scene.code(RANK, CODE_BYTES + MIB)
    scene.looked(RANK, (LIBCUDA,))

    assert "unmapped" == watch(scene, at_ns=before_ns).state
    assert "unknown" == watch(scene).state


STEPS = st.lists(st.sampled_from(["look", "look with", "probe", "exec", "more code", "round", "second"]), max_size=14)


@given(STEPS)
@settings(max_examples=300, deadline=None)
def test_nothing_is_said_of_a_process_that_was_not_looked_at_in_its_last_program(steps: list[str]) -> None:
    scene = begun()
    looked, mapped, probed, code = False, False, False, CODE_BYTES
    for step in steps:
        scene.pass_time(NS_PER_MS)
        if step == "exec":
            scene.execs(RANK)
            looked = mapped = False
        elif step == "probe":
            scene.probed()
            probed = True
        elif step == "more code":
            code += MIB
            scene.code(RANK, code)
        elif step == "round":
            scene.round()
        elif step == "second":
            scene.pass_time(NS_PER_S)
        else:
            mapped = mapped or step == "look with"
            scene.looked(RANK, (LIBCUDA,) if mapped else (), code_bytes=code)
            looked = True
    found = watch(scene)

    assert "unmapped" != found.state or (looked and not mapped)
    assert "watched" != found.state or (mapped and probed)

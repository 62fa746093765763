# SPDX-License-Identifier: Apache-2.0
"""What ran out, as the kernel decided it: its own word, then the stack, then the log; with its figures."""

from typing import Any

import msgspec
import pytest

from tests.unit.verdict.marks import TRIGGER, VICTIM, begun, decided, marked, only
from tests.unit.verdict.scenes import KILL_STACK, LAUNCHER, Scene, changed
from tracer.events import Header, LoggedDecision, LoggedInvocation, LoggedUsage, PressureSample
from tracer.units import MIB, NS_PER_S
from tracer.verdict.kills import find_kills
from tracer.verdict.limit import Shortage, find_shortage
from tracer.verdict.story import Story

MACHINE_STACK = (*KILL_STACK[:4], "__alloc_pages_slowpath")
FULL = {"usage_bytes": 512 * MIB, "limit_bytes": 512 * MIB, "events_local_oom": 7}
FREE = {"events_local_oom": 0}


def shortage(scene: Scene, **header: Any) -> Shortage:
    events = changed(scene.events, Header, **header) if header else scene.events
    story = Story(events)
    (kill,) = find_kills(story).kills
    return find_shortage(story, kill)


def killed(
    frames: tuple[str, ...] | None = None,
    *levels: tuple[int, str, dict[str, Any]],
    scene: Scene | None = None,
    decision: dict[str, Any] | None = None,
) -> Scene:
    """A kill with these levels (depth, name, values); the id of a level's cgroup is 70 and its depth."""
    scene = scene or begun()
    if decision is not None:
        decided(scene, **{"memcg_id": 0, "constraint": None, **decision})
    scene.oom_signal(VICTIM, TRIGGER)
    mark = marked(scene, frames)
    for depth, name, fields in levels:
        scene.level(mark, depth, name=name, cgroup_id=70 + depth, **fields)
    return scene


@pytest.mark.parametrize(
    ("constraint", "name", "cause", "words"),
    [
        (0, "CONSTRAINT_NONE", "host_oom_global", "the whole machine"),
        (1, "CONSTRAINT_CPUSET", "host_oom_cpuset", "of its cpuset"),
        (2, "CONSTRAINT_MEMORY_POLICY", "host_oom_mempolicy", "of its memory policy"),
        (3, "CONSTRAINT_MEMCG", "host_oom_cgroup", "a cgroup limit was hit"),
        (9, None, "host_oom_unknown_scope", "not observed"),
    ],
)
@pytest.mark.parametrize("frames", [KILL_STACK, MACHINE_STACK, None])
def test_the_oom_killers_own_word_comes_before_stack_and_log(
    constraint: int, name: str | None, cause: str, words: str, frames: tuple[str, ...] | None
) -> None:
    scene = killed(frames, decision={"constraint": constraint})
    scene.log_decision(VICTIM)
    scene.items = [e if not isinstance(e, LoggedDecision) else msgspec.structs.replace(e, oom_memcg=None)
                   for e in scene.items]  # fmt: skip
    found = shortage(scene)

    assert (cause, name) == (found.cause, found.limit.constraint)
    assert words in found.statement
    assert ("present" if constraint < 3 else "not_observed") == found.status


@pytest.mark.parametrize("name", ["mem_cgroup_out_of_memory", "mem_cgroup_oom_synchronize"])
def test_the_stack_comes_before_the_log(name: str) -> None:
    scene = killed((*KILL_STACK[:4], name), decision={})
    scene.log_decision(VICTIM, oom_memcg=None)

    assert "host_oom_cgroup" == shortage(scene).cause


@pytest.mark.parametrize(
    ("frames", "logged", "cause"),
    [
        (None, "CONSTRAINT_MEMCG", "host_oom_cgroup"),
        (None, "CONSTRAINT_CPUSET", "host_oom_cpuset"),
        (None, "CONSTRAINT_ELSE", "host_oom_unknown_scope"),
        (MACHINE_STACK, "CONSTRAINT_MEMCG", "host_oom_unknown_scope"),
        (MACHINE_STACK, "CONSTRAINT_NONE", "host_oom_global"),
    ],
)
def test_the_log_is_believed_where_the_stack_does_not_say_otherwise(
    frames: tuple[str, ...] | None, logged: str, cause: str
) -> None:
    scene = killed(frames)
    scene.log_decision(VICTIM)
    events = changed(scene.events, LoggedDecision, constraint=logged)
    story = Story(events)

    assert cause == find_shortage(story, find_kills(story).kills[0]).cause


@pytest.mark.parametrize(
    ("memcg", "decision", "cause"),
    [
        (True, False, "host_oom_cgroup"),
        (False, False, "host_oom_unknown_scope"),
        (True, True, "host_oom_global"),
    ],
)
def test_the_line_of_the_kill_tells_of_a_cgroup_where_no_decision_was_logged(
    memcg: bool, decision: bool, cause: str
) -> None:
    scene = killed()
    scene.log_kill(VICTIM, memcg=memcg)
    if decision:
        scene.log_decision(VICTIM, oom_memcg=None)

    assert cause == shortage(scene).cause


def test_without_any_of_these_the_scope_is_unknown() -> None:
    found = shortage(killed())

    assert ("host_oom_unknown_scope", "not_observed") == (found.cause, found.status)


@pytest.mark.parametrize(
    ("frames", "order", "asked"),
    [
        ((*KILL_STACK[:4], "moom_callback"), None, True),
        (None, -1, True),
        (KILL_STACK, -1, True),
        (None, 0, False),
        (KILL_STACK, 0, False),
        (KILL_STACK, -2, False),
    ],
)
def test_an_operator_asked_for_it_by_stack_or_order(
    frames: tuple[str, ...] | None, order: int | None, asked: bool
) -> None:
    found = shortage(killed(frames, decision=None if order is None else {"order": order}))

    assert asked == ("operator_oom" == found.cause)
    assert not asked or "present" == found.status


@pytest.mark.parametrize(
    ("order", "cause", "status"),
    [
        (-1, "operator_oom", "present"),
        (0, "host_oom_global", "present"),
        (None, "host_oom_global", "not_observed"),
    ],
)
def test_where_the_log_alone_tells_of_a_scope_it_must_tell_that_nobody_asked_for_it(
    order: int | None, cause: str, status: str
) -> None:
    scene = killed()
    told: dict[str, Any] = {"source": "kmsg", "trusted": True, "ts_ns": scene.now_ns}
    if order is not None:
        scene.add(LoggedInvocation(**told, log_seq=6, comm="x", order=order))
    scene.add(LoggedDecision(**told, log_seq=8, constraint="CONSTRAINT_NONE", tgid=VICTIM))
    found = shortage(scene)

    assert (cause, status) == (found.cause, found.status)
    assert cause != "operator_oom" or ("kernel_log", ()) == (found.rung, found.via)


def test_the_owner_is_told_with_its_usage_and_the_nearest_other_limit() -> None:
    near = {"usage_bytes": 90 * MIB, "limit_bytes": 100 * MIB, **FREE}
    far = {"usage_bytes": 400 * MIB, "limit_bytes": 800 * MIB, **FREE}
    found = shortage(killed(KILL_STACK, (0, "own", near), (1, "run", FULL), (2, "slice", far), (3, "", FREE)))

    assert (
        "limit of /slice/run: 512 MiB of 512 MiB; the only level at its limit; "
        "nearest other limit: /slice/run/own at 90 MiB of 100 MiB" == found.statement
    )
    assert ("/slice/run", ("/slice/run",)) == (found.limit.cgroup, found.limit.cgroups)
    assert (512 * MIB, 512 * MIB) == (found.limit.usage_bytes, found.limit.limit_bytes)
    assert [False, True, False, False] == [level.owner for level in found.limit.chain]
    assert [True, True, True, False] == [level.limited for level in found.limit.chain]
    assert (800 * MIB, None) == (found.limit.chain[2].limit_bytes, found.limit.chain[3].limit_bytes)
    assert 4 == len(found.evidence)


def test_of_a_single_limit_no_other_is_told() -> None:
    found = shortage(killed(KILL_STACK, (0, "run", FULL), (1, "", FREE)))

    assert "nearest" not in found.statement
    assert "present" == found.status


def test_of_limits_that_cannot_be_told_apart_the_lowest_is_told() -> None:
    larger = {**FULL, "usage_bytes": 600 * MIB, "limit_bytes": 600 * MIB}
    found = shortage(killed(KILL_STACK, (0, "own", FULL), (1, "run", larger), (2, "", FREE)))

    assert found.statement.startswith("limit of /run/own or /run: 512 MiB of 512 MiB; ")
    assert ("/run/own", 512 * MIB) == (found.limit.cgroup, found.limit.limit_bytes)


def test_of_doubtful_limits_no_figures_are_told() -> None:
    larger = {**FULL, "usage_bytes": 600 * MIB, "limit_bytes": 600 * MIB}
    found = shortage(killed(KILL_STACK, (0, "own", FULL), (1, "run", larger)))

    assert (None, None, "not_observed") == (found.limit.usage_bytes, found.limit.limit_bytes, found.status)
    assert "MiB" not in found.statement


def test_a_single_doubtful_limit_is_told_with_its_figures() -> None:
    found = shortage(killed(KILL_STACK, (0, "own", FULL), (1, "run", FREE)))

    assert (512 * MIB, "not_observed") == (found.limit.limit_bytes, found.status)


def test_an_owner_without_a_limit_is_told_by_its_use() -> None:
    found = shortage(killed(KILL_STACK, (0, "own", FREE), (1, "", FREE), decision={"memcg_id": 70, "constraint": 3}))

    assert "limit of /own: 300 MiB used; named by the OOM killer itself" == found.statement


def test_memory_and_swap_together_are_told_on_v1() -> None:
    both = {**FULL, "swap_usage_bytes": 700 * MIB, "swap_limit_bytes": 700 * MIB}
    found = shortage(killed(KILL_STACK, (0, "own", both), (1, "", FREE)), cgroup_version=1)
    level = found.limit.chain[0]

    assert "512 MiB of 512 MiB, with swap 700 MiB of 700 MiB" in found.statement
    assert (188 * MIB, None, 700 * MIB) == (level.swap_usage_bytes, level.swap_limit_bytes, level.memsw_usage_bytes)


@pytest.mark.parametrize(
    ("version", "usage", "limit", "swap"),
    [
        (1, None, None, (None, None)),
        (1, 100 * MIB, None, (0, None)),
        (2, 5, 9, (5, 9)),
        (2, 5, 1 << 62, (5, None)),
        (None, 5, 9, (5, 9)),
    ],
)
def test_swap_alone_is_counted_on_v2_and_the_rest_on_v1(
    version: int | None, usage: int | None, limit: int | None, swap: tuple[int | None, int | None]
) -> None:
    fields = {**FREE, "swap_usage_bytes": usage, "swap_limit_bytes": limit}
    level = shortage(killed(KILL_STACK, (0, "own", fields), (1, "", FREE)), cgroup_version=version).limit.chain[0]

    assert swap == (level.swap_usage_bytes, level.swap_limit_bytes)


@pytest.mark.parametrize(
    ("levels", "path"),
    [
        ([(0, "own", FREE), (1, "run", FREE), (2, "", FREE)], "/run/own"),
        ([(0, "own", FREE), (1, "run", FREE)], "cgroup 70 (own)"),
        ([(0, "own", FREE), (2, "", FREE)], "cgroup 70 (own)"),
        ([(0, "own", FREE), (1, "run", {**FREE, "name_cut": 1}), (2, "", FREE)], "cgroup 70 (own)"),
        ([(1, "run", FREE), (2, "", FREE)], "/run"),
        ([(0, "", FREE)], "/"),
    ],
)
@pytest.mark.parametrize("sampled", [False, True])
def test_a_path_is_made_of_names_only_where_all_are_whole(
    levels: list[tuple[int, str, dict[str, Any]]], path: str, sampled: bool
) -> None:
    scene = begun()
    if sampled:
        scene.cgroup_sample(5, "/else")
        scene.cgroup_sample(70, "/sampled")
    chain = shortage(killed(KILL_STACK, *levels, scene=scene)).limit.chain

    assert ("/sampled" if sampled and path.startswith("cgroup") else path) == chain[0].cgroup


def test_a_root_whose_chain_is_broken_is_called_by_a_slash() -> None:
    chain = shortage(killed(KILL_STACK, (0, "", FREE), (1, "run", FREE))).limit.chain

    assert "cgroup 70 (/)" == chain[0].cgroup


def measured(*readings: tuple[int, int], **more: Any) -> Shortage:
    """A machine-wide kill, and what was free (in MiB) so long before it."""
    scene = killed(MACHINE_STACK)
    scene.log_decision(VICTIM, oom_memcg=None)
    for before_ns, mib in readings:
        scene.add(
            PressureSample(ts_ns=scene.now_ns - before_ns, source="pressure", mem_available_bytes=mib * MIB, **more)
        )
    return shortage(scene)


def test_the_machines_memory_is_that_of_the_newest_reading_before_the_kill() -> None:
    total = {"mem_total_bytes": 100 * MIB, "swap_total_bytes": 50 * MIB, "swap_free_bytes": MIB}
    found = measured((2 * NS_PER_S, 9), (NS_PER_S, 5), (-1, 80), **total)

    assert "out of memory; 1.0 s before, 5 MiB of 100 MiB were available, swap 1 MiB free of 50 MiB" in found.statement
    assert (5 * MIB, 1 * MIB, 50 * MIB) == (
        found.limit.mem_available_bytes,
        found.limit.swap_free_bytes,
        found.limit.swap_total_bytes,
    )
    assert 2 == len(found.evidence)


@pytest.mark.parametrize(
    ("before_ns", "told"), [(0, True), (10 * NS_PER_S, True), (10 * NS_PER_S + 1, False), (-1, False)]
)
def test_a_reading_counts_for_ten_seconds_and_never_from_after_the_kill(before_ns: int, told: bool) -> None:
    found = measured((before_ns, 5))

    assert told == ("5 MiB of ? were available" in found.statement)
    assert told == (found.limit.mem_available_bytes is not None)
    assert "swap" not in found.statement


def test_a_limit_on_swap_alone_is_told_where_its_use_is_known() -> None:
    def told(usage: int | None, limit: int) -> str:
        fields = {**FULL, "swap_usage_bytes": usage, "swap_limit_bytes": limit}
        return shortage(killed(KILL_STACK, (0, "own", fields), (1, "", FREE)), cgroup_version=2).statement

    assert "512 MiB of 512 MiB, swap 5 MiB of 6 MiB; " in told(5 * MIB, 6 * MIB)
    assert "swap" not in told(None, 6 * MIB)
    assert "swap" not in told(0, 0)


def test_without_a_header_swap_is_taken_for_that_of_v2() -> None:
    scene = killed(KILL_STACK, (0, "own", {**FREE, "swap_usage_bytes": 5, "swap_limit_bytes": 9}), (1, "", FREE))
    scene.items = [event for event in scene.items if not isinstance(event, Header)]

    assert (5, 9) == ((level := shortage(scene).limit.chain[0]).swap_usage_bytes, level.swap_limit_bytes)


def test_the_logs_figures_are_told_only_where_no_level_was_recorded() -> None:
    scene = begun(hooks=())
    usage = {"counter": "memory", "usage_bytes": 5 * MIB, "limit_bytes": 6 * MIB}
    scene.add(LoggedUsage(ts_ns=scene.now_ns, source="kmsg", trusted=True, **usage))  # type: ignore[arg-type]
    scene.log_decision(LAUNCHER)
    scene.log_kill(LAUNCHER)
    found = shortage(scene)
    kill = msgspec.structs.replace(only(scene), levels=only(killed(KILL_STACK, (0, "x", FREE))).levels)

    assert "limit of /run-7f3: 5 MiB of 6 MiB; named in the kernel's log" == found.statement
    assert "5 MiB" not in find_shortage(Story(scene.events), kill).statement


@pytest.mark.parametrize(
    ("available_mib", "cause"),
    [
        (900, "host_oom_cgroup"),
        (103, "host_oom_cgroup"),
        (102, "host_oom_unknown_scope"),
        (None, "host_oom_unknown_scope"),
    ],
)
def test_without_names_and_log_the_only_limit_that_was_reached_is_told_where_the_machine_had_memory(
    available_mib: int | None, cause: str
) -> None:
    scene = begun()
    if available_mib is not None:
        scene.pressure(available_mib * MIB)
    found = shortage(killed(None, (0, "job", FULL), (1, "", FREE), scene=scene))

    assert (cause, "not_observed") == (found.cause, found.status)
    assert ("bpf" if cause == "host_oom_cgroup" else "proc" if available_mib else None) == found.rung


def test_without_names_and_log_a_limit_that_may_be_one_of_two_is_not_told() -> None:
    scene = begun()
    scene.pressure(900 * MIB)
    found = shortage(killed(None, (0, "job", FREE), (1, "", FREE), scene=scene))

    assert "host_oom_unknown_scope" == found.cause

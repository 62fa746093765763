# SPDX-License-Identifier: Apache-2.0
"""What belongs to one kill: signal, mark, stack, levels and decision, each by its own key and within its window."""

from typing import Any

import msgspec
import pytest

from tests.unit.verdict.marks import OTHER, TRIGGER, VICTIM, begun, decided, found, marked, only
from tests.unit.verdict.scenes import DYING_STACK, KILL_STACK, Scene, changed, identity, start_of
from tracer.events import Header, KernelStack, SignalInfo, process_id
from tracer.units import NS_PER_MS, NS_PER_S, TICK_NS
from tracer.verdict.kills import find_kills
from tracer.verdict.story import Story

GROUP_STACK = ("mark_oom_victim", "__oom_kill_process", "oom_kill_memcg_member", "mem_cgroup_scan_tasks")


@pytest.mark.parametrize("before_ns", [0, 1, NS_PER_S])
def test_the_signal_comes_at_most_a_second_before_the_mark(before_ns: int) -> None:
    scene = begun()
    sent = scene.oom_signal(VICTIM, TRIGGER, ts_ns=scene.now_ns - before_ns)
    marked(scene)
    kill = only(scene)

    assert ("present", sent) == (kill.status, kill.signal)
    assert kill.at_ns == sent.ts_ns


@pytest.mark.parametrize(
    "fields",
    [
        {"after_ns": 1},
        {"after_ns": -NS_PER_S - 1},
        {"cpu": 0},
        {"sender_tid": TRIGGER + 1},
        {"start_ns": start_of(VICTIM) + TICK_NS},
        {"tgid": OTHER, "start_ns": start_of(OTHER)},
        {"signal": 15},
        {"info": SignalInfo.NOINFO},
        {"info": SignalInfo.POINTER},
    ],
)
def test_a_signal_of_another_moment_context_process_or_kind_is_not_the_kills(fields: dict[str, Any]) -> None:
    scene = begun()
    values = {"ts_ns": scene.now_ns + fields.get("after_ns", 0), **{k: v for k, v in fields.items() if k != "after_ns"}}
    scene.oom_signal(VICTIM, TRIGGER, **values)
    mark = marked(scene)
    kill = found(scene).of(identity(VICTIM))

    assert kill is not None
    assert (None, "not_observed", mark.ts_ns) == (kill.signal, kill.status, kill.at_ns)


def test_a_start_time_within_the_same_tick_is_the_same_process() -> None:
    scene = begun()
    scene.oom_signal(VICTIM, TRIGGER, start_ns=start_of(VICTIM) + 1)
    marked(scene)

    assert "present" == only(scene).status


def test_of_two_signals_the_newest_before_the_mark_counts() -> None:
    scene = begun()
    scene.oom_signal(VICTIM, TRIGGER)
    scene.pass_time(NS_PER_MS)
    newest = scene.oom_signal(VICTIM, TRIGGER, info=SignalInfo.FORCED)
    scene.pass_time(NS_PER_MS)
    marked(scene)

    assert newest == only(scene).signal


@pytest.mark.parametrize(
    ("result", "frames", "logged", "status", "words"),
    [
        (0, KILL_STACK, False, "present", "in one step"),
        (0, None, True, "present", "log calls it a kill"),
        (0, None, False, "not_observed", "stack was not observed"),
        (0, DYING_STACK, True, "not_observed", "log says"),
        (0, DYING_STACK, False, "absent", "already dying"),
        (2, KILL_STACK, True, "absent", "had a SIGKILL already"),
        (2, None, True, "absent", "had a SIGKILL already"),
        (None, KILL_STACK, False, "not_observed", "SIGKILL was not observed"),
        (None, None, True, "not_observed", "log says"),
        (None, DYING_STACK, True, "not_observed", "log says"),
        (None, None, False, "absent", "nothing that shows a kill"),
        (None, DYING_STACK, False, "absent", "already dying"),
    ],
)
def test_a_mark_is_a_kill_as_far_as_signal_stack_and_log_say(
    result: int | None, frames: tuple[str, ...] | None, logged: bool, status: str, words: str
) -> None:
    scene = begun()
    if result is not None:
        scene.oom_signal(VICTIM, TRIGGER, result=result)
    marked(scene, frames)
    if logged:
        scene.log_kill(VICTIM)
    kills = found(scene)
    told = kills.dying if status == "absent" else kills.kills

    assert [identity(VICTIM)] == [one.id for one in told]
    assert 1 == len(kills.kills) + len(kills.dying)
    assert words in told[0].why
    assert status == "absent" or status == kills.kills[0].status


def marked_by_its_thread(frames: tuple[str, ...], *, tid: int = VICTIM, **exited: Any) -> Scene:
    """A mark of the tracepoint's older form, of one that got no signal by which more would be known."""
    scene = begun()
    marked(scene, frames, tgid=0, start_ns=0, tid=tid, comm="")
    scene.pass_time(NS_PER_MS)
    if exited:
        scene.exit(VICTIM, 9, **exited)
    return scene


def test_a_mark_that_tells_a_thread_alone_is_of_the_process_that_had_it_when_it_exited() -> None:
    dying = found(marked_by_its_thread(DYING_STACK, oom_marked=1))
    killed = found(marked_by_its_thread(KILL_STACK, oom_marked=1))

    assert [(identity(VICTIM), start_of(VICTIM))] == [(one.id, one.start_ns) for one in dying.dying]
    assert [(identity(VICTIM), start_of(VICTIM))] == [(one.id, one.start_ns) for one in killed.kills]
    assert ((), ()) == (dying.kills, killed.dying)
    # Its SIGKILL was not seen all the same.
    assert "not_observed" == killed.kills[0].status


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"oom_marked": 0},
        {"oom_marked": 1, "tid": OTHER},
        {"oom_marked": 1, "tid": VICTIM + 1000},
        {"oom_marked": 1, "start_ns": start_of(VICTIM) + TICK_NS},
    ],
    ids=["no exit", "not marked", "another process", "some thread", "another one of that pid"],
)
@pytest.mark.parametrize("frames", [DYING_STACK, KILL_STACK])
def test_a_mark_that_tells_a_thread_alone_is_else_of_nobody_known(
    frames: tuple[str, ...], fields: dict[str, int]
) -> None:
    kills = found(marked_by_its_thread(frames, **fields))

    assert [process_id(0, 0)] == [one.id for one in (*kills.kills, *kills.dying)]


def test_a_mark_that_tells_a_thread_alone_is_of_nobody_where_pids_are_others_to_the_kernel() -> None:
    scene = marked_by_its_thread(DYING_STACK, oom_marked=1)
    events = changed(scene.events, Header, own_pid_namespace=True)

    assert [process_id(0, 0)] == [one.id for one in find_kills(Story(events)).dying]


@pytest.mark.parametrize("name", ["mark_oom_victim", "oom_kill_process", "__oom_kill_process", "out_of_memory"])
def test_one_name_of_the_oom_killer_makes_a_stack_an_observed_one(name: str) -> None:
    scene = begun()
    scene.oom_signal(VICTIM, TRIGGER)
    marked(scene, ("?", f"{name}.cold [vmlinux]"))
    kills = found(scene)

    assert ("?", name) == kills.kills[0].frames if name.startswith("__") else "already dying" in kills.dying[0].why


def test_frames_without_names_prove_nothing() -> None:
    scene = begun()
    scene.oom_signal(VICTIM, TRIGGER)
    marked(scene, ("?", "?", "do_syscall_64", "room_oom_victim"))
    kill = only(scene)

    assert ("not_observed", None) == (kill.status, kill.frames)


def test_functions_are_named_without_module_and_suffix() -> None:
    frames = ("a", "b.constprop.0", "c.cold.1 [xfs]", "d [xfs]")

    assert ("a", "b", "c", "d") == KernelStack(ts_ns=1, mark_ts_ns=1, tgid=1, frames=frames).functions


@pytest.mark.parametrize("fields", [{"mark_ts_ns": 1}, {"tgid": OTHER}])
def test_a_stack_of_another_mark_is_not_its_own(fields: dict[str, int]) -> None:
    scene = begun()
    scene.oom_signal(VICTIM, TRIGGER)
    mark = marked(scene, None)
    values = {"mark_ts_ns": mark.ts_ns, "tgid": mark.tgid, **fields}
    scene.add(KernelStack(ts_ns=scene.now_ns, frames=KILL_STACK, **values))  # type: ignore[arg-type]

    assert only(scene).frames is None


def test_the_first_stack_of_a_mark_counts() -> None:
    scene = begun()
    scene.oom_signal(VICTIM, TRIGGER)
    scene.stack(marked(scene), DYING_STACK)

    assert KILL_STACK == only(scene).frames


def test_a_member_of_an_oom_group_is_known_by_its_stack() -> None:
    scene = begun()
    scene.oom_signal(VICTIM, TRIGGER)
    marked(scene, GROUP_STACK)
    scene.pass_time(10 * NS_PER_S)
    scene.kill(OTHER)
    kill, plain = found(scene).kills

    assert (True, False) == (kill.group_member, plain.group_member)


def test_without_a_stack_nobody_is_called_a_member_of_an_oom_group() -> None:
    scene = begun()
    scene.oom_signal(VICTIM, TRIGGER)
    marked(scene, None)

    assert not only(scene).group_member


@pytest.mark.parametrize("fields", [{"ts_ns": 1}, {"cpu": 0}, {"tgid": OTHER}])
def test_levels_belong_to_the_mark_of_their_moment_cpu_and_process(fields: dict[str, int]) -> None:
    scene = begun()
    scene.oom_signal(VICTIM, TRIGGER)
    mark = marked(scene)
    scene.level(mark, 1, name="", cgroup_id=1, events_local_oom=0)
    scene.level(mark, 0, name="own", cgroup_id=2, events_local_oom=0)
    scene.level(msgspec.structs.replace(mark, **fields), 2, name="x", cgroup_id=3, events_local_oom=0)

    assert [0, 1] == [level.depth for level in only(scene).levels]


@pytest.mark.parametrize(
    ("before_ns", "trigger_tid", "taken"),
    [
        (0, TRIGGER, True),
        (NS_PER_S, TRIGGER, True),
        (NS_PER_S + 1, TRIGGER, False),
        (-1, TRIGGER, False),
        (1, TRIGGER + 1, False),
    ],
)
def test_a_decision_is_of_the_same_thread_and_just_before(before_ns: int, trigger_tid: int, taken: bool) -> None:
    scene = begun()
    scene.oom_signal(VICTIM, TRIGGER)
    marked(scene)
    decided(scene, ts_ns=scene.now_ns - before_ns, trigger_tid=trigger_tid)

    assert taken == (only(scene).decision is not None)


def test_of_two_decisions_the_newest_counts() -> None:
    scene = begun()
    decided(scene, ts_ns=scene.now_ns - 2, memcg_id=5)
    decided(scene, ts_ns=scene.now_ns - 1, memcg_id=6)
    scene.oom_signal(VICTIM, TRIGGER)
    marked(scene)

    assert 6 == getattr(only(scene).decision, "memcg_id", None)


def test_of_a_mark_for_each_thread_the_first_counts() -> None:
    scene = begun()
    scene.oom_signal(VICTIM, TRIGGER)
    first = marked(scene)
    scene.pass_time(NS_PER_MS)
    marked(scene, tid=VICTIM + 1)

    assert first == only(scene).mark


def test_a_process_that_was_marked_and_then_killed_was_killed() -> None:
    scene = begun()
    marked(scene, DYING_STACK)
    scene.pass_time(NS_PER_MS)
    scene.oom_signal(VICTIM, TRIGGER)
    marked(scene)
    kills = found(scene)

    assert (1, ()) == (len(kills.kills), kills.dying)


def test_kills_are_in_time_order() -> None:
    scene = begun()
    scene.oom_signal(VICTIM, TRIGGER, ts_ns=scene.now_ns - 3)
    marked(scene, pid=OTHER, ts_ns=scene.now_ns - 2)
    marked(scene)

    assert [identity(VICTIM), identity(OTHER)] == [kill.id for kill in found(scene).kills]

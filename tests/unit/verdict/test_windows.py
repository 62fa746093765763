# SPDX-License-Identifier: Apache-2.0
"""Who else a kill took and what the kernel's log says of it: each only within its window, and only if it is trusted."""

from typing import Any

import msgspec
import pytest

from tests.unit.verdict.marks import OTHER, TRIGGER, VICTIM, begun, found, marked, only
from tests.unit.verdict.scenes import DYING_STACK, HOOKS, LAUNCHER, WORKERS, Scene, changed, identity, primary
from tracer.events import Header, LoggedDecision, LoggedKill, LoggedUsage, SignalInfo
from tracer.events.signals import PF_EXITING
from tracer.units import NS_PER_MS, NS_PER_S
from tracer.verdict.judge import judge
from tracer.verdict.kills import Kill, find_kills
from tracer.verdict.story import Story


@pytest.mark.parametrize("kind", [LoggedKill, LoggedDecision])
@pytest.mark.parametrize(
    ("after_ns", "pid", "trusted", "taken"),
    [
        (5 * NS_PER_S, VICTIM, True, True),
        (-5 * NS_PER_S, VICTIM, True, True),
        (5 * NS_PER_S + 1, VICTIM, True, False),
        (-5 * NS_PER_S - 1, VICTIM, True, False),
        (0, OTHER, True, False),
        (0, VICTIM, False, False),
    ],
)
def test_a_log_record_counts_within_five_seconds_if_it_is_trusted(
    kind: type, after_ns: int, pid: int, trusted: bool, taken: bool
) -> None:
    scene = begun()
    scene.oom_signal(VICTIM, TRIGGER)
    marked(scene)
    scene.pass_time(after_ns)
    (scene.log_kill if kind is LoggedKill else scene.log_decision)(pid, trusted=trusted)
    kill = only(scene)

    assert taken == ((kill.logged if kind is LoggedKill else kill.logged_decision) is not None)


@pytest.mark.parametrize("nearest", [0, 1, 2])
def test_of_several_log_records_the_nearest_counts(nearest: int) -> None:
    scene = begun()
    scene.oom_signal(VICTIM, TRIGGER)
    at_ns = scene.now_ns + (nearest - 1) * 2 * NS_PER_S
    marked(scene, ts_ns=at_ns)
    scene.pass_time(-2 * NS_PER_S)
    for name in ("/0", "/1", "/2"):
        scene.log_decision(VICTIM, oom_memcg=name)
        scene.log_kill(VICTIM, text=name)
        scene.pass_time(2 * NS_PER_S)
    kill = only(scene)

    assert kill.logged is not None
    assert kill.logged_decision is not None
    assert f"/{nearest}" == kill.logged.text
    assert f"/{nearest}" == kill.logged_decision.oom_memcg


def test_a_log_record_may_name_the_marked_thread() -> None:
    scene = begun()
    scene.oom_signal(VICTIM, TRIGGER)
    marked(scene, tid=VICTIM + 9)
    scene.log_kill(VICTIM + 9)

    assert only(scene).logged is not None


def shared(scene: Scene, after_ns: int = 1, **more: Any) -> Kill | None:
    """A kill, and a SIGKILL of the kernel's to another process after it."""
    scene.oom_signal(VICTIM, TRIGGER)
    marked(scene)
    scene.oom_signal(OTHER, TRIGGER, ts_ns=scene.now_ns + after_ns, **more)
    return found(scene).of(identity(OTHER))


@pytest.mark.parametrize("after_ns", [0, NS_PER_S])
def test_a_sharers_signal_follows_the_mark_within_a_second(after_ns: int) -> None:
    kill = shared(begun(), after_ns)

    assert kill is not None
    assert (identity(VICTIM), "not_observed") == (kill.sharer_of, kill.status)


@pytest.mark.parametrize(
    ("after_ns", "fields"),
    [
        (-1, {}),
        (NS_PER_S + 1, {}),
        (1, {"sender_tid": TRIGGER + 1}),
        (1, {"result": 2}),
        (1, {"signal": 15}),
        (1, {"info": SignalInfo.POINTER}),
    ],
)
def test_other_signals_around_a_kill_are_no_sharers(after_ns: int, fields: dict[str, Any]) -> None:
    assert shared(begun(), after_ns, **fields) is None


@pytest.mark.parametrize(("exit_ns", "sharer"), [(0, False), (1, False), (2, True)])
def test_once_the_trigger_exits_its_sigkills_may_be_a_teardown(exit_ns: int, sharer: bool) -> None:
    scene = begun()
    scene.pass_time(exit_ns)
    scene.exit(TRIGGER, 9)
    scene.pass_time(-exit_ns)

    assert sharer == (shared(scene) is not None)


def test_a_trigger_of_which_nothing_else_is_known_may_have_sharers() -> None:
    scene = begun()
    scene.kill(VICTIM, 4242)
    scene.oom_signal(OTHER, 4242)
    kill = found(scene).of(identity(OTHER))

    assert kill is not None
    assert identity(VICTIM) == kill.sharer_of


def test_a_trigger_outside_of_the_job_that_is_exiting_has_no_sharers() -> None:
    # The first process of a container, whose own exit is none of the job's records, takes the container with it.
    scene = begun()
    scene.kill(VICTIM, 4242)
    scene.oom_signal(OTHER, 4242, sender_flags=PF_EXITING)
    scene.exit(OTHER, 9)

    assert found(scene).of(identity(OTHER)) is None
    assert [VICTIM] == [victim.pid for victim in primary(judge(scene.finish())).victims]


def test_the_first_signal_to_a_sharer_is_its_kill() -> None:
    scene = begun()
    first = shared(scene)
    scene.oom_signal(OTHER, TRIGGER, ts_ns=scene.now_ns + NS_PER_MS)

    assert first == found(scene).of(identity(OTHER))


def test_of_two_victims_the_sharer_is_the_newest_ones() -> None:
    scene = begun()
    for pid in (WORKERS[1], VICTIM):
        scene.oom_signal(pid, TRIGGER)
        marked(scene, pid=pid)
        scene.pass_time(NS_PER_MS)
    scene.oom_signal(OTHER, TRIGGER)
    kill = found(scene).of(identity(OTHER))

    assert kill is not None
    assert identity(VICTIM) == kill.sharer_of


def test_a_process_that_was_dying_when_marked_is_no_sharer() -> None:
    scene = begun()
    marked(scene, DYING_STACK, pid=OTHER)

    assert shared(scene) is None


@pytest.mark.parametrize(("oom_marked", "killed"), [(0, False), (1, True)])
def test_a_kernel_sigkill_is_a_kill_without_its_mark_only_where_the_exit_was_marked(
    oom_marked: int, killed: bool
) -> None:
    scene = begun()
    sent = scene.oom_signal(VICTIM, TRIGGER)
    scene.log_decision(VICTIM)
    scene.exit(VICTIM, 9, oom_marked=oom_marked)
    kill = found(scene).of(identity(VICTIM))

    assert killed == (kill is not None)
    assert kill is None or (sent, None, "not_observed") == (kill.signal, kill.sharer_of, kill.status)
    assert kill is None or kill.logged_decision is not None


def test_a_kernel_sigkill_to_a_process_whose_exit_was_not_seen_is_no_kill() -> None:
    scene = begun()
    scene.oom_signal(VICTIM, TRIGGER)

    assert () == found(scene).kills


@pytest.mark.parametrize("hooks", [(), HOOKS[:1], HOOKS[1:2]])
def test_where_marks_or_signals_are_not_watched_the_log_tells_of_kills(hooks: tuple[str, ...]) -> None:
    scene = begun(hooks=hooks)
    scene.log_decision(LAUNCHER)
    scene.log_kill(LAUNCHER)
    scene.log_kill(4242)
    kill = only(scene)

    assert (identity(LAUNCHER), "not_observed", scene.now_ns) == (kill.id, kill.status, kill.at_ns)
    assert kill.logged_decision is not None


def test_pids_of_another_namespace_are_not_looked_up_in_the_log() -> None:
    scene = begun(hooks=())
    scene.log_kill(LAUNCHER)

    assert () == find_kills(Story(changed(scene.events, Header, own_pid_namespace=True))).kills


def test_what_bpf_saw_of_a_kill_is_not_replaced_by_the_log() -> None:
    scene = begun(hooks=HOOKS[:1])
    marked(scene, pid=LAUNCHER)
    scene.log_kill(LAUNCHER)

    assert only(scene).mark is not None


@pytest.mark.parametrize(
    ("before_ns", "counter", "trusted", "taken"),
    [
        (0, "memory", True, True),
        (NS_PER_S, "memory", True, True),
        (NS_PER_S + 1, "memory", True, False),
        (-1, "memory", True, False),
        (0, "swap", True, False),
        (0, "memory", False, False),
    ],
)
def test_usage_stands_in_the_log_just_above_the_kill(before_ns: int, counter: str, trusted: bool, taken: bool) -> None:
    scene = begun(hooks=())
    usage = LoggedUsage(
        ts_ns=scene.now_ns - before_ns, source="kmsg", trusted=trusted, counter=counter, usage_bytes=2, limit_bytes=2
    )
    scene.add(usage)
    scene.log_kill(LAUNCHER)
    if taken:
        scene.add(msgspec.structs.replace(usage, ts_ns=usage.ts_ns - 1 if before_ns < NS_PER_S else 0, usage_bytes=1))
    logged = only(scene).logged_usage

    assert taken == (logged is not None)
    assert logged is None or 2 == logged.usage_bytes

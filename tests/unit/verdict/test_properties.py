# SPDX-License-Identifier: Apache-2.0
"""Whatever happens to the events: the strength may fall, but a wrong "proved" never comes out."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from tests.unit.verdict.scenes import DYING_STACK, LAUNCHER, RANK, WORKERS, Scene, start_of, worker_killed
from tracer.events import AnyEvent, LoggedDecision, LoggedKill, ProcessForked, ProcessSeen, SignalInfo
from tracer.verdict.judge import judge
from tracer.verdict.model import Report

VICTIM = WORKERS[2]
HOST = ("host_oom_cgroup", "host_oom_global", "host_oom_cpuset", "host_oom_mempolicy", "host_oom_unknown_scope")


def dying_and_marked() -> list[AnyEvent]:
    scene = Scene()
    scene.job()
    scene.signal(VICTIM, 9, sender_tgid=7, sender_tid=7, sender_start_ns=1, sender_comm="bash")
    mark = scene.mark(VICTIM, WORKERS[1])
    scene.levels(mark)
    scene.stack(mark, DYING_STACK)
    scene.exit(VICTIM, 9, oom_marked=1)
    scene.exit(RANK, 1 << 8)
    return scene.finish()


def torn_down() -> list[AnyEvent]:
    scene = Scene()
    scene.job()
    for pid in WORKERS:
        scene.oom_signal(pid, RANK)
        scene.exit(pid, 9)
    return scene.finish()


def killed_by_hand() -> list[AnyEvent]:
    scene = Scene()
    scene.job()
    scene.signal(VICTIM, 9, sender_tgid=7, sender_tid=7, sender_start_ns=1)
    scene.exit(VICTIM, 9)
    scene.exit(RANK, 1 << 8)
    return scene.finish()


def pending_then_killed() -> list[AnyEvent]:
    scene = Scene()
    scene.job()
    scene.signal(VICTIM, 9, sender_tgid=7, sender_tid=7, sender_start_ns=1)
    scene.oom_signal(VICTIM, VICTIM, result=2)
    mark = scene.mark(VICTIM, VICTIM)
    scene.levels(mark)
    scene.stack(mark)
    scene.exit(VICTIM, 9, oom_marked=1)
    return scene.finish()


INNOCENT: tuple[Callable[[], list[AnyEvent]], ...] = (dying_and_marked, torn_down, killed_by_hand, pending_then_killed)
"""Scenes without an OOM kill of the job."""


def proved_kills(report: Report) -> set[int]:
    return {
        victim.pid
        for i in report.verdict.incidents
        if i.cause in HOST and i.strength == "proved" and (victim := i.victim) is not None
    }


def renumbered(events: list[AnyEvent]) -> list[AnyEvent]:
    return [msgspec.structs.replace(e, seq=n) for n, e in enumerate(events)]


@given(st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_the_order_of_arrival_changes_nothing(random: Any) -> None:
    events = worker_killed()
    expected = judge(events)
    random.shuffle(events)

    assert judge(events) == expected


@given(st.lists(st.integers(0, 200), max_size=30))
@settings(max_examples=40, deadline=None)
def test_events_that_came_twice_change_nothing(twice: list[int]) -> None:
    events = worker_killed()

    assert judge(events + [events[n % len(events)] for n in twice]) == judge(events)


@given(st.sets(st.integers(0, 200), min_size=1, max_size=40), st.booleans())
@settings(max_examples=150, deadline=None)
def test_dropped_events_lower_the_strength_at_most(dropped: set[int], silently: bool) -> None:
    events = [e for e in worker_killed() if e.seq not in dropped]
    report = judge(renumbered(events) if silently else events)

    assert proved_kills(report) <= {VICTIM}


@pytest.mark.parametrize("scene", INNOCENT)
@given(
    dropped=st.sets(st.integers(0, 200), max_size=30), silently=st.booleans(), random=st.randoms(use_true_random=False)
)
@settings(max_examples=60, deadline=None)
def test_without_an_oom_kill_none_is_ever_proved(
    scene: Callable[[], list[AnyEvent]], dropped: set[int], silently: bool, random: Any
) -> None:
    events = [e for e in scene() if e.seq not in dropped]
    random.shuffle(events)

    assert set() == proved_kills(judge(renumbered(events) if silently else events))


@st.composite
def forgeries(draw: st.DrawFn, seq: int) -> AnyEvent:
    """What a process without privilege can bring in: log text, names, processes of its own."""
    at_ns = draw(st.integers(Scene().now_ns, Scene().now_ns + 20_000_000_000))
    pid = draw(st.sampled_from([*WORKERS, RANK, LAUNCHER, 1, 4242]))
    comm = draw(
        st.sampled_from(["pt_data_worker", "torchrun", "Killed process 1", "\x1b[2J", "a\nb", "x,task=y,pid=1"])
    )
    kinds: list[Callable[[], AnyEvent]] = [
        lambda: LoggedKill(ts_ns=at_ns, seq=seq, source="kmsg", pid=pid, comm=comm, memcg=True, anon_rss_bytes=1 << 40),
        lambda: LoggedDecision(
            ts_ns=at_ns, seq=seq, source="kmsg", constraint="CONSTRAINT_MEMCG", oom_memcg="/" + comm, tgid=pid
        ),
        lambda: ProcessSeen(
            ts_ns=at_ns, seq=seq, source="proc", start_ns=start_of(4242), tgid=4242, parent_tgid=pid, comm=comm,
            environ={"RANK": "0"},
        ),
        lambda: ProcessForked(
            ts_ns=at_ns, seq=seq, cpu=0, start_ns=start_of(4343), parent_start_ns=start_of(4242), anon_rss_bytes=0,
            tgid=4343, parent_tgid=4242, ns_tgid=1, ns_level=1, comm=comm,
        ),
    ]  # fmt: skip
    return draw(st.sampled_from(kinds))()


@pytest.mark.parametrize("scene", INNOCENT)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_forged_text_never_makes_an_oom_kill(scene: Callable[[], list[AnyEvent]], data: st.DataObject) -> None:
    events = scene()
    forged = [data.draw(forgeries(len(events) + n)) for n in range(data.draw(st.integers(1, 8)))]
    report = judge(events + forged)

    assert not any(i.cause in HOST for i in report.verdict.incidents)


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_forged_text_beside_a_real_kill_changes_neither_victim_nor_proof(data: st.DataObject) -> None:
    events = worker_killed()
    forged = [data.draw(forgeries(len(events) + n)) for n in range(data.draw(st.integers(1, 8)))]
    report = judge(events + forged)

    assert {VICTIM} == proved_kills(report)


@given(st.sampled_from(list(SignalInfo)), st.integers(0, 4), st.integers(0, 3), st.booleans(), st.booleans())
@settings(max_examples=150, deadline=None)
def test_only_the_whole_bracket_is_proved(
    info: SignalInfo, result: int, cpu: int, own_context: bool, stack: bool
) -> None:
    scene = Scene()
    scene.job()
    scene.oom_signal(VICTIM, RANK, info=info, result=result, sender_tid=RANK if own_context else 5)
    mark = scene.mark(VICTIM, RANK, cpu=cpu)
    scene.levels(mark)
    if stack:
        scene.stack(mark)
    scene.exit(VICTIM, 9, oom_marked=1)
    whole = info in {SignalInfo.PRIV, SignalInfo.FORCED} and result == 0 and cpu == 1 and own_context and stack

    assert ({VICTIM} if whole else set()) == proved_kills(judge(scene.finish()))

# SPDX-License-Identifier: Apache-2.0
"""Recordings of a tracer in namespaces of its own: proved where it was placed in the kernel's eyes, else weaker."""

from typing import Any

import msgspec
import pytest

from tests.unit.verdict.scenes import (
    LAUNCHER,
    RANK,
    T0,
    WORKERS,
    Scene,
    changed,
    identity,
    primary,
    start_of,
    statuses,
    without,
    worker_killed,
)
from tracer.attribution.tree import Tree
from tracer.events import AnyEvent, Armed, Header, ProcessExited, ProcessForked, ProcessId, ProcessSeen, TracerPlaced
from tracer.units import TICK_NS
from tracer.verdict import people
from tracer.verdict.incident import Case
from tracer.verdict.judge import judge
from tracer.verdict.story import Story

TRACER = 41100
"""As the kernel calls it; to itself it is 99, see `Scene.begin`."""


def placed(events: list[AnyEvent], **fields: Any) -> list[AnyEvent]:
    """As if recorded in a container where the kernel's pids could be learned."""
    values: dict[str, Any] = {
        "ts_ns": T0, "seq": max(e.seq for e in events) + 1, "source": "tracer",
        "tgid": TRACER, "start_ns": start_of(TRACER),
        "job_tgid": LAUNCHER, "job_start_ns": start_of(LAUNCHER), "job_own_tgid": 3, "job_ns_level": 1, "proc": "own",
    }  # fmt: skip
    return [*changed(events, Header, own_pid_namespace=True), TracerPlaced(**(values | fields))]


def unplaced(events: list[AnyEvent]) -> list[AnyEvent]:
    return changed(events, Header, own_pid_namespace=True)


def caveats(events: list[AnyEvent]) -> str:
    return " ".join(judge(events).verdict.caveats)


def test_in_a_container_a_kill_is_proved_where_the_kernels_pids_were_learned() -> None:
    incident = primary(judge(placed(worker_killed())))

    assert "proved" == incident.strength
    assert ["present"] * 4 == statuses(incident)[:4]
    assert "namespace" not in caveats(placed(worker_killed()))


def test_where_they_were_not_learned_it_is_not_and_that_is_said_once() -> None:
    events = unplaced(worker_killed())
    said = caveats(events)

    assert not any(i.cause.startswith("host_oom") for i in judge(events).verdict.incidents)
    assert "whether that was of this job could not be told" in said
    assert not Story(events).watched("mark_victim")
    assert 1 == said.count("namespace")
    assert "could not learn the kernel's pids" in said


@pytest.mark.parametrize(
    "fields",
    [
        {"job_tgid": LAUNCHER + 1},
        {"job_start_ns": start_of(LAUNCHER) + TICK_NS},
        {"job_tgid": 3, "job_start_ns": start_of(LAUNCHER)},
    ],
)
def test_a_place_of_another_process_than_the_job_says_nothing_about_the_job(fields: dict[str, int]) -> None:
    story = Story(placed(worker_killed(), **fields))

    assert not story.follows_job
    assert not story.watched_from_start("mark_victim")


def quiet_end(*, claimed: bool) -> list[AnyEvent]:
    scene = Scene()
    scene.begin()
    events = scene.finish(0)
    if claimed:
        return events
    return [e for e in events if not isinstance(e, ProcessExited)]


def test_a_placed_job_is_followed_even_before_the_filter_was_seen_to_have_it() -> None:
    assert not Story(quiet_end(claimed=False)).follows_job
    assert Story(changed(placed(quiet_end(claimed=False)), Header, own_pid_namespace=False)).follows_job
    assert Story(quiet_end(claimed=True)).follows_job


def test_a_place_does_not_make_up_for_hooks_that_were_not_armed() -> None:
    story = Story(without(placed(worker_killed()), Armed))

    assert story.follows_job
    assert not story.watched("mark_victim")


def passed_on(sender: int) -> list[AnyEvent]:
    scene = Scene()
    scene.begin()
    scene.signal(sender, 15, sender_tgid=812, sender_tid=812, sender_comm="scancel", in_tree=0)
    scene.signal(LAUNCHER, 15, sender_tgid=sender, sender_tid=sender, sender_start_ns=3, sender_comm="oomtrace")
    return scene.finish(status=15)


def test_a_signal_that_we_passed_on_is_known_by_the_pid_that_the_kernel_has_for_us() -> None:
    told, stranger = primary(judge(placed(passed_on(TRACER)))), primary(judge(placed(passed_on(99))))

    assert told.sender is not None
    assert ("scancel", 812) == (told.sender.comm, told.sender.pid)
    assert "through oomtrace" in (told.summary or "")
    assert "'oomtrace' (pid 99)" in stranger.headline or "from 'oomtrace'" in stranger.headline


def test_without_a_place_nobody_is_taken_for_us() -> None:
    assert Story(unplaced(passed_on(99))).tracer_pid is None
    assert 99 == Story(passed_on(99)).tracer_pid
    assert TRACER == Story(placed(passed_on(99))).tracer_pid


@pytest.mark.parametrize(
    "level, own, ours, told",
    [
        (0, RANK, 0, (RANK,)),
        (1, 46, 1, (RANK, 12)),
        (2, 46, 1, (RANK, 46, 12)),
        (2, 46, 2, (RANK, 12)),
        (3, 46, 1, (RANK, 46, 12)),
        (3, 0, 1, (RANK, 12)),
        (3, None, 1, (RANK, 12)),
    ],
)
def test_pids_are_told_at_all_levels_that_a_fork_knows(
    level: int, own: int | None, ours: int, told: tuple[int, ...]
) -> None:
    scene = Scene()
    scene.begin()
    scene.fork(RANK, LAUNCHER)
    events = changed(scene.finish(), ProcessForked, ns_level=level, ns_tgid=12, own_tgid=own)

    assert told == people.process(Story(placed(events, job_ns_level=ours)), identity(RANK)).ns_pids


def test_what_proc_says_of_the_levels_goes_before() -> None:
    events = changed(placed(worker_killed()), ProcessSeen, ns_pids=(1, 2, 3))

    assert (1, 2, 3) == people.process(Story(events), identity(WORKERS[2])).ns_pids


def test_the_log_speaks_of_the_job_only_where_its_pids_are_those_of_the_recording() -> None:
    scene = Scene()
    scene.job()
    scene.log_kill(WORKERS[0])
    events = scene.finish(0)

    assert ("the kernel's log says" in " ".join(found(placed(events)))) is True
    assert () == found(unplaced(events))


def found(events: list[AnyEvent]) -> tuple[str, ...]:
    case = Case(Story(events))
    return case.unexplained


def test_a_fork_of_others_makes_no_process_the_jobs() -> None:
    scene = Scene()
    scene.begin()
    scene.fork(4242, 1)
    of_others = [msgspec.structs.replace(e, in_tree=0) if isinstance(e, ProcessForked) else e for e in scene.events]
    stranger: ProcessId = identity(4242)

    assert not Tree.of(of_others).processes[stranger].claimed
    assert Tree.of(scene.events).processes[stranger].claimed

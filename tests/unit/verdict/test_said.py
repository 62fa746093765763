# SPDX-License-Identifier: Apache-2.0
"""Lines of the job's own log: whom they mean, where they stand, and that no proof ever rests on one."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from tests.strategies import events_of
from tests.unit.verdict.scenes import (
    LAUNCHER,
    RANK,
    WORKERS,
    Scene,
    identity,
    primary,
    start_of,
    statuses,
    worker_killed,
)
from tracer.events import AnyEvent, ProcessExited, ProcessSeen, TrainingLine
from tracer.units import NS_PER_MS, NS_PER_S
from tracer.verdict.incident import Case
from tracer.verdict.judge import judge
from tracer.verdict.said import SOON_NS
from tracer.verdict.said_rows import MOST_ROWS
from tracer.verdict.story import Story

VICTIM = WORKERS[2]
KILLED = "RuntimeError: DataLoader worker (pid {}) is killed by signal: Killed. "


def died_ns(events: list[AnyEvent], pid: int = VICTIM) -> int:
    [exit_] = [e for e in events if isinstance(e, ProcessExited) and e.tgid == pid]
    return exit_.ts_ns


def line(ts_ns: int, about: str = "worker_killed", **fields: Any) -> TrainingLine:
    given: dict[str, Any] = {"text": KILLED.format(VICTIM), "stream": "stderr", "pids": (VICTIM,), "signal": 9}
    return TrainingLine(ts_ns=ts_ns, source="text", about=about, **(given | fields))


def with_lines(events: list[AnyEvent], *lines: TrainingLine) -> list[AnyEvent]:
    first = max(event.seq for event in events) + 1
    return [*events, *(msgspec.structs.replace(one, seq=first + place) for place, one in enumerate(lines))]


def said(events: list[AnyEvent], *lines: TrainingLine) -> Any:
    return Case(Story(with_lines(events, *lines))).said


def rows(events: list[AnyEvent], *lines: TrainingLine) -> list[tuple[str, str]]:
    entries = judge(with_lines(events, *lines)).timeline
    return [(entry.who, entry.text) for entry in entries if entry.kind == "log"]


def test_a_line_stands_among_the_kernels_events_under_the_name_of_whom_it_means() -> None:
    events = worker_killed()
    entries = judge(with_lines(events, line(died_ns(events) + NS_PER_MS))).timeline

    order = [(entry.kind, entry.who) for entry in entries if entry.kind in {"kill", "log", "exit"}]
    assert order[:3] == [("kill", "worker 2"), ("exit", "worker 2"), ("log", "worker 2")]


def test_a_line_that_agrees_is_told_beside_the_link_that_stands_without_it() -> None:
    events = worker_killed()
    without = primary(judge(events))
    incident = primary(judge(with_lines(events, line(died_ns(events) + NS_PER_MS))))

    assert incident.proof[3].statement == f"{without.proof[3].statement}; the job's own log says so too"
    assert incident.proof[3].evidence == without.proof[3].evidence
    assert (incident.strength, statuses(incident)) == (without.strength, statuses(without))


@pytest.mark.parametrize(
    "fields",
    [{"signal": 7}, {"signal": None}, {"pids": (WORKERS[0],)}, {"pids": ()}, {"about": "device_oom"},
     {"about": "progress"}],
    ids=str,
)  # fmt: skip
def test_a_line_that_says_something_else_does_not_agree(fields: dict[str, Any]) -> None:
    events = worker_killed()
    incident = primary(judge(with_lines(events, line(died_ns(events) + NS_PER_MS, **fields))))

    assert "own log" not in incident.proof[3].statement


@pytest.mark.parametrize("after_ns", [-5 * NS_PER_S, SOON_NS + 5 * NS_PER_S])
def test_a_line_at_another_time_means_another_process(after_ns: int) -> None:
    events = worker_killed()
    then = line(died_ns(events) + after_ns)

    assert said(events, then).agrees(identity(VICTIM), signal=9, at_ns=died_ns(events)) is None


def test_without_the_kernels_word_a_line_proves_nothing() -> None:
    scene = Scene()
    scene.begin(hooks=())
    scene.job()
    scene.pass_time(NS_PER_S)
    lines = [line(scene.now_ns, pids=(pid,)) for pid in WORKERS]
    report = judge(with_lines(scene.finish(), *lines))

    assert [i.cause for i in report.verdict.incidents] == ["exited"]


def test_an_oom_kill_is_not_made_of_lines_where_the_kernel_saw_another_end() -> None:
    scene = Scene()
    scene.begin()
    scene.job()
    scene.exit(VICTIM, 1 << 8)
    report = judge(with_lines(scene.finish(), line(scene.now_ns)))

    assert not [i for i in report.verdict.incidents if i.cause.startswith("host_oom")]


@given(lines=st.lists(events_of(TrainingLine), max_size=8), at=st.integers(-20, 20))
def test_whatever_is_said_neither_causes_nor_strengths_nor_links_change(lines: list[TrainingLine], at: int) -> None:
    events = worker_killed()
    near = [msgspec.structs.replace(one, ts_ns=died_ns(events) + at * NS_PER_MS) for one in lines]
    before, after = judge(events), judge(with_lines(events, *near))

    assert [(i.cause, i.strength, i.victim, statuses(i)) for i in after.verdict.incidents] == [
        (i.cause, i.strength, i.victim, statuses(i)) for i in before.verdict.incidents
    ]


def in_a_container(events: list[AnyEvent]) -> list[AnyEvent]:
    """Each process has a pid of its own in there: 7 for the victim, 8 for another worker."""
    own = {VICTIM: 7, WORKERS[0]: 8, RANK: 5, LAUNCHER: 1}
    more = [
        ProcessSeen(ts_ns=died_ns(events) - NS_PER_S, source="proc", start_ns=start_of(pid), tgid=pid, parent_tgid=RANK,
                    comm="x", ns_pids=(pid, inner))
        for pid, inner in own.items()
    ]  # fmt: skip
    first = max(event.seq for event in events) + 1
    return [*events, *(msgspec.structs.replace(one, seq=first + place) for place, one in enumerate(more))]


def test_the_pid_of_a_container_is_the_process_that_has_it_there() -> None:
    events = in_a_container(worker_killed())
    spoken = line(died_ns(events) + NS_PER_MS, pids=(7,), text=KILLED.format(7))

    assert said(events, spoken).meant(spoken, 7) == identity(VICTIM)
    assert rows(events, spoken) == [("worker 2", f"{KILLED.format(7)} (pid 7 is {VICTIM} here)")]
    assert "own log says so too" in primary(judge(with_lines(events, spoken))).proof[3].statement


def test_a_pid_that_two_processes_have_at_different_levels_means_the_inner_one() -> None:
    events = in_a_container(worker_killed())
    first = max(event.seq for event in events) + 1
    clash = ProcessSeen(ts_ns=died_ns(events) - NS_PER_S, seq=first, source="proc", start_ns=start_of(WORKERS[1]),
                        tgid=WORKERS[1], parent_tgid=RANK, comm="x", ns_pids=(WORKERS[1], VICTIM))  # fmt: skip
    spoken = line(died_ns(events) + NS_PER_MS, about="exception")

    assert said([*events, clash], spoken).meant(spoken, VICTIM) == identity(WORKERS[1])


def test_a_pid_that_nobody_has_means_nobody() -> None:
    events = worker_killed()
    spoken = line(died_ns(events), pids=(999,))

    assert said(events, spoken).meant(spoken, 999) is None
    assert rows(events, spoken)[0][0] == "log"


def test_of_progress_the_first_and_the_last_before_the_incident_are_shown() -> None:
    events = worker_killed()
    at_ns = died_ns(events)
    steps = [
        line(at_ns - (20 - number) * 10 * NS_PER_MS, "progress", text=f"step {number}", pids=(), signal=None, rank=0)
        for number in range(18)
    ]

    assert rows(events, *steps) == [("rank 0", "step 0"), ("rank 0", "step 17")]


def test_a_flood_of_lines_does_not_drown_the_rest() -> None:
    events = worker_killed()
    flood = [
        line(died_ns(events) + number * NS_PER_S, "device_oom", text=f"no {number}", pids=()) for number in range(500)
    ]
    report = judge(with_lines(events, *flood))

    assert sum(1 for entry in report.timeline if entry.kind == "log") == MOST_ROWS
    assert any("488 more lines" in entry.text for entry in report.timeline)
    assert any(entry.kind == "kill" and entry.primary for entry in report.timeline)


def test_what_is_said_twice_is_shown_once() -> None:
    events = worker_killed()
    at_ns = died_ns(events) // (60 * NS_PER_S) * 60 * NS_PER_S + 59 * NS_PER_S

    assert rows(events, line(at_ns, text="x"), line(at_ns + 1, text="x")) == [("worker 2", "x (2 times)")]


def test_lines_that_were_read_at_once_stand_as_they_were_written() -> None:
    events = worker_killed()
    at_ns = died_ns(events) + NS_PER_MS
    texts = ["one", "two", "three"]
    lines = [
        line(at_ns, about="exception", text=t, pids=(), signal=None, rank=r)
        for t, r in zip(texts, (3, None, 1), strict=True)
    ]

    assert texts == [text for _, text in rows(events, *lines)]


def test_an_error_file_is_told_under_the_rank_whose_it_was() -> None:
    events = worker_killed()
    spoken = line(died_ns(events) + NS_PER_MS, "exception", text="ValueError: x", stream="error_file", pids=(),
                  signal=None, tgid=RANK, start_ns=start_of(RANK), rank=0)  # fmt: skip

    assert rows(events, spoken) == [("rank 0", "ValueError: x")]

# SPDX-License-Identifier: Apache-2.0
"""Rows that say the same of several processes become one; of very many rows the first are shown, the rest counted."""

from typing import Any

import pytest

from tests.unit.verdict.scenes import LAUNCHER, WORKERS, Scene, start_of
from tracer.units import NS_PER_S
from tracer.verdict.folding import folded
from tracer.verdict.judge import judge
from tracer.verdict.model import Entry

FOLD_NS = 2 * NS_PER_S


def row(who: str = "worker 1", at_ns: int = 0, **more: Any) -> Entry:
    values = {"kind": "signal", "text": "SIGTERM", "pid": 7, "offset_ns": at_ns, "evidence": (at_ns,), **more}
    return Entry(at_ns=at_ns, who=who, **values)


def names(*rows: Entry) -> list[str]:
    return [entry.who for entry in folded(rows)]


def test_rows_of_several_workers_become_one_that_counts_them() -> None:
    (one,) = folded([row("worker 1"), row("worker 2", 1), row("worker 30", 2)])

    assert ("3 workers", None, (0, 1, 2), 0) == (one.who, one.pid, one.evidence, one.at_ns)


@pytest.mark.parametrize("collateral", [True, False])
def test_signals_are_folded_and_ends_that_followed_from_the_incident(collateral: bool) -> None:
    def rows(kind: str) -> list[str]:
        return names(row(kind=kind, collateral=collateral), row("worker 2", kind=kind, collateral=collateral))

    assert ["2 workers"] == rows("signal")
    assert (["2 workers"] if collateral else ["worker 1", "worker 2"]) == rows("exit")


@pytest.mark.parametrize("kind", ["start", "memory", "reclaim", "oom", "mark", "kill", "gone", "log", "note"])
def test_other_rows_stand_alone(kind: str) -> None:
    assert ["worker 1", "worker 2"] == names(
        row(kind=kind, collateral=True), row("worker 2", kind=kind, collateral=True)
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "exit", "collateral": True},
        {"text": "SIGINT"},
        {"collateral": True},
        {"outside": True},
        {"primary": True},
    ],
)
def test_rows_that_say_something_else_are_not_folded(fields: dict[str, Any]) -> None:
    assert ["worker 1", "worker 2"] == names(row(), row("worker 2", **fields))
    assert ["worker 1", "worker 2"] == names(row(**fields), row("worker 2"))


def test_rows_that_matter_most_stand_alone() -> None:
    assert ["worker 1", "worker 2"] == names(row(primary=True), row("worker 2", primary=True))
    ended = {"kind": "exit", "collateral": True, "primary": True}
    assert ["worker 1", "worker 2"] == names(row(**ended), row("worker 2", **ended))


def test_rows_are_folded_within_two_seconds_of_the_first() -> None:
    assert ["2 workers"] == names(row(at_ns=5), row("worker 2", 5 + FOLD_NS))
    assert ["worker 1", "worker 2"] == names(row(at_ns=5), row("worker 2", 6 + FOLD_NS))
    assert ["2 workers", "worker 3"] == names(row(at_ns=5), row("worker 2", FOLD_NS), row("worker 3", 6 + FOLD_NS))


@pytest.mark.parametrize(
    ("first", "second", "folded_name"),
    [
        ("r0 worker 1", "r1 worker 1", "2 workers"),
        ("rank 0", "rank 1", "2 ranks"),
        ("sh 500", "sh 501", "2 shs"),
        ("worker", "worker", "2 workers"),
        ("7", "7", "2 7s"),
        ("my app 1", "my app 2", "2 my apps"),
        ("worker 1", "rank 1", None),
        ("rx worker 1", "worker 1", None),
        ("x1 worker 1", "worker 1", None),
        ("7", "8", None),
    ],
)
def test_processes_of_one_kind_are_folded_whatever_their_numbers(
    first: str, second: str, folded_name: str | None
) -> None:
    assert ([first, second] if folded_name is None else [folded_name]) == names(row(first), row(second))


def test_a_row_is_folded_into_the_nearest_like_it() -> None:
    rows = folded([row(at_ns=0), row("worker 2", FOLD_NS + 1), row("worker 3", FOLD_NS + 2)])

    assert ["worker 1", "2 workers"] == [entry.who for entry in rows]
    rows = folded([row(at_ns=0), row("worker 2", FOLD_NS + 1), row("worker 3", FOLD_NS)])
    assert ["worker 1", "2 workers"] == [entry.who for entry in rows]
    assert ["worker 1", "2 workers"] == names(row(primary=True), row("worker 2"), row("worker 3"))


def test_rows_between_do_not_hinder_folding_up_to_a_dozen() -> None:
    def between(count: int) -> list[Entry]:
        return [row(f"p{letter}", text=letter) for letter in "abcdefghijklmnop"[:count]]

    assert "2 workers" == names(row(), *between(11), row("worker 2"))[0]
    assert "worker 1" == names(row(), *between(12), row("worker 2"))[0]


def ends(count: int) -> list[Entry]:
    """The timeline of a job in which so many helpers crash one after the other."""
    scene = Scene()
    scene.begin()
    pids = range(1000, 1000 + count)
    for pid in pids:
        scene.fork(pid, LAUNCHER)
    scene.pass_time(NS_PER_S)
    for pid in pids:
        scene.pass_time(3 * NS_PER_S)
        scene.exit(pid, 11)
    return list(judge(scene.finish(0)).timeline)


def test_up_to_sixty_rows_are_shown() -> None:
    # The start, the ends, and that of the job itself.
    assert 60 == len(ends(58))
    assert "exit" == ends(58)[-1].kind


def test_of_more_rows_the_first_are_shown_and_the_rest_counted() -> None:
    rows = ends(70)
    last = rows[-1]

    assert 61 == len(rows)
    assert ("note", "", "12 more events") == (last.kind, last.who, last.text)
    assert rows[-2].primary
    assert (rows[-2].at_ns, 0) == (last.at_ns, last.offset_ns)
    assert [f"python3 {pid}" for pid in range(1000, 1058)] == [entry.who for entry in rows[1:-2]]


def test_what_matters_is_shown_however_many_rows_there_are() -> None:
    scene = Scene()
    scene.job()
    for step in range(70):
        pid = 1000 + step
        scene.fork(pid, LAUNCHER)
        scene.pass_time(3 * NS_PER_S)
        scene.exit(pid, 11)
    scene.grow()
    scene.kill()
    for pid in WORKERS[:2]:
        scene.pass_time(3 * NS_PER_S)
        scene.signal(pid, 15, sender_tgid=LAUNCHER, sender_tid=LAUNCHER, sender_start_ns=start_of(LAUNCHER))
        scene.exit(pid, 15)
    rows = judge(scene.finish()).timeline

    assert {"kill", "exit"} == {entry.kind for entry in rows if entry.primary}
    assert 1 == sum(1 for entry in rows if entry.series is not None)
    assert 61 == len(rows)
    assert "more events" in rows[-1].text

# SPDX-License-Identifier: Apache-2.0
"""Who was told to end and lived on until the kernel killed it: the kill is the kernel's, and the rest is said."""

from typing import Any

import pytest

from tests.unit.verdict.scenes import LAUNCHER, RANK, WORKERS, Scene, primary, start_of
from tracer.units import NS_PER_MS, NS_PER_S
from tracer.verdict.judge import judge
from tracer.verdict.model import Report

EARLYOOM = {"sender_tgid": 8, "sender_tid": 8, "sender_start_ns": 1, "sender_comm": "earlyoom"}
HUMAN = {"sender_tgid": 7, "sender_tid": 7, "sender_start_ns": 1, "sender_comm": "bash"}
BY_LAUNCHER = {"sender_tgid": LAUNCHER, "sender_tid": LAUNCHER, "sender_start_ns": start_of(LAUNCHER)}
VICTIM = WORKERS[2]


def killed(*, terms: tuple[tuple[int, dict[str, Any]], ...], after_ns: int = NS_PER_S // 2) -> Report:
    """Some get SIGTERM and go on; a worker is then killed for want of memory, and so is another."""
    scene = Scene()
    scene.job()
    scene.grow(VICTIM)
    for pid, by in terms:
        scene.signal(pid, 15, **by)
    scene.pass_time(after_ns)
    scene.kill(VICTIM)
    scene.pass_time(NS_PER_MS)
    scene.kill(WORKERS[1], VICTIM)
    scene.exit(RANK, 1 << 8)
    return judge(scene.finish())


@pytest.mark.parametrize(
    ("by", "words"),
    [
        (EARLYOOM, "had got SIGTERM from 'earlyoom' (pid 8), from outside the job"),
        (HUMAN, "had got SIGTERM from 'bash' (pid 7), from outside the job"),
        (BY_LAUNCHER, f"had got SIGTERM from launcher (pid {LAUNCHER}), of the same job"),
    ],
)
def test_a_victim_that_had_got_sigterm_is_the_kernels_and_the_sigterm_is_told(by: dict[str, Any], words: str) -> None:
    report = killed(terms=((VICTIM, by),))
    found = primary(report)
    rows = [(entry.kind, entry.who) for entry in report.timeline]

    assert ("host_oom_cgroup", "proved", None) == (found.cause, found.strength, found.sender)
    assert [f"500 ms before, DataLoader worker 2 of rank 0 (pid {VICTIM}) {words}."] == list(found.caveats)
    assert rows.index(("signal", "worker 2")) < rows.index(("kill", "worker 2"))


def test_of_several_the_others_are_counted() -> None:
    found = primary(killed(terms=((VICTIM, EARLYOOM), (WORKERS[1], EARLYOOM), (WORKERS[0], EARLYOOM))))

    assert found.caveats[0].endswith("; so had 1 more of the victims.")


def test_nothing_is_said_of_a_sigterm_to_another_or_after_the_kill() -> None:
    assert () == primary(killed(terms=((WORKERS[0], HUMAN),))).caveats
    assert () == primary(killed(terms=((VICTIM, HUMAN),), after_ns=-1)).caveats


def test_the_kernels_own_sigkill_is_told_once_and_as_the_kill() -> None:
    rows = [(entry.kind, entry.who) for entry in killed(terms=()).timeline]

    assert ("signal", "worker 2") not in rows
    assert 1 == rows.count(("kill", "worker 2"))

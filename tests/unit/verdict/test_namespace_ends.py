# SPDX-License-Identifier: Apache-2.0
"""Whoever the kernel ends with a pid namespace went down because of the kill that its first process failed of."""

import pytest

from tests.unit.verdict.scenes import LAUNCHER, RANK, WORKERS, Scene, primary, start_of
from tracer.events import SignalInfo
from tracer.events.signals import PF_EXITING
from tracer.units import NS_PER_MS, NS_PER_S, TICK_NS
from tracer.verdict.judge import judge

VICTIM, HELPER = WORKERS[2], 300


def how(scene: Scene) -> str | None:
    """How the helper went down with the primary incident."""
    found = [c.how for c in primary(judge(scene.finish())).collateral if c.pid == HELPER]
    assert len(found) < 2
    return found[0] if found else None


def container(**changes: int) -> Scene:
    """Its entrypoint, seen when it ran already, fails of a kill; the kernel ends what else is in the namespace."""
    given = {"inside": 1, "status": 137 << 8, "flags": PF_EXITING, "after_ns": NS_PER_MS} | changes
    scene = Scene()
    scene.begin()
    tick_of = {pid: start_of(pid) // TICK_NS * TICK_NS for pid in (LAUNCHER, RANK)}
    inside = (RANK, given["inside"])
    scene.seen(RANK, LAUNCHER, "entrypoint", {}, parent_start_ns=tick_of[LAUNCHER], ns_pids=inside)
    for pid in (VICTIM, HELPER):
        scene.seen(pid, RANK, "tool", {}, parent_start_ns=tick_of[RANK], ns_pids=(pid, pid % 90 + 2))
    scene.kill(VICTIM)
    scene.pass_time(NS_PER_MS)
    scene.exit(RANK, given["status"])
    scene.pass_time(given["after_ns"])
    sender = {"sender_tgid": RANK, "sender_tid": RANK, "sender_start_ns": start_of(RANK)}
    scene.signal(HELPER, 9, info=SignalInfo.PRIV, code=128, sender_flags=given["flags"], **sender)
    scene.exit(HELPER, 9)
    return scene


def test_what_the_kernel_ends_with_the_namespace_of_who_failed_of_a_kill_is_collateral() -> None:
    assert "as python3 41210, pid 1 of its pid namespace, had ended" in (how(container()) or "")


@pytest.mark.parametrize(
    "changes",
    [
        {"inside": 7},  # not the first of its namespace
        {"status": 0},  # it ended well, and so not of the kill
        {"flags": 0},  # it was not ending
        {"after_ns": 6 * NS_PER_S},
    ],
)
def test_no_other_sigkill_of_the_kernel_is_taken_for_the_end_of_a_namespace(changes: dict[str, int]) -> None:
    assert how(container(**changes)) is None

# SPDX-License-Identifier: Apache-2.0
"""The swap that was left at a kill of the whole machine: by the kernel's own report of that kill, and no other's."""

from typing import Any

import msgspec
import pytest

from tests.unit.verdict.marks import TRIGGER, VICTIM, begun, marked
from tests.unit.verdict.scenes import KILL_STACK
from tracer.events import LogEvent, LogGap, LoggedDecision, LoggedInvocation, LoggedSwap
from tracer.units import MIB
from tracer.verdict.kills import find_kills
from tracer.verdict.limit import Shortage, find_shortage
from tracer.verdict.story import Story

MACHINE_STACK = (*KILL_STACK[:4], "__alloc_pages_slowpath")


def reported(*lines: tuple[type[LogEvent], int, dict[str, Any]], trusted: bool = True) -> Shortage:
    """A machine-wide kill after a sample with some swap left, and lines of the log by their numbers."""
    scene = begun()
    scene.oom_signal(VICTIM, TRIGGER)
    marked(scene, MACHINE_STACK)
    scene.pressure(0)
    sample = msgspec.structs.replace(scene.items.pop(), swap_free_bytes=26 * MIB)
    scene.add(sample)
    for kind, number, fields in lines:
        stamp = {"ts_ns": scene.now_ns, "source": "kmsg", "log_seq": number, "trusted": trusted}
        scene.add(kind(**stamp, **fields))
    story = Story(scene.events)
    (kill,) = find_kills(story).kills
    return find_shortage(story, kill)


INVOKED = (LoggedInvocation, 10, {"comm": "x"})
SWAP_FREE = (LoggedSwap, 20, {"counter": "free", "size_bytes": 0})
SWAP_TOTAL = (LoggedSwap, 21, {"counter": "total", "size_bytes": 60 * MIB})
DECIDED = (LoggedDecision, 30, {"constraint": "CONSTRAINT_NONE", "tgid": VICTIM})


def test_the_swap_that_was_left_is_that_of_the_kernels_own_report_of_the_kill() -> None:
    found = reported(INVOKED, SWAP_FREE, SWAP_TOTAL, DECIDED)

    assert (0, 60 * MIB) == (found.limit.swap_free_bytes, found.limit.swap_total_bytes)
    assert found.statement.endswith("were available, at the kill swap 0 B free of 60 MiB")
    # decision, sample, and both lines
    assert 4 == len(found.evidence)


@pytest.mark.parametrize(
    "lines",
    [
        (INVOKED, SWAP_FREE, DECIDED),
        (INVOKED, SWAP_TOTAL, DECIDED),
        (INVOKED, SWAP_FREE, SWAP_TOTAL),
        (SWAP_FREE, SWAP_TOTAL, DECIDED),
        (SWAP_FREE, SWAP_TOTAL, (LoggedInvocation, 25, {"comm": "x"}), DECIDED),
        (INVOKED, DECIDED, (LoggedSwap, 31, SWAP_FREE[2]), (LoggedSwap, 32, SWAP_TOTAL[2])),
        (INVOKED, SWAP_FREE, SWAP_TOTAL, (LoggedDecision, 30, {**DECIDED[2], "tgid": VICTIM + 1})),
    ],
    ids=["no total", "nothing free", "undecided", "no beginning", "before it", "after it", "of another kill"],
)
def test_swap_in_lines_that_may_be_another_reports_is_not_this_kills(
    lines: tuple[tuple[type[LogEvent], int, dict[str, Any]], ...],
) -> None:
    assert 26 * MIB == reported(*lines).limit.swap_free_bytes


def test_swap_in_a_log_that_could_be_forged_or_has_gaps_is_not_this_kills() -> None:
    lines = (INVOKED, SWAP_FREE, SWAP_TOTAL, DECIDED)

    assert 26 * MIB == reported(*lines, trusted=False).limit.swap_free_bytes
    assert 26 * MIB == reported(*lines, (LogGap, 40, {"lost": 3})).limit.swap_free_bytes

# SPDX-License-Identifier: Apache-2.0
"""Someone sets the clock while a job runs: order and distances are the monotonic clock's."""

import pytest

from tests.unit.verdict.scenes import worker_killed
from tracer.events import Clock, Header
from tracer.units import NS_PER_S
from tracer.verdict.judge import judge


@pytest.mark.parametrize("hours", [-5, 5])
@pytest.mark.parametrize("place", [1, 10, -5])
def test_a_step_of_the_wall_clock_moves_times_of_day_and_nothing_else(hours: int, place: int) -> None:
    events = worker_killed()
    at_ns = sorted(event.ts_ns for event in events)[place]
    [header] = [event for event in events if isinstance(event, Header)]
    stepped_ns = header.realtime_ns + at_ns - header.ts_ns + hours * 3600 * NS_PER_S
    step = Clock(ts_ns=at_ns, seq=len(events), realtime_ns=stepped_ns, boottime_ns=at_ns)
    without_step, with_step = judge(events), judge([*events, step])

    assert [(e.offset_ns, e.who, e.text) for e in with_step.timeline] == [
        (e.offset_ns, e.who, e.text) for e in without_step.timeline
    ]
    for one, other in zip(without_step.verdict.incidents, with_step.verdict.incidents, strict=True):
        assert (one.cause, one.strength, one.victims) == (other.cause, other.strength, other.victims)
        assert [link.status for link in one.proof] == [link.status for link in other.proof]
    if place > 0:  # before the kill
        assert without_step.verdict.incidents[0].at != with_step.verdict.incidents[0].at

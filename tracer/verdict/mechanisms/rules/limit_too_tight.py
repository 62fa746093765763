# SPDX-License-Identifier: Apache-2.0
"""A job whose level is steady and near its limit: whatever comes on top is too much."""

from tracer.units import format_bytes, format_duration
from tracer.verdict.mechanisms.evidence import Evidence
from tracer.verdict.mechanisms.named import Named, part
from tracer.verdict.mechanisms.rules import neighbour

NEAR = 0.88
"""Of the limit. Fitted: 0.93 where it was that; 0.79 to 0.83 where one allocation was a fifth of the limit."""


def is_near(evidence: Evidence) -> bool:
    """Whether the level was."""
    return evidence.level_bytes >= NEAR * (evidence.limited.limit_bytes or evidence.now.usage_bytes)


def judge(evidence: Evidence) -> Named | None:
    """A steady level near the limit."""
    if evidence.limited.machine or not evidence.left_level or not is_near(evidence):
        return None  # a machine is full of what grew on it
    if neighbour.judge(evidence) is not None:
        return None
    limit = evidence.limited.limit_bytes or evidence.now.usage_bytes
    at_once = evidence.shape == "jump"
    over = evidence.now.held_bytes - evidence.level_bytes
    return Named(
        name="limit_too_tight",
        strength="likely" if at_once else "possible",
        share=1.0,
        statement=f"the job was steady at {part(evidence.level_bytes, limit)}: "
        f"the last {format_bytes(max(over, 0))} were too much",
        because=(
            f"not above {format_bytes(evidence.level_bytes)} in {format_duration(evidence.level_ns)}: nothing grew",
            f"the room was {format_bytes(max(limit - evidence.level_bytes, 0))}",
        ),
        against=() if at_once else ("what came on top took seconds: it may have begun to grow",),
        also=("checkpoint_spike", "optimizer_state", *(() if at_once else ("main_process_growth",))),
        decide=("what the job did last: a checkpoint, a first step, a longer batch",),
    )

# SPDX-License-Identifier: Apache-2.0
"""A level that was steady, and one allocation on top: a checkpoint's copy, the optimizer's first step, a long batch."""

from tracer.units import format_bytes, format_duration
from tracer.verdict.mechanisms.evidence import Evidence
from tracer.verdict.mechanisms.named import MOST_OF_IT, Named
from tracer.verdict.mechanisms.rules.limit_too_tight import is_near

MAIN = frozenset({"job", "rank"})


def judge(evidence: Evidence) -> Named | None:
    """A jump of the main process, from a level well below the limit."""
    if evidence.shape != "jump" or is_near(evidence) or not evidence.people:
        return None
    top = max(evidence.people, key=lambda one: one.grown_bytes)
    if top.role not in MAIN or evidence.share(top.grown_bytes) < MOST_OF_IT:
        return None
    level, jump = format_bytes(evidence.level_bytes), format_bytes(evidence.now.held_bytes - evidence.level_bytes)
    return Named(
        name="optimizer_state",
        strength="likely",
        share=evidence.share(top.grown_bytes),
        statement=f"{top.who} had been at {level} at most for {format_duration(evidence.level_ns)}, then wanted {jump} "
        "more at once: an allocation that is made once, as by the optimizer's first step or a copy for a checkpoint",
        because=(
            f"the level had been steady: not above {level} in {format_duration(evidence.level_ns)}",
            f"then {jump} more, in {top.who}",
        ),
        against=("no epoch, step or checkpoint was seen in what the job printed",),
        also=("checkpoint_spike", "main_process_growth"),
        decide=(
            (
                "what the job did last: its first optimizer.step(), torch.save() or state_dict(), or a batch "
                "of unusual length (print before each, with flush=True)"
            ),
        ),
    )

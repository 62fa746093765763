# SPDX-License-Identifier: Apache-2.0
"""A level that was steady, and one allocation on top: a checkpoint's copy, the optimizer's first step, a long batch."""

from typing import NamedTuple

from tracer.units import NS_PER_S, format_bytes, format_duration
from tracer.verdict.mechanisms.evidence import Evidence
from tracer.verdict.mechanisms.named import MOST_OF_IT, Named
from tracer.verdict.mechanisms.rules.limit_too_tight import is_near

MAIN = frozenset({"job", "rank"})
LATE_NS = 60 * NS_PER_S
"""A level that had been there for so long: an optimizer mostly makes its first step sooner. Not fitted."""


class _Told(NamedTuple):
    """What the job's own words, and the time, make of it."""

    names: tuple[str, ...]
    because: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    sure: bool = False
    """The last that it told is what takes memory once."""


def judge(evidence: Evidence) -> Named | None:
    """The main process, from a level well below the limit; what took seconds is no jump unless the job says so."""
    if evidence.shape == "growing" or is_near(evidence) or not evidence.people:
        return None
    told = _told(evidence)
    if not evidence.left_level and not told.sure:
        return None  # no level was seen, and no word of it was said
    top = max(evidence.people, key=lambda one: one.grown_bytes)
    if top.role not in MAIN or evidence.share(top.grown_bytes) < MOST_OF_IT:
        return None
    level, jump = format_bytes(evidence.level_bytes), format_bytes(evidence.now.held_bytes - evidence.level_bytes)
    at_once = evidence.shape == "jump"
    slowly = () if at_once else ("what came on top took seconds: a machine that others use, or growth that had begun",)
    return Named(
        name=told.names[0],
        strength="likely" if at_once or (told.sure and evidence.left_level) else "possible",
        share=evidence.share(top.grown_bytes),
        statement=f"{top.who} had been at {level} at most for {format_duration(evidence.level_ns)}, then wanted {jump} "
        f"more{' at once' if at_once else ''}: an allocation that is made once, as by the optimizer's first step or a "
        "copy for a checkpoint",
        because=(
            f"the level had been steady: not above {level} in {format_duration(evidence.level_ns)}",
            f"then {jump} more, in {top.who}",
            *told.because,
        ),
        against=(*told.against, *slowly),
        also=told.names[1:],
        decide=(
            (
                "what the job did last: its first optimizer.step(), torch.save() or state_dict(), or a batch "
                "of unusual length (print before each, with flush=True)"
            ),
        ),
    )


def _told(evidence: Evidence) -> _Told:
    """Of the class what may be it, in the order of likelihood. Words are anybody's: the rest of it stays named."""
    doing = evidence.doing
    if doing.saving is not None:
        ago = format_duration(evidence.at_ns - doing.saving.ts_ns)
        words = f"the last that it told, {ago} before: that it saves a checkpoint"
        return _Told(("checkpoint_spike", "main_process_growth"), (words,), sure=True)
    if doing.stepping is not None:
        ago = format_duration(evidence.at_ns - doing.stepping.ts_ns)
        words = f"the last that it told, {ago} before: that its optimizer steps"
        others = ("main_process_growth",) if doing.epochs == 0 else ("checkpoint_spike", "main_process_growth")
        return _Told(("optimizer_state", *others), (words,), sure=True)
    if doing.epochs > 0:
        words = (
            f"{doing.epochs} epoch{'' if doing.epochs == 1 else 's'} were over: the optimizer had stepped long before"
        )
        return _Told(("checkpoint_spike", "main_process_growth"), (words,), (_no_word(evidence),))
    order: tuple[str, ...] = ("optimizer_state", "checkpoint_spike", "main_process_growth")
    if evidence.level_ns >= LATE_NS:
        order = ("checkpoint_spike", "optimizer_state", "main_process_growth")
    return _Told(order, (), (_no_word(evidence),))


def _no_word(evidence: Evidence) -> str:
    if not evidence.doing.watched:
        return "what the job wrote was not read (oomtrace run --log FILE): whether it saved or stepped is not known"
    return "no line that was read says that a checkpoint was saved or an optimizer stepped"

# SPDX-License-Identifier: Apache-2.0
"""By the most that was held: where memory jumped, or the job was killed before it trained."""

from tracer.units import MIB, NS_PER_S, format_bytes
from tracer.verdict.comparison import growth
from tracer.verdict.comparison.align import NOISE_BYTES, TAIL_SHARE, Pair, Seen, seen
from tracer.verdict.comparison.finding import Finding, cannot_tell
from tracer.verdict.comparison.model import Basis
from tracer.verdict.comparison.run import Run
from tracer.verdict.comparison.trend import LEAST_BLOCKS, held_at, trend_of
from tracer.verdict.comparison.words import amount

JUMP_SHARE = 0.6
"""Of all that it rose by: so much came in the last moments."""
LAST_NS = NS_PER_S
LAST_SHARE = 0.1
FLAT_SHARE = 0.5
"""Of the rise: a trend over the time before that would have made no more than this."""
GONE_SHARE = 0.5
"""Of the jump: what is left of it is no more than this."""
LOWER_SHARE = 0.8
"""Of the most that was held: AFTER stays below that."""
FURTHER = 1.5
"""Where nothing tells how far either came, AFTER has lived so many times as long."""
ENOUGH_S, ENOUGH_SHARE, TIMES = 1.0, 0.05, 3.0
"""So long it has to train: in seconds, as a part of the time until then, and as often as BEFORE did."""
HEADROOM, FURTHER_BY, ABOUT = 1.1, 1.1, 1.15
TIGHT = "limit_too_tight"
SAME_LIMIT = 1.02
LEAST_JUMP_BYTES = 16 * MIB


def applies(before: Run, pair: Pair) -> bool:
    """Whether BEFORE was killed by a jump, or before it trained."""
    if not before.killed or before.peak_bytes is None:
        return False
    return starting(before, pair) or _jumped(before, pair.before)


def starting(before: Run, pair: Pair) -> bool:
    """Whether it was killed before its first mark, or just behind it."""
    began_ns = before.marks.begin_ns
    if pair.aligned.since == "first_mark":
        return pair.before is None or pair.before.whole is None
    return began_ns is None or began_ns >= before.end_ns


def judge(before: Run, after: Run, pair: Pair) -> Finding:
    """Fixed, if AFTER went beyond where BEFORE was killed, and the jump is not there any more."""
    start = starting(before, pair)
    assert before.peak_bytes is not None
    if after.killed:
        return _both_killed(before, after)
    short = _too_short(before, after, pair, start=start)
    if short is not None:
        return cannot_tell(short, basis="peak")
    base = 0.0 if start else _base(pair.before)
    rise = before.peak_bytes - base
    # Start-up is no growth.
    two = seen(after, "second", since_marks=True) if start and after.marks.begin_ns is not None else pair.after
    highest = _highest(after)
    grown = _still_grows(before, two)
    if grown is not None:
        return cannot_tell(grown, basis="peak")
    if start:
        gone = highest <= LOWER_SHARE * before.peak_bytes
        share = highest / before.peak_bytes
    else:
        assert two is not None
        share = max(0.0, two.peak_bytes - two.level_bytes) / max(rise, 1.0)
        gone = share <= GONE_SHARE and highest < before.peak_bytes - NOISE_BYTES
    raised = _raised(before, after)
    if raised:
        return _by_limit(before, after, pair, highest)
    basis: Basis = "peak"
    if gone:
        return Finding(outcome="fixed", basis=basis, left_share=share)
    if share <= growth.ALIKE[0]:
        return Finding(outcome="reduced", basis=basis, left_share=share)
    return Finding(outcome="unchanged", basis=basis, left_share=share)


def _jumped(before: Run, one: Seen | None) -> bool:
    if one is None or one.whole is None or before.peak_bytes is None:
        return False
    last_s = max(LAST_NS / NS_PER_S, LAST_SHARE * one.seconds)
    place = one.span * max(0.0, 1 - last_s / one.seconds)
    rise = before.peak_bytes - _base(one)
    late = before.peak_bytes - held_at(one.points, place)
    if rise < LEAST_JUMP_BYTES or late < JUMP_SHARE * rise:
        return False
    first = place * (1 - TAIL_SHARE)
    earlier = trend_of(one.points, first, place, max(len(one.whole.blocks) - 1, LEAST_BLOCKS))
    return earlier is None or not earlier.rises or earlier.slope * place <= FLAT_SHARE * rise


def _base(one: Seen | None) -> float:
    """The level that the jump was from."""
    if one is None or one.whole is None:
        return 0.0
    held = sorted(y for _, y in one.whole.blocks[:-1] or one.whole.blocks)
    return held[len(held) // 2]


def _highest(run: Run) -> float:
    assert run.course is not None
    return float(max((look.all_bytes for look in run.course.looks if look.at_ns <= run.end_ns), default=0))


def _too_short(before: Run, after: Run, pair: Pair, *, start: bool) -> str | None:
    two = pair.after
    if start and after.marks.begin_ns is not None:
        passed = (after.end_ns - after.marks.begin_ns) / NS_PER_S
        until_then = (after.marks.begin_ns - after.begin_ns) / NS_PER_S
        trained = pair.before.seconds if pair.before is not None and pair.aligned.since == "first_mark" else 0.0
        needed = max(ENOUGH_S, ENOUGH_SHARE * until_then, TIMES * trained)
        if passed >= needed:
            return None
        return "AFTER ended just behind where BEFORE was killed, as training began"
    if start:
        if after.seconds >= FURTHER * before.seconds:
            return None
        return f"nothing tells how far AFTER came, and it did not live {FURTHER:g} times as long as BEFORE"
    one = pair.before
    assert one is not None
    if two is not None and two.whole is not None and two.span > one.span:
        return None
    unit = pair.aligned.unit
    so_far = 0.0 if two is None else two.span
    return (
        f"AFTER has not come to where BEFORE was killed, {amount(max(0.0, one.span - so_far), unit, None)} further on"
    )


def _still_grows(before: Run, two: Seen | None) -> str | None:
    trend = None if two is None else two.tail or two.whole
    if two is None or trend is None or before.peak_bytes is None or not trend.rises:
        return None
    grown = trend.slope * two.span
    if grown < max(growth.LEAST_RISE_BYTES, 2 * growth.LEAST_RISE_SHARE * before.peak_bytes):
        return None
    return f"AFTER went beyond where BEFORE was killed, but grows: {format_bytes(round(grown))} over what was seen"


def _both_killed(before: Run, after: Run) -> Finding:
    assert before.peak_bytes is not None
    if _raised(before, after):
        return Finding(
            outcome="unchanged", basis="peak", reasons=(f"{growth.ended_too(after)}, though its limit was raised",)
        )
    return Finding(outcome="unchanged", basis="peak", reasons=(growth.ended_too(after),))


def _raised(before: Run, after: Run) -> bool:
    if before.limit_bytes is None:
        return False
    return after.limit_bytes is None or after.limit_bytes > SAME_LIMIT * before.limit_bytes


def _by_limit(before: Run, after: Run, pair: Pair, highest: float) -> Finding:
    """What was needed is not known: it was more than there was. So AFTER has to go further, and to be level."""
    assert before.peak_bytes is not None
    if after.limit_bytes is None or highest <= LOWER_SHARE * before.peak_bytes:
        return cannot_tell("the limit was raised, so that nothing tells whether what was needed is less", basis="limit")
    one, two = pair.before, pair.after
    if pair.aligned.unit == "second" or one is None or two is None or two.span < FURTHER_BY * one.span:
        return cannot_tell("the limit was raised, and nothing tells that AFTER came much further", basis="limit")
    untouched = after.course is not None and after.course.failed_charges == 0
    level = two.whole is not None and not two.whole.rises and _base(two) <= ABOUT * _base(one)
    fits = after.limit_bytes >= HEADROOM * max(highest, before.peak_bytes)
    mechanism = before.incident.mechanism
    tight = mechanism is None or TIGHT in {mechanism.name, *mechanism.or_}
    if fits and untouched and level and tight:
        return Finding(outcome="fixed", basis="limit", left_share=highest / before.peak_bytes)
    return cannot_tell("the limit was raised, which takes nothing away of what the job needs", basis="limit")

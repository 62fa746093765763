# SPDX-License-Identifier: Apache-2.0
"""By how fast memory grows as training goes on."""

import msgspec

from tracer.units import MIB, format_bytes
from tracer.verdict.comparison.align import TAIL_SHARE, Pair, Seen
from tracer.verdict.comparison.finding import Finding, cannot_tell
from tracer.verdict.comparison.model import Need, Outcome
from tracer.verdict.comparison.run import Run
from tracer.verdict.comparison.trend import Trend
from tracer.verdict.comparison.words import amount, per
from tracer.verdict.projected import Interval, Unit

LEAST_RISE_BYTES = 16 * MIB
LEAST_RISE_SHARE = 0.02
"""Of the most that was held: less is no growth."""
LEFT_SHARE = 0.1
"""Of the growth that was: where no more may be left, it is gone."""
LITTLE_SHARE = 0.2
"""Of what BEFORE had risen by: where AFTER rose by more, it has to stay level for as long as BEFORE took."""
RISE_SHARE = 0.5
"""Of what BEFORE had risen by: so much may be a queue that fills, and no more."""
ALIKE = (0.75, 1.0 / 0.75)
IN_TIME = (0.5, 2.0)
"""Of growth in time another machine, or the same one with more to do, makes that much."""
SURE = (0.5, 2.0)
"""Where the growth is known no better than that, it is not known to be unchanged."""
NOT_AS_FAR = "AFTER has not come as far as BEFORE, whose growth came late or in steps"
COVERED_SHARE = 0.9
"""Growth that comes in steps may come a little later than it did."""
MOST_TIMES = 50.0


def judge(before: Run, after: Run, pair: Pair) -> Finding:
    """Fixed, if AFTER covers what BEFORE grew in and no growth is left within uncertainty."""
    one, two, unit = pair.before, pair.after, pair.aligned.unit
    if one is None or one.whole is None:
        return cannot_tell("BEFORE is too short: it ended before a trend could be seen")
    grown = next((trend for trend in (one.whole, one.tail) if trend is not None and trend.rises), None)
    rise = max(one.rise_to(one.span), 0.0)
    least = max(LEAST_RISE_BYTES, LEAST_RISE_SHARE * one.peak_bytes)
    if grown is None or rise < least:
        if before.killed and after.killed:
            return _as_often_killed(one, two, after)
        return cannot_tell(f"BEFORE shows no growth to compare with: {_seen(one.whole, unit)}", basis="growth")
    if two is None or two.whole is None:
        if after.killed:
            return Finding(outcome="unchanged", basis="peak", reasons=(ended_too(after),))
        return cannot_tell("AFTER is too short: it ended before a trend could be seen", basis="growth",
                           need=_need(one.span, one, unit))  # fmt: skip
    if after.killed:
        found = _not_fixed(grown, two.whole, unit, ended_too(after))
        return _as_often_killed(one, two, after, found) if found.outcome == "cannot_tell" else found
    return _lived(one, two, grown, unit)


def ended_too(after: Run) -> str:
    """As BEFORE did."""
    return f"AFTER {after.ended_so}, too"


def _lived(one: Seen, two: Seen, grown: Trend, unit: Unit) -> Finding:
    trend = two.tail or two.whole
    assert trend is not None
    rise = max(one.rise_to(one.span), 0.0)
    # Where it grew for a part of the time alone, its rate is known best from that part.
    best = max((each for each in (one.tail, grown) if each is not None), key=lambda each: each.low)
    ratio = _ratio(best, trend)
    assert ratio.high is not None
    risen = trend.highest - two.first_bytes
    missing = _missing(one, two, risen, grown)
    if ratio.high <= LEFT_SHARE:
        if missing is not None:
            return cannot_tell(missing, basis="growth", need=_need(_to_cover(one, two, risen, rise), two, unit),
                               ratio=ratio)  # fmt: skip
        if grows_on(two, trend):
            why = f"AFTER grows on, by {format_bytes(round(trend.slope))} {per(unit)}"
            return Finding(outcome="reduced", basis="growth", ratio=ratio, reasons=(why,))
        if risen > RISE_SHARE * rise:
            why = f"AFTER rose by {format_bytes(round(risen))} in the beginning, and is level since"
            return Finding(outcome="reduced", basis="growth", ratio=ratio, reasons=(why,))
        left = round(max(0.0, trend.high))
        return Finding(outcome="fixed", basis="growth", ratio=ratio, left_bytes=left, left_share=max(0.0, ratio.high))
    found = _not_fixed(grown, trend, unit)
    if found.outcome == "reduced" and two.span < one.span and not _shows(one, two.span, grown):
        return cannot_tell(NOT_AS_FAR, basis="growth", need=_need(one.span - two.span, two, unit), ratio=ratio)
    if ratio.value <= LEFT_SHARE:
        return msgspec.structs.replace(found, need=_to_be_sure(one, two, ratio, unit), ratio=ratio)
    return found


def grows_on(two: Seen, trend: Trend) -> bool:
    """Whether what is left is known to be growth, however little: only slower it comes to the limit."""
    known = trend.low * (trend.blocks[-1][0] - trend.blocks[0][0])
    return trend.rises and known >= max(LEAST_RISE_BYTES, LEAST_RISE_SHARE * two.peak_bytes)


def _as_often_killed(one: Seen, two: Seen | None, after: Run, found: Finding | None = None) -> Finding:
    """Both were killed, and a trend is not clear: what they grew by until then, on the average."""
    if two is not None and two.span > 0 and one.span > 0:
        averages = [max(each.rise_to(each.span), 1.0) / each.span for each in (one, two)]
        ratio = averages[1] / averages[0]
        if SURE[0] <= ratio <= SURE[1]:
            known = Interval(value=ratio, low=SURE[0], high=SURE[1])
            return Finding(outcome="unchanged", basis="growth", ratio=known, reasons=(ended_too(after),))
    return found or cannot_tell(ended_too(after), basis="growth")


def _not_fixed(one: Trend, two: Trend, unit: Unit, *reasons: str) -> Finding:
    """By the ratio alone."""
    ratio = _ratio(one, two)
    least, most = IN_TIME if unit == "second" else ALIKE
    outcome: Outcome
    if ratio.high is not None and ratio.high <= least:
        outcome = "reduced"
    elif ratio.low >= most:
        outcome = "worse"
    elif (ratio.low >= SURE[0] and (ratio.high is not None and ratio.high <= SURE[1])) or least <= ratio.value <= most:
        outcome = "unchanged"
    else:
        known = f"{_share(ratio.low)} to {_share(ratio.high)} of what it was"
        return cannot_tell(*reasons, f"growth of AFTER is known too badly: {known}", basis="growth", ratio=ratio)
    return Finding(outcome=outcome, basis="growth", ratio=ratio, reasons=reasons)


def _ratio(one: Trend, two: Trend) -> Interval:
    """Of two slopes, the first of which is above nothing."""
    values = [
        slope / part for slope in (two.low, two.high) for part in (max(one.low, one.slope / MOST_TIMES), one.high)
    ]
    return Interval(value=two.slope / one.slope, low=min(values), high=max(values))


def _missing(one: Seen, two: Seen, risen: float, grown: Trend) -> str | None:
    """Why AFTER has not seen enough, though it does not grow any more; `None`: it has.

    Either it went as far as BEFORE, or BEFORE would have shown in any part as long as it is level: so that a step that
    comes once an epoch is not taken for the filling of a queue, nor missed.
    """
    trend = two.tail or two.whole
    assert trend is not None
    rise = max(one.rise_to(one.span), 0.0)
    level = two.span * (TAIL_SHARE if two.tail is not None else 1.0)
    if (level if risen > LITTLE_SHARE * rise else two.span) >= one.span:
        return None
    seen = max(0.0, trend.high) * level
    if _shows(one, level, grown) and seen <= LEFT_SHARE * _least_rise(one, level * COVERED_SHARE):
        return None
    return NOT_AS_FAR


def _shows(one: Seen, span: float, grown: Trend) -> bool:
    """Whether BEFORE grew at about its rate in any part so long."""
    expected = _least_rise(one, span * COVERED_SHARE)
    return expected >= max(LEAST_RISE_BYTES, grown.slope * span / 2)


def _least_rise(one: Seen, span: float) -> float:
    """What BEFORE had risen by in any part so long, and in its first one."""
    starts = [x for x, _ in one.points if x <= one.span - span] or [0.0]
    return min(one.rise_to(x + span) - one.rise_to(x) for x in starts)


def _to_cover(one: Seen, two: Seen, risen: float, rise: float) -> float:
    share = TAIL_SHARE if risen > LITTLE_SHARE * rise and two.tail is not None else 1.0
    return max(0.0, one.span / share - two.span)


def _to_be_sure(one: Seen, two: Seen, ratio: Interval, unit: Unit) -> Need | None:
    """The interval shrinks at least as fast as the time grows."""
    assert ratio.high is not None
    room = LEFT_SHARE - ratio.value
    if room <= 0:
        return None
    times = min((ratio.high - ratio.value) / room, MOST_TIMES)
    return _need(max(one.span - two.span, two.span * (times - 1)), two, unit)


def _need(units: float, of: Seen, unit: Unit) -> Need:
    pace = of.pace_s
    seconds = None if pace is None else units * pace
    return Need(units=units, seconds=seconds, statement=f"about {amount(units, unit, seconds)} more of AFTER")


def _seen(trend: Trend, unit: Unit) -> str:
    return f"{format_bytes(round(trend.low))} to {format_bytes(round(trend.high))} {per(unit)}"


def _share(value: float | None) -> str:
    return "?" if value is None else f"{round(100 * value)} %"

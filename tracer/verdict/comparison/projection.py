# SPDX-License-Identifier: Apache-2.0
"""Where a job that was not killed for want of memory was going: at this rate, with its uncertainty."""

from tracer.units import MIB, format_bytes
from tracer.verdict.comparison.align import Seen, marks_in, seen
from tracer.verdict.comparison.run import Run, run_of
from tracer.verdict.comparison.sides import of_trend, time_to_limit
from tracer.verdict.comparison.trend import Trend, held_at
from tracer.verdict.comparison.words import amount, per, spell
from tracer.verdict.incident import Case
from tracer.verdict.model import Verdict
from tracer.verdict.projected import Interval, Projection, Unit

LEAST_BYTES, LEAST_SHARE = 8 * MIB, 0.01
"""Over all that was seen, and of the level: less is no growth."""
MOST_EPOCHS = 1_000_000
FAR_S = 30 * 24 * 3600.0


def project(case: Case, verdict: Verdict) -> Projection | None:
    """`None`: it was killed, or had ended by itself without growing; then there is nothing to foretell."""
    run = run_of(case, verdict)
    job = verdict.job
    if run.killed or run.maybe_killed or run.course is None or job is None:
        return None
    goes_on = run.ended_as_asked or job.status in {None, "running"}
    unit = _unit(run)
    one = seen(run, unit, since_marks=run.marks.begin_ns is not None)
    trend = None if one is None else one.tail or one.whole
    if one is None or trend is None:
        text = "It was watched for too short a time to tell whether its memory grows."
        return Projection(grows=None, unit=unit, statement=text) if goes_on else None
    if not _grows(one, trend):
        return _level(run, one, trend, unit) if goes_on else None
    return _growing(run, one, trend, unit)


def _unit(run: Run) -> Unit:
    if len(marks_in(run, "epoch")) > 1:
        return "worker_start" if run.marks.known_by == "workers" else "epoch"
    return "step" if len(marks_in(run, "step")) > 1 else "second"


def _grows(one: Seen, trend: Trend) -> bool:
    return trend.rises and trend.slope * one.span >= max(LEAST_BYTES, LEAST_SHARE * one.level_bytes)


def _level(run: Run, one: Seen, trend: Trend, unit: Unit) -> Projection:
    most = format_bytes(round(max(0.0, trend.high)))
    known = f"no growth seen over {amount(one.span, unit, one.seconds)}: less than {most} {per(unit)}, if any"
    if trend.high * one.span > max(LEAST_BYTES, LEAST_SHARE * one.level_bytes) and trend.high > 0:
        text = f"Not clear: between {format_bytes(round(trend.low))} and {most} more {per(unit)}; needs a longer run."
        return Projection(grows=None, unit=unit, growth_bytes=of_trend(trend), level_bytes=round(one.level_bytes),
                          limit_bytes=run.limit_bytes, statement=text)  # fmt: skip
    limit = "" if run.limit_bytes is None else f" of a limit of {format_bytes(run.limit_bytes)}"
    return Projection(
        grows=False,
        unit=unit,
        growth_bytes=of_trend(trend),
        level_bytes=round(one.level_bytes),
        limit_bytes=run.limit_bytes,
        statement=f"{known[0].upper()}{known[1:]}; its level is {format_bytes(round(one.level_bytes))}{limit}.",
    )


def _growing(run: Run, one: Seen, trend: Trend, unit: Unit) -> Projection:
    left = time_to_limit(run, one, trend)
    rate = f"{format_bytes(round(trend.slope))} {per(unit)}"
    low, high = (format_bytes(round(value)) for value in (trend.low, trend.high))
    texts = [f"It grows by {rate} ({low} to {high})"]
    limit_at = None
    if left is not None and run.limit_bytes is not None:
        limit_at = _place_of_limit(run, one, trend, unit)
        where = "" if limit_at is None else f" ({unit} {limit_at:.0f})"
        when = "in more than 30 days" if left.value > FAR_S else f"about {spell(left.value)} later{where}"
        earliest = "" if left.value > FAR_S else f", {spell(left.low)} at the earliest"
        texts.append(f"at this rate the limit of {format_bytes(run.limit_bytes)} is reached {when}{earliest}")
    epochs = run.marks.epochs_meant if unit == "epoch" else None
    needed = _needed(run, one, trend, epochs) if epochs is not None and epochs <= MOST_EPOCHS else None
    if needed is not None and needed.high is not None:
        most = format_bytes(round(needed.high))
        texts.append(f"all {epochs} epochs need {format_bytes(round(needed.value))} ({most} at most)")
    return Projection(
        grows=True,
        unit=unit,
        growth_bytes=of_trend(trend),
        level_bytes=round(one.level_bytes),
        limit_bytes=run.limit_bytes,
        limit_in_s=left,
        limit_at=limit_at,
        epochs=epochs,
        needed_bytes=needed,
        statement="; ".join(texts) + ".",
    )


def _place_of_limit(run: Run, one: Seen, trend: Trend, unit: Unit) -> float | None:
    """The epoch or step in which the limit is reached."""
    marks = marks_in(run, unit)
    if not marks or run.limit_bytes is None or unit == "worker_start":
        return None
    room = run.limit_bytes - held_at(one.points, one.span)
    return round(marks[0].number + one.span + max(0.0, room) / trend.slope, 1)


def _needed(run: Run, one: Seen, trend: Trend, epochs: int) -> Interval | None:
    """At the end of the last epoch."""
    marks = marks_in(run, "epoch")
    reached = marks[0].number + one.span
    last = epochs + (1 if marks[0].number >= 1 else 0)
    held = held_at(one.points, one.span)
    value, low, high = (held + slope * max(0.0, last - reached) for slope in (trend.slope, trend.low, trend.high))
    return Interval(value=round(value), low=round(low), high=round(high))

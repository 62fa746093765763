# SPDX-License-Identifier: Apache-2.0
"""A comparison in words."""

from collections.abc import Iterator

from tracer.units import format_bytes, format_limit
from tracer.verdict.comparison.align import Pair
from tracer.verdict.comparison.finding import Finding
from tracer.verdict.comparison.run import Run
from tracer.verdict.comparison.sides import settled
from tracer.verdict.comparison.trend import Trend
from tracer.verdict.comparison.words import amount, per

SAME_LIMIT = 0.02
NAMES = ("BEFORE", "AFTER")
LITTLE = 0.005


def statement(finding: Finding, before: Run, after: Run, pair: Pair) -> str:
    """The outcome in one sentence."""
    if finding.outcome == "cannot_tell":
        need = "" if finding.need is None else f"; needs {finding.need.statement}"
        return f"Cannot tell: {finding.reasons[0]}{need}."
    if finding.basis == "limit":
        return (
            f"Fixed by the limit alone: AFTER fits into {format_limit(after.limit_bytes)} and never met that limit, "
            f"where BEFORE was killed at {format_limit(before.limit_bytes)}; what the job needs has not changed."
        )
    if finding.basis == "peak":
        return _of_peak(finding, before, after)
    return _of_growth(finding, pair, after)


def _of_peak(finding: Finding, before: Run, after: Run) -> str:
    most = format_bytes(before.peak_bytes)
    if after.killed:
        return f"Unchanged: AFTER {after.ended_so}, too; BEFORE held {most} when it {before.ended_so}."
    looks = [] if after.course is None else after.course.looks
    highest = format_bytes(max((look.all_bytes for look in looks if look.at_ns <= after.end_ns), default=None))
    beside = f"AFTER held {highest} at most and went on beyond where BEFORE was killed with {most}"
    words = {"fixed": "Fixed: the peak is gone;", "reduced": "Reduced, not fixed: the peak is lower;"}
    return f"{words.get(finding.outcome, 'Unchanged: the peak is still there;')} {beside}."


def _of_growth(finding: Finding, pair: Pair, after: Run) -> str:
    one, two, unit, ratio = pair.before, pair.after, pair.aligned.unit, finding.ratio
    assert ratio is not None
    was = _rate(None if one is None else one.grown)
    now = _rate(None if two is None else settled(after, two))
    each = per(unit)
    if finding.outcome == "fixed":
        left = "nothing" if not finding.left_bytes else f"less than {format_bytes(finding.left_bytes)} {each}"
        share = finding.left_share or 0.0
        part = "under 1 %" if share < LITTLE else f"{max(1, round(100 * share))} %"
        span = "" if two is None else f", seen over {amount(two.span, unit, two.seconds)}"
        return f"Fixed: growth was {was} {each}, and {left} is left ({part} of it at most){span}."
    low, high = ratio.low, ratio.high
    assert high is not None
    if finding.outcome == "reduced" and finding.reasons:
        return f"Reduced, not fixed: growth was {was} {each}; {finding.reasons[0]}."
    if finding.outcome == "reduced" and finding.need is not None:
        return (
            f"Reduced by {_percent(1 - high)} at least, and whether anything is left cannot be told yet: growth was "
            f"{was} {each}; needs {finding.need.statement}."
        )
    if finding.outcome == "reduced":
        least, by, most = (_percent(share) for share in (1 - high, 1 - ratio.value, min(1 - low, 1.0)))
        by = f"by {by}" if least == most else f"by {by} ({least} to {most})"
        return f"Reduced {by}, not fixed: growth was {was} {each}, and {now} is left."
    if finding.outcome == "worse":
        return (
            f"Worse: growth was {was} {each}, and is {now}, {ratio.value:.1f} times as much ({low:.1f} to {high:.1f})."
        )
    killed = f"; {finding.reasons[0]}" if finding.reasons else ""
    return f"Unchanged: growth was {was} {each}, and is {now} ({low:.1f} to {high:.1f} times as much){killed}."


def _rate(trend: Trend | None) -> str:
    return "?" if trend is None else format_bytes(round(trend.slope))


def _percent(share: float) -> str:
    return f"{round(100 * share)} %"


def differences(before: Run, after: Run) -> Iterator[str]:
    """What else is not the same."""
    one, two = before.case.story, after.case.story
    if one.command != two.command:
        yield f"the command: {' '.join(one.command or ('?',))}; now {' '.join(two.command or ('?',))}"
    if one.ranks != two.ranks:
        yield f"ranks: {one.ranks}; now {two.ranks}"
    first, second = before.limit_bytes, after.limit_bytes
    if first != second and (first is None or second is None or abs(second - first) > SAME_LIMIT * first):
        was, now = ("none" if value is None else format_bytes(value) for value in (first, second))
        raised = second is None or (first is not None and second > first)
        fix = ": that takes no growth away" if raised else ""
        yield f"the limit: {was}; now {now}{fix}"
    machines = [None if s.header is None else (s.header.hostname, s.header.boot_id) for s in (one, two)]
    if None not in machines and machines[0] != machines[1]:
        hosts = [s.header.hostname if s.header is not None else None for s in (one, two)]
        if hosts[0] != hosts[1]:
            yield f"the machine: {hosts[0] or '?'}; now {hosts[1] or '?'}"


def _order(before: Run, after: Run) -> Iterator[str]:
    """Moments can be compared where both are of one boot."""
    boots = [run.case.story.header and run.case.story.header.boot_id for run in (before, after)]
    if boots[0] is None or boots[0] != boots[1]:
        return
    if before.begin_ns == after.begin_ns:
        yield "BEFORE and AFTER are one and the same run."
    elif after.begin_ns < before.begin_ns:
        yield "AFTER was recorded before BEFORE: they may stand the wrong way round."


def caveats(before: Run, after: Run, pair: Pair) -> Iterator[str]:
    """What was not observed."""
    yield from _order(before, after)
    for run, name in zip((before, after), NAMES, strict=True):
        course = run.course
        if course is not None and course.levels_up is None:
            yield (
                f"{name} had no cgroup of its own: its processes are summed up, without copies of pages that forks "
                "shared, files in shared memory that nobody has mapped, and memory of the kernel."
            )
        elif course is not None and not course.own:
            yield f"{name}: others may have been in its cgroup, too."
        if course is not None and not course.cache:
            yield f"{name}: page cache was not told from the rest."
        if run.marks.began_again:
            yield f"{name}: training began again; what came before that is left out."
        if run.killed and run.verdict.job is not None and run.verdict.job.status == "exit 0":
            yield f"{name}: what was killed was not the job's first process, which went on to its end."
        if not run.killed and run.incident.cause != "exited" and not run.ended_as_asked:
            yield f"{name} ended by something else: {run.incident.headline}."
        elif not run.killed and run.incident.exit_code and not run.ended_as_asked:
            yield f"{name} failed for another reason: {run.incident.headline}."
    if pair.aligned.unit == "second":
        yield "Growth in time is also that of the pace: on a slower machine the same leak is slower."
    yield "A peak that is shorter than the time between two looks (a second, less near the limit) is not seen."

# SPDX-License-Identifier: Apache-2.0
"""The outcome. A wrong `fixed` sends somebody back into a run of days that will be killed: what is open says so."""

from collections.abc import Iterable
from typing import NamedTuple

from tracer.events import AnyEvent
from tracer.verdict.comparison import growth, peak, told
from tracer.verdict.comparison.align import Pair, align
from tracer.verdict.comparison.finding import Finding, cannot_tell
from tracer.verdict.comparison.lasting import beside, fewer, hidden, other_marks
from tracer.verdict.comparison.model import Comparison
from tracer.verdict.comparison.run import Run, run_of
from tracer.verdict.comparison.same_job import other_job
from tracer.verdict.comparison.sides import side
from tracer.verdict.incident import Case
from tracer.verdict.judge import judge_case
from tracer.verdict.model import Verdict
from tracer.verdict.story import Story

SUM = -1
"""No level: the sum over processes."""


class Recorded(NamedTuple):
    """A recording, judged, and where it lies."""

    case: Case
    verdict: Verdict
    path: str | None = None


def judged(events: Iterable[AnyEvent], path: str | None = None) -> Recorded:
    """All events of a recording as `compare` takes them."""
    case = Case(Story(events))
    return Recorded(case, judge_case(case, recording=path).verdict, path)


def compare(before: Recorded, after: Recorded) -> Comparison:
    """Whether AFTER has what BEFORE was killed by."""
    one, two = run_of(*before), run_of(*after)
    one, two = _same_place(one, two)
    pair = align(one, two)
    finding = _found(one, two, pair)
    more = beside(one, two, pair) if finding.outcome == "fixed" else ()
    return Comparison(
        outcome=finding.outcome,
        basis=finding.basis,
        statement=told.statement(finding, one, two, pair),
        aligned=pair.aligned,
        before=side(one, two, pair.before, first=True),
        after=side(two, one, pair.after),
        ratio=finding.ratio,
        left_at_most_bytes=finding.left_bytes,
        left_at_most_share=finding.left_share,
        reasons=finding.reasons,
        need=finding.need,
        differences=tuple(told.differences(one, two)),
        caveats=(*told.caveats(one, two, pair), *more),
    )


def _same_place(before: Run, after: Run) -> tuple[Run, Run]:
    """Both on the same level of their chains of cgroups: a sum over processes is nothing like a cgroup."""
    if before.course is None or after.course is None or before.course.levels_up == after.course.levels_up:
        return before, after
    for level in (before.course.levels_up, after.course.levels_up):
        if level is None:
            continue
        one, two = before.on(level), after.on(level)
        if one.course is not None and two.course is not None and one.course.levels_up == two.course.levels_up:
            return one, two
    return before.on(SUM), after.on(SUM)


def _found(before: Run, after: Run, pair: Pair) -> Finding:
    for run, name in ((before, "BEFORE"), (after, "AFTER")):
        if run.course is None:
            return cannot_tell(f"nobody looked at the memory of {name}")
        # Nothing of a level can be said from silence.
        if any(first <= run.end_ns and last > run.begin_ns for first, last in run.course.gaps):
            return cannot_tell(f"nobody looked at the memory of {name} for a part of its time")
    assert before.course is not None
    assert after.course is not None
    if (before.course.levels_up is None) != (after.course.levels_up is None):
        return cannot_tell("of one a cgroup was looked at, and of the other its processes alone")
    if before.killed and after.killed and before.refused != after.refused:
        return cannot_tell(f"AFTER {after.ended_so} where BEFORE {before.ended_so}: that is another failure")
    if after.maybe_killed and not after.killed:
        return cannot_tell("AFTER may have been killed for want of memory: its own verdict is open")
    by_peak = peak.applies(before, pair)
    found = peak.judge(before, after, pair) if by_peak else growth.judge(before, after, pair)
    doubts = after.case.story.doubts(after.begin_ns, after.end_ns)
    another = other_job(before, after)
    if found.outcome == "fixed" and another is not None:
        return cannot_tell(f"the two are not the same job: {another}", basis=found.basis, ratio=found.ratio)
    if found.outcome == "fixed" and doubts:
        return cannot_tell(f"of AFTER something may be missing: {doubts[0]}", basis=found.basis, ratio=found.ratio)
    start = by_peak and peak.starting(before, pair)
    against = hidden(before, after, pair, start=start) if found.outcome == "fixed" else None
    if against is None and found.outcome == "fixed" and found.basis != "growth":
        against = fewer(before, after)
    if against is None and found.outcome in {"fixed", "reduced"} and found.basis == "growth":
        against = other_marks(pair)
    return found if against is None else cannot_tell(against, basis=found.basis, ratio=found.ratio)

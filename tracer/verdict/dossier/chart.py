# SPDX-License-Identifier: Apache-2.0
"""Memory over time, as layers that add up: who held what, the limit, and how hard memory was to get."""

import bisect
from collections.abc import Iterator, Sequence

from tracer.units import NS_PER_S
from tracer.verdict.dossier.course import Course, course_of
from tracer.verdict.dossier.ground import Ground, ground_of
from tracer.verdict.dossier.layers import Parts, Stack, choose, layers, own_memory
from tracer.verdict.dossier.model import Chart, Epoch
from tracer.verdict.dossier.strips import strips
from tracer.verdict.incident import Case
from tracer.verdict.marks import Mark, marks_of
from tracer.verdict.model import Incident

STEPS = 180
LEAST_END_NS = 2 * NS_PER_S
LONG_FACTOR = 4
"""A recording so many times as long as its end that matters has a chart of each."""
AFTER_SHARE = 0.12
"""Of the end's chart: what came after."""
MOST_EPOCHS = 40


def charts(case: Case, incident: Incident, at_ns: int | None, parts: Parts) -> tuple[Chart, ...]:
    """The whole recording, and, where that is long, the end that matters."""
    ground = ground_of(case, incident, at_ns)
    courses = [course_of(member, case.kills.of(member.id)) for member in case.story.tree.members.values()]
    courses = [course for course in courses if course.points]
    exact = [at_ns] if at_ns is not None else []
    spans = _spans(case, ground, courses, _end_ns(incident), at_ns)
    ends = sorted(course.member.end_ns for course in courses if course.member.end_ns is not None)
    times = [_moments(ground, ends, *span, exact) for span in spans]
    held = [own_memory(courses, moments) for moments in times]
    # The same processes have layers of their own, in the same order, in both.
    stacks = [Stack(people, ground, moments) for people, moments in zip(held, times, strict=True)]
    named = choose(stacks, parts)
    epochs = marks_of(case.story).epochs
    return tuple(
        Chart(
            what=ground.what,
            extent="end" if place else "whole",
            from_ns=span[0],
            to_ns=span[1],
            moments_ns=stack.moments_ns,
            layers=tuple(layers(case.story, stack, named, parts)),
            totals_bytes=stack.totals,
            beyond_bytes=stack.beyond_bytes,
            limit_bytes=ground.limit_bytes,
            strips=strips(case.story, ground.cgroup_ids, *span),
            epochs=tuple(_epochs(epochs, *span)),
        )
        for place, (span, stack) in enumerate(zip(spans, stacks, strict=True))
        if any(stack.totals)
    )


def _end_ns(incident: Incident) -> int:
    """How much before an incident matters most."""
    since_ns = incident.picture.since_ns if incident.picture is not None else 0
    return max(since_ns * 5 // 4, LEAST_END_NS)


def _spans(
    case: Case, ground: Ground, courses: Sequence[Course], end_ns: int, at_ns: int | None
) -> list[tuple[int, int]]:
    """The whole time in which something was seen of memory, and the end before the incident where that is short."""
    looks = [look.at_ns for look in ground.looks]
    times = [ns for course in courses for ns in (course.points[0][0], course.points[-1][0])]
    if not times and not looks:
        return []
    job = case.story.job
    first = min([*times, *looks])
    first = first if job is None else max(first, min(job.ts_ns, max([*times, *looks])))
    last = max([*(looks or times), *([at_ns] if at_ns is not None else [])])
    spans = [(first, last)] if last > first else []
    if at_ns is not None and first < at_ns and last - first > LONG_FACTOR * end_ns:
        spans.append((max(first, at_ns - end_ns), min(last, at_ns + round(AFTER_SHARE * end_ns))))
    return spans


def _moments(ground: Ground, ends: Sequence[int], from_ns: int, to_ns: int, exact: Sequence[int]) -> tuple[int, ...]:
    """Of each step the moment at which most was in use, so that no peak is lost; its middle where nobody looked.

    Args:
        ends: of processes. Between two looks with one between them nothing is made up: when what it had was gone from
            the total is not known before the second one.
        exact: that have to be among them.
    """
    width = max(1, (to_ns - from_ns) // STEPS)
    looks = [look for look in ground.looks if from_ns <= look.at_ns <= to_ns]
    found = {from_ns, to_ns, *(ns for ns in exact if from_ns <= ns <= to_ns)}
    highest: dict[int, tuple[int, int]] = {}
    for look in looks:
        step = (look.at_ns - from_ns) // width
        highest[step] = max(highest.get(step, (-1, 0)), (look.usage_bytes, look.at_ns))
    found |= {at_ns for _, at_ns in highest.values()}
    times = [look.at_ns for look in looks]
    for step in range(STEPS):
        middle = from_ns + step * width + width // 2
        place = bisect.bisect_right(times, middle)
        after = times[place] if place < len(times) else to_ns
        before = times[place - 1] if place else from_ns
        if step not in highest and (not times or bisect.bisect(ends, before) == bisect.bisect(ends, after)):
            found.add(middle)
    return tuple(sorted(found))


def _epochs(marks: Sequence[Mark], from_ns: int, to_ns: int) -> Iterator[Epoch]:
    """Of very many every so many."""
    inside = [mark for mark in marks if from_ns <= mark.at_ns <= to_ns]
    for mark in inside[:: max(1, -(-len(inside) // MOST_EPOCHS))]:
        yield Epoch(at_ns=mark.at_ns, text=mark.text)

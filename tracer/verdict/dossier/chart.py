# SPDX-License-Identifier: Apache-2.0
"""Memory over time, as layers that add up: who held what, the limit, and how hard memory was to get."""

from collections.abc import Iterator, Sequence

import msgspec

from tracer.events import TrainingLine
from tracer.units import NS_PER_S
from tracer.verdict.dossier.course import Course, course_of
from tracer.verdict.dossier.ground import Ground, ground_of
from tracer.verdict.dossier.layers import Parts, layers, own_memory
from tracer.verdict.dossier.model import Chart, Epoch
from tracer.verdict.dossier.strips import strips
from tracer.verdict.incident import Case
from tracer.verdict.model import Incident
from tracer.verdict.story import Story

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
    times = [ns for course in courses for ns in (course.points[0][0], course.points[-1][0])]
    times += [look.at_ns for look in (*ground.looks[:1], *ground.looks[-1:])]
    if not times:
        return ()
    job = case.story.job
    first = min(times) if job is None else max(min(times), min(job.ts_ns, max(times)))
    last = max(times) if at_ns is None else max(*times, at_ns)
    spans = [(first, last)] if last > first else []
    if at_ns is not None and first < at_ns:
        since_ns = incident.picture.since_ns if incident.picture is not None else 0
        end_ns = max(since_ns * 5 // 4, LEAST_END_NS)
        if last - first > LONG_FACTOR * end_ns:
            spans.append((max(first, at_ns - end_ns), min(last, at_ns + round(AFTER_SHARE * end_ns))))
    exact = [at_ns] if at_ns is not None else []
    found = [_chart(case.story, ground, courses, (*span, exact), parts) for span in spans]
    return tuple(msgspec.structs.replace(one, extent="end") if place else one for place, one in enumerate(found))


def _chart(
    story: Story, ground: Ground, courses: Sequence[Course], span: tuple[int, int, list[int]], parts: Parts
) -> Chart:
    from_ns, to_ns, exact = span
    moments = _moments(ground, from_ns, to_ns, exact)
    stack = layers(story, own_memory(courses, moments), ground, moments, parts)
    return Chart(
        what=ground.what,
        extent="whole",
        from_ns=from_ns,
        to_ns=to_ns,
        moments_ns=moments,
        layers=tuple(stack),
        totals_bytes=tuple(map(sum, zip(*(layer.values_bytes for layer in stack), strict=True))),
        limit_bytes=ground.limit_bytes,
        strips=strips(story, ground.cgroup_ids, from_ns, to_ns),
        epochs=tuple(_epochs(story, from_ns, to_ns)),
    )


def _moments(ground: Ground, from_ns: int, to_ns: int, exact: Sequence[int]) -> tuple[int, ...]:
    """Of each step the moment at which most was in use, so that no peak is lost; its middle where none is known.

    Args:
        exact: that have to be among them, and what came just before and after them.
    """
    width = max(1, (to_ns - from_ns) // STEPS)
    highest: dict[int, tuple[int, int]] = {}
    for look in ground.looks:
        if from_ns <= look.at_ns <= to_ns:
            step = (look.at_ns - from_ns) // width
            highest[step] = max(highest.get(step, (-1, 0)), (look.usage_bytes, look.at_ns))
    found = {from_ns, to_ns}
    for step in range(STEPS):
        found.add(highest[step][1] if step in highest else from_ns + step * width + width // 2)
    for moment in exact:
        found |= {ns for ns in (moment, moment + width // 4) if from_ns <= ns <= to_ns}
    return tuple(sorted(found))


def _epochs(story: Story, from_ns: int, to_ns: int) -> Iterator[Epoch]:
    """The first line of each, whoever wrote it; only where the numbers rise as time passes."""
    highest: float | None = None
    count = 0
    for line in story.of(TrainingLine):
        number = line.numbers.get("epoch")
        if line.about != "progress" or number is None or (highest is not None and number <= highest):
            continue
        highest = number
        if from_ns <= line.ts_ns <= to_ns and count < MOST_EPOCHS:
            count += 1
            yield Epoch(at_ns=line.ts_ns, number=int(number))

# SPDX-License-Identifier: Apache-2.0
"""What the events of a played scenario show, as the comparer wants it. Pure: from a file as well as just now."""

from collections.abc import Sequence
from dataclasses import dataclass

from tracer.events import AnyEvent, CgroupSample, JobStarted
from tracer.repro.expectations import Seen
from tracer.repro.scenario import Counters, Scenario
from tracer.units import TICK_NS
from tracer.verdict.calls import Call, calls
from tracer.verdict.incident import Case
from tracer.verdict.judge import judge
from tracer.verdict.reconcile import lost_kills
from tracer.verdict.story import Story

_PREFIX = "oomtrace-run-repro-"


@dataclass(frozen=True)
class Ground:
    """What a recording does not hold, or not for certain."""

    base: str
    """Path of the scenario's cgroup."""
    ids: frozenset[int]
    """Of that cgroup, as the kernel's records have it."""
    kernel: int | None
    """Kills by the kernel's own counter."""
    leftover: str | None = None


def seen_in(events: Sequence[AnyEvent], scenario: Scenario, ground: Ground) -> Seen:
    """Judge what was recorded."""
    case = Case(Story(events))
    return Seen(
        verdict=judge(events).verdict,
        base=ground.base,
        comms={(member.id.tgid, member.start_ns): member.comm for member in case.story.tree.processes.values()},
        counters=_counters(case, scenario, ground.ids, ground.kernel),
        leftover=ground.leftover,
    )


def ground_in(events: Sequence[AnyEvent], kernel: int | None) -> Ground:
    """As far as a recording tells: where the scenario took place."""
    bases = [
        path.partition(_PREFIX)[0] + _PREFIX + path.partition(_PREFIX)[2].partition("/")[0]
        for path in (event.cgroup for event in events if isinstance(event, JobStarted))
        if path is not None and _PREFIX in path
    ]
    base = bases[0] if bases else ""
    samples = (event for event in events if isinstance(event, CgroupSample))
    ids = {each.cgroup_id for each in samples if each.path == base and each.cgroup_id is not None}
    return Ground(base, frozenset(ids), kernel)


def _counters(case: Case, scenario: Scenario, ids: frozenset[int], kernel: int | None) -> Counters:
    """Kills as the kernel counts them: here those in the scenario's cgroups, in a guest all."""

    def is_meant(call: Call) -> bool:
        ours = case.story.is_ours(call.id.tgid, call.id.start_tick * TICK_NS)
        return scenario.where == "guest" or bool(ids & set(call.cgroups)) or ours

    found = [call for call in calls(case.story, case.kills) if is_meant(call)]
    sure = [call for call in found if call.sure]
    return Counters(
        seen=sum(not call.again for call in sure),
        lost=lost_kills(case.story, found),
        kernel=kernel,
        counted_again=sum(call.again for call in sure),
        maybe=len(found) - len(sure),
    )

# SPDX-License-Identifier: Apache-2.0
"""Puts it all together: processes, moments in their order, reclaim, and what the kill led to."""

from collections.abc import Iterator, Sequence

from tracer.events import Clock, Header, ReclaimSample, process_id
from tracer.units import NS_PER_S, format_duration
from tracer.verdict.incident import Case
from tracer.verdict.model import Report
from tracer.verdict.tracks.actors import actors, parts_in
from tracer.verdict.tracks.model import Flow, Moment, Reading, Span, Tracks
from tracer.verdict.tracks.moments import moment_of, moments
from tracer.verdict.tracks.naming import cgroup_paths

LONGEST_SPAN_NS = NS_PER_S
"""Samples are taken at least so often and recorded where they changed: what changed did so within that time."""
_CAUSES = ("kill", "signal", "exit", "gone")
"""Of one process the first of these is what led to others' ends."""


def lay(case: Case, report: Report) -> Tracks:
    """A judged recording along time."""
    events = case.story.events
    from_ns, to_ns = (events[0].ts_ns, events[-1].ts_ns) if events else (0, 0)
    ordered = sorted(moments(case, report), key=lambda one: (one.at_ns, one.kind != "incident"))
    header = case.story.header
    incidents = report.verdict.incidents
    limit = incidents[report.verdict.primary].limit if incidents else None
    return Tracks(
        host=header.hostname if header is not None else None,
        kernel=header.kernel_release if header is not None else None,
        readings=tuple(_readings(case)),
        from_ns=from_ns,
        to_ns=to_ns,
        at_ns=moment_of(case, report, incidents[report.verdict.primary]) if incidents else None,
        limit_cgroups=() if limit is None else limit.cgroups or ((limit.cgroup,) if limit.cgroup is not None else ()),
        actors=tuple(actors(case, report, from_ns, to_ns)),
        moments=tuple(ordered),
        spans=tuple(_reclaim(case)),
        flows=tuple(_flows(report, ordered)),
    )


def _readings(case: Case) -> Iterator[Reading]:
    for event in case.story.events:
        if isinstance(event, Header | Clock):
            yield Reading(monotonic_ns=event.ts_ns, realtime_ns=event.realtime_ns, boottime_ns=event.boottime_ns)


def _reclaim(case: Case) -> Iterator[Span]:
    """What was counted between two samples of a cgroup, as a span that ends at the second one."""
    paths = cgroup_paths(case.story)
    for cgroup_id, samples in case.story.by(ReclaimSample, lambda s: s.cgroup_id, "reclaim").items():
        assert isinstance(cgroup_id, int)
        before: ReclaimSample | None = None
        for now in samples:
            span = _span(before, now, paths.get(cgroup_id))
            if span is not None:
                yield span
            before = now


def _span(before: ReclaimSample | None, now: ReclaimSample, path: str | None) -> Span | None:
    limit_runs = now.memcg_runs - (before.memcg_runs if before is not None else 0)
    machine_runs = now.direct_runs - (before.direct_runs if before is not None else 0)
    stall_ns = now.memcg_stall_ns + now.direct_stall_ns
    stall_ns -= before.memcg_stall_ns + before.direct_stall_ns if before is not None else 0
    if limit_runs + machine_runs <= 0:
        return None
    earliest = now.ts_ns - LONGEST_SPAN_NS
    return Span(
        from_ns=earliest if before is None else max(before.ts_ns, earliest),
        to_ns=now.ts_ns,
        cgroup_id=now.cgroup_id,
        cgroup=path if path is not None else f"cgroup {now.cgroup_id}",
        of_job=path is not None,
        what=f"{limit_runs + machine_runs} runs, tasks stalled {format_duration(stall_ns)} in all",
        facts={"runs_at_limit": limit_runs, "runs_for_machine": machine_runs, "stall_ns": stall_ns},
    )


def _flows(report: Report, ordered: Sequence[Moment]) -> Iterator[Flow]:
    """From what befell the first victim of an incident to the end of each process that went down with it."""
    for incident in report.verdict.incidents:
        if not incident.collateral:
            continue
        parts = parts_in(incident)
        victims = [who for who, part in parts.items() if "victim" in part]
        cause = next((place for kind in _CAUSES for place in _places(ordered, victims[:1], kind)), None)
        fallen = [process_id(one.pid, one.start_ns) for one in incident.collateral if one.start_ns is not None]
        if cause is None:
            continue
        for place in (*_places(ordered, fallen, "exit"), *_places(ordered, fallen, "gone")):
            if place != cause:
                yield Flow(cause=cause, effect=place)


def _places(ordered: Sequence[Moment], whose: Sequence[object], kind: str) -> list[int]:
    wanted = set(whose)
    return [place for place, one in enumerate(ordered) if one.kind == kind and one.actor in wanted]

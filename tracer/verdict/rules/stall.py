# SPDX-License-Identifier: Apache-2.0
"""The job stood still for want of memory, and nothing was killed: throttled at memory.high, or nobody to be killed.

mem_cgroup_handle_over_high() puts tasks to sleep above memory.high and never kills; a memory cgroup without a
killable task, or with its OOM killer switched off (v1), has its tasks wait or try again for ever (mm/memcontrol.c).
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Literal

import msgspec

from tracer.attribution.cgroup_paths import place_of
from tracer.events import CgroupSample
from tracer.units import NS_PER_S, NS_PER_US, format_bytes, format_duration, format_limit, has_limit
from tracer.verdict import people
from tracer.verdict.incident import Case, Finding, strength
from tracer.verdict.model import Incident, Level, Limit, Link, Rung

Why = Literal["high", "no_victim", "disabled"]

STILL_SHARE = 0.2
"""Of a span, in which every task of the cgroup that could have run stood still, for it to be a stall."""
LEAST_NS = {"high": 2 * NS_PER_S, "no_victim": NS_PER_S // 2, "disabled": NS_PER_S // 2}
"""Shorter ones are told by nobody: a job goes through them all the time."""
NO_VICTIM_OOMS = 3
"""So many OOMs without a kill between two samples; one may be a kill that is still to be counted."""
GAP_NS = 2 * NS_PER_S
"""Spans that lie no further apart are one stall."""
HEADLINES = {
    "high": "Stalled: throttled at memory.high, and nothing was killed",
    "no_victim": "Stalled: out of memory, and nothing that could be killed",
    "disabled": "Stalled: out of memory, and the OOM killer of the cgroup is switched off",
}
WHY = {
    "high": "memory.high throttles it",
    "no_victim": "it is out of memory, and none of its tasks may be killed",
    "disabled": "it is out of memory, and its OOM killer is switched off",
}
RUNG: Rung = "cgroup_counters"


class _Stall(msgspec.Struct, frozen=True):
    why: Why
    first: CgroupSample
    last: CgroupSample
    still_ns: int | None

    @property
    def span_ns(self) -> int:
        return self.last.ts_ns - self.first.ts_ns


def find(case: Case) -> Iterable[Finding]:
    """The longest stall of each cgroup of the job's chain."""
    if case.story.job is None or case.story.tree.root is None:
        return
    for samples in case.story.by(CgroupSample, lambda s: s.cgroup_id, "id").values():
        stalls = [s for s in _stalls(samples) if s.span_ns >= LEAST_NS[s.why]]
        if stalls:
            yield _finding(case, max(stalls, key=lambda s: s.span_ns))


def _stalls(samples: Sequence[CgroupSample]) -> list[_Stall]:
    found: list[_Stall] = []
    for before, after in pairwise(samples):
        why = _why(before, after)
        if why is None:
            continue
        still_ns = _still_ns(before, after)
        last = found[-1] if found else None
        if last is not None and last.why == why and _go_together(last.last, before):
            both = None if still_ns is None or last.still_ns is None else last.still_ns + still_ns
            found[-1] = _Stall(why, last.first, after, both)
        else:
            found.append(_Stall(why, before, after, still_ns))
    return found


def _go_together(last: CgroupSample, before: CgroupSample) -> bool:
    """Whether one stall goes on: soon after, and nothing was killed in between."""
    return before.ts_ns - last.ts_ns <= GAP_NS and _rise(last.oom_kill, before.oom_kill) == 0


def _why(before: CgroupSample, after: CgroupSample) -> Why | None:
    """What held the cgroup up from one sample to the next; `None`: nothing that shows."""
    if _rise(before.oom_kill, after.oom_kill) != 0:
        return None  # something was killed, or nobody knows
    if before.under_oom and before.oom_kill_disable:
        return "disabled"  # samples are recorded when they change: it was so up to the next one
    if (_rise(before.oom, after.oom) or 0) >= NO_VICTIM_OOMS:
        return "no_victim"
    still_ns = _still_ns(before, after)
    stood = still_ns is not None and still_ns >= STILL_SHARE * (after.ts_ns - before.ts_ns)
    throttled = bool(_rise(before.high, after.high)) and has_limit(after.high_limit_bytes)
    return "high" if stood and throttled else None


def _rise(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before


def _still_ns(before: CgroupSample, after: CgroupSample) -> int | None:
    rise = _rise(before.psi_full_total_us, after.psi_full_total_us)
    return None if rise is None else rise * NS_PER_US


def _finding(case: Case, stall: _Stall) -> Finding:
    story, root = case.story, case.story.tree.root
    assert root is not None
    last = stall.last
    links = (_stood_still(stall), _ran_out(stall), _belongs(case, stall), _nothing_killed(stall))
    limit_bytes = last.high_limit_bytes if stall.why == "high" else last.limit_bytes
    level = Level(
        cgroup=last.path,
        usage_bytes=last.usage_bytes,
        limit_bytes=limit_bytes if has_limit(limit_bytes) else None,
        limited=has_limit(limit_bytes),
        oom_events=last.oom_local,
        owner=True,
        place=place_of(last.path),
    )
    lasted = format_duration(stall.span_ns)
    return Finding(
        at_ns=stall.first.ts_ns,
        ids=(root,),
        kind="stall",
        incident=Incident(
            cause="memory_stall",
            strength=strength(links, ()),
            at=story.utc(stall.first.ts_ns),
            headline=HEADLINES[stall.why],
            summary=f"Cgroup {last.path} was held up for {lasted}{_until(case, stall)}: {WHY[stall.why]}.",
            victim=people.process(story, root),
            limit=Limit(
                cgroup=last.path,
                cgroups=(last.path,),
                usage_bytes=level.usage_bytes,
                limit_bytes=level.limit_bytes,
                chain=(level,),
                place=level.place,
            ),
            proof=links,
        ),
    )


def _until(case: Case, stall: _Stall) -> str:
    death = case.root_death
    near = death is not None and 0 <= death.at_ns - stall.last.ts_ns <= GAP_NS
    return f", until {people.describe(case.story, death.id)} ended by {death.status}" if death and near else ""


def _stood_still(stall: _Stall) -> Link:
    if stall.still_ns is not None:
        still = f"all its tasks stood still for {format_duration(stall.still_ns)} of {format_duration(stall.span_ns)}"
        statement = f"{still} (memory.pressure)"
    else:
        statement = f"for {format_duration(stall.span_ns)}; how long its tasks stood still is not counted here"
    return Link(
        link=1,
        name="it stood still",
        status="present",
        statement=statement,
        evidence=(stall.first.seq, stall.last.seq),
        rung=RUNG,
    )


def _ran_out(stall: _Stall) -> Link:
    first, last = stall.first, stall.last
    used = format_bytes(last.usage_bytes)
    if stall.why == "high":
        times, limit = _rise(first.high, last.high), format_limit(last.high_limit_bytes)
        statement = f"memory.high of {last.path}: {used} of {limit}; run into {times} times"
    elif stall.why == "no_victim":
        ooms = _rise(first.oom, last.oom)
        statement = f"limit of {last.path}: {used} of {format_limit(last.limit_bytes)}; {ooms} OOMs without a kill"
    else:
        statement = f"limit of {last.path}: {used} of {format_limit(last.limit_bytes)}; under OOM, its killer is off"
    return Link(
        link=2, name="what ran out", status="present", statement=statement, evidence=(first.seq, last.seq), rung=RUNG
    )


def _belongs(case: Case, stall: _Stall) -> Link:
    job, name = case.story.job, "it is yours"
    if job is not None and job.own_cgroup and job.cgroup_id == stall.last.cgroup_id:
        return Link(link=3, name=name, status="present", statement="the job's own cgroup", rung=RUNG)
    statement = "the job ran in that cgroup or below it, and others may have"
    return Link(link=3, name=name, status="not_observed", statement=statement, rung=RUNG)


def _nothing_killed(stall: _Stall) -> Link:
    return Link(
        link=4,
        name="nothing was killed",
        status="present",
        statement="the cgroup counted no OOM kill in that time",
        evidence=(stall.first.seq, stall.last.seq),
        rung=RUNG,
    )

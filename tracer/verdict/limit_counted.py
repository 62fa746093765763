# SPDX-License-Identifier: Apache-2.0
"""Whose limit it was, by the counters of cgroups over time: for kills whose cgroups were not seen at the mark."""

from collections.abc import Iterable, Sequence

import msgspec

from tracer.attribution.cgroup_paths import place_of
from tracer.events import CgroupSample
from tracer.units import format_bytes, format_limit, has_limit
from tracer.verdict.counters import DYING_NS, SLACK_NS, Rise, rises
from tracer.verdict.kills import Kill
from tracer.verdict.limit import Shortage, find_shortage
from tracer.verdict.model import Level, Limit
from tracer.verdict.story import Story

FULL = 0.5
RECENT = 20
"""So many samples before the end are looked at for what was used."""


def shortage_of(story: Story, kill: Kill) -> Shortage:
    """What a kill was for. The limit of one whose cgroups were not seen at the mark may be known by counters."""
    found = find_shortage(story, kill)
    if kill.glimpse is None or found.limit.cgroup is not None:
        return found
    if found.limit.constraint != "CONSTRAINT_MEMCG" and kill.frames is not None:
        return found  # the stack says that it was no cgroup's limit
    rise = next((r for r in rises(story) if r.from_ns - DYING_NS <= kill.at_ns <= r.to_ns + DYING_NS), None)
    counted = limit_by_counters(story, rise) if rise is not None and rise.cgroup is not None else None
    if counted is None or counted.limit.cgroup is None:
        return found
    return msgspec.structs.replace(
        counted, limit=msgspec.structs.replace(counted.limit, constraint_by=found.limit.constraint_by)
    )


def limit_by_counters(story: Story, rise: Rise) -> Shortage:
    """Whose limit it was: the level whose own count of OOM events rose; v1 has none, and counts failed charges."""
    levels = [level for samples in _by_cgroup(story) if (level := _level(story, rise, samples)) is not None]
    # Parents are a part of their children's names.
    levels.sort(key=lambda level: -len(level.level.cgroup))
    failed = [level for level in levels if level.failed]
    # Page cache fills any limit, and charges fail there all the time: the one that is full of anything else is meant.
    # None fails where memory and swap together are limited to the same (v1): that has a count of its own.
    full = [level for level in failed or levels if level.full]
    owners = [level for level in levels if level.risen] or full or failed
    chain = tuple(one.level for one in levels)
    if len(owners) != 1:
        return Shortage(
            cause="host_oom_unknown_scope",
            status="not_observed",
            statement="which limit ran out was not observed",
            limit=Limit(chain=chain),
        )
    owner = owners[0].level
    ran_into = "the only limit that was run into" if owners[0].failed else "the only limit that was near"
    how = "its own OOM count rose" if owners[0].risen else ran_into
    used = f"{format_bytes(owner.usage_bytes)} of {format_limit(owner.limit_bytes)} when last seen"
    limit = Limit(
        constraint="CONSTRAINT_MEMCG",
        cgroup=owner.cgroup,
        cgroups=(owner.cgroup,),
        place=owner.place,
        usage_bytes=owner.usage_bytes,
        limit_bytes=owner.limit_bytes,
        chain=tuple(msgspec.structs.replace(level, owner=level is owner) for level in chain),
    )
    return Shortage(
        cause="host_oom_cgroup",
        status="present" if owners[0].risen else "not_observed",
        statement=f"limit of {owner.cgroup}: {used}; {how}",
        limit=limit,
        evidence=owners[0].evidence,
        rung="cgroup_counters",
    )


class _Level(msgspec.Struct, frozen=True):
    level: Level
    risen: bool
    """Its own count of OOM events rose with the count of kills."""
    failed: bool
    """It has a limit, and charges failed against that in the same time."""
    full: bool
    """Most of what it was last seen to hold could not be given back."""
    evidence: tuple[int, ...]


def _by_cgroup(story: Story) -> Iterable[Sequence[CgroupSample]]:
    return story.by(CgroupSample, lambda s: s.cgroup_id, "id").values()


def _level(story: Story, rise: Rise, samples: Sequence[CgroupSample]) -> _Level | None:
    job = story.job
    until = [s for s in samples if s.ts_ns <= rise.to_ns + DYING_NS]
    if not until:
        return None
    first = next((s for s in reversed(until) if s.ts_ns <= rise.from_ns + SLACK_NS), until[0])
    last = until[-1]
    own = job is not None and job.own_cgroup and job.cgroup_id == last.cgroup_id

    def rose(now: int | None, before: int | None) -> bool:
        return now is not None and now > (0 if own else before or 0) and (own or before is not None)

    limited = None if last.limit_bytes is None else has_limit(last.limit_bytes)
    # What is read after the kill is what the victim left: the fullest counts.
    usage = max((s.usage_bytes for s in until[-RECENT:] if s.usage_bytes is not None), default=None)
    held = max((_unreclaimable(s) for s in until[-RECENT:]), default=0)
    return _Level(
        Level(
            cgroup=last.path,
            usage_bytes=usage,
            limit_bytes=last.limit_bytes if limited else None,
            limited=limited,
            oom_events=last.oom_local,
            place=place_of(last.path),
        ),
        rose(last.oom_local, first.oom_local),
        bool(limited) and rose(last.failcnt, first.failcnt),
        bool(limited) and held >= FULL * (last.limit_bytes or 0),
        (first.seq, last.seq),
    )


def _unreclaimable(sample: CgroupSample) -> int:
    cache_bytes = max(0, (sample.file_bytes or 0) - (sample.shmem_bytes or 0))
    return max(0, (sample.usage_bytes or 0) - cache_bytes)

# SPDX-License-Identifier: Apache-2.0
"""What the layers of a chart add up to: the memory cgroup whose limit counts, the machine, or the processes alone."""

import bisect
from typing import TypeAlias

import msgspec

from tracer.events import CgroupSample, PressureSample, process_id
from tracer.units import has_limit
from tracer.verdict.incident import Case
from tracer.verdict.mechanisms.filled import Filled, looks_of, looks_of_machine
from tracer.verdict.mechanisms.holdings import NEXT_LOOK_NS
from tracer.verdict.model import Incident, Limit

_MACHINE = frozenset({"host_oom_global", "operator_oom"})


Look: TypeAlias = tuple[int, int, int | None]
"""Usage, and of it shared memory and anonymous memory; `None`: not read."""


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """A total over time."""

    what: str = "the job's processes"
    rest: str = "all else in it: page cache, kernel"
    """What the total has beside what is named."""
    anonymous: str = "other anonymous memory, such as copies of shared pages"
    """What its anonymous memory is beside that of the job's processes."""
    looks: tuple[Filled, ...] = ()
    """In time order; none: nothing is known but the processes."""
    limit_bytes: int | None = None
    cgroup_ids: frozenset[int] = frozenset()

    def at(self, moments_ns: tuple[int, ...]) -> list[Look | None]:
        """The look at each moment; `None` before the first one.

        In a straight line to the next look where that comes soon, else by the last one.
        """
        times = [look.at_ns for look in self.looks]
        places = [bisect.bisect_right(times, moment) for moment in moments_ns]
        return [
            self._between(place, moment) if place else None for place, moment in zip(places, moments_ns, strict=True)
        ]

    def _between(self, place: int, moment_ns: int) -> Look:
        last, rest = self.looks[place - 1], self.looks[place : place + 1]
        used, shared, anon = last.usage_bytes, last.shmem_bytes or 0, last.anon_bytes
        if not rest or rest[0].at_ns - last.at_ns > NEXT_LOOK_NS:
            return used, shared, anon
        passed, span = moment_ns - last.at_ns, rest[0].at_ns - last.at_ns
        following = rest[0].anon_bytes
        return (
            used + (rest[0].usage_bytes - used) * passed // span,
            shared + ((rest[0].shmem_bytes or 0) - shared) * passed // span,
            anon if anon is None or following is None else anon + (following - anon) * passed // span,
        )


def ground_of(case: Case, incident: Incident, at_ns: int | None) -> Ground:
    """What the incident is about; without a limit that was hit, the job's own cgroup."""
    if incident.cause in _MACHINE:
        looks = looks_of_machine(case.story)
        total = next((s.mem_total_bytes for s in case.story.of(PressureSample) if s.mem_total_bytes), None)
        if looks:
            rest, other = "all else on the machine", "other anonymous memory, such as that of processes outside the job"
            return Ground(what="the machine", rest=rest, anonymous=other, looks=tuple(looks), limit_bytes=total)
    limit = incident.limit
    if limit is not None and limit.cgroup is not None:
        known = _ids(case, incident, limit)
        looks = [look for cgroup_id in sorted(known) for look in looks_of(case.story, cgroup_id)]
        if limit.usage_bytes is not None and at_ns is not None and looks:
            looks.append(_at_the_kill(looks, at_ns, limit.usage_bytes))
        looks.sort(key=lambda look: look.at_ns)
        if looks:
            size = limit.limit_bytes if has_limit(limit.limit_bytes) else None
            return Ground(
                what=f"cgroup {limit.cgroup}", looks=tuple(looks), limit_bytes=size, cgroup_ids=frozenset(known)
            )
        return Ground()  # it was not looked at, and the job's own cgroup may not be the one that its processes are in
    return _of_the_job(case)


def _ids(case: Case, incident: Incident, limit: Limit) -> set[int]:
    """Of the cgroup whose limit was hit: as the kernel has it, else by its path."""
    victim = incident.victim
    kill = case.kills.of(process_id(victim.pid, victim.start_ns or 0)) if victim is not None else None
    owners = [level.owner for level in limit.chain]
    if kill is not None and True in owners and len(kill.levels) == len(owners):
        return {kill.levels[owners.index(True)].cgroup_id}
    samples = case.story.by(CgroupSample, lambda s: s.path, "path").get(limit.cgroup, ())
    return {s.cgroup_id for s in samples if s.cgroup_id is not None}


def _at_the_kill(looks: list[Filled], at_ns: int, usage_bytes: int) -> Filled:
    before = [look for look in looks if look.at_ns <= at_ns]
    shmem = before[-1].shmem_bytes if before else None
    return Filled(at_ns=at_ns, usage_bytes=usage_bytes, shmem_bytes=shmem)


def _of_the_job(case: Case) -> Ground:
    job = case.story.job
    if job is None or job.cgroup_id is None:
        return Ground()
    samples = case.story.by(CgroupSample, lambda s: s.cgroup_id, "id").get(job.cgroup_id, ())
    sizes = [s.limit_bytes for s in samples if s.limit_bytes is not None and has_limit(s.limit_bytes)]
    if not samples or not (job.own_cgroup or sizes):
        return Ground()  # of what else lives there nothing is known
    return Ground(
        what=f"cgroup {samples[-1].path}",
        looks=tuple(looks_of(case.story, job.cgroup_id)),
        limit_bytes=sizes[-1] if sizes else None,
        cgroup_ids=frozenset({job.cgroup_id}),
    )

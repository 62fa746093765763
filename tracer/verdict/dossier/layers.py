# SPDX-License-Identifier: Apache-2.0
"""Processes as layers of a chart: those with most memory and those with a part in it, the others by role."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from tracer.events import ProcessId
from tracer.verdict.dossier.course import Course
from tracer.verdict.dossier.ground import Ground
from tracer.verdict.dossier.model import Layer, Part
from tracer.verdict.mechanisms.holdings import inherited, is_there
from tracer.verdict.people import short
from tracer.verdict.story import Story

MOST_LAYERS = 5
"""Processes with a layer of their own."""
MOST_GROUPS = 2
"""Roles whose others stand together; the others of all roles are one more."""
LEAST_SHARE = 0.01
"""Of the highest total: a process that never had so much is one of the others, whatever its part."""
_ROLE_NAMES = {"dataloader_worker": "DataLoader workers", "rank": "ranks"}

Parts = Mapping[ProcessId, tuple[Part, ...]]


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """What one process had for itself, at each moment."""

    id: ProcessId
    values: Sequence[int]
    peak: int


def own_memory(courses: Sequence[Course], moments_ns: Sequence[int]) -> list[Held]:
    """Anonymous memory of each process; pages that a fork shares are those of who forked."""
    table = [course.at(moments_ns) for course in courses]
    members = [course.member for course in courses]
    own = [list(row) for row in table]
    forked = [place for place, member in enumerate(members) if member.fork is not None and not member.execs]
    if forked:
        for step, moment in enumerate(moments_ns):
            there = [member for member in members if is_there(member, moment)]
            shares = inherited(there)
            for place in forked:
                share = shares.get(members[place].id, 0)
                own[place][step] = max(0, table[place][step] - share)
    return [Held(id=m.id, values=row, peak=max(row, default=0)) for m, row in zip(members, own, strict=True)]


def layers(
    story: Story, held: Sequence[Held], ground: Ground, moments_ns: tuple[int, ...], parts: Parts
) -> list[Layer]:
    """From the bottom up: who has a part in it, who has most, the others, shared memory, the rest of the total."""
    used = [sum(values) for values in zip(*(one.values for one in held), strict=True)] or [0] * len(moments_ns)
    looks = ground.at(moments_ns)
    totals = [max(look[0] if look is not None else 0, sum_) for look, sum_ in zip(looks, used, strict=True)]
    least = LEAST_SHARE * max(totals, default=0)
    named = [one for one in held if one.id in parts and one.peak >= least]
    named = sorted(named, key=lambda one: _rank(parts[one.id], one))[:MOST_LAYERS]
    chosen = {one.id for one in named}
    others = sorted((one for one in held if one.id not in chosen), key=lambda one: (-one.peak, one.id))
    while len(named) < MOST_LAYERS and others and others[0].peak >= max(least, 1):
        named.append(others.pop(0))
    found = [
        Layer(kind="process", who=short(story, one.id), pids=(one.id.tgid,), parts=parts.get(one.id, ()),
              values_bytes=tuple(one.values))
        for one in named
    ]  # fmt: skip
    found += _groups(story, [one for one in others if one.peak])
    if ground.looks:
        shmem = [
            min(look[1], total - sum_) if look is not None else 0
            for look, total, sum_ in zip(looks, totals, used, strict=True)
        ]
        if max(shmem, default=0) >= max(least, 1):
            found.append(Layer(kind="shared_memory", who="shared memory and tmpfs", values_bytes=tuple(shmem)))
        else:
            shmem = [0] * len(moments_ns)
        rest = tuple(total - sum_ - shared for total, sum_, shared in zip(totals, used, shmem, strict=True))
        found.append(Layer(kind="rest", who=ground.rest, values_bytes=rest))
    return found


def _rank(own: Sequence[Part], one: Held) -> tuple[bool, bool, int, ProcessId]:
    return "culprit" not in own, "victim" not in own, -one.peak, one.id


def _groups(story: Story, others: Sequence[Held]) -> Iterator[Layer]:
    by_role: dict[str, list[Held]] = {}
    for one in others:
        role = story.roles.get(one.id)
        by_role.setdefault(role.name if role is not None and role.name in _ROLE_NAMES else "", []).append(one)
    named = sorted((name for name in by_role if name), key=lambda name: -len(by_role[name]))
    for name in [*named[:MOST_GROUPS], ""]:
        people = by_role.get(name, [])
        if people:
            many = _ROLE_NAMES.get(name, "processes")
            who = f"{len(people)} other {many}" if len(people) > 1 else short(story, people[0].id)
            values = tuple(sum(step) for step in zip(*(p.values for p in people), strict=True))
            yield Layer(kind="group", who=who, pids=tuple(p.id.tgid for p in people), values_bytes=values)

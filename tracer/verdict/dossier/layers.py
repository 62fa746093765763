# SPDX-License-Identifier: Apache-2.0
"""Processes as layers of a chart: those with most memory and those with a part in it, the others by role."""

import bisect
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
BEYOND_SHARE = 0.85
"""Of the moments of a chart: at the others processes come to at least so much more than the whole."""
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
    forked = [(place, m.id) for place, m in enumerate(members) if m.fork is not None and not m.execs]
    if forked:
        changes = sorted(
            ns for m in members for ns in (m.began_ns, m.end_ns, *(e.ts_ns for e in m.execs)) if ns is not None
        )
        shares: Mapping[ProcessId, int] = {}
        known = None
        for step, moment in enumerate(moments_ns):
            # As long as nobody comes or goes, who shares with whom stays the same.
            here = bisect.bisect_left(changes, moment), bisect.bisect_right(changes, moment)
            if here != known:
                known, shares = here, inherited([member for member in members if is_there(member, moment)])
            for place, identity in forked:
                row = table[place]
                row[step] = max(0, row[step] - shares.get(identity, 0))
    return [Held(id=m.id, values=row, peak=max(row, default=0)) for m, row in zip(members, table, strict=True)]


class Stack:
    """What there is to be laid upon each other at the moments of one chart.

    Args:
        held: of all processes.
        ground: what they are a part of.
        moments_ns: in time order.
    """

    def __init__(self, held: Sequence[Held], ground: Ground, moments_ns: tuple[int, ...]) -> None:
        self.held = {one.id: one for one in held}
        self.moments_ns = moments_ns
        self.ground = ground
        used = [sum(values) for values in zip(*(one.values for one in held), strict=True)] or [0] * len(moments_ns)
        self.used = tuple(used)
        self.looks = ground.at(moments_ns)
        # What was read of processes may be of a moment later than what was read of the whole.
        self.totals = tuple(
            max(look[0] if look is not None else 0, sum_) for look, sum_ in zip(self.looks, used, strict=True)
        )
        more = sorted(sum_ - look[0] for look, sum_ in zip(self.looks, used, strict=True) if look is not None)
        # Just before a process is seen to end its memory may be gone already: a few moments mean nothing.
        self.beyond_bytes = max(0, more[round(BEYOND_SHARE * (len(more) - 1))]) if more else 0
        self.least = max(1, LEAST_SHARE * max(self.totals, default=0))


def choose(stacks: Sequence[Stack], parts: Parts) -> list[ProcessId]:
    """Who has a layer of its own, from the ground up: who grew, who was killed, the others as they began.

    Those with a part in it come before those with most memory.
    """
    peaks: dict[ProcessId, int] = {}
    for stack in stacks:
        for one in stack.held.values():
            if one.peak >= stack.least:
                peaks[one.id] = max(peaks.get(one.id, 0), one.peak)
    most = sorted(peaks, key=lambda one: (*_part(parts.get(one, ())), one not in parts, -peaks[one], one))[:MOST_LAYERS]
    return sorted(most, key=lambda one: (*_part(parts.get(one, ())), one.start_tick, one.tgid))


def _part(own: Sequence[Part]) -> tuple[bool, bool]:
    return "culprit" not in own, not {"victim", "subject"} & set(own)


def layers(story: Story, stack: Stack, named: Sequence[ProcessId], parts: Parts) -> list[Layer]:
    """From the ground up: the named, the others by role, shared memory, the rest of the total."""
    found = [
        Layer(kind="process", who=short(story, one), pids=(one.tgid,), parts=parts.get(one, ()),
              values_bytes=tuple(stack.held[one].values))
        for one in named if stack.held[one].peak
    ]  # fmt: skip
    found += _groups(story, [one for one in stack.held.values() if one.id not in named and one.peak])
    if not stack.ground.looks:
        return found
    left = [total - sum_ for total, sum_ in zip(stack.totals, stack.used, strict=True)]
    for kind, who, sizes in (
        ("other_anonymous", stack.ground.anonymous, _other_anonymous(stack)),
        ("shared_memory", "shared memory and tmpfs", [0 if look is None else look[1] for look in stack.looks]),
    ):
        values = [max(0, min(size, room)) for size, room in zip(sizes, left, strict=True)]
        if max(values, default=0) >= stack.least:
            found.append(Layer(kind=kind, who=who, values_bytes=tuple(values)))  # type: ignore[arg-type]
            left = [room - value for room, value in zip(left, values, strict=True)]
    found.append(Layer(kind="rest", who=stack.ground.rest, values_bytes=tuple(left)))
    return found


def _other_anonymous(stack: Stack) -> Iterator[int]:
    """Beside that of the job's processes; where it was not read, as much as before."""
    known = 0
    for look, used in zip(stack.looks, stack.used, strict=True):
        if look is not None and look[2] is not None:
            known = look[2] - used
        yield known


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

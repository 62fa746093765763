# SPDX-License-Identifier: Apache-2.0
"""Anonymous memory of one process over its life, and its value at any number of moments in one walk."""

from collections.abc import Sequence

import msgspec

from tracer.attribution.tree import Member
from tracer.units import NS_PER_MS
from tracer.verdict.kills import Kill
from tracer.verdict.mechanisms.holdings import NEXT_LOOK_NS

SPAWN_NS = 200 * NS_PER_MS
"""Who begins another program so soon after its fork was never more than a copy of its parent."""


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of one process."""

    member: Member
    points: tuple[tuple[int, int, bool], ...]
    """(ts_ns, bytes, whether it was looked at then), in time order; 0 from its end on."""

    def at(self, moments_ns: Sequence[int]) -> list[int]:
        """At each of the moments, which are in time order; 0 where it was not there.

        In a straight line between two looks that follow upon each other, else the last value known.
        """
        values, place = [], 0
        for moment in moments_ns:
            while place < len(self.points) and self.points[place][0] <= moment:
                place += 1
            if not place:
                values.append(0)
                continue
            (last_ns, last, looked), rest = self.points[place - 1], self.points[place : place + 1]
            if rest and looked and rest[0][2] and rest[0][0] - last_ns <= NEXT_LOOK_NS:
                next_ns, following, _ = rest[0]
                values.append(last + (following - last) * (moment - last_ns) // (next_ns - last_ns))
            else:
                values.append(last)
        return values


def course_of(member: Member, kill: Kill | None) -> Course:
    """Of one process; no points: its memory was never seen."""
    began_ns, end_ns = 0, member.end_ns
    points: list[tuple[int, int, bool]] = []
    fork = member.fork
    if fork is not None:
        began_ns = fork.ts_ns
        spawned = bool(member.execs) and member.execs[0].ts_ns - fork.ts_ns <= SPAWN_NS
        points.append((fork.ts_ns, 0 if spawned else fork.anon_rss_bytes, not spawned))
    points += [(execed.ts_ns, 0, False) for execed in member.execs]
    mark = kill.mark if kill is not None else None
    if mark is not None and kill is not None:
        points.append((kill.at_ns, mark.anon_rss_bytes, True))
    points += [
        (sample.ts_ns, sample.rss_anon_bytes, True)
        for sample in member.samples
        if sample.rss_anon_bytes is not None
        and began_ns <= sample.ts_ns
        and (end_ns is None or sample.ts_ns < end_ns)
        # What the kernel takes from a victim before it ends says nothing of what it held.
        and (mark is None or kill is None or sample.ts_ns < kill.at_ns)
    ]
    if end_ns is not None and points:
        # A victim's memory is taken from it until it is gone; all others have theirs to the end.
        points.append((max(end_ns, max(points)[0]), 0, mark is not None))
    return Course(member=member, points=tuple(sorted(points)))

# SPDX-License-Identifier: Apache-2.0
"""Which side wrote to pages that a fork had shared: each copy is a page fault of who wrote, and faults are counted."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from tracer.attribution.tree import Member
from tracer.events import ProcessId
from tracer.verdict.mechanisms.holdings import Holding
from tracer.verdict.story import Story

ENOUGH = 0.5
"""With faults for less of the copies than this a side cannot have made most of them."""

Side = Literal["heirs", "main"]


class Faults(msgspec.Struct, frozen=True, kw_only=True):
    """Since the fork, as memory: a page a fault. What is touched for the first time is counted as well."""

    heirs_bytes: int
    main_least_bytes: int
    main_most_bytes: int
    """It is looked at each second, and not at the fork itself."""

    def side(self, copied_bytes: int) -> tuple[Side, bool] | None:
        """Who wrote, and whether the other side cannot have; `None`: it cannot be told."""
        needed = ENOUGH * copied_bytes
        if self.heirs_bytes < needed:
            return ("main", True) if self.main_least_bytes >= needed else None
        if self.main_most_bytes < needed:
            return "heirs", True
        return ("heirs", False) if self.heirs_bytes >= self.main_most_bytes else None


def since_fork(story: Story, people: Sequence[Holding], at_ns: int, page_bytes: int) -> Faults | None:
    """`None`: nobody inherited, or faults were not recorded."""
    members = story.tree.members
    heirs = [members[one.id] for one in people if one.inherited_bytes and one.id in members]
    first_ns: dict[ProcessId, int] = {}
    own = 0
    for heir in heirs:
        last = _count(heir, at_ns)
        if last is None or heir.fork is None or heir.parent is None:
            return None
        own += last
        first_ns[heir.parent] = min(first_ns.get(heir.parent, heir.fork.ts_ns), heir.fork.ts_ns)
    least = most = 0
    for parent, forked_ns in first_ns.items():
        if any(parent == heir.id for heir in heirs):
            continue  # counted already
        last = _count(members[parent], at_ns) if parent in members else None
        if last is None:
            return None  # what it did is not known
        after = next((s.minflt for s in members[parent].samples if s.minflt is not None and s.ts_ns > forked_ns), last)
        most += last - (_count(members[parent], forked_ns) or 0)
        least += max(0, last - after)
    return (
        Faults(heirs_bytes=own * page_bytes, main_least_bytes=least * page_bytes, main_most_bytes=most * page_bytes)
        if heirs
        else None
    )


def _count(member: Member, at_ns: int) -> int | None:
    """At the last look by then."""
    counts = (s.minflt for s in reversed(member.samples) if s.ts_ns <= at_ns and s.minflt is not None)
    return next(counts, None)

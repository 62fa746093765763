# SPDX-License-Identifier: Apache-2.0
"""Which processes of the job live right now, so that they can be sampled; not what they are to each other."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from tracer.events import (
    Event,
    JobEnded,
    JobStarted,
    ProcessExeced,
    ProcessExited,
    ProcessForked,
    ProcessId,
    ProcessOrphaned,
    process_id,
)
from tracer.pipeline.ports import Row
from tracer.units import NS_PER_S

GONE_AFTER_NS = NS_PER_S
"""An exit event may come after /proc has forgotten the process; so long is it waited for."""


@dataclass
class Member:
    """One process of the job's tree that lives, as far as we know."""

    tgid: int
    start_ns: int
    missing_since_ns: int | None = None

    @property
    def id(self) -> ProcessId:
        return process_id(self.tgid, self.start_ns)


class Members:
    """The living tree: a fold of what the kernel tells, or of scans where it tells nothing."""

    def __init__(self) -> None:
        self.hidden = False
        """/proc shows none of them: there is nothing to sample, and that one is missing there means nothing."""
        self.not_ours: Collection[int] = ()
        """Pids that no scan takes in, whoever stands above them: the tracer's own."""
        self._alive: dict[ProcessId, Member] = {}

    def __iter__(self) -> Iterator[Member]:
        return iter(tuple(self._alive.values()))

    def __len__(self) -> int:
        return len(self._alive)

    def __contains__(self, process: object) -> bool:
        return process in self._alive

    def apply(self, event: Event) -> Member | None:
        """Take an event in; the process to look at, when it is new or became another program."""
        if isinstance(event, ProcessForked | ProcessOrphaned) and event.own_tgid == 0:
            return None  # it went to a pid namespace that /proc does not show
        if isinstance(event, JobStarted | ProcessForked | ProcessOrphaned):
            return self.add(event.tgid, event.start_ns)
        if isinstance(event, ProcessExeced):
            return self._alive.get(process_id(event.tgid, event.start_ns))
        if isinstance(event, ProcessExited | JobEnded):
            self._alive.pop(process_id(event.tgid, event.start_ns), None)
        return None

    def add(self, tgid: int, start_ns: int) -> Member | None:
        """A process appeared; `None` if it was known."""
        member = Member(tgid, start_ns)
        return None if self.hidden or member.id in self._alive else self._alive.setdefault(member.id, member)

    def drop(self, process: ProcessId) -> None:
        """It is gone."""
        self._alive.pop(process, None)

    def missing(self, member: Member, now_ns: int, *, patience_ns: int = GONE_AFTER_NS) -> bool:
        """/proc does not have it; whether it is to be given up: then it is no member any more."""
        if member.missing_since_ns is None:
            member.missing_since_ns = now_ns
        if now_ns - member.missing_since_ns < patience_ns:
            return False
        self._alive.pop(member.id, None)
        return True

    def scan(self, table: Iterable[Row]) -> list[Member]:
        """Look in the table of all processes for some that no event told of; the new ones.

        Whoever lost its parents since the last scan is found through itself: it is a member already.
        """
        below: dict[int, list[Row]] = {}
        running: set[ProcessId] = set()
        for row in table:
            if row.tgid in self.not_ours:
                continue
            below.setdefault(row.parent_tgid, []).append(row)
            running.add(process_id(row.tgid, row.start_ns))
        found: list[Member] = []
        # The children of a pid are those of the member only as long as the pid is the member's.
        ahead = [member.tgid for member in self if member.id in running]
        while ahead:
            for row in below.get(ahead.pop(), ()):
                new = self.add(row.tgid, row.start_ns)
                if new is not None:
                    found.append(new)
                    ahead.append(new.tgid)
        return found

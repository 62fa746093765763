# SPDX-License-Identifier: Apache-2.0
"""When a process is looked at more closely: what it sets up for itself (variables, handlers) is not there at once."""

import heapq

from tracer.events import ProcessId
from tracer.pipeline.members import Member
from tracer.units import NS_PER_MS, NS_PER_S

AFTER_NS = (200 * NS_PER_MS, NS_PER_S, 5 * NS_PER_S, 30 * NS_PER_S)
"""After its first sight, and anew after an exec. A training script takes seconds to import what it needs."""
AFTER_FORK_NS = (50 * NS_PER_MS, 2 * NS_PER_S)
"""A rank that begins to start workers has its variables by then; its handler of SIGCHLD once it has started all."""
FORK_PAUSE_NS = NS_PER_S
MAX_BY_FORK = 8
"""So often a process is looked at for having forked: some fork all the while."""


class Looks:
    """A queue by time. Who has ended, or become another program, drops out of it."""

    def __init__(self) -> None:
        self._queue: list[tuple[int, int, ProcessId, int]] = []
        self._known: dict[ProcessId, _Plan] = {}
        self._count = 0

    def begin(self, member: Member, now_ns: int) -> None:
        """It was seen for the first time, or as another program."""
        before = self._known.get(member.id)
        plan = _Plan(member, 0 if before is None else before.program + 1)
        self._known[member.id] = plan
        for after_ns in AFTER_NS:
            self._put(plan, now_ns + after_ns)

    def forked(self, parent: ProcessId, now_ns: int) -> None:
        """A process forked."""
        plan = self._known.get(parent)
        if plan is not None and plan.by_fork < MAX_BY_FORK and now_ns >= plan.next_by_fork_ns:
            plan.by_fork += 1
            plan.next_by_fork_ns = now_ns + FORK_PAUSE_NS
            for after_ns in AFTER_FORK_NS:
                self._put(plan, now_ns + after_ns)

    def forget(self, process: ProcessId) -> None:
        """It has ended."""
        self._known.pop(process, None)

    def due_ns(self) -> int | None:
        """When `due` has something."""
        return self._queue[0][0] if self._queue else None

    def due(self, now_ns: int) -> list[Member]:
        """Whose time has come."""
        found: list[Member] = []
        while self._queue and self._queue[0][0] <= now_ns:
            _, _, identity, program = heapq.heappop(self._queue)
            plan = self._known.get(identity)
            if plan is not None and plan.program == program:
                found.append(plan.member)
        return found

    def _put(self, plan: "_Plan", due_ns: int) -> None:
        self._count += 1
        heapq.heappush(self._queue, (due_ns, self._count, plan.member.id, plan.program))


class _Plan:
    """One process."""

    def __init__(self, member: Member, program: int) -> None:
        self.member = member
        self.program = program
        self.by_fork = 0
        self.next_by_fork_ns = 0

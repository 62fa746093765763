# SPDX-License-Identifier: Apache-2.0
"""When it is looked whose the memory in /dev/shm is: while shared memory grows, and at a bounded cost."""

import time
from collections.abc import Sequence

from tracer.events import Event
from tracer.pipeline.helper import Helper
from tracer.pipeline.members import Members
from tracer.pipeline.ports import Processes
from tracer.units import MIB, NS_PER_MS, NS_PER_S

LEAST_BYTES = 8 * MIB
"""Less is what any job has, and so much more than at the last look is growth."""
GROWN_SHARE = 1 / 16
PAUSE_NS = NS_PER_S
NEAR_PAUSE_NS = 250 * NS_PER_MS
COST_SHARE = 200
"""A look that took T of CPU time is followed by a pause of at least 200 T: half a percent of one CPU."""
LONGEST_PAUSE_NS = 30 * NS_PER_S


class ShmWatch:
    """Has the helper thread look, since files may be on whatever anybody mounted there."""

    def __init__(self, processes: Processes, helper: Helper, members: Members) -> None:
        self._processes = processes
        self._helper = helper
        self._members = members
        self._looked_at: dict[str, int] = {}
        """What was in use at the last look, by whoever counts it."""
        self._last_ns: int | None = None
        self._pending = False
        self._cost_ns = 0

    def used(self, now_ns: int, used_bytes: dict[str, int], *, near: bool) -> None:
        """So much is in use: of the cgroup's shared memory, of /dev/shm.

        Args:
            near: a limit is, of any of them.
        """
        pause_ns = min(max(NEAR_PAUSE_NS if near else PAUSE_NS, COST_SHARE * self._cost_ns), LONGEST_PAUSE_NS)
        if self._pending or (self._last_ns is not None and now_ns < self._last_ns + pause_ns):
            return
        grown = any(
            size - self._looked_at.get(who, 0) >= max(LEAST_BYTES, GROWN_SHARE * self._looked_at.get(who, 0))
            for who, size in used_bytes.items()
        )
        if not grown:
            return
        self._looked_at, self._last_ns = dict(used_bytes), now_ns
        tgids = tuple(member.tgid for member in self._members)
        self._pending = True
        self._helper.submit(lambda: self._look(tgids))

    def _look(self, tgids: Sequence[int]) -> Event | None:
        began_ns = time.thread_time_ns()
        try:
            return self._processes.shm_files(tgids)
        finally:
            self._cost_ns = time.thread_time_ns() - began_ns
            self._pending = False  # one that never comes back stays the last

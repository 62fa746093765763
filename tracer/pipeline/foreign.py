# SPDX-License-Identifier: Apache-2.0
"""What is not recorded of processes outside of the job."""

from tracer.events import Event, ProcessExited, ProcessForked, ProcessOrphaned, SignalSent
from tracer.events.signals import KERNEL_INFO
from tracer.units import NS_PER_S

MAX_FOREIGN_SIGNALS = 100
"""Recorded in one second."""


def is_foreign(event: Event) -> bool:
    """Whether it is of a process outside of the job, and sent only because all processes are followed for a while."""
    if isinstance(event, ProcessExited):
        return not event.in_tree and not event.oom_marked
    return isinstance(event, ProcessOrphaned) or (isinstance(event, ProcessForked) and not event.in_tree)


class ForeignSignals:
    """Tells which signals between processes that are none of the job's are too many."""

    def __init__(self) -> None:
        self.left_out = 0
        """Signals that were not recorded."""
        self._second = self._count = 0

    def is_too_many(self, event: Event, own_tgid: int) -> bool:
        """Whether it is one more of these than is recorded.

        Anyone may send himself thousands a second. The kernel's own SIGKILLs and what is sent to the tracer
        are told always: a verdict may rest on them.
        """
        if not isinstance(event, SignalSent) or event.in_tree or event.tgid == own_tgid:
            return False
        if event.info in KERNEL_INFO:
            return False
        second = event.ts_ns // NS_PER_S
        if second != self._second:
            self._second, self._count = second, 0
        self._count += 1
        self.left_out += self._count > MAX_FOREIGN_SIGNALS
        return self._count > MAX_FOREIGN_SIGNALS

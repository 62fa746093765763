# SPDX-License-Identifier: Apache-2.0
"""The distance between printk's clock and CLOCK_MONOTONIC: they differ, drift apart and are never compared raw.

printk stamps with local_clock(), which NTP does not steer: tens of ms apart after hours, and without bound.
Known from three places, best first:

1. a pair: one instant that both clocks saw (an OOM mark and its own "Killed process" record);
2. the scheduler's debug file, which prints both clocks, read with interrupts off, in its first lines. It costs
   a few microseconds and leaves the log clean (kernel/sched/debug.c, sched_debug_header);
3. arrivals: no record is read before it was written, so each read bounds the distance from above.
"""

import contextlib
import os
import re

from tracer.units import NS_PER_US

_HEAD_BYTES = 512
_CLOCKS = re.compile(rb"^ktime\s*: (\d+)\.(\d{6})$.*?^cpu_clk\s*: (\d+)\.(\d{6})$", re.MULTILINE | re.DOTALL)

BELIEVABLE_NS = 5_000_000_000
"""A pair that moves a known distance by more than this is taken for a wrong pair."""

_SLACK_NS = 1_000_000
_DRIFT_PPM = 100


class LogClock:
    """Translates printk's stamps; knows more with each observation."""

    def __init__(
        self, debugfs: str = "/sys/kernel/debug", *, proc_root: str = "/proc", monotonic_shift_ns: int = 0
    ) -> None:
        self.offset_ns: int | None = None
        """CLOCK_MONOTONIC minus printk's clock."""
        self.known_by: str | None = None
        """`pair`, `sched_debug` or `arrival`."""
        self._files = (f"{debugfs}/sched/debug", f"{proc_root}/sched_debug")
        self._shift_ns = monotonic_shift_ns
        """Between our CLOCK_MONOTONIC and the kernel's, in a time namespace."""
        self._bound_ns: int | None = None
        self._bound_at_ns = 0
        self.refresh()

    def monotonic_ns(self, usec: int) -> int:
        """A stamp in CLOCK_MONOTONIC. Before anything is known, the two clocks are taken for one."""
        return max(0, usec * NS_PER_US + (self.offset_ns or 0))

    def refresh(self) -> bool:
        """Read the scheduler's debug file again; whether there is one."""
        for path in self._files:
            with contextlib.suppress(OSError):
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
                try:
                    head = os.read(fd, _HEAD_BYTES)
                finally:
                    os.close(fd)
                found = _CLOCKS.search(head)
                if found is not None:
                    monotonic_ns, printk_ns = _ns(found[1], found[2]), _ns(found[3], found[4])
                    offset_ns = monotonic_ns + self._shift_ns - printk_ns
                    self.offset_ns, self.known_by = offset_ns, "sched_debug"
                    return True
        return False

    def arrived(self, now_ns: int, usec: int) -> None:
        """A record with this stamp was read just now."""
        bound_ns = now_ns - usec * NS_PER_US
        if self._bound_ns is not None:
            # Drift may have moved the old bound: it loosens with time, by more than any clock drifts.
            loosened_ns = self._bound_ns + max(0, now_ns - self._bound_at_ns) * _DRIFT_PPM // 1_000_000
            bound_ns = min(bound_ns, loosened_ns)
        self._bound_ns, self._bound_at_ns = bound_ns, now_ns
        if self.offset_ns is None or self.known_by == "arrival" or self.offset_ns > bound_ns + _SLACK_NS:
            self.offset_ns, self.known_by = bound_ns, "arrival"

    def pair(self, monotonic_ns: int, usec: int) -> bool:
        """One instant that both clocks saw; whether it was believed."""
        offset_ns = monotonic_ns - usec * NS_PER_US
        if self.offset_ns is not None and abs(offset_ns - self.offset_ns) > BELIEVABLE_NS:
            return False
        self.offset_ns, self.known_by = offset_ns, "pair"
        return True


def _ns(milliseconds: bytes, rest: bytes) -> int:
    return int(milliseconds) * 1_000_000 + int(rest)

# SPDX-License-Identifier: Apache-2.0
"""How full /dev/shm was when shared memory was refused."""

from bisect import bisect_left, bisect_right

import msgspec

from tracer.events import TmpfsFill, TmpfsSample
from tracer.events.machine import SHM
from tracer.units import MIB, NS_PER_S, format_bytes, format_duration
from tracer.verdict.incident import Case

BEFORE_NS, AFTER_NS = 2 * NS_PER_S, 500_000_000
FULL_SHARE = 0.1
"""Free of it: a batch that does not fit leaves what is too small for it."""
BRIM_SHARE, BRIM_BYTES = 0.02, 4 * MIB
"""So little, that nothing fits whatever it was."""


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """The tmpfs for shared memory, at its fullest about then."""

    fill: TmpfsFill
    sample: TmpfsSample
    statement: str

    @property
    def full(self) -> bool:
        """Whether a batch may well not have fitted."""
        return self.fill.free_bytes <= max(FULL_SHARE * self.fill.size_bytes, BRIM_BYTES)

    @property
    def brimful(self) -> bool:
        return self.fill.free_bytes <= min(BRIM_SHARE * self.fill.size_bytes, BRIM_BYTES)


def room(case: Case, at_ns: int) -> Room | None:
    """`None`: it was not looked at just then. What did not change since is not written: then the last look counts."""
    samples = case.story.of(TmpfsSample)
    until = bisect_right(samples, at_ns + AFTER_NS, key=_ts_ns)
    since = bisect_left(samples, at_ns - BEFORE_NS, key=_ts_ns)
    near = [one for sample in samples[since:until] for one in _fills(sample)]
    near = near or next((found for sample in reversed(samples[:since]) if (found := _fills(sample))), [])
    if not near:
        return None
    fill, sample = min(near, key=lambda one: one[0].free_bytes)
    away_ns = sample.ts_ns - at_ns
    when = f"{format_duration(abs(away_ns))} {'after' if away_ns > 0 else 'before'} that"
    statement = f"{SHM} had {format_bytes(fill.free_bytes)} of {format_bytes(fill.size_bytes)} free {when}"
    return Room(fill=fill, sample=sample, statement=statement)


def _fills(sample: TmpfsSample) -> list[tuple[TmpfsFill, TmpfsSample]]:
    return [(fill, sample) for fill in sample.mounts if fill.mount_point == SHM]


def _ts_ns(sample: TmpfsSample) -> int:
    return sample.ts_ns

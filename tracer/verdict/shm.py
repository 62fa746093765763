# SPDX-License-Identifier: Apache-2.0
"""Whether a tmpfs had no room when SIGBUS ended a process: shmem_fault() then has no page to give (mm/shmem.c)."""

from collections.abc import Iterable

import msgspec

from tracer.events import SignalInfo, SignalSent, TmpfsFill, TmpfsSample
from tracer.events.machine import SHM
from tracer.events.signals import BUS_ADRERR, SIGBUS
from tracer.units import MIB, NS_PER_S, format_bytes, format_duration
from tracer.verdict.deaths import Death
from tracer.verdict.story import Story

BEFORE_NS, AFTER_NS = 2 * NS_PER_S, NS_PER_S
"""Samples this near count: the file that did not fit goes with the process that held it, if it had no name any more."""
FULL_SHARE = 0.02


class Full(msgspec.Struct, frozen=True, kw_only=True):
    """A tmpfs that was full just then."""

    fill: TmpfsFill
    sample: TmpfsSample
    statement: str


def ran_full(story: Story, death: Death) -> Full | None:
    """The tmpfs without room around the SIGBUS that ended a process; `None`: none was seen, or it is another SIGBUS."""
    signal = death.by
    if death.signal != SIGBUS or signal is None or not _is_missing_page(signal):
        return None
    found = sorted(_full(story, signal), key=lambda one: _order(one[0], one[1], signal))
    if not found:
        return None
    fill, sample = found[0]
    others = len({one.mount_point for one, _ in found}) - 1
    away_ns = sample.ts_ns - signal.ts_ns
    when = f"{format_duration(abs(away_ns))} {'after' if away_ns >= 0 else 'before'} the signal"
    more = f"; {others} more had none either" if others else ""
    room = f"{format_bytes(fill.free_bytes)} of {format_bytes(fill.size_bytes)} free"
    return Full(fill=fill, sample=sample, statement=f"the tmpfs {fill.mount_point} had {room} {when}{more}")


def may_have_run_full(story: Story, death: Death) -> bool:
    """Whether it is a SIGBUS as a full tmpfs gives it, and nobody looked at one because of it.

    Other looks are of no use: a file that did not fit comes and goes with the process that held it.
    """
    signal = death.by
    if death.signal != SIGBUS or signal is None or not _is_missing_page(signal):
        return False
    looks = (sample for sample in story.of(TmpfsSample) if sample.signalled_tgid == signal.tgid)
    return not any(_is_near(sample, signal) for sample in looks)


def _is_missing_page(signal: SignalSent) -> bool:
    # Other codes are of alignment, of a device, of a memory error.
    return signal.info == SignalInfo.POINTER and signal.code == BUS_ADRERR


def _full(story: Story, signal: SignalSent) -> Iterable[tuple[TmpfsFill, TmpfsSample]]:
    for sample in story.of(TmpfsSample):
        if not _is_near(sample, signal):
            continue
        for fill in sample.mounts:
            # Of a small one a page may be left, of a large one what others gave back meanwhile.
            if fill.free_bytes <= min(FULL_SHARE * fill.size_bytes, 4 * MIB):
                yield fill, sample


def _is_near(sample: TmpfsSample, signal: SignalSent) -> bool:
    """Not what another process saw."""
    near = -BEFORE_NS <= sample.ts_ns - signal.ts_ns <= AFTER_NS
    return near and sample.signalled_tgid in {None, signal.tgid}


def _order(fill: TmpfsFill, sample: TmpfsSample, signal: SignalSent) -> tuple[bool, bool, int]:
    """What was seen because of this very signal first, of that where shared memory lies, then what lies nearest."""
    return (sample.signalled_tgid != signal.tgid, fill.mount_point != SHM, _gap(sample, signal))


def _gap(sample: TmpfsSample, signal: SignalSent) -> int:
    return abs(sample.ts_ns - signal.ts_ns)

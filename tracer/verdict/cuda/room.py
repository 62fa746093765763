# SPDX-License-Identifier: Apache-2.0
"""Link 2 of a refusal: whether the device had room just then, by what the process was told itself and by NVML.

Error 2 has other causes than a full device (address space, a limit of mappings, a share that is enforced elsewhere);
and figures of another moment may be those of before it was filled, or of after pieces were given back.
"""

from collections.abc import Iterator, Sequence

import msgspec

from tracer.events import CudaCall, CudaSymbol, CudaTotals, GpuSample, process_id
from tracer.units import MIB, NS_PER_S, format_bytes, format_duration
from tracer.verdict.cuda import devices
from tracer.verdict.cuda.calls import Failure
from tracer.verdict.model import Rung, Status
from tracer.verdict.story import Story

NEAR_NS = 2 * NS_PER_S
PLENTY = 2
"""Times what was asked for."""


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """What was free, and what that says."""

    status: Status
    statement: str
    rung: Rung | None = None
    evidence: tuple[int, ...] = ()


class _Reading(msgspec.Struct, frozen=True):
    ts_ns: int
    free_bytes: int
    total_bytes: int | None
    where: str
    by: str
    rung: Rung
    seq: int


def room(story: Story, failure: Failure, until_ns: int) -> Room:
    """Around a failed call.

    Args:
        until_ns: the end of its process, from when on the device has what it held.
    """
    call = failure.call
    readings = sorted(_readings(story, failure, until_ns), key=lambda r: abs(r.ts_ns - call.ts_ns))
    if not readings:
        return Room(status="not_observed", statement="how much of the device was free was not seen")
    if call.bytes is None:
        one = readings[0]
        return Room(status="not_observed", statement=f"{_text(one, call.ts_ns)}; how much was asked for is not known")
    short = [r for r in readings if r.free_bytes < call.bytes]
    if short:
        return _told("present", short[0], call.ts_ns, f", and {format_bytes(call.bytes)} were asked for")
    plenty = [r for r in readings if r.free_bytes >= PLENTY * max(call.bytes, MIB)]
    sides = {r.ts_ns <= call.ts_ns for r in plenty}
    if len(plenty) == len(readings) and len(sides) > 1 and call.symbol != CudaSymbol.cuMemCreate:
        return _told("absent", readings[0], call.ts_ns, "; error 2 has other causes than a full device")
    return _told("not_observed", readings[0], call.ts_ns, ", which would have been enough")


def _told(status: Status, reading: _Reading, at_ns: int, more: str = "") -> Room:
    return Room(status=status, statement=_text(reading, at_ns) + more, rung=reading.rung, evidence=(reading.seq,))


def _text(reading: _Reading, at_ns: int) -> str:
    away_ns = reading.ts_ns - at_ns
    when = "just then" if abs(away_ns) < NS_PER_S // 10 else (
        f"{format_duration(abs(away_ns))} {'after' if away_ns > 0 else 'before'}"
    )  # fmt: skip
    of = f" of {format_bytes(reading.total_bytes)}" if reading.total_bytes is not None else ""
    return f"{reading.where} had {format_bytes(reading.free_bytes)}{of} free {when} ({reading.by})"


def _readings(story: Story, failure: Failure, until_ns: int) -> Sequence[_Reading]:
    call = failure.call
    if len(devices.known_to_use(story, [failure.id], call.ts_ns)) > 1:
        return []  # nobody knows which of them a call was for
    found = list(_asked(story, failure))
    ours = devices.used_by(story, [failure.id], call.ts_ns)
    if len(ours) != 1:
        return found
    found += [_of_nvml(sample) for sample in story.of(GpuSample) if _near(sample, ours[0].uuid, call.ts_ns, until_ns)]
    return found


def _asked(story: Story, failure: Failure) -> Iterator[_Reading]:
    """By the process itself: what a record tells may have been asked in answer to this call, or before it."""
    calls = story.by(CudaCall, lambda e: process_id(e.tgid, e.start_ns), "cuda calls").get(failure.id, ())
    totals = story.by(CudaTotals, lambda e: process_id(e.tgid, e.start_ns), "cuda totals").get(failure.id, ())
    known: set[int] = set()
    for told in (*calls, *totals):
        at_ns, free_bytes = told.info_ns, told.info_free_bytes
        if at_ns is None or free_bytes is None or at_ns in known or abs(at_ns - failure.call.ts_ns) > NEAR_NS:
            continue
        known.add(at_ns)
        yield _Reading(at_ns, free_bytes, told.info_total_bytes, "its device", "cuMemGetInfo", "bpf", told.seq)


def _near(sample: GpuSample, uuid: str, at_ns: int, until_ns: int) -> bool:
    in_time = at_ns - NEAR_NS <= sample.ts_ns <= min(at_ns + NEAR_NS, until_ns)
    return sample.uuid == uuid and in_time and sample.free_bytes is not None


def _of_nvml(sample: GpuSample) -> _Reading:
    where = f"GPU {sample.index}"
    return _Reading(sample.ts_ns, sample.free_bytes or 0, sample.total_bytes, where, "NVML", "nvml", sample.seq)

# SPDX-License-Identifier: Apache-2.0
"""Calls of libcuda by process: what failed, whether that was survived, what was held at some moment."""

import bisect
from collections.abc import Mapping, Sequence
from functools import cached_property

import msgspec

from tracer.events import CallWhy, CudaCall, CudaMemory, CudaSymbol, CudaTotals, ProcessId, process_id
from tracer.events.cuda import CUDA_ERROR_OUT_OF_MEMORY
from tracer.units import NS_PER_S
from tracer.verdict.story import Story

NEXT_NS = 2 * NS_PER_S
AFTER_NS = 250_000_000
"""Totals that are read so soon after a moment still tell of it."""

RESULTS = {
    1: "invalid value", 2: "out of memory", 3: "not initialised", 4: "deinitialised", 100: "no device",
    304: "operating system error", 700: "illegal address", 701: "launch out of resources", 712: "registered already",
    719: "launch failed", 801: "not supported", 999: "unknown error",
}  # fmt: skip
"""CUresult, cuda.h."""
BALANCES = ("device_bytes", "managed_bytes", "pinned_bytes", "registered_bytes")


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """One call that failed."""

    id: ProcessId
    call: CudaCall
    survived: CudaCall | None = None
    """A later one by that process, of that kind and at least that size, succeeded."""

    @property
    def out_of_memory(self) -> bool:
        return self.call.result == CUDA_ERROR_OUT_OF_MEMORY


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """What one process held, as far as it was watched."""

    device_bytes: int = 0
    managed_bytes: int = 0
    pinned_bytes: int = 0
    registered_bytes: int = 0

    def plus(self, other: "Held") -> "Held":
        return Held(**{name: getattr(self, name) + getattr(other, name) for name in BALANCES})


class Calls:
    """Of all processes of one recording."""

    def __init__(self, story: Story) -> None:
        self._story = story

    @cached_property
    def records(self) -> Mapping[ProcessId, Sequence[CudaCall]]:
        """By process, in time order."""
        return self._story.by(CudaCall, lambda e: process_id(e.tgid, e.start_ns), "cuda calls")  # type: ignore[return-value]

    @cached_property
    def totals(self) -> Mapping[ProcessId, Sequence[CudaTotals]]:
        """By process, in time order."""
        return self._story.by(CudaTotals, lambda e: process_id(e.tgid, e.start_ns), "cuda totals")  # type: ignore[return-value]

    @property
    def callers(self) -> set[ProcessId]:
        """Who was seen to call at all."""
        return {*self.records, *self.totals}

    @cached_property
    def failures(self) -> Mapping[ProcessId, Sequence[Failure]]:
        """By process, in time order."""
        return {identity: found for identity, calls in self.records.items() if (found := _failures(identity, calls))}

    def totals_at(self, identity: ProcessId, at_ns: int) -> CudaTotals | None:
        """The last that were read by then; of one that had ended soon after, those of its end."""
        found = self.totals.get(identity, ())
        ended = next((one for one in found if one.ended and one.ts_ns >= at_ns), None)
        if ended is not None and ended.ts_ns - at_ns <= NS_PER_S:
            return ended
        return next((one for one in reversed(found) if one.ts_ns <= at_ns + AFTER_NS), None)

    def asked(self, identity: ProcessId, at_ns: int) -> int:
        """How often it asked for device or managed memory up to a moment, as far as that was told."""
        total = self.totals_at(identity, at_ns)
        from_ns, count = (0, 0) if total is None else (total.ts_ns, total.device_calls + total.managed_calls)
        kinds = {CudaMemory.DEVICE, CudaMemory.MANAGED}
        calls = self.records.get(identity, ())
        return count + sum(1 for one in calls if from_ns < one.ts_ns <= at_ns and memory_of(one) in kinds)

    def held(self, identity: ProcessId, at_ns: int) -> Held:
        """By the newest record before a moment."""
        total = self.totals_at(identity, at_ns)
        call = next((one for one in reversed(self.records.get(identity, ())) if one.ts_ns <= at_ns), None)
        newest = call if call is not None and (total is None or call.ts_ns > total.ts_ns) else total
        return Held() if newest is None else Held(**{name: getattr(newest, name) for name in BALANCES})

    def most_held(self, identity: ProcessId, at_ns: int) -> Held:
        """The same, or what was read next, where that is more: when it was got in between is not known."""
        held = self.held(identity, at_ns)
        soon = (one for one in self.totals.get(identity, ()) if at_ns < one.ts_ns <= at_ns + NEXT_NS)
        after = next(soon, None)
        if after is None:
            return held
        return Held(**{name: max(getattr(held, name), getattr(after, name)) for name in BALANCES})

    def missing(self, identity: ProcessId) -> str | None:
        """Why what was recorded of its calls is not all; `None`: nothing speaks against it."""
        totals = self.totals.get(identity, ())
        records = self.records.get(identity, ())
        if records and not totals:
            return "its totals were not recorded"
        if any(one.untold for one in totals):
            return f"{max(one.untold for one in totals)} of its calls could not be told"
        last = totals[-1] if totals else None
        if last is None:
            return None
        if last.calls_untold:
            return "calls that matter were too many to be recorded"  # some are counted twice
        failed = sum(1 for one in records if one.result != 0 and one.ts_ns <= last.ts_ns)
        if failed < failed_calls(last):
            return f"{failed_calls(last)} of its calls failed, and {failed} were recorded"
        member = self._story.tree.processes.get(identity)
        if member is not None and member.exit is not None and not any(one.ended for one in totals):
            return "its totals at its end were not recorded"
        return None


def failed_calls(totals: CudaTotals) -> int:
    """Of whatever kind."""
    return (
        totals.device_failed
        + totals.managed_failed
        + totals.pinned_failed
        + totals.registered_failed
        + totals.other_failed
    )


def _failures(identity: ProcessId, calls: Sequence[CudaCall]) -> tuple[Failure, ...]:
    # Failures may come in storms; recorded successes are few, and mostly the next one is it.
    got = [call for call in calls if call.result == 0]
    times = [call.ts_ns for call in got]
    found = []
    for call in calls:
        if call.result != 0:
            later = (got[place] for place in range(bisect.bisect_left(times, call.ts_ns), len(got)))
            survived = next((one for one in later if _survives(one, call)), None)
            found.append(Failure(id=identity, call=call, survived=survived))
    return tuple(found)


def _survives(later: CudaCall, failed: CudaCall) -> bool:
    if later.memory != failed.memory or (later.ts_ns, later.seq) <= (failed.ts_ns, failed.seq):
        return False
    if failed.bytes is None or later.bytes is None:
        # Without a size only the same function, and only as the very one that is told as having been survived.
        return later.symbol == failed.symbol and later.why == CallWhy.SURVIVED
    return later.bytes >= failed.bytes


def symbol_name(call: CudaCall) -> str:
    """`cuMemAlloc_v2`."""
    try:
        return CudaSymbol(call.symbol).name
    except ValueError:
        return f"function {call.symbol} of libcuda"


def memory_of(call: CudaCall) -> CudaMemory:
    """What it asked for; whatever is not known asks for something else than memory."""
    try:
        return CudaMemory(call.memory)
    except ValueError:
        return CudaMemory.OTHER


def result_text(call: CudaCall) -> str:
    """`2 (out of memory)`."""
    name = RESULTS.get(call.result)
    return f"{call.result} ({name})" if name else str(call.result)

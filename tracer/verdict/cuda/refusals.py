# SPDX-License-Identifier: Apache-2.0
"""Refusals that ended a process: the driver said "out of memory", nothing of that size was got after, and it exited.

A refusal alone is none: a caching allocator frees what it holds and asks again, and a program may go on with less.
"""

from collections.abc import Iterable, Sequence

import msgspec

from tracer.events import CudaMemory, ProcessId, process_id
from tracer.events.signals import SIGABRT
from tracer.units import NS_PER_S, format_bytes, format_duration
from tracer.verdict.cuda.calls import Failure, memory_of
from tracer.verdict.deaths import Death
from tracer.verdict.incident import Case
from tracer.verdict.model import Status

SOON_NS = 60 * NS_PER_S
"""Later than this an exit has another reason, or nobody can tell."""
AT_ONCE_NS = 10 * NS_PER_S
"""A Python program needs this at most from an exception to its exit, unless something holds it up."""
BY_SIGNAL = 128
"""Who is told to stop and tells so exits with this and the signal's number."""
QUIET_NS = NS_PER_S
"""In answering a refusal an allocator gives pieces back and asks for figures; nothing is called after that."""


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """What one process did not get, and its end."""

    id: ProcessId
    failures: tuple[Failure, ...]
    """Of one kind of memory, none of them survived, the last one being the last that failed."""
    death: Death

    @property
    def last(self) -> Failure:
        return self.failures[-1]

    @property
    def memory(self) -> CudaMemory:
        return memory_of(self.last.call)


def find_refusals(case: Case) -> Iterable[Refusal]:
    """One a process at most."""
    for identity, failures in sorted(case.cuda.calls.failures.items()):
        death = case.death(identity)
        if death is None or case.kills.of(identity) is not None or not _by_itself(death):
            continue
        before = [f for f in failures if f.out_of_memory and f.call.ts_ns <= death.at_ns]
        left = [f for f in before if f.survived is None]
        if not left or death.at_ns - left[-1].call.ts_ns > SOON_NS:
            continue
        last = left[-1]
        same = [f for f in left if memory_of(f.call) == memory_of(last.call) and _one_try(f, last)]
        yield Refusal(id=identity, failures=tuple(same), death=death)


def _one_try(failure: Failure, last: Failure) -> bool:
    return last.call.ts_ns - failure.call.ts_ns <= SOON_NS


def _by_itself(death: Death) -> bool:
    """It exited with a status, or aborted as C++ does with an exception that nobody catches."""
    return bool(death.code) or is_abort(death)


def is_abort(death: Death) -> bool:
    """Whether it sent itself SIGABRT."""
    by = death.by
    if death.signal != SIGABRT or by is None:
        return False
    return process_id(by.sender_tgid, by.sender_start_ns) == death.id


def ended_of_that(case: Case, refusal: Refusal) -> tuple[Status, str]:
    """Link 4: that it was not survived, and that the process ended because of it."""
    death, last = refusal.death, refusal.last.call
    after = format_duration(death.at_ns - last.ts_ns)
    ended = f"{death.status} {after} later"
    why = _otherwise(case, refusal)
    if why is not None:
        return "not_observed", f"{ended}{why}"
    return "present", f"nothing of that size was got after, and {ended}"


def _otherwise(case: Case, refusal: Refusal) -> str | None:
    """What speaks against its having ended of that, or is not known; `None`: nothing."""
    death, last = refusal.death, refusal.last.call
    if not death.waits_agree or death.code > BY_SIGNAL:
        return ", a status that tells of a signal" if death.waits_agree else ", but its parent's wait says otherwise"
    if is_abort(death):
        return ": an exception that nobody caught, and which is not known"
    if death.terminated is not None and last.ts_ns <= death.terminated.ts_ns:
        return ", but it had got SIGTERM meanwhile"
    if _went_on(case, refusal):
        return ", but a step was told in between"
    if death.at_ns - last.ts_ns > AT_ONCE_NS:
        return ": it may have gone on meanwhile"
    if death.exit is None:
        return "; the kernel was not seen to end it"
    if death.exit.oom_marked:
        return ", marked by the OOM killer"
    why = _asked_again(case, refusal)
    return None if why is None else f"; {why}"


def _went_on(case: Case, refusal: Refusal) -> bool:
    from_ns, to_ns = refusal.last.call.ts_ns + QUIET_NS // 2, refusal.death.at_ns
    return any(line.about == "progress" and from_ns < line.ts_ns < to_ns for line in case.said.lines)


def _asked_again(case: Case, refusal: Refusal) -> str | None:
    """Why it can't be told that it asked for no memory after; `None`: it did not."""
    calls, last = case.cuda.calls, refusal.last.call
    totals = calls.totals.get(refusal.id, ())
    if not totals or not totals[-1].ended:
        return "whether it asked for less after was not seen"
    missing = calls.missing(refusal.id)
    if missing is not None:
        return missing
    end = totals[-1]
    if any(one.ts_ns > last.ts_ns and one.result == 0 for one in calls.records.get(refusal.id, ())):
        return "it got some memory after"
    if last.asked is not None:
        more = sum(_asked(end)) - last.asked
        often_more = "once more" if more == 1 else f"{more} times more"
        return f"it asked for memory {often_more} after" if more else None
    name = "managed_bytes" if refusal.memory == CudaMemory.MANAGED else "device_bytes"
    if getattr(end, name) > getattr(last, name):
        return "it held more at its end than when it was refused"
    if end.last_ns - last.ts_ns <= QUIET_NS:
        return None
    # Frees at its end are calls as well: between two readings of its totals it may have asked for nothing.
    soon = [one for one in totals if last.ts_ns <= one.ts_ns <= last.ts_ns + 2 * QUIET_NS and one is not end]
    if any(_asked(one) == _asked(end) for one in soon):
        return None
    return "whether it got less after was not seen"


def _asked(totals: object) -> Sequence[int]:
    names = ("device_calls", "managed_calls", "pinned_calls", "registered_calls")
    return [getattr(totals, name) for name in names]


def size_text(failures: Sequence[Failure]) -> str:
    """`20 GiB`, `memory` where no call names a size."""
    sizes = [f.call.bytes for f in failures if f.call.bytes is not None]
    return format_bytes(sizes[-1]) if sizes else "memory"


def often(failures: Sequence[Failure]) -> str:
    """` 3 times in 0.2 s`; nothing for one."""
    if len(failures) == 1:
        return ""
    span = format_duration(failures[-1].call.ts_ns - failures[0].call.ts_ns)
    return f" {len(failures)} times in {span}"

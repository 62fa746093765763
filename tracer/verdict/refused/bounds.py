# SPDX-License-Identifier: Apache-2.0
"""Which bound refused an allocation: of an address space, of what the machine promises, of what it has.

The kernel keeps no record of a refusal (ENOMEM of mmap(2) or brk(2)): what is said here is what was near its bound
when it was looked at.
"""

from typing import Literal

import msgspec

from tracer.attribution.tree import Member
from tracer.events import PressureSample, ProcessId, ProcessLimits, ProcessSample
from tracer.units import NS_PER_S, format_bytes, format_duration, has_limit
from tracer.verdict.incident import Case
from tracer.verdict.model import Rung, Status

NEAR = 0.95
"""Of a bound: from here on it counts as reached, since what did not fit was not added."""
BEFORE_NS = 5 * NS_PER_S
STRICT, GUESS = 2, 0
"""vm.overcommit_memory."""

Which = Literal["address_space", "strict_overcommit", "more_than_there_is"]


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """What refused it. `which` is `None`: no bound was seen to be near."""

    which: Which | None = None
    status: Status = "not_observed"
    statement: str
    bound_bytes: int | None = None
    used_bytes: int | None = None
    rung: Rung | None = None
    evidence: tuple[int, ...] = ()


class Mapped(msgspec.Struct, frozen=True):
    """The most that a process had mapped, and its limit, by the last looks at it."""

    limit_bytes: int | None
    peak: ProcessSample | None
    seq: int


def bound(case: Case, identity: ProcessId, at_ns: int, asked_bytes: int | None) -> Bound:
    """Of an allocation by this process about then.

    Args:
        asked_bytes: `None`: not told.
    """
    mapped, machine = address_space(case, identity), _machine(case, at_ns)
    for found in (
        _of_addresses(mapped, at_ns, asked_bytes),
        _promised(machine, asked_bytes),
        _there(machine, asked_bytes),
    ):
        if found is not None:
            return found
    return Bound(statement=_nothing(mapped, machine, at_ns), rung="proc" if mapped or machine else None)


def address_space(case: Case, identity: ProcessId) -> Mapped | None:
    """`None`: its limits were never read."""
    member = case.story.tree.members.get(identity)
    if member is None:
        return None
    found = _limits(member)
    if found is None:
        return None
    begun_ns = max((e.ts_ns for e in member.execs), default=0)
    samples = [s for s in member.samples if s.peak_mapped_bytes is not None and s.ts_ns >= begun_ns]
    return Mapped(found[0].address_bytes, samples[-1] if samples else None, found[1])


def is_full(mapped: Mapped, share: float = NEAR) -> bool:
    """Whether its address space came near its limit."""
    peak = mapped.peak.peak_mapped_bytes if mapped.peak is not None else None
    limit = mapped.limit_bytes
    return peak is not None and limit is not None and has_limit(limit) and peak >= share * limit


def _limits(member: Member) -> tuple[ProcessLimits, int] | None:
    """By the newest look."""
    looks = [(one.ts_ns, one.limits, one.seq) for one in member.seen if one.limits is not None]
    looks += [(one.ts_ns, one.limits, one.seq) for one in member.looks if one.limits is not None]
    return max(looks, key=lambda one: one[0])[1:] if looks else None


def _machine(case: Case, at_ns: int) -> PressureSample | None:
    samples = [s for s in case.story.of(PressureSample) if s.ts_ns <= at_ns + NS_PER_S]
    return samples[-1] if samples else None


def _of_addresses(mapped: Mapped | None, at_ns: int, asked_bytes: int | None) -> Bound | None:
    if mapped is None or not has_limit(mapped.limit_bytes) or mapped.limit_bytes is None:
        return None
    peak = mapped.peak.peak_mapped_bytes if mapped.peak is not None else None
    too_much = (peak or 0) + (asked_bytes or 0) > mapped.limit_bytes
    if not (is_full(mapped) or too_much):
        return None
    text = f"its address space is limited to {format_bytes(mapped.limit_bytes)} (RLIMIT_AS, ulimit -v)"
    if peak is not None and mapped.peak is not None:
        text += f": {format_bytes(peak)} of that had been mapped {_ago(mapped.peak.ts_ns, at_ns)}"
    if asked_bytes is not None and too_much:
        text += f", and {format_bytes(asked_bytes)} were asked for"
    evidence = (mapped.seq, *((mapped.peak.seq,) if mapped.peak is not None else ()))
    return Bound(which="address_space", status="present", statement=text, bound_bytes=mapped.limit_bytes,
                 used_bytes=peak, rung="proc", evidence=evidence)  # fmt: skip


def _promised(machine: PressureSample | None, asked_bytes: int | None) -> Bound | None:
    if machine is None or machine.overcommit != STRICT:
        return None
    limit, used = machine.commit_limit_bytes, machine.committed_bytes
    if limit is None or used is None or (used < NEAR * limit and used + (asked_bytes or 0) <= limit):
        return None
    text = (
        f"the machine promises no more than {format_bytes(limit)} (vm.overcommit_memory=2, CommitLimit), and "
        f"{format_bytes(used)} were promised"
    )
    if asked_bytes is not None:
        text += f" when {format_bytes(asked_bytes)} were asked for"
    return Bound(which="strict_overcommit", status="present", statement=text, bound_bytes=limit, used_bytes=used,
                 rung="proc", evidence=(machine.seq,))  # fmt: skip


def _there(machine: PressureSample | None, asked_bytes: int | None) -> Bound | None:
    """__vm_enough_memory() refuses by default what RAM and swap together could never hold (mm/util.c)."""
    if machine is None or machine.overcommit != GUESS or asked_bytes is None or machine.mem_total_bytes is None:
        return None
    there = machine.mem_total_bytes + (machine.swap_total_bytes or 0)
    if asked_bytes <= there:
        return None
    text = f"{format_bytes(asked_bytes)} at once are more than the {format_bytes(there)} of RAM and swap that there are"
    return Bound(which="more_than_there_is", status="present", statement=text, bound_bytes=there, rung="proc",
                 evidence=(machine.seq,))  # fmt: skip


def _nothing(mapped: Mapped | None, machine: PressureSample | None, at_ns: int) -> str:
    known = []
    if mapped is None:
        known.append("the limit of its address space was not read")
    elif not has_limit(mapped.limit_bytes):
        known.append("its address space has no limit")
    else:
        peak = mapped.peak
        of = "how much of that it had mapped was not seen" if peak is None or peak.peak_mapped_bytes is None else (
            f"{format_bytes(peak.peak_mapped_bytes)} had been mapped {_ago(peak.ts_ns, at_ns)}"
        )  # fmt: skip
        known.append(f"its address space is limited to {format_bytes(mapped.limit_bytes)}, and {of}")
    if machine is not None:
        if machine.overcommit is not None and machine.overcommit != STRICT:
            known.append(f"vm.overcommit_memory is {machine.overcommit}")
        if machine.mem_available_bytes is not None:
            of = format_bytes(machine.mem_total_bytes)
            known.append(f"{format_bytes(machine.mem_available_bytes)} of {of} of RAM were available")
    return f"which bound refused it was not seen: {', '.join(known)}"


def _ago(seen_ns: int, at_ns: int) -> str:
    away_ns = seen_ns - at_ns
    return f"{format_duration(abs(away_ns))} {'after' if away_ns > 0 else 'before'} that"

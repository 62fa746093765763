# SPDX-License-Identifier: Apache-2.0
"""What CUDA did, as rows of the timeline: mapped, refused, got after all, pinned, and errors of a GPU."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tracer.events import CallWhy, CodeLooked, CudaCall, LoggedOther, LoggedXid, ProcessId, process_id
from tracer.units import MIB, NS_PER_S, format_bytes, format_duration
from tracer.verdict import people
from tracer.verdict.cuda.calls import Failure, result_text, symbol_name
from tracer.verdict.cuda.coverage import DRIVER
from tracer.verdict.growth import resample
from tracer.verdict.incident import Case, Finding
from tracer.verdict.model import Entry, Series

MOST_ROWS = 12
"""Of each sort; of failures those nearest to the incident."""
ONE_TRY_NS = 2 * NS_PER_S
"""Refusals of one process this close are one row."""
LEAST_BYTES = 64 * MIB
"""Pinned memory below this has no row of its own."""


class _Told(NamedTuple):
    text: str
    evidence: Sequence[int]
    series: Series | None = None


def rows(case: Case, primary: Finding) -> Iterable[Entry]:
    """In no order."""
    yield from _mapped(case, primary)
    yield from _refused(case, primary)
    yield from _pinned(case, primary)
    yield from _xids(case, primary)
    yield from _found_none(case, primary)


def _entry(case: Case, primary: Finding, at_ns: int, identity: ProcessId, told: _Told) -> Entry:
    return Entry(
        at_ns=at_ns,
        offset_ns=at_ns - primary.at_ns,
        kind="gpu",
        who=people.short(case.story, identity),
        text=told.text,
        pid=identity.tgid,
        series=told.series,
        primary=identity in primary.ids and at_ns == primary.at_ns,
        evidence=tuple(told.evidence),
    )


def _mapped(case: Case, primary: Finding) -> Iterable[Entry]:
    """The first look at each process that found libcuda, and since when its calls were watched."""
    told: set[ProcessId] = set()
    for look in case.story.of(CodeLooked):
        identity = process_id(look.tgid, look.start_ns)
        driver = next((lib for lib in look.libraries if lib.name.startswith(DRIVER)), None)
        if driver is None or identity in told:
            continue
        told.add(identity)
        if len(told) > MOST_ROWS:
            return
        watch = case.cuda.coverage.of(identity, look.ts_ns)
        text = f"{driver.name} mapped; "
        if watch.state != "watched" or watch.from_ns is None:
            text += "its calls were not watched"
        elif watch.from_ns > look.ts_ns:
            text += f"its calls watched {format_duration(watch.from_ns - look.ts_ns)} later"
        else:
            text += "its calls watched"
        yield _entry(case, primary, look.ts_ns, identity, _Told(text, (look.seq,)))


def _refused(case: Case, primary: Finding) -> Iterable[Entry]:
    groups = [group for found in case.cuda.calls.failures.values() for group in _tries(found)]
    nearest = sorted(groups, key=lambda g: abs(g[0].call.ts_ns - primary.at_ns))[:MOST_ROWS]
    for group in nearest:
        first, last = group[0].call, group[-1].call
        size = f" of {format_bytes(last.bytes)}" if last.bytes is not None else ""
        times = f", {len(group)} times" if len(group) > 1 else ""
        text = f"{symbol_name(last)}{size} failed{times}: {result_text(last)}"
        yield _entry(case, primary, first.ts_ns, group[-1].id, _Told(text, [f.call.seq for f in group]))
        after = group[-1].survived
        if after is not None:
            got = format_bytes(after.bytes) if after.bytes is not None else symbol_name(after)
            span = format_duration(after.ts_ns - last.ts_ns)
            text = f"got {got} {span} after it was refused: survived"
            yield _entry(case, primary, after.ts_ns, group[-1].id, _Told(text, (after.seq,)))


def _tries(failures: Sequence[Failure]) -> list[list[Failure]]:
    """Refusals of one kind, close together, with the same end."""
    groups: list[list[Failure]] = []
    for failure in failures:
        last = groups[-1][-1] if groups else None
        if last is not None and _key(last) == _key(failure) and failure.call.ts_ns - last.call.ts_ns <= ONE_TRY_NS:
            groups[-1].append(failure)
        else:
            groups.append([failure])
    return groups


def _key(failure: Failure) -> tuple[object, ...]:
    survived = failure.survived
    return (failure.call.symbol, failure.call.result, None if survived is None else survived.seq)


def _pinned(case: Case, primary: Finding) -> Iterable[Entry]:
    """One row with a curve for each process that pinned much."""
    found = []
    for identity, calls in case.cuda.calls.records.items():
        points = [(c.ts_ns, _host_bytes(c)) for c in calls]
        points += [(t.ts_ns, t.pinned_bytes + t.registered_bytes) for t in case.cuda.calls.totals.get(identity, ())]
        pinned = [c for c in calls if c.why == CallWhy.PINNED]
        if pinned and max(value for _, value in points) >= LEAST_BYTES:
            found.append((max(value for _, value in points), identity, sorted(points), pinned))
    for _, identity, points, pinned in sorted(found, reverse=True, key=lambda one: one[:2])[:MOST_ROWS]:
        before = [point for point in points if point[0] <= primary.at_ns] or points[:1]
        text = f"{format_bytes(before[-1][1])} of host memory pinned"
        series = resample(before, before[0][0], before[-1][0]) if len(before) > 1 else None
        told = _Told(text, [c.seq for c in pinned[:20]], series)
        yield _entry(case, primary, before[0][0], identity, told)


def _host_bytes(call: CudaCall) -> int:
    return call.pinned_bytes + call.registered_bytes


def _found_none(case: Case, primary: Finding) -> Iterable[Entry]:
    """The driver's own words that it found no memory for itself: whose, it does not say."""
    lines = [one for one in case.story.of(LoggedOther) if one.about == "nvrm_no_memory" and one.trusted]
    if not lines:
        return
    nearest = min(lines, key=lambda one: abs(one.ts_ns - primary.at_ns))
    more = f", {len(lines)} times" if len(lines) > 1 else ""
    yield Entry(
        at_ns=nearest.ts_ns,
        offset_ns=nearest.ts_ns - primary.at_ns,
        kind="gpu",
        who="driver",
        text=f"NVIDIA's driver found no memory for itself, of the GPU or of the host{more}",
        evidence=tuple(one.seq for one in lines[:MOST_ROWS]),
    )


def _xids(case: Case, primary: Finding) -> Iterable[Entry]:
    xids = [one for one in case.story.of(LoggedXid) if one.trusted]
    for xid in sorted(xids, key=lambda one: abs(one.ts_ns - primary.at_ns))[:MOST_ROWS]:
        member = case.story.tree.alive_at(xid.pid, xid.ts_ns) if xid.pid is not None else None
        text = f"Xid {xid.xid}"
        if xid.pci is not None:
            text += f" of {xid.pci}"
        yield Entry(
            at_ns=xid.ts_ns,
            offset_ns=xid.ts_ns - primary.at_ns,
            kind="gpu",
            who=people.short(case.story, member.id) if member is not None else "GPU",
            text=text,
            pid=member.id.tgid if member is not None else None,
            outside=xid.pid is not None and member is None,
            evidence=(xid.seq,),
        )

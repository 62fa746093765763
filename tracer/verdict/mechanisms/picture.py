# SPDX-License-Identifier: Apache-2.0
"""The table of who held what at the kill, which adds up to the limit, and how much time had been left."""

from collections.abc import Iterator, Sequence

from tracer.units import NS_PER_S, format_bytes, format_duration
from tracer.verdict.mechanisms.evidence import Evidence
from tracer.verdict.mechanisms.holdings import Holding
from tracer.verdict.mechanisms.model import Part, Picture
from tracer.verdict.mechanisms.staircase import staircase

LEAST_SHARE = 0.01
"""Of the limit: processes with less are one line together, and other lines with less, that hardly grew, are left out of
it; their sum is in `unexplained`."""
MOST_ROWS = 8
LEAST_DIRTY = LEAST_LOCKED = 1 << 20
GROUPS = {"dataloader_worker": "DataLoader workers"}
FIRST_KINDS = ("process", "outside", "other", "copies", "shared_memory", "kernel", "page_cache")
LEAST_RATE = 1024.0
LONGEST_LEFT_NS = 30 * 24 * 3600 * NS_PER_S


def draw(evidence: Evidence) -> Picture:
    """Pages that a fork shared are those of who forked; copies of them are a line of their own."""
    now = evidence.now
    limit = evidence.limited.limit_bytes
    parts = sorted(_parts(evidence), key=lambda one: FIRST_KINDS.index(one.kind))
    unexplained = now.usage_bytes - sum(one.size_bytes for one in parts)
    parts.append(Part(kind="unexplained", what="unexplained", size_bytes=unexplained))
    if limit is not None:
        parts.append(Part(kind="unused", what="not used", size_bytes=limit - now.usage_bytes))
    last = evidence.limited.looks[-1]
    rate = evidence.rate_bytes_per_s
    left = None
    if limit is not None and rate is not None and rate >= LEAST_RATE:
        left = min(round(max(0, limit - last.held_bytes) / rate * NS_PER_S), LONGEST_LEFT_NS)
    return Picture(
        limit_bytes=limit,
        usage_bytes=now.usage_bytes,
        since_ns=evidence.at_ns - evidence.from_ns,
        by="kernel_log" if evidence.exact else "samples",
        parts=tuple(parts),
        rate_bytes_per_s=None if rate is None else round(rate),
        last_sample_ns=evidence.at_ns - last.at_ns,
        time_left_ns=left,
        statement=_statement(evidence, rate, left),
        staircase=staircase(
            [(look.at_ns, look.held_bytes) for look in evidence.limited.looks], evidence.epochs, evidence.at_ns
        ),
    )


def _statement(evidence: Evidence, rate: float | None, left_ns: int | None) -> str:
    span = format_duration(evidence.at_ns - evidence.from_ns)
    grown = format_bytes(evidence.grown_bytes) if evidence.grown_bytes > 0 else "nothing"
    text = f"{grown} more in the last {span}"
    if evidence.left_level:
        level = format_duration(evidence.level_ns)
        text = f"steady at {format_bytes(evidence.level_bytes)} at most for {level}, then {text}"
    if rate is not None and rate >= LEAST_RATE:
        text += f", {format_bytes(round(rate))}/s at the end"
    owners = evidence.owners
    if owners is not None and owners.words is not None:
        text += f"; of what is in /dev/shm {owners.words}, {owners.when}"
    if left_ns is not None and evidence.limited.limit_bytes is not None:
        last = evidence.limited.looks[-1]
        ago = format_duration(evidence.at_ns - last.at_ns)
        text += f"; at the last look, {ago} before, {format_duration(left_ns)} were left at that rate"
    return text


def _parts(evidence: Evidence) -> Iterator[Part]:
    yield from _people(evidence)
    now, before = evidence.now, evidence.before
    if evidence.copied_bytes:
        what = "copies of pages that forks had shared"
        yield Part(kind="copies", what=what, size_bytes=evidence.copied_bytes)
    if evidence.limited.machine and now.anon_bytes is not None:
        mine = sum(one.own_bytes for one in evidence.people) + (evidence.copied_bytes or 0)
        yield Part(kind="other", what="processes outside the job", size_bytes=max(0, now.anon_bytes - mine))
    elif evidence.outside_bytes:
        names = f": {', '.join(evidence.outside_names)}" if evidence.outside_names else ""
        what = f"processes outside the job{names}"
        grown = evidence.outside_grown_bytes
        yield Part(kind="outside", what=what, size_bytes=evidence.outside_bytes, grown_bytes=grown,
                   rate_bytes_per_s=_rate(evidence, grown))  # fmt: skip
    kernel = evidence.kernel
    top = kernel.top if kernel is not None else None
    dirty = evidence.limited.looks[-1].dirty_bytes or 0
    rows = (
        ("shared_memory", "shared memory and tmpfs", now.shmem_bytes, before.shmem_bytes),
        ("kernel", _with("memory of the kernel", top[0] if top else None), now.kernel_bytes, before.kernel_bytes),
        ("page_cache", _with("page cache", f"{format_bytes(dirty)} to be written" if dirty >= LEAST_DIRTY else None),
         now.cache_bytes, before.cache_bytes),
    )  # fmt: skip
    for kind, what, size, earlier in rows:
        if size is not None:
            grown_bytes = None if earlier is None else size - earlier
            yield Part(kind=kind, what=what, size_bytes=size, grown_bytes=grown_bytes,  # type: ignore[arg-type]
                       rate_bytes_per_s=_rate(evidence, grown_bytes))  # fmt: skip


def _with(what: str, more: str | None) -> str:
    return what if more is None else f"{what}: {more}"


def _people(evidence: Evidence) -> Iterator[Part]:
    """Each process that matters, those of one role together where there are many, and the small ones as one."""
    least = LEAST_SHARE * (evidence.limited.limit_bytes or evidence.now.usage_bytes)
    groups: dict[str, list[Holding]] = {}
    singles: list[Holding] = []
    small: list[Holding] = []
    for one in evidence.people:
        if one.role in GROUPS:
            groups.setdefault(GROUPS[one.role], []).append(one)
        elif one.own_bytes >= least or one.grown_bytes >= least:
            singles.append(one)
        else:
            small.append(one)
    singles.sort(key=lambda one: -one.own_bytes)
    small += singles[MOST_ROWS:]
    yield from (_part(evidence, one.who, [one]) for one in singles[:MOST_ROWS])
    for name, people in groups.items():
        if len(people) <= 3:
            yield from (_part(evidence, one.who, [one]) for one in people)
        else:
            yield _part(evidence, f"{len(people)} {name}", people)
    if small:
        yield _part(evidence, small[0].who if len(small) == 1 else f"{len(small)} other processes of the job", small)


def _part(evidence: Evidence, who: str, people: Sequence[Holding]) -> Part:
    grown = sum(one.grown_bytes for one in people)
    forked = any(one.inherited_bytes for one in people)
    locked = sum(one.vitals.locked_bytes for one in people if one.vitals is not None)
    what = f"{who}, own pages" if forked else who
    return Part(
        kind="process",
        what=f"{what}, {format_bytes(locked)} locked" if locked >= LEAST_LOCKED else what,
        pids=tuple(one.id.tgid for one in people),
        size_bytes=sum(one.own_bytes for one in people),
        grown_bytes=grown,
        rate_bytes_per_s=_rate(evidence, grown),
    )


def _rate(evidence: Evidence, grown_bytes: int | None) -> int | None:
    span_ns = evidence.at_ns - evidence.from_ns
    return grown_bytes * NS_PER_S // span_ns if grown_bytes is not None and span_ns >= NS_PER_S // 10 else None

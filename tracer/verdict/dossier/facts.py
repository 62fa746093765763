# SPDX-License-Identifier: Apache-2.0
"""About the recording itself: which machine, which tracer, what it watched and when, what it cost, what was lost."""

from collections import Counter
from collections.abc import Iterator

from tracer.events import Armed, Disarmed, Losses, TracerCost
from tracer.units import format_bytes, format_duration
from tracer.verdict.dossier.model import Facts, Watched
from tracer.verdict.story import Story


def facts(story: Story) -> Facts:
    """Everything that a reader needs to trust or distrust the rest."""
    last = next(reversed(story.of(Losses)), None)
    lost = [] if last is None else [
        *sorted(last.dropped.items()), ("untracked", last.untracked), ("short", last.short), ("unknown", last.unknown),
        ("log_gaps", last.log_gaps), ("reclaim", last.reclaim), ("cuda", last.cuda),
    ]  # fmt: skip
    kinds = Counter(str(type(event).__struct_config__.tag) for event in story.events)
    return Facts(
        rows=tuple(_rows(story)),
        hooks=tuple(Watched(hook=h.hook, attached=h.attached, why_not=h.why_not) for h in story.hooks.values()),
        losses=tuple((name, count) for name, count in lost if count),
        losses_known=last is not None,
        events=tuple(sorted(kinds.items(), key=lambda pair: (-pair[1], pair[0]))),
    )


def _rows(story: Story) -> Iterator[tuple[str, str]]:
    header = story.header
    if header is not None:
        yield "recorded by", f"oomtrace {header.version}, {header.schema}"
        if header.hostname:
            yield "host", header.hostname
        cpus = "" if header.cpus is None else f", {header.cpus} CPUs"
        yield "kernel", f"{header.kernel_release or '?'} {header.machine or ''}{cpus}"
        version = header.cgroup_version
        yield "memory cgroups", "none" if version is None else f"v{version}"
        yield "page size", format_bytes(header.page_bytes)
        if header.boot_id:
            yield "boot", header.boot_id
    armed, disarmed = next(iter(story.of(Armed)), None), next(reversed(story.of(Disarmed)), None)
    if armed is not None:
        took = (
            "" if armed.start_to_armed_ns is None else f", {format_duration(armed.start_to_armed_ns)} after its start"
        )
        yield "watched from", f"{story.utc(armed.ts_ns) or '?'}{took}"
        by = {"perf_buffer": "perf buffers", "ring_buffer": "ring buffer"}.get(armed.transport or "", armed.transport)
        if by:
            yield "records by", by
    if disarmed is not None:
        span = "" if armed is None else f", {format_duration(disarmed.ts_ns - armed.ts_ns)} in all"
        yield "watched until", f"{story.utc(disarmed.ts_ns) or '?'}{span}"
    elif armed is not None:
        yield "watched until", "not known: the recording has no end"
    cost = next(reversed(story.of(TracerCost)), None)
    if cost is not None:
        memory = "" if cost.private_bytes is None else f", {format_bytes(cost.private_bytes)} of its own memory"
        yield "watching cost", f"{format_duration(cost.cpu_ns)} of CPU time{memory}, {cost.scans} scans"
    yield "events", f"{len(story.events)}" + (f", {story.missing_events} missing" if story.missing_events else "")

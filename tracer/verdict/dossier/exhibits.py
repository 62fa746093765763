# SPDX-License-Identifier: Apache-2.0
"""The events that statements rest on, as they were recorded, with what their numbers mean."""

import json
from collections.abc import Iterator

import msgspec

from tracer.events import AnyEvent, Constraint, SignalInfo
from tracer.units import format_bytes, format_duration, format_limit
from tracer.verdict.deaths import signal_name
from tracer.verdict.dossier.model import Exhibit, Field
from tracer.verdict.model import Report
from tracer.verdict.story import Story

MOST_EXHIBITS = 400
VALUE_CHARS = 700
_OMITTED = frozenset({"kind", "seq", "ts_ns", "source", "reserved"})


def exhibits(story: Story, report: Report) -> dict[int, Exhibit]:
    """All that is named as evidence; of very much what the primary incident names comes first."""
    wanted = list(dict.fromkeys(_named(report)))[:MOST_EXHIBITS]
    chosen = set(wanted)
    by_seq = {event.seq: event for event in story.events if event.seq in chosen}
    return {seq: exhibit(by_seq[seq]) for seq in wanted if seq in by_seq}


def exhibit(event: AnyEvent) -> Exhibit:
    """One event, whatever it is."""
    content = msgspec.to_builtins(event)
    kind = str(content["kind"])
    fields = [
        Field(name=name, value=_value(value), meaning=_meaning(kind, name, value))
        for name, value in content.items()
        if name not in _OMITTED and value is not None
    ]
    return Exhibit(seq=event.seq, at_ns=event.ts_ns, kind=kind, source=event.source, fields=tuple(fields))


def _named(report: Report) -> Iterator[int]:
    incidents = report.verdict.incidents
    primary = incidents[report.verdict.primary : report.verdict.primary + 1]
    for incident in (*primary, *incidents):
        for link in incident.proof:
            yield from link.evidence
        if incident.mechanism is not None:
            yield from incident.mechanism.evidence
    if report.verdict.reconciliation is not None:
        for counter in report.verdict.reconciliation.counters:
            yield from counter.evidence
    for entry in sorted(report.timeline, key=lambda one: not one.primary):
        yield from entry.evidence


def _value(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= VALUE_CHARS else f"{text[:VALUE_CHARS]}... ({len(text) - VALUE_CHARS} more characters)"


def _meaning(kind: str, name: str, value: object) -> str | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    if name.endswith("_bytes"):
        return format_limit(value) if "limit" in name else format_bytes(value)
    if name.endswith("_stall_ns"):
        return format_duration(value)
    if name == "signal":
        return signal_name(value) if value else "none"
    if name == "info" and value in SignalInfo._value2member_map_:
        return "SEND_SIG_PRIV: the kernel itself" if value == SignalInfo.PRIV else SignalInfo(value).name
    return _coded(kind, name, value)


def _coded(kind: str, name: str, value: int) -> str | None:
    if name == "constraint" and value in Constraint._value2member_map_:
        return Constraint(value).name
    if name == "status":
        return signal_name(value & 0x7F) if value & 0x7F else f"exit {value >> 8 & 0xFF}"
    if name in {"task_flags", "sender_flags", "signal_flags"}:
        return f"{value:#x}"
    if name == "result" and kind == "SignalSent":
        return "delivered" if value == 0 else "not delivered"
    if name == "in_tree":
        return "of the job's tree" if value else "outside of the job's tree"
    return None

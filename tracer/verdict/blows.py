# SPDX-License-Identifier: Apache-2.0
"""One blow to many: what somebody outside ended at one stroke (`pkill -9 python`) is one incident with its victims."""

from collections.abc import Sequence

import msgspec

from tracer.units import NS_PER_S, format_duration
from tracer.verdict.incident import Finding

ONE_BLOW_NS = 1 * NS_PER_S
"""A signal to a process group, or to a list of processes, reaches its members in any order within this."""


def is_one_blow(one: Finding, other: Finding) -> bool:
    """Whether one sender did both at about one time."""
    sender = one.incident.sender
    same = sender is not None and other.incident.sender == sender and other.kind == one.kind
    return same and abs(other.at_ns - one.at_ns) <= ONE_BLOW_NS


def gathered(findings: Sequence[Finding]) -> Sequence[Sequence[Finding]]:
    """Each with those that belong to its blow, in the order of the first of each."""
    groups: list[list[Finding]] = []
    for finding in findings:
        group = next((group for group in groups if _belongs(group[0], finding)), None)
        if group is None:
            groups.append([finding])
        else:
            group.append(finding)
    return groups


def _belongs(first: Finding, other: Finding) -> bool:
    """Alike in all that is said of them: of two signals, or of two that are not equally sure, each is told."""
    one, two = first.incident, other.incident
    alike = (one.cause, one.signal, one.strength) == (two.cause, two.signal, two.strength)
    from_outside = one.sender is not None and one.sender.kind in {"outside", "daemon"}
    return first.kind == "death" and alike and from_outside and is_one_blow(first, other)


def as_one(group: Sequence[Finding]) -> Finding:
    """The first, with all victims."""
    first, *more = group
    if not more:
        return first
    incidents = [finding.incident for finding in group]
    moments = [finding.at_ns for finding in group]
    span = format_duration(max(moments) - min(moments))
    incident = msgspec.structs.replace(
        first.incident,
        summary=f"{first.incident.summary.removesuffix('.')}, and so did {len(more)} more within {span}.",
        victims=tuple(victim for one in incidents for victim in one.victims),
        caveats=tuple(dict.fromkeys(caveat for one in incidents for caveat in one.caveats)),
    )
    ids = tuple(identity for finding in group for identity in finding.ids)
    return msgspec.structs.replace(first, ids=ids, incident=incident)

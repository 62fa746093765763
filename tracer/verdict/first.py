# SPDX-License-Identifier: Apache-2.0
"""What came first: which finding started the failure, by kernel time, and never mere tidying up within the job."""

from collections.abc import Iterable, Sequence

from tracer.events import ProcessId
from tracer.units import NS_PER_S
from tracer.verdict import people
from tracer.verdict.incident import TRAINING_ROLES, Case, Finding
from tracer.verdict.rules import exited

SOON_NS = 60 * NS_PER_S
"""A job that fails of a helper's OOM kill does so within this; an older one is told, and is not its cause."""
REPEATED_NS = 5 * NS_PER_S
"""A shell that exits with 128 + the signal of its last command does so within this."""
ONE_BLOW_NS = 1 * NS_PER_S
"""A signal to a process group reaches its members in any order within this."""


def first_failure(case: Case, findings: Sequence[Finding], end: Finding) -> Finding:
    """The finding that started the failure; `end` where there was none.

    Args:
        findings: in time order.
        end: the job's own end.
    """
    ooms = [f for f in findings if f.kind == "oom"]
    if case.root_death is not None and not case.root_death.failed:
        # The job came through: a kill of one of its processes is still what is asked about.
        return ooms[0] if ooms else end
    heavy = [f for f in findings if _can_have_failed_it(case, f)]
    light = [f for f in findings if f.kind == "inside" and _has_part(case, f.ids[0])]
    # Of its own accord: told only where nothing was done to the job, since a launcher may have got over it.
    light += [exited.of_member(case, d) for d in case.deaths if d.code and _in_training(case, d.id)]
    for candidates in (heavy, ooms, light):
        if candidates:
            return _uppermost(case, candidates)
    deaths = [f for f in findings if f.kind == "death"]
    return deaths[0] if deaths and case.root_death is None else end


def _can_have_failed_it(case: Case, finding: Finding) -> bool:
    """Done to the job from elsewhere, or by something within it that has no part in the training."""
    identity = finding.ids[0]
    if finding.kind == "inside":
        death = case.death(identity)
        by = death.by if death is not None else None
        sender = people.sender_id(by) if by is not None else None
        return _has_part(case, identity) and (sender is None or not _in_training(case, sender))
    if any(_in_training(case, one) or one == case.story.tree.root for one in finding.ids):
        return True
    end = case.root_death
    if finding.kind == "oom":
        return end is None or end.at_ns - finding.at_ns <= SOON_NS
    return _is_repeated(case, identity)


def _is_repeated(case: Case, identity: ProcessId) -> bool:
    """Whether the root, as a shell does, exited with 128 + the signal that had just ended its child."""
    end, death = case.root_death, case.death(identity)
    member = case.story.tree.members.get(identity)
    if end is None or death is None or member is None or member.parent != case.story.tree.root:
        return False
    return not end.signal and end.code == 128 + death.signal and 0 <= end.at_ns - death.at_ns <= REPEATED_NS


def _has_part(case: Case, identity: ProcessId) -> bool:
    member = case.story.tree.members.get(identity)
    root = case.story.tree.root
    return _in_training(case, identity) or identity == root or (member is not None and member.parent == root)


def _in_training(case: Case, identity: ProcessId) -> bool:
    role = case.story.roles.get(identity)
    return role is not None and role.name in TRAINING_ROLES


def _uppermost(case: Case, candidates: Iterable[Finding]) -> Finding:
    """The earliest; of one blow to many, the one that stands above the others."""
    ordered = sorted(candidates, key=lambda f: (f.at_ns, f.ids))
    first = ordered[0]
    for other in ordered[1:]:
        same = other.kind == first.kind and other.incident.sender == first.incident.sender
        if same and other.at_ns - ordered[0].at_ns <= ONE_BLOW_NS and first.incident.sender is not None:
            first = other if case.story.tree.is_ancestor(other.ids[0], first.ids[0]) else first
    return first

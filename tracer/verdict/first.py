# SPDX-License-Identifier: Apache-2.0
"""What came first: which finding started the failure, by kernel time, and never mere tidying up within the job."""

from collections.abc import Iterable, Sequence

from tracer.events import ProcessId
from tracer.units import NS_PER_S
from tracer.verdict import senders
from tracer.verdict.blows import is_one_blow
from tracer.verdict.collateral import got_over
from tracer.verdict.failures import Failures, trains
from tracer.verdict.incident import Case, Finding
from tracer.verdict.windows import SOON_NS

REPEATED_NS = 5 * NS_PER_S
"""A shell that exits with 128 + the signal of its last command does so within this."""
REFUSED = frozenset({"shm_exhausted", "cuda_oom", "pinned_host_memory", "host_allocation_failed"})
"""Memory of another kind that a process could not do without."""


def first_failure(case: Case, findings: Sequence[Finding], end: Finding, failed: Failures) -> Finding:
    """The finding that started the failure; `end` where there was none.

    Args:
        findings: in time order.
        end: the job's own end.
        failed: what failed by itself.
    """
    ooms = [f for f in findings if f.kind == "oom"]
    if case.root_death is not None and not case.root_death.failed:
        # The job came through: a kill of one of its processes is still what is asked about.
        return ooms[0] if ooms else end
    explained = _explains_the_status(case)
    heavy = [f for f in findings if _can_have_failed_it(case, f, explained)]
    heavy = [f for f in heavy if not (_was_got_over(case, f, heavy) or _follows_a_failure(f, failed))]
    if heavy:
        beside = [f for f in findings if f.kind == "inside" and _is_child(case, f.ids[0])]
        return _uppermost(case, [*heavy, *beside], heavy)
    if explained is not None:
        return next((f for f in findings if f.ids[0] == explained), end)
    # Of its own accord: told only where nothing was done to the job, since a launcher may have got over it.
    light = [f for f in findings if f.kind == "inside" and _has_part(case, f.ids[0])]
    light += failed.findings
    for candidates in (ooms, light):
        if candidates:
            return _uppermost(case, candidates, candidates)
    deaths = [f for f in findings if f.kind == "death"]
    return deaths[0] if deaths and case.root_death is None else end


def _follows_a_failure(finding: Finding, failed: Failures) -> bool:
    """Whether the job ended one of its processes when another had failed: a watchdog in it does so because of that."""
    return finding.kind == "inside" and any(True for _ in failed.before(finding))


def _can_have_failed_it(case: Case, finding: Finding, explained: ProcessId | None) -> bool:
    """Done to the job from elsewhere, or by something within it that has no part in the training."""
    identity = finding.ids[0]
    if finding.kind == "inside":
        death = case.death(identity)
        by = death.by if death is not None else None
        sender = senders.sender_id(by) if by is not None else None
        # A helper that the job ended by itself is tidied up, whatever else went wrong.
        involved = trains(case, identity) or identity in case.tops
        return involved and (sender is None or not trains(case, sender))
    if any(trains(case, one) or one in case.tops for one in finding.ids):
        return True
    end = case.root_death
    if finding.kind == "oom" or finding.incident.cause in REFUSED:
        return end is None or end.at_ns - finding.at_ns <= SOON_NS
    return identity == explained


def _was_got_over(case: Case, finding: Finding, heavy: Sequence[Finding]) -> bool:
    """Whether the job had begun again when it was failed by something of another kind.

    The same once more is the same failure, and its first time is told.
    """
    over_ns = got_over(case, finding.ids[0], finding.at_ns) if finding.ids else None
    if over_ns is None:
        return False
    return any(f.at_ns > over_ns and f.incident.cause != finding.incident.cause for f in heavy)


def _explains_the_status(case: Case) -> ProcessId | None:
    """The last child of the root whose end the root's status repeats, as a shell's does: the code, or 128 + signal.

    Not one with a part in the training: a launcher's status repeats nothing, it says that some rank failed.
    """
    end = case.root_death
    if end is None or end.signal:
        return None
    same = [
        d
        for d in case.deaths
        if d is not end
        and _is_child(case, d.id)
        and not trains(case, d.id)
        and (d.code == end.code if not d.signal else 128 + d.signal == end.code)
        and 0 <= end.at_ns - d.at_ns <= REPEATED_NS
    ]
    # One that the shell ended itself only where no other end can be meant.
    own = [d for d in same if d.by is None or senders.sender_id(d.by) not in case.tops]
    last = next(reversed(own or same), None)
    return last.id if last is not None else None


def _is_child(case: Case, identity: ProcessId) -> bool:
    member = case.story.tree.members.get(identity)
    return member is not None and member.parent in case.tops


def _has_part(case: Case, identity: ProcessId) -> bool:
    return trains(case, identity) or identity in case.tops or _is_child(case, identity)


def _uppermost(case: Case, candidates: Iterable[Finding], sure: Sequence[Finding]) -> Finding:
    """The earliest of the sure ones; of one blow to many, the one of the candidates that stands above the others."""
    first = earliest = min(sure, key=lambda f: (f.at_ns, f.ids))
    for other in sorted(candidates, key=lambda f: (f.at_ns, f.ids)):
        if is_one_blow(earliest, other) and case.story.tree.is_ancestor(other.ids[0], first.ids[0]):
            first = other
    return first

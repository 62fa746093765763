# SPDX-License-Identifier: Apache-2.0
"""Who went down because of what: each end that something else explains belongs to one incident, by cause and time."""

import bisect
from collections.abc import Callable, Mapping, Sequence

import msgspec

from tracer.attribution.tree import Member
from tracer.events import ProcessId
from tracer.units import NS_PER_S, format_duration
from tracer.verdict import people, senders
from tracer.verdict.deaths import Death
from tracer.verdict.incident import TRAINING_ROLES, Case, Finding
from tracer.verdict.model import Collateral
from tracer.verdict.windows import SOON_NS

TEARDOWN_NS = 5 * NS_PER_S
"""A kernel SIGKILL this soon after its ancestor was killed is the teardown that follows."""
STOPPED_NS = 30 * NS_PER_S
"""Whoever runs the job ends what is left of it this soon after an OOM kill (systemd with OOMPolicy=stop, a container
runtime, a batch system); a later end has reasons of its own."""
STOPPERS = frozenset({"service_manager", "container_runtime", "batch_system"})
WAITED_NS = 35 * 60 * NS_PER_S
"""Process groups of PyTorch give up after 10 minutes (NCCL) or 30 (gloo). Whoever ends longer after the incident, and
after the last that went down with it, did so for another reason."""
MAX_COLLATERAL = 200


class Downed(msgspec.Struct, frozen=True):
    """One process that went down because of an incident."""

    death: Death
    how: str


class Cascades:
    """The incidents that nothing earlier explains, each with what went down because of it.

    Args:
        findings: in time order; those that may be incidents of their own.
    """

    def __init__(self, case: Case, primary: Finding, findings: Sequence[Finding]) -> None:
        self._case = case
        self._primary = primary
        self._downed: dict[ProcessId, Finding] = {}
        self._of: dict[int, list[Downed]] = {}
        self._last_ns: dict[int, int] = {}
        self._failed: dict[ProcessId, Sequence[Death]] = {}
        self._over: Mapping[int, int | None] = {
            id(f): got_over(case, f.ids[0], f.at_ns) if f.ids else None for f in (primary, *findings)
        }
        self.roots: list[Finding] = []
        self._sort(findings)

    def of(self, finding: Finding) -> Sequence[Downed]:
        """In time order."""
        return self._of.get(id(finding), ())

    def told(self, findings: Sequence[Finding]) -> tuple[Collateral, ...]:
        """Of one incident, or of several that were one blow, as the document has it."""
        from_ns = min(finding.at_ns for finding in findings)
        downed = sorted((one for f in findings for one in self.of(f)), key=lambda one: (one.death.at_ns, one.death.id))
        return tuple(self._told(from_ns, one) for one in downed[:MAX_COLLATERAL])

    def _sort(self, findings: Sequence[Finding]) -> None:
        others = (f for f in findings if f is not self._primary)
        waiting = sorted([self._primary, *others], key=lambda f: (f.at_ns, f.ids))
        for death in self._case.deaths:
            while waiting and waiting[0].at_ns <= death.at_ns:
                self._begin(waiting.pop(0))
            if self._case.kills.of(death.id) is None:
                self._assign(death)
        for finding in waiting:
            self._begin(finding)

    def _begin(self, finding: Finding) -> None:
        if finding is not self._primary and finding.kind == "death" and not of_the_driver(finding):
            death = self._case.death(finding.ids[0])
            if death is not None and self._explain(death) is not None:
                return  # it is collateral itself, when its turn comes
        self.roots.append(finding)

    def _assign(self, death: Death) -> None:
        found = self._explain(death)
        if found is not None:
            root, how = found
            self._downed[death.id] = root
            self._of.setdefault(id(root), []).append(Downed(death, how))
            self._last_ns[id(root)] = death.at_ns

    def _explain(self, death: Death) -> tuple[Finding, str] | None:
        """The incident because of which it ended, and how; `None`: an end of its own."""
        if any(death.id in root.ids for root in self.roots):
            return None
        found = [(root, how) for root in self.roots if (how := self._how(root, death)) is not None]
        if len(found) < 2:
            return found[0] if found else None
        passed = self._passed_on(death)
        return max(found, key=lambda pair: (pair[0] is passed, *self._nearness(pair[0], death)))

    def _how(self, root: Finding, death: Death) -> str | None:
        if root.kind in {"end", "stall"} or of_nobody_known(root) or death.at_ns < root.at_ns:
            return None
        if death.at_ns - self._last_ns.get(id(root), root.at_ns) > WAITED_NS:
            return None
        return _how_downed(self._case, root, death, self)

    def fell(self, root: Finding, identity: ProcessId) -> bool:
        """Whether this process is a victim of an incident, or went down because of it."""
        return identity in root.ids or self._downed.get(identity) is root

    def hit_the_training(self, root: Finding) -> bool:
        """Whether an incident has taken a process that trains."""
        downed = (one.death.id for one in self.of(root))
        return any(_trains(self._case, identity) for identity in (*root.ids, *downed))

    def _passed_on(self, death: Death) -> Finding | None:
        """A launcher ends the others because a process that it had started failed: what had ended that one."""
        if death.by is None or not death.signal:
            return None
        failed = self._failed_below(senders.sender_id(death.by))
        place = bisect.bisect_right(failed, death.by.ts_ns, key=lambda one: one.at_ns)
        if place == 0:
            return None
        last = failed[place - 1].id
        return next((root for root in self.roots if last in root.ids), self._downed.get(last))

    def _failed_below(self, sender: ProcessId) -> Sequence[Death]:
        """Its children that failed, but for those that it ended itself, in time order."""
        if sender not in self._failed:
            member = self._case.story.tree.members.get(sender)
            ends = [self._case.death(child) for child in (member.children if member is not None else ())]
            failed = [d for d in ends if d is not None and d.failed]
            own = [d for d in failed if d.by is None or senders.sender_id(d.by) != sender]
            self._failed[sender] = sorted(own, key=lambda d: d.at_ns)
        return self._failed[sender]

    def _nearness(self, root: Finding, death: Death) -> tuple[bool, bool, bool, int]:
        """What the job had not got over, then of the recent what stands in its line, the primary first; the latest."""
        over_ns = self._over[id(root)]
        tree = self._case.story.tree
        line = any(tree.is_ancestor(one, death.id) or tree.is_ancestor(death.id, one) for one in root.ids)
        close = line and death.at_ns - root.at_ns <= SOON_NS
        return (over_ns is None or over_ns > death.at_ns, close, close and root is self._primary, root.at_ns)

    def _told(self, from_ns: int, one: Downed) -> Collateral:
        story, identity = self._case.story, one.death.id
        who = people.short(story, identity)
        return Collateral(
            pid=identity.tgid,
            start_ns=story.tree.processes[identity].start_ns,
            how=f"{who}: {one.how}, {format_duration(one.death.at_ns - from_ns)} later",
            who=who,
            ns_pids=people.ns_pids(story, identity),
        )


def of_nobody_known(finding: Finding) -> bool:
    """Whether somebody was killed for want of memory and it cannot be said who: then it explains no other end."""
    return finding.kind == "oom" and not finding.incident.victims


def of_the_driver(finding: Finding) -> bool:
    """Whether CUDA was seen to refuse it memory: that has its own reason, whatever went down before."""
    incident = finding.incident
    return incident.cause in {"cuda_oom", "pinned_host_memory"} and incident.proof[0].status == "present"


def got_over(case: Case, identity: ProcessId, at_ns: int) -> int | None:
    """When the place of a process was taken again: the same rank started anew, or, later, the same worker of it."""
    chain = case.story.tree.chain(identity)
    moments = (_successor_ns(case, member, at_ns) for member in (chain or ())[1:])
    return min((moment for moment in moments if moment is not None), default=None)


def _successor_ns(case: Case, member: Member, at_ns: int) -> int | None:
    story, role = case.story, case.story.roles.get(member.id)
    parent = story.tree.members.get(member.parent) if member.parent is not None else None
    if role is None or parent is None or role.name not in {"rank", "dataloader_worker"}:
        return None
    number = (role.name, role.rank, role.local_rank, role.worker)
    # While a loader starts, its next workers come behind one that was killed: only much later ones are of a next start.
    from_ns = at_ns if role.name == "rank" else at_ns + SOON_NS
    for child in parent.children:
        other, began_ns = story.roles.get(child), story.tree.members[child].began_ns
        if other is None or child == member.id or began_ns is None or began_ns <= from_ns:
            continue
        if number[1:] != (None, None, None) and number == (other.name, other.rank, other.local_rank, other.worker):
            return began_ns
    return None


def _how_downed(case: Case, root: Finding, death: Death, cascades: Cascades) -> str | None:
    story, victim, by_itself = case.story, root.ids[0], ""
    if death.by is not None and death.signal:
        sent_by = senders.sender(story, death.by)
        if sent_by is None:
            return None
        by_itself = " from itself" if sent_by.kind == "self" else ""
        if sent_by.kind in {"launcher", "job"}:
            if _is_tidied_up(case, death, senders.sender_id(death.by)):
                return None
            return f"{death.status} from {people.short(story, senders.sender_id(death.by))}"
        if sent_by.kind == "kernel" and death.signal == 9:
            return _torn_down(case, root, death, lambda one: cascades.fell(root, one))
        if sent_by.kind in {"outside", "daemon"}:
            # By a name alone it is nobody: then its kill is an incident of its own.
            by_trade = sent_by.kind == "daemon" and sent_by.trade in STOPPERS
            return _stopped_after(case, root, death) if by_trade else None
    # What trains fails with what trained, even on the other side of a connection. Of a helper's end that is not known.
    in_line = story.tree.is_ancestor(death.id, victim) or story.tree.is_ancestor(victim, death.id)
    related = in_line or (_trains(case, death.id) and cascades.hit_the_training(root))
    if not related or not (death.failed or story.tree.is_ancestor(victim, death.id)):
        return None
    return f"{death.status}{by_itself}"


def _torn_down(case: Case, root: Finding, death: Death, fell: Callable[[ProcessId], bool]) -> str | None:
    """Killed by the kernel as a namespace ended: that of a victim, or of a process that failed because of one."""
    story, sent = case.story, death.by
    if sent is None or death.at_ns - root.at_ns > TEARDOWN_NS:
        return None
    if any(story.tree.is_ancestor(identity, death.id) for identity in root.ids):
        return f"{death.status} by the kernel, as its ancestor had died"
    first = senders.sender_id(sent)
    if fell(first) and senders.ended_with_its_namespace(story, sent):
        return f"{death.status} by the kernel, as {people.short(story, first)}, pid 1 of its pid namespace, had ended"
    return None


def _is_tidied_up(case: Case, death: Death, sender: ProcessId) -> bool:
    """Whether another process of the job ended it as it always does, and not because something had gone wrong.

    A rank that ended well ends its workers; a job that came through ends its helpers.
    """
    by, end = case.death(sender), case.root_death
    own = _is_rank(case, sender) and not _is_rank(case, death.id)
    if own and by is not None and not by.failed:
        return True
    came_through = end is not None and not end.failed
    return came_through and (own or not _trains(case, death.id))


def _is_rank(case: Case, identity: ProcessId) -> bool:
    role = case.story.roles.get(identity)
    return role is not None and role.name == "rank"


def _stopped_after(case: Case, root: Finding, death: Death) -> str | None:
    """Ended by whoever runs the job, just after the kernel had killed one of its processes for want of memory."""
    assert death.by is not None
    if root.kind != "oom" or not 0 <= death.by.ts_ns - root.at_ns <= STOPPED_NS:
        return None
    return f"{death.status} from {senders.sender_name(case.story, death.by)}"


def _trains(case: Case, identity: ProcessId) -> bool:
    role = case.story.roles.get(identity)
    return role is not None and role.name in TRAINING_ROLES

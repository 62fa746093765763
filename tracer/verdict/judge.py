# SPDX-License-Identifier: Apache-2.0
"""From events to a report: run the rules in a written order, pick what started the failure, the rest is collateral."""

from collections.abc import Collection, Iterable, Sequence

import msgspec

from tracer.events import AnyEvent, ProcessId
from tracer.units import NS_PER_S, format_duration
from tracer.verdict import people, senders
from tracer.verdict.before import as_first
from tracer.verdict.deaths import Death
from tracer.verdict.first import first_failure
from tracer.verdict.incident import TRAINING_ROLES, Case, Finding
from tracer.verdict.model import Collateral, Job, Report, Verdict
from tracer.verdict.reconcile import caveats
from tracer.verdict.rules import counted, exited, host_oom, signals, stall
from tracer.verdict.story import Story
from tracer.verdict.timeline import build

TEARDOWN_NS = 5 * NS_PER_S
"""A kernel SIGKILL this soon after its ancestor was killed is the teardown that follows."""
STOPPED_NS = 30 * NS_PER_S
"""Whoever runs the job ends what is left of it this soon after an OOM kill (systemd with OOMPolicy=stop, a container
runtime, a batch system); a later end has reasons of its own."""
STOPPERS = frozenset({"service_manager", "container_runtime", "batch_system"})
MAX_COLLATERAL = 200
MAX_CAVEATS = 30


def judge(events: Iterable[AnyEvent], *, recording: str | None = None) -> Report:
    """The verdict over one recording, however its events are ordered.

    Args:
        events: all of one recording; live and replay give the same.
        recording: its path, for the report alone.
    """
    case = Case(Story(events))
    end = exited.find(case)
    counts = list(counted.find(case))
    meant = {identity for finding in counts for identity in finding.ids}
    # That somebody sent a SIGKILL, unseen, is no news beside the count that tells of one.
    ended = [f for f in signals.find(case) if f.incident.cause != "inconclusive" or not set(f.ids) <= meant]
    findings = sorted([*host_oom.find(case), *counts, *ended], key=lambda f: (f.at_ns, f.ids))
    stalls = list(stall.find(case))
    primary = first_failure(case, findings, end)
    if primary is end and case.root_death is None and stalls:
        primary = stalls[0]  # it still runs, and this is why it gets no further
    collateral, downed = _collateral(case, primary)
    covered = downed if _of_nobody_known(primary) else downed | set(primary.ids)
    # What went down because of the primary incident is told there, not as an incident of its own.
    others = [
        f
        for f in findings
        if f is not primary and f.kind in {"oom", "death"} and (not set(f.ids) <= covered or _of_nobody_known(f))
    ]
    others += [f for f in stalls if f is not primary]
    told = as_first(case, primary)
    told = msgspec.structs.replace(told, incident=msgspec.structs.replace(told.incident, collateral=tuple(collateral)))
    ordered = sorted([told, *others], key=lambda f: (f.at_ns, f.ids))
    verdict = Verdict(
        primary=ordered.index(told),
        incidents=tuple(f.incident for f in ordered),
        job=_job(case),
        caveats=_caveats(case, ordered, told.at_ns),
        watched_by=case.story.watched_by,
        pids_of="tracer" if case.story.pids_differ else "host",
        reconciliation=case.counters,
    )
    return Report(verdict=verdict, timeline=build(case, told, downed), recording=recording)


def _of_nobody_known(finding: Finding) -> bool:
    """Whether somebody was killed for want of memory and it cannot be said who: then it explains no other end."""
    return finding.kind == "oom" and not finding.incident.victims


def _collateral(case: Case, primary: Finding) -> tuple[list[Collateral], set[ProcessId]]:
    """Processes that went down after the primary incident and because of it, in time order."""
    if primary.kind == "end":
        return [], set()
    told: list[Collateral] = []
    downed: set[ProcessId] = set()
    victims = set(primary.ids)
    for death in case.deaths:
        if death.id in victims or death.at_ns < primary.at_ns or case.kills.of(death.id) is not None:
            continue
        how = _how_downed(case, primary, death, downed | victims)
        if how is not None:
            downed.add(death.id)
            if len(told) < MAX_COLLATERAL:
                after = format_duration(death.at_ns - primary.at_ns)
                who = people.short(case.story, death.id)
                start_ns = case.story.tree.processes[death.id].start_ns
                pids = people.ns_pids(case.story, death.id)
                text = f"{who}: {how}, {after} later"
                told.append(Collateral(pid=death.id.tgid, start_ns=start_ns, how=text, who=who, ns_pids=pids))
    return told, downed


def _how_downed(case: Case, primary: Finding, death: Death, fallen: Collection[ProcessId]) -> str | None:
    story, victim = case.story, primary.ids[0]
    if death.by is not None and death.signal:
        sent_by = senders.sender(story, death.by)
        if sent_by is None:
            return None
        if sent_by.kind in {"launcher", "job"}:
            return f"{death.status} from {people.short(story, senders.sender_id(death.by))}"
        if sent_by.kind == "kernel" and death.signal == 9:
            return _torn_down(case, primary, death, fallen)
        if sent_by.kind in {"outside", "daemon"}:
            # By a name alone it is nobody: then its kill is an incident of its own.
            by_trade = sent_by.kind == "daemon" and sent_by.trade in STOPPERS
            return _stopped_after(case, primary, death) if by_trade else None
    related = (
        story.tree.is_ancestor(death.id, victim)
        or story.tree.is_ancestor(victim, death.id)
        or _role_name(case, death.id) in TRAINING_ROLES
    )
    if not related or not (death.failed or story.tree.is_ancestor(victim, death.id)):
        return None
    return death.status


def _torn_down(case: Case, primary: Finding, death: Death, fallen: Collection[ProcessId]) -> str | None:
    """Killed by the kernel as a namespace ended: that of a victim, or of a process that failed because of one."""
    story, sent = case.story, death.by
    if sent is None or death.at_ns - primary.at_ns > TEARDOWN_NS:
        return None
    if any(story.tree.is_ancestor(identity, death.id) for identity in primary.ids):
        return f"{death.status} by the kernel, as its ancestor had died"
    first = senders.sender_id(sent)
    if first in fallen and senders.ended_with_its_namespace(story, sent):
        return f"{death.status} by the kernel, as {people.short(story, first)}, pid 1 of its pid namespace, had ended"
    return None


def _stopped_after(case: Case, primary: Finding, death: Death) -> str | None:
    """Ended by whoever runs the job, just after the kernel had killed one of its processes for want of memory."""
    assert death.by is not None
    if primary.kind != "oom" or not 0 <= death.by.ts_ns - primary.at_ns <= STOPPED_NS:
        return None
    return f"{death.status} from {senders.sender_name(case.story, death.by)}"


def _role_name(case: Case, identity: ProcessId) -> str | None:
    role = case.story.roles.get(identity)
    return role.name if role is not None else None


def _job(case: Case) -> Job | None:
    story, started = case.story, case.story.job
    if started is None:
        return None
    death = case.root_death
    member = story.tree.processes.get(story.tree.root) if story.tree.root else None
    vanished = member is not None and member.gone is not None
    return Job(
        argv=story.command,
        pid=started.tgid,
        cgroup=started.cgroup,
        started_at=story.began_at(started),
        attached_at=story.utc(started.ts_ns) if started.attached else None,
        ended_at=story.utc(death.at_ns) if death else None,
        status=death.status if death else None if vanished else "running",
    )


def _differences(case: Case, findings: Sequence[Finding]) -> tuple[str, ...]:
    """What the kernel counted and nothing explains; not where an incident tells of those very counts."""
    if case.counters is None:
        return ()
    by_count = any(link.rung == "cgroup_counters" and link.link == 1 for f in findings for link in f.incident.proof)
    return () if by_count and not case.counters.watched else caveats(case.counters)


def _caveats(case: Case, findings: Sequence[Finding], at_ns: int) -> tuple[str, ...]:
    """What holds for the whole recording, and what was seen of others, of several the nearest to the incident."""
    told = {caveat for finding in findings for caveat in finding.incident.caveats}
    story = case.story
    found = [c for c in (*_differences(case, findings), *story.caveats) if c not in told]
    strangers = [k for k in case.kills.kills if not story.is_ours(k.id.tgid, k.start_ns)]
    for unsure, where in ((True, "; whether that was of this job could not be told"), (False, " outside this job")):
        group = [k for k in strangers if story.may_be_ours(k.levels, k.at_ns) == unsure]
        if group:
            # The one that the timeline shows.
            nearest = min(group, key=lambda k: abs(k.at_ns - at_ns))
            name = nearest.mark.comm if nearest.mark is not None else "?"
            more = f" and {len(group) - 1} more" if len(group) > 1 else ""
            found.append(f"The kernel also killed {name!r} (pid {nearest.id.tgid}){more}{where}.")
    if len(found) > MAX_CAVEATS:
        found = [*found[:MAX_CAVEATS], f"{len(found) - MAX_CAVEATS} more remarks stand in the recording."]
    return tuple(found)

# SPDX-License-Identifier: Apache-2.0
"""The job's processes in the order of their tree: who each was, what part it had, and what became of it."""

import shlex
from collections.abc import Mapping

from tracer.attribution import roles
from tracer.attribution.tree import Member
from tracer.events import ProcessId, process_id
from tracer.verdict import people
from tracer.verdict.dossier.model import Family, Part, Person
from tracer.verdict.incident import TRAINING_ROLES, Case
from tracer.verdict.model import Incident
from tracer.verdict.words import has_victim

MOST_PEOPLE = 160
COMMAND_CHARS = 400

Parts = Mapping[ProcessId, tuple[Part, ...]]


def parts_in(incident: Incident) -> dict[ProcessId, tuple[Part, ...]]:
    """Who has which part in an incident, by its document."""
    found: dict[ProcessId, list[Part]] = {}

    def note(part: Part, pid: int | None, start_ns: int | None) -> None:
        if pid is not None and start_ns is not None:
            own = found.setdefault(process_id(pid, start_ns), [])
            if part not in own:
                own.append(part)

    for victim in (*incident.victims, *((incident.victim,) if incident.victim is not None else ())):
        note("victim" if has_victim(incident) else "subject", victim.pid, victim.start_ns)
    if incident.culprit is not None:
        note("culprit", incident.culprit.pid, incident.culprit.start_ns)
    if incident.trigger is not None:
        note("trigger", incident.trigger.pid, incident.trigger.start_ns)
    for fallen in incident.collateral:
        note("collateral", fallen.pid, fallen.start_ns)
    return {identity: tuple(parts) for identity, parts in found.items()}


def family(case: Case, parts: Parts) -> Family:
    """All of them; of very many, and with all above them, those that matter.

    First come those with a part in it, then those that failed, those that train, and those that had most memory.
    """
    members = case.story.tree.members
    peaks = {m.id: max((s.rss_anon_bytes or 0 for s in m.samples), default=0) for m in members.values()}
    kept = _kept(case, parts, peaks)
    depths: dict[ProcessId, int] = {}
    hidden: dict[ProcessId | None, int] = {}
    for member in members.values():  # parents come before their children
        parent = member.parent if member.parent in depths else None
        depths[member.id] = depths[parent] + 1 if parent is not None else 0
        if member.id not in kept:
            hidden[parent] = hidden.get(parent, 0) + 1
    shown = [_person(case, members[one], depths[one], parts, hidden.get(one, 0)) for one in members if one in kept]
    return Family(people=tuple(shown), total=len(members))


def _kept(case: Case, parts: Parts, peaks: Mapping[ProcessId, int]) -> set[ProcessId]:
    members = case.story.tree.members
    if len(members) <= MOST_PEOPLE:
        return set(members)
    failed = {death.id for death in case.deaths if death.failed}
    trains = {identity for identity, role in case.story.roles.items() if role.name in TRAINING_ROLES}
    order = sorted(members, key=lambda m: (m not in parts, m not in failed, m not in trains, -peaks[m], m))
    kept: set[ProcessId] = set()
    for identity in order:
        line = [member.id for member in case.story.tree.chain(identity) or ()] or [identity]
        fresh = [one for one in line if one not in kept]
        if len(kept) + len(fresh) <= MOST_PEOPLE:
            kept.update(fresh)
    return kept


def _person(case: Case, member: Member, depth: int, parts: Parts, left_out: int) -> Person:
    story = case.story
    role = story.roles.get(member.id)
    death = case.death(member.id)
    cmdline = next((s.cmdline for s in reversed(member.seen) if s.cmdline), None)
    command = None if cmdline is None else shlex.join(argument for argument in cmdline if argument)
    looks = [s.rss_anon_bytes for s in member.samples if s.rss_anon_bytes is not None]
    kill = case.kills.of(member.id)
    if kill is not None and kill.mark is not None:
        looks.append(kill.mark.anon_rss_bytes)
    own = parts.get(member.id, ())
    if death is not None:
        fate = f"killed by the kernel, {death.status}" if kill is not None and death.signal else death.status
    else:
        fate = "running at the end" if member.gone is None else "gone; how it ended was not seen"
    return Person(
        pid=member.id.tgid,
        start_ns=member.start_ns,
        depth=depth,
        who=roles.describe(role, member.comm) if role is not None else people.short(story, member.id),
        comm=member.comm,
        ns_pids=people.ns_pids(story, member.id, kill.mark if kill is not None else None),
        command=command if command is None or len(command) <= COMMAND_CHARS else f"{command[:COMMAND_CHARS]}...",
        known_by=role.known_by if role is not None else None,
        parts=own,
        began_ns=member.began_ns,
        ended_ns=death.at_ns if death is not None else member.end_ns,
        fate=fate,
        failed=death is not None and death.failed,
        peak_bytes=max(looks, default=None),
        left_out=left_out,
    )

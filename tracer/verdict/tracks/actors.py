# SPDX-License-Identifier: Apache-2.0
"""The processes of the job, each from its beginning to its end, with its part in the primary incident."""

import shlex
from collections.abc import Iterator

from tracer.attribution.tree import Member
from tracer.events import ProcessId, process_id
from tracer.verdict.incident import Case
from tracer.verdict.model import Incident, Report
from tracer.verdict.people import ns_pids
from tracer.verdict.tracks.model import Actor, Part
from tracer.verdict.tracks.naming import name_of
from tracer.verdict.words import has_victim

COMMAND_CHARS = 500


def actors(case: Case, report: Report, from_ns: int, to_ns: int) -> Iterator[Actor]:
    """In the order of their beginning."""
    story = case.story
    parts = parts_in(report.verdict.incidents[report.verdict.primary]) if report.verdict.incidents else {}
    people = [*story.tree.members.values()]
    people += [one for one in story.tree.processes.values() if one.claimed and one.id not in story.tree.members]
    for member in sorted(people, key=lambda one: (_began(one, from_ns), one.id)):
        role = story.roles.get(member.id)
        death = case.death(member.id)
        seen = member.seen[-1] if member.seen else None
        began_ns = _began(member, from_ns)
        ended_ns = death.at_ns if death is not None else member.end_ns
        yield Actor(
            id=member.id,
            start_ns=member.start_ns,
            name=name_of(story, member.id),
            role=role.name if role is not None else "job",
            comm=member.comm,
            rank=role.rank if role is not None else None,
            worker=role.worker if role is not None else None,
            parent=member.parent,
            ns_pids=ns_pids(story, member.id),
            command=shlex.join(seen.cmdline)[:COMMAND_CHARS] if seen is not None and seen.cmdline else None,
            cgroup=seen.cgroup if seen is not None else None,
            began_ns=began_ns,
            ended_ns=max(began_ns, to_ns if ended_ns is None else ended_ns),
            end=death.status if death is not None else "vanished" if member.gone is not None else None,
            parts=parts.get(member.id, ()),
        )


def parts_in(incident: Incident) -> dict[ProcessId, tuple[Part, ...]]:
    """What each process is in an incident."""
    found: dict[ProcessId, tuple[Part, ...]] = {}
    named: list[tuple[int, int | None, Part]] = []
    if has_victim(incident):
        hit = incident.victims or ((incident.victim,) if incident.victim is not None else ())
        named += [(one.pid, one.start_ns, "victim") for one in hit]
    if incident.culprit is not None:
        named.append((incident.culprit.pid, incident.culprit.start_ns, "culprit"))
    named += [(one.pid, one.start_ns, "collateral") for one in incident.collateral]
    for pid, start_ns, part in named:
        if start_ns is not None:
            identity = process_id(pid, start_ns)
            found[identity] = (*found.get(identity, ()), part)
    return found


def _began(member: Member, from_ns: int) -> int:
    """Of the root, whose fork is ours and not recorded, its first sight; of one never seen to begin, the beginning."""
    began = member.began_ns
    return from_ns if began is None else max(began, from_ns)

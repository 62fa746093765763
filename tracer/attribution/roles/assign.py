# SPDX-License-Identifier: Apache-2.0
"""All evidence put together: a role for every member of the tree, the numbers of its rank, a worker's own number."""

from collections.abc import Mapping

import msgspec

from tracer.attribution.roles import workers
from tracer.attribution.roles.evidence import Evidence, gather
from tracer.attribution.roles.launchers import find_launchers
from tracer.attribution.roles.model import Hosted, Role
from tracer.attribution.roles.names import service_of
from tracer.attribution.roles.ranks import Made, Ranks, behind_wrappers
from tracer.attribution.roles.variables import Numbers
from tracer.attribution.tree import Tree
from tracer.events import ProcessId


def assign(tree: Tree, *, forks_complete: bool = True) -> Mapping[ProcessId, Role]:
    """A role for every member of the tree.

    Args:
        forks_complete: whether no fork can be missing; else workers get no numbers.
    """
    evidence = gather(tree)
    made = Ranks(tree, evidence).made
    launchers = find_launchers(evidence, made)
    ranks = {behind_wrappers(evidence, i): one for i, one in made.items() if i not in launchers}
    shells = {i: one for i, one in made.items() if i not in launchers and i not in ranks}
    roles: dict[ProcessId, Role] = {}
    for one in evidence.values():  # parents come before their children
        parent = roles.get(one.parent.id) if one.parent is not None else None
        role = launchers.get(one.id) or _rank(one, ranks.get(one.id)) or _other(one, parent)
        of = shells.get(one.id)
        roles[one.id] = role if of is None else _numbered(role, of.numbers)
    _by_session(evidence, roles)
    if forks_complete:
        _number_workers(evidence, roles)
    return roles


def _rank(one: Evidence, made: Made | None) -> Role | None:
    if made is None:
        return None
    hosts: list[Hosted] = []
    if "pt_data_pin" in one.threads:
        hosts.append("pin_memory_thread")
    if any(name.startswith("pt_thread_data") for name in one.threads):
        hosts.append("dataloader_threads")
    role = Role(name="rank", known_by=made.known_by, restart=made.numbers.restart, hosts=tuple(hosts))
    return _numbered(role, made.numbers)


def _numbered(role: Role, said: Numbers | Role) -> Role:
    """With the numbers of its rank."""
    return msgspec.structs.replace(
        role, rank=said.rank, local_rank=said.local_rank, node_rank=said.node_rank, world_size=said.world_size
    )


def _other(one: Evidence, parent: Role | None) -> Role:
    """What has no rank of its own: it belongs to the rank above it, if there is one."""
    role = _by_names(one, parent)
    if parent is None or parent.name == "launcher":
        return role
    return _numbered(role, parent)


def _by_names(one: Evidence, parent: Role | None) -> Role:
    known_by = workers.how_known(one)
    if known_by is not None:
        return Role(name="dataloader_worker", known_by=known_by)
    if one.kind is not None and one.kind != "spawn":
        return Role(name=one.kind, known_by="its command line")
    service = service_of(one.comms, one.own_cmdline, one.own_exe)
    if service is not None:
        return Role(name="auxiliary", known_by=f"named {service[1]}", service=service[0])
    if parent is not None and parent.name == "auxiliary" and one.is_image:
        return Role(name="auxiliary", known_by="forked by it", service=parent.service)
    return Role(name="job")


def _by_session(evidence: Mapping[ProcessId, Evidence], roles: dict[ProcessId, Role]) -> None:
    """Who stands below no rank but is in a rank's session was started by it: a session is only ever inherited."""
    leaders: dict[int, list[Role]] = {}
    for identity, role in roles.items():
        if role.name == "rank":
            leaders.setdefault(identity.tgid, []).append(role)
    for identity, role in roles.items():
        seen = evidence[identity].last_seen
        found = leaders.get(seen.session_id or 0, []) if seen is not None else []
        free = role.rank is None and role.local_rank is None and role.name not in {"launcher", "rank"}
        if free and len(found) == 1:
            roles[identity] = _numbered(role, found[0])


def _number_workers(evidence: Mapping[ProcessId, Evidence], roles: dict[ProcessId, Role]) -> None:
    for one in evidence.values():
        below = [evidence[child] for child in one.member.children if child in evidence]
        found = [child for child in below if roles[child.id].name == "dataloader_worker"]
        if not found:
            continue
        unnamed = [c for c in below if roles[c.id].name == "job" and workers.may_be_unnamed_worker(c)]
        earlier = [c for c in found if c.member.fork is None]
        for identity, number in workers.number(found, unnamed, earlier):
            roles[identity] = msgspec.structs.replace(roles[identity], worker=number)

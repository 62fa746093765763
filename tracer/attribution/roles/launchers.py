# SPDX-License-Identifier: Apache-2.0
"""Who started the ranks: known by that, else by name. Who trains as well, as Lightning's rank 0 does, is a rank."""

from collections.abc import Mapping, Sequence

import msgspec

from tracer.attribution.roles.evidence import Evidence
from tracer.attribution.roles.model import LauncherKind, Role
from tracer.attribution.roles.names import OWN_NAMES, WRAPPERS, launcher_of
from tracer.attribution.roles.ranks import Made
from tracer.attribution.roles.variables import TORCH
from tracer.events import ProcessId

STARTED_A_RANK = "started a process with a rank in its environment"
STARTED_WHAT_BECAME_ONE = "started several processes that became ranks"
STANDS_BETWEEN = "stands between {} and a rank"

_KINDS: dict[str, LauncherKind] = {
    "OMPI_COMM_WORLD_RANK": "mpi",
    "PMIX_RANK": "mpi",
    "PMI_RANK": "mpi",
    "MV2_COMM_WORLD_RANK": "mpi",
    "HOROVOD_RANK": "horovod",
    "SLURM_PROCID": "slurm",
}

Named = Mapping[ProcessId, tuple[LauncherKind, str]]


def find_launchers(evidence: Mapping[ProcessId, Evidence], made: Mapping[ProcessId, Made]) -> dict[ProcessId, Role]:
    """Of one tree, with their roles."""
    named: dict[ProcessId, tuple[LauncherKind, str]] = {}
    for process in evidence.values():
        launcher = launcher_of(process.comms, process.own_cmdline)
        if launcher is not None:
            named[process.id] = launcher
    started = _started(evidence, made)
    counts = {starter: len(ones) for starter, ones in started.items()}
    found: dict[ProcessId, Role] = {}
    for parent, ones in started.items():
        for one in ones:
            starter, between = _starter_of(evidence[one], counts, named)
            starter = starter or evidence[parent]
            if starter.id not in found and not _trains_itself(starter.id, made, ones, named):
                found[starter.id] = _launcher(evidence[one], made[one], named.get(starter.id))
            for each in between:
                kind, name = named[starter.id]
                found.setdefault(each.id, Role(name="launcher", known_by=STANDS_BETWEEN.format(name), launcher=kind))
    for identity, (kind, name) in named.items():
        if identity not in made or _has_a_number_of_another_kind(made[identity]):
            role = Role(name="launcher", known_by=f"named {name}", launcher=kind, service=OWN_NAMES.get(name))
            found.setdefault(identity, role)
    return {identity: _placed(evidence[identity], role, found) for identity, role in found.items()}


def _started(
    evidence: Mapping[ProcessId, Evidence], made: Mapping[ProcessId, Made]
) -> dict[ProcessId, list[ProcessId]]:
    """The ranks below each process that made them so: by variables given to exec, or in several children alike."""
    started: dict[ProcessId, list[ProcessId]] = {}
    became: dict[ProcessId, list[ProcessId]] = {}
    for identity, rank in made.items():
        one = evidence[identity]
        if one.parent is None:
            continue
        if rank.at_exec:
            started.setdefault(one.parent.id, []).append(identity)
        elif one.is_image or one.kind == "spawn":
            became.setdefault(one.parent.id, []).append(identity)
    for parent, ones in became.items():
        if len(ones) > 1:
            started.setdefault(parent, []).extend(ones)
    return started


def _launcher(rank: Evidence, made: Made, named: tuple[LauncherKind, str] | None) -> Role:
    known_by = STARTED_A_RANK if made.at_exec else STARTED_WHAT_BECAME_ONE
    return Role(
        name="launcher",
        known_by=known_by,
        launcher=named[0] if named else _kind(rank, made),
        service=OWN_NAMES.get(named[1]) if named else None,
    )


def _kind(rank: Evidence, made: Made) -> LauncherKind | None:
    above = (rank.parent.exec_environ if rank.parent is not None else None) or {}
    if not made.at_exec or rank.kind == "spawn":
        return "multiprocessing"
    run = made.variables.get("TORCHELASTIC_RUN_ID")
    if run is not None and run != above.get("TORCHELASTIC_RUN_ID"):
        return "torch_elastic"
    if made.numbers.variable == "LOCAL_RANK" and "NODE_RANK" in made.variables and "RANK" not in made.variables:
        return "lightning"
    return _KINDS.get(made.numbers.variable)


def _starter_of(
    one: Evidence, counts: Mapping[ProcessId, int], named: Named
) -> tuple[Evidence | None, Sequence[Evidence]]:
    """What started a rank: its parent, or the launcher above the shells in between.

    And the Python processes among those: Horovod begins each rank through one, which ends the rank as well.
    """
    above, between = one.parent, []
    for _ in range(len(WRAPPERS)):
        if above is None or counts.get(above.id, 0) > 1:
            break
        if above.kind == "spawn":
            between.append(above)
        elif above.member.comm not in WRAPPERS:
            break
        above = above.parent
    return (above, between) if above is not None and above.id in named else (one.parent, ())


def _trains_itself(
    identity: ProcessId, made: Mapping[ProcessId, Made], below: Sequence[ProcessId], named: Named
) -> bool:
    """Whether what started ranks is one too: not where its variables may be those of a whole pod, or its children's."""
    own = made.get(identity)
    if own is None or identity in named:
        return False
    if own.at_exec and own.numbers.variable in {TORCH.rank, "LOCAL_RANK"} and own.numbers.local_rank is not None:
        return True
    return own.numbers.local_rank == 0 and all(made[one].numbers.local_rank not in {0, None} for one in below)


def _has_a_number_of_another_kind(made: Made) -> bool:
    """Whether it is a number in a job of launchers (a node of it, a task), as torchrun below mpirun has."""
    return not made.at_exec or made.numbers.variable not in {TORCH.rank, "LOCAL_RANK"}


def _placed(one: Evidence, role: Role, found: Mapping[ProcessId, Role]) -> Role:
    above = one.parent
    while above is not None and above.id not in found:
        above = above.parent
    return role if above is None else msgspec.structs.replace(role, below_launcher=True)

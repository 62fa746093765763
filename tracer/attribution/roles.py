# SPDX-License-Identifier: Apache-2.0
"""What each process of the tree is in a training job: launcher, rank, DataLoader worker; and how that is known.

Evidence, strongest first: the environment given to exec (a launcher sets the rank there), then the
name that the process gave itself. Names by PyTorch generation: torch/utils/data/_utils/worker.py and
c10/util/thread_name.cpp (2.5 to 2.14 `pt_data_worker`, later `pt_multiprocess_data_worker` cut to 15).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from tracer.attribution.tree import Member, Tree
from tracer.events import ProcessId
from tracer.units import NS_PER_MS

RoleName = Literal["launcher", "rank", "dataloader_worker", "job", "outside"]

WORKER_COMMS = frozenset({"pt_data_worker", "pt_multiprocess"})
LAUNCHER_COMMS = frozenset({"pt_elastic", "torchrun", "deepspeed", "mpirun", "mpiexec", "orterun", "horovodrun"})

RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "HOROVOD_RANK")
"""Global rank, the first that is set wins. Not SLURM_PROCID: all below a batch script inherits it."""
RANK_IDENTITY = (*RANK_VARIABLES, "LOCAL_RANK", "GROUP_RANK", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")
"""A process was made a rank where one of these differs from its parent's."""

MAX_DIGITS = 10
SHORT_PAUSE_NS = 100 * NS_PER_MS
PAUSE_FACTOR = 5
"""Workers of one loader start are forked one after the other, at a pace. A pause longer than both of these, the second
times the longest so far, may be another loader's start. Two loaders that start at one pace look like one."""


class Role(msgspec.Struct, frozen=True, kw_only=True):
    """What a process is, and how that is known."""

    name: RoleName
    known_by: str | None = None
    rank: int | None = None
    """Global rank of it or of the rank above it."""
    worker: int | None = None
    """Number within one loader start, by fork order; `None` where starts cannot be told apart."""


def assign(tree: Tree, *, forks_complete: bool = True) -> Mapping[ProcessId, Role]:
    """A role for every member of the tree.

    Args:
        forks_complete: whether no fork can be missing; else workers get no numbers.
    """
    setters = {m.id for m in tree.members.values() if _made_a_rank(tree, m)}
    launchers = _launchers(tree, setters)
    roles: dict[ProcessId, Role] = {}
    for member in tree.members.values():  # parents come before their children
        parent = roles.get(member.parent) if member.parent else None
        roles[member.id] = _role(member, parent, setters, launchers)
    for member in tree.members.values():
        workers = [c for c in member.children if c in roles and roles[c].name == "dataloader_worker"]
        earlier = [m for c in workers if tree.seen_at_attach(m := tree.members[c]) and m.fork is None]
        for identity, number in _numbers([tree.members[c] for c in workers], earlier) if forks_complete else ():
            roles[identity] = msgspec.structs.replace(roles[identity], worker=number)
    return roles


def describe(role: Role | None, comm: str | None) -> str:
    """`DataLoader worker 2 of rank 0`, `rank 3`, `launcher`, else the name in quotes."""
    of_rank = "" if role is None or role.rank is None else f" of rank {role.rank}"
    if role is not None and role.name == "dataloader_worker":
        number = "" if role.worker is None else f" {role.worker}"
        return f"DataLoader worker{number}{of_rank}"
    if role is not None and role.name == "rank":
        return "rank" if role.rank is None else f"rank {role.rank}"
    if role is not None and role.name == "launcher":
        return "launcher"
    return f"{comm!r}{of_rank}" if comm else f"a process{of_rank}"


def short(role: Role | None, comm: str | None) -> str:
    """`worker 2`, `rank 0`, `launcher`, else the bare name: for a column."""
    if role is not None and role.name == "dataloader_worker":
        return "worker" if role.worker is None else f"worker {role.worker}"
    if role is not None and role.name in {"rank", "launcher"}:
        return describe(role, comm)
    return comm or "?"


def _role(member: Member, parent: Role | None, setters: set[ProcessId], launchers: Mapping[ProcessId, str]) -> Role:
    rank = parent.rank if parent is not None else None
    worker_name = next((c for c in reversed(member.comms) if c in WORKER_COMMS), None)
    if member.id in launchers:
        return Role(name="launcher", known_by=launchers[member.id])
    if member.id in setters:
        variable, number = _rank_number(_environ(member))
        return Role(name="rank", known_by=f"{variable} in the environment it was started with", rank=number)
    if worker_name is not None:
        return Role(name="dataloader_worker", known_by=f"named {worker_name}", rank=rank)
    return Role(name="job", known_by=None, rank=rank)


def _launchers(tree: Tree, setters: set[ProcessId]) -> dict[ProcessId, str]:
    found: dict[ProcessId, str] = {}
    for identity in setters:
        parent = tree.members[identity].parent
        if parent is not None and parent in tree.members:
            found[parent] = "started a process with a rank in its environment"
    for member in tree.members.values():
        name = next((c for c in member.comms if c in LAUNCHER_COMMS), None)
        if name is not None and member.id not in setters:
            found.setdefault(member.id, f"named {name}")
    return found


def _environ(member: Member) -> Mapping[str, str] | None:
    """What the last exec that was seen had been given."""
    return next((s.environ for s in reversed(member.seen) if s.environ is not None), None)


def _rank_identity(environ: Mapping[str, str] | None) -> tuple[str | None, ...]:
    return tuple((environ or {}).get(name) for name in RANK_IDENTITY)


def _made_a_rank(tree: Tree, member: Member) -> bool:
    environ = _environ(member)
    if environ is None or not any(environ.get(name) for name in (*RANK_VARIABLES, "LOCAL_RANK")):
        return False
    parent = tree.members.get(member.parent) if member.parent else None
    if parent is None:
        return member.id in tree.roots
    above = _environ(parent)
    # An unreadable environment of the parent proves no difference: say less.
    return above is not None and _rank_identity(environ) != _rank_identity(above)


def _rank_number(environ: Mapping[str, str] | None) -> tuple[str, int | None]:
    for name in RANK_VARIABLES:
        value = (environ or {}).get(name, "")
        if value.isascii() and value.isdigit() and len(value) < MAX_DIGITS:
            return name, int(value)
    return "LOCAL_RANK", None


def _numbers(workers: Iterable[Member], earlier: Sequence[Member]) -> list[tuple[ProcessId, int | None]]:
    """Numbers by fork order within one loader start.

    A start begins anew where all earlier workers had ended. Where some still live and the pause is
    long it may be another loader's start: no number then, for that worker and those after it. Nor while
    some of those live that ran when oomtrace attached: how many there had been is not known.
    """
    numbered: list[tuple[ProcessId, int | None]] = []
    current: list[Member] = []
    certain, longest_ns = True, 0
    for worker in sorted((w for w in workers if w.fork is not None), key=_began_ns):
        began_ns = _began_ns(worker)
        pause_ns = began_ns - _began_ns(current[-1]) if current else 0
        if current and all(w.end_ns is not None and w.end_ns <= began_ns for w in current):
            current, certain, longest_ns = [], True, 0
        elif pause_ns > max(SHORT_PAUSE_NS, PAUSE_FACTOR * longest_ns):
            certain = False
        if any(w.end_ns is None or w.end_ns > began_ns for w in earlier):
            certain = False
        longest_ns = max(longest_ns, pause_ns if current else 0)
        numbered.append((worker.id, len(current) if certain else None))
        current.append(worker)
    return numbered


def _began_ns(worker: Member) -> int:
    return worker.fork.ts_ns if worker.fork is not None else 0

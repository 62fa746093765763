# SPDX-License-Identifier: Apache-2.0
"""Who was made a rank, and by what that is known: variables given to exec, else those it set itself, else a GPU."""

from collections.abc import Iterator, Mapping

import msgspec

from tracer.attribution.roles import workers
from tracer.attribution.roles.evidence import Evidence
from tracer.attribution.roles.names import STEP_DAEMON, WRAPPERS, launcher_of
from tracer.attribution.roles.variables import (
    RANK_IDENTITY,
    SLURM,
    Identity,
    Numbers,
    Variables,
    has_rank,
    identity,
    numbers,
    slurm_numbers,
)
from tracer.attribution.tree import Tree
from tracer.events import ProcessId


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """A process that was made a rank."""

    known_by: str
    numbers: Numbers
    at_exec: bool = False
    """By variables given to exec, which differ from those of the process above it."""
    variables: Variables = {}


class Ranks:
    """Of one tree, strongest evidence first; what a weaker one says of the same process is not asked."""

    def __init__(self, tree: Tree, evidence: Mapping[ProcessId, Evidence]) -> None:
        self._tree = tree
        self._evidence = evidence
        self._workers = {e.id for e in evidence.values() if workers.how_known(e) is not None}
        self.made: dict[ProcessId, Made] = {}
        for one in evidence.values():
            made = self._at_exec(one) or self._late(one)
            if made is not None:
                self.made[one.id] = made
        self._through_workers()
        self._tasks_of_slurm()
        self._with_gpus()

    def _at_exec(self, one: Evidence) -> Made | None:
        given, parent = one.exec_environ, one.parent
        if given is None or not has_rank(given):
            return None
        if one.parent is None:
            differs = one.id in self._tree.roots
        elif one.kind == "spawn":
            # It has its parent's os.environ of that moment: it is a rank only where that changed from child to child.
            differs = self._siblings_differ(one, identity(given))
        elif one.kind is not None:
            differs = False  # a helper of multiprocessing's, with its parent's os.environ as well
        else:
            differs = self._was_given(one, identity(given))
        if not differs:
            return None
        found = numbers(given)
        text = f"{found.variable} in the environment it was started with"
        return Made(known_by=text, numbers=found, at_exec=parent is not None, variables=given)

    def _was_given(self, one: Evidence, own: Identity) -> bool:
        parent = one.parent
        above = parent.exec_environ if parent is not None else None
        if parent is not None and STEP_DAEMON in parent.comms and own[RANK_IDENTITY.index("PMI_RANK")]:
            return True  # what was to speak to an MPI library is set by it, for each task
        if parent is None or (above is None and parent.late_environ is None):
            return False  # an environment of the parent that cannot be read proves no difference: say less
        if above is not None and identity(above) == own:
            return False
        if own in parent.late_identities:
            return self._siblings_differ(one, own)
        if parent.late_environ is None:
            # What it had set by then is not known: a script's helper has that, and is no rank.
            return not parent.is_python or launcher_of(parent.comms, parent.cmdline) is not None or _may_train(one)
        return above is not None or identity(parent.late_environ) != own

    def _late(self, one: Evidence) -> Made | None:
        late = one.late_environ
        if late is None or not has_rank(late) or one.id in self._workers:
            return None
        own = identity(late)
        given = one.exec_environ
        if given is not None and identity(given) == own:
            return None
        if one.is_image and not self._set_after_fork(one, own):
            return None
        if one.parent is None and one.id not in self._tree.roots:
            return None
        if not one.is_image and given is None:
            return None  # whether exec gave it is not known
        found = numbers(late)
        return Made(known_by=f"{found.variable} in its memory, which it set itself", numbers=found, variables=late)

    def _set_after_fork(self, one: Evidence, own: Identity) -> bool:
        """Whether a forked child set it, and not its parent before the fork."""
        parent, fork = one.parent, one.member.fork
        if parent is None:
            return one.id in self._tree.roots
        if own in parent.late_identities:
            return self._siblings_differ(one, own)
        later = [look for look in parent.looks if look.environ is not None and fork and look.ts_ns > fork.ts_ns]
        return bool(later) or self._siblings_differ(one, own)

    def _siblings_differ(self, one: Evidence, own: Identity) -> bool:
        """Whether another child of the same parent, started in the same way, is another rank."""
        parent = one.parent
        for identity_ in parent.member.children if parent is not None else ():
            other = self._evidence.get(identity_)
            if other is None or other.id == one.id or other.is_image != one.is_image or other.kind != one.kind:
                continue
            variables = other.late_environ if one.is_image else other.exec_environ
            if variables is not None and has_rank(variables) and identity(variables) != own:
                return True
        return False

    def _through_workers(self) -> None:
        """A DataLoader worker has the variables of the process that loads through it."""
        found: dict[ProcessId, list[Variables]] = {}
        for identity_ in self._workers:
            one = self._evidence[identity_]
            loader = workers.loader_of(one)
            variables = one.late_environ if one.is_image else one.exec_environ
            if loader is not None and loader.id not in self._workers and variables is not None and has_rank(variables):
                found.setdefault(loader.id, []).append(variables)
        for loader_id, said in found.items():
            loader = self._evidence[loader_id]
            given = loader.exec_environ
            if loader_id in self.made or given is None or len({identity(one) for one in said}) != 1:
                continue
            without = any(look.environ is not None and not has_rank(look.environ) for look in loader.looks[-1:])
            # A worker may have set it itself, where who loads has none by then.
            if identity(said[0]) != identity(given) and not without and not self._is_below_a_rank(loader):
                numbers_ = numbers(said[0])
                text = f"{numbers_.variable} in the memory of a DataLoader worker that it started"
                self.made[loader_id] = Made(known_by=text, numbers=numbers_, variables=said[0])

    def _tasks_of_slurm(self) -> None:
        above_ranks = {above.id for identity_ in self.made for above in _above(self._evidence[identity_])}
        for one in self._evidence.values():
            given, parent = one.exec_environ, one.parent
            found = slurm_numbers(given)
            if found is None or one.id in self.made or one.id in above_ranks or self._is_below_a_rank(one):
                continue
            if _is_task(one, given or {}) or (parent is None and one.id in self._tree.roots):
                text = "SLURM_PROCID of a step with several tasks"
                self.made[one.id] = Made(known_by=text, numbers=found, at_exec=True, variables=given or {})

    def _with_gpus(self) -> None:
        """Children that multiprocessing began alike, of which several opened a GPU: ranks, of unknown number."""
        groups: dict[ProcessId, list[Evidence]] = {}
        for one in self._evidence.values():
            if one.kind == "spawn" and one.parent is not None and one.uses_gpu and one.id not in self._workers:
                groups.setdefault(one.parent.id, []).append(one)
        for group in groups.values():
            if len(group) < 2 or any(one.id in self.made or self._is_below_a_rank(one) for one in group):
                continue
            for one in group:
                text = f"it opened /dev/{one.uses_gpu}, as others did that were started with it"
                self.made[one.id] = Made(known_by=text, numbers=Numbers(variable=""))

    def _is_below_a_rank(self, one: Evidence) -> bool:
        return any(above.id in self.made for above in _above(one))


def behind_wrappers(evidence: Mapping[ProcessId, Evidence], identity_: ProcessId) -> ProcessId:
    """The process that a shell made a rank is there for: the Python that it starts; itself where that is not clear."""
    met = set()
    while identity_ not in met:
        met.add(identity_)
        one = evidence[identity_]
        if one.member.comm not in WRAPPERS:
            return identity_
        below = [evidence[child] for child in one.member.children if child in evidence]
        python = [child for child in below if child.is_python and not child.is_image]
        following = python if len(python) == 1 else below if len(below) == 1 else []
        if not following or following[0].is_image or _differs(one, following[0]):
            return identity_
        identity_ = following[0].id
    return identity_


def _is_task(one: Evidence, given: Variables) -> bool:
    """Whether Slurm started it: slurmstepd has retitled itself by then, and what exec gave it cannot be read."""
    parent = one.parent
    if parent is None:
        return False
    if STEP_DAEMON in parent.comms:
        return True
    above = parent.late_environ if parent.exec_environ is None else parent.exec_environ
    return above is not None and above.get(SLURM.rank) != given.get(SLURM.rank)


def _may_train(one: Evidence) -> bool:
    return one.is_python or one.member.comm in WRAPPERS


def _above(one: Evidence) -> Iterator[Evidence]:
    above = one.parent
    while above is not None:
        yield above
        above = above.parent


def _differs(one: Evidence, other: Evidence) -> bool:
    if one.exec_environ is None or other.exec_environ is None:
        return True
    first, second = (identity(e.exec_environ or {}) for e in (one, other))
    return first != second and has_rank(one.exec_environ)

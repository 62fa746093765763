# SPDX-License-Identifier: Apache-2.0
"""What the rules share: all facts of a case in one value, findings, and how links add up to a strength."""

from collections.abc import Sequence
from functools import cached_property
from typing import Literal

import msgspec

from tracer.attribution.tree import HowKnown
from tracer.events import Attached, ProcessId
from tracer.verdict.cuda.facts import Cuda
from tracer.verdict.deaths import Death, find_deaths
from tracer.verdict.kills import Kills, find_kills
from tracer.verdict.marks import Marks, marks_of
from tracer.verdict.model import Incident, Link, Reconciliation, Rung, Status, Strength
from tracer.verdict.people import lineage
from tracer.verdict.reconcile import reconcile
from tracer.verdict.said import Said
from tracer.verdict.steps import end_of_steps, own_roots
from tracer.verdict.story import Story
from tracer.verdict.unexplained import contradicted, unexplained

TRAINING_ROLES = frozenset({"launcher", "rank", "dataloader_worker"})


class Case:
    """The story with the joins that every rule needs, made once."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.kills: Kills = find_kills(story)
        self.deaths: tuple[Death, ...] = find_deaths(story)
        self.said = Said(story)
        self._dying = {mark.id for mark in self.kills.dying}
        self._by_id = {death.id: death for death in self.deaths}

    def death(self, identity: ProcessId) -> Death | None:
        """How this process ended, if that was seen."""
        return self._by_id.get(identity)

    @cached_property
    def root_death(self) -> Death | None:
        """How the job ended as its parent saw it; where Slurm's daemons are its roots, as its script or tasks did."""
        of_slurm = end_of_steps(self.story, self._by_id)
        return of_slurm or (self.death(self.story.tree.root) if self.story.tree.root else None)

    @cached_property
    def tops(self) -> frozenset[ProcessId]:
        """The roots that are of the job, and what stands for it below those."""
        end = self.root_death
        return own_roots(self.story) | ({end.id} if end is not None else set())

    @cached_property
    def cuda(self) -> Cuda:
        """What was seen of CUDA."""
        return Cuda(self.story, self.deaths)

    @cached_property
    def marks(self) -> Marks:
        """Epochs and steps over time."""
        return marks_of(self.story)

    @cached_property
    def counters(self) -> Reconciliation | None:
        """The kernel's counters beside the kills that were seen; `None`: none was read."""
        return reconcile(self.story, self.kills)

    @cached_property
    def unexplained(self) -> tuple[str, ...]:
        """Signs of an OOM kill in the job that was not seen as one."""
        return unexplained(self.story, self.kills, self.counters)

    @cached_property
    def contradicted(self) -> tuple[str, ...]:
        """What speaks against kills that were seen."""
        return contradicted(self.counters)

    def was_dying(self, identity: ProcessId) -> bool:
        """Whether the OOM killer marked it when it was dying already."""
        return identity in self._dying


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """An incident with what ranking it needs."""

    at_ns: int
    ids: tuple[ProcessId, ...]
    """The processes that it is about, the first being the victim."""
    incident: Incident
    kind: Literal["oom", "death", "inside", "stall", "end"]
    """oom: by the kernel for want of memory; death: by a signal from elsewhere, or a crash; inside: by a signal from
    another process of the job, which may be mere tidying up; stall: nobody ended; end: of the job itself."""


def strength(links: Sequence[Link], doubts: Sequence[str]) -> Strength:
    """Proved only with links 1 to 4 present and nothing lost; not all observed: likely; one absent: possible."""
    needed = [link.status for link in links if link.link <= 4]
    if needed == ["present"] * 4 and not doubts and not any(_is_weak(link) for link in links):
        return "proved"
    return "possible" if "absent" in needed else "likely"


def _is_weak(link: Link) -> bool:
    """Whether it rests on what counts or tells of kills without showing this one: enough for likely, never for more."""
    return link.rung in {"cgroup_counters", "bpf_scalars"} or (link.link == 1 and link.rung in {"kernel_log", "proc"})


def doubt_caveats(doubts: Sequence[str]) -> tuple[str, ...]:
    """Doubts as caveats."""
    return tuple(f"Not proved: {doubt}." for doubt in doubts)


def said_too(case: Case, death: Death) -> str:
    """To stand behind how a process ended: that the training log says so as well. It proves nothing."""
    return case.said.echo(death.id, signal=death.signal, code=death.code, at_ns=death.at_ns)


def said_otherwise(case: Case, death: Death) -> tuple[str, ...]:
    """As caveats: that the training log has another end of it."""
    return tuple(case.said.otherwise(death.id, signal=death.signal, code=death.code, at_ns=death.at_ns))


def belongs(story: Story, identity: ProcessId, name: str = "it is yours") -> Link:
    """Link 3: its place in the tree as recorded at fork."""
    line = lineage(story, identity)
    member = story.tree.processes.get(identity)
    evidence = tuple(
        e.seq for m in (story.tree.chain(identity) or ()) for e in (m.fork, m.seen[-1] if m.seen else None) if e
    )
    status: Status = "present"
    rung: Rung | None = "bpf" if member is not None and member.claimed else "proc"
    known = story.tree.how_known(identity)
    attached = story.job is not None and story.job.attached
    if line is not None and (known == "proc" or (attached and not story.follows_job)):
        status, rung, statement = "not_observed", "proc", f"{line}, as seen in /proc: its forks were not recorded"
    elif line is not None:
        statement = line + _since_when(story, identity, known)
    elif member is not None and member.claimed:
        status, evidence = "not_observed", ()
        statement = "the kernel's tree filter had it, but its line of forks from the job was not recorded in full"
    else:
        status, evidence, rung = "absent", (), "bpf" if story.watched("sched_process_fork") else None
        statement = "it does not descend from the job"
    via = story.hook_names("sched_process_fork") if rung == "bpf" else ()
    return Link(link=3, name=name, status=status, statement=statement, evidence=evidence, rung=rung, via=via)


def _since_when(story: Story, identity: ProcessId, known: HowKnown) -> str:
    """What to say of a line of descent beside its names."""
    attached = next(iter(story.of(Attached)), None)
    if identity in story.tree.roots:
        in_cgroup = attached is not None and attached.cgroup is not None
        return f" (found in cgroup {attached.cgroup})" if attached is not None and in_cgroup else " (the job itself)"
    if attached is None:
        return ""
    member = story.tree.members[identity]
    if known == "fork":
        return ", recorded at fork"
    seen = "seen in /proc at attach"
    return f", {seen}" if member.fork is None else f", recorded at fork; above it {seen}"

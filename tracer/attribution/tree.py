# SPDX-License-Identifier: Apache-2.0
"""The process tree of the job, as a pure fold of events. It knows who descends from whom, not what that means."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import msgspec

from tracer.events import (
    AnyEvent,
    Attached,
    JobEnded,
    JobStarted,
    OomMark,
    ProcessExeced,
    ProcessExited,
    ProcessForked,
    ProcessGone,
    ProcessId,
    ProcessLooked,
    ProcessOrphaned,
    ProcessSample,
    ProcessSeen,
    SignalSent,
    process_id,
)

HowKnown = Literal["fork", "attach", "proc"]
"""Of a line of descent: recorded fork by fork; in part found when oomtrace attached; or in /proc at some later time."""

MAX_DEPTH = 4096
"""Deeper chains of forks than this are no training job but a fork bomb; walking stops here."""


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One process that the events speak of, and all that they say about its life. Lists are in time order."""

    id: ProcessId
    start_ns: int
    """As exact as any source knew it."""
    fork: ProcessForked | None = None
    orphaned: ProcessOrphaned | None = None
    """The end of its parent, where its fork was not recorded."""
    execs: tuple[ProcessExeced, ...] = ()
    seen: tuple[ProcessSeen, ...] = ()
    looks: tuple[ProcessLooked, ...] = ()
    samples: tuple[ProcessSample, ...] = ()
    comms: tuple[str, ...] = ()
    """Every name it was seen with, first to last: those of its main thread."""
    exit: ProcessExited | None = None
    gone: ProcessGone | None = None
    ended: JobEnded | None = None
    """The root only: what `waitpid` said."""
    children: tuple[ProcessId, ...] = ()
    """In fork order."""
    claimed: bool = False
    """The kernel's tree filter had it, whether or not its forks were all recorded."""

    @property
    def parent(self) -> ProcessId | None:
        """Who forked it; without a record of that, whom it lost, or its parent at first sight in /proc."""
        told = self.fork or self.orphaned
        if told is not None:
            return process_id(told.parent_tgid, told.parent_start_ns)
        first = self.seen[0] if self.seen else None
        if first is None or first.parent_start_ns is None:
            return None
        return process_id(first.parent_tgid, first.parent_start_ns)

    @property
    def began_ns(self) -> int | None:
        """From when on it is known to have been there."""
        if self.fork is not None:
            return self.fork.ts_ns
        sights = [e.ts_ns for e in (self.orphaned, *self.seen[:1]) if e is not None]
        return min(sights, default=None)

    @property
    def comm(self) -> str | None:
        """Its last known name."""
        return self.comms[-1] if self.comms else None

    @property
    def zombie(self) -> ProcessSample | None:
        """The first sample that shows how it ended."""
        return next((sample for sample in self.samples if sample.exit_status is not None), None)

    @property
    def end_ns(self) -> int | None:
        """When it ended, or was found to be gone."""
        last = self.exit or self.gone
        return last.ts_ns if last else None


class Tree:
    """All processes that the events speak of; `members` descend from the job's roots, by fork or by first sight.

    A job that was started has one root. One that ran already may have several: those who entered its cgroup.
    """

    def __init__(
        self, roots: Sequence[JobStarted], processes: Mapping[ProcessId, Member], attached: Sequence[Attached] = ()
    ) -> None:
        self.root_event = roots[0] if roots else None
        self.roots = {process_id(root.tgid, root.start_ns): root for root in roots}
        self.root = next(iter(self.roots), None)
        self.processes = processes
        self._attached = attached
        self.members: Mapping[ProcessId, Member] = {p.id: p for p in self._descendants()}

    @classmethod
    def of(cls, events: Iterable[AnyEvent]) -> "Tree":
        """Fold events, which are in time order; the kernel's own order of arrival does not matter."""
        lives: dict[ProcessId, _Life] = {}
        roots: list[JobStarted] = []
        attached: list[Attached] = []
        for event in events:
            if isinstance(event, JobStarted) and (not roots or (event.attached and roots[0].attached)):
                roots.append(event)
            if isinstance(event, Attached):
                attached.append(event)
            if isinstance(event, _ABOUT_A_PROCESS):
                identity = process_id(event.tgid, event.start_ns)
                life = lives.get(identity)
                if life is None:
                    life = lives[identity] = _Life()
                life.take(event)
        frozen = {identity: life.freeze(identity) for identity, life in lives.items()}
        children: dict[ProcessId, list[ProcessId]] = {}
        for member in frozen.values():
            if member.parent is not None:
                children.setdefault(member.parent, []).append(member.id)
        for parent, found in children.items():
            if parent in frozen:
                frozen[parent] = msgspec.structs.replace(frozen[parent], children=tuple(found))
        return cls(roots, frozen, attached)

    def chain(self, identity: ProcessId) -> tuple[Member, ...] | None:
        """From its root down to the process; `None` when it is not known to descend from one."""
        if identity not in self.members:
            return None
        line = [self.members[identity]]
        while line[-1].id not in self.roots and len(line) < MAX_DEPTH:
            parent = line[-1].parent
            if parent is None or parent not in self.members:
                return None
            line.append(self.members[parent])
        return tuple(reversed(line))

    def how_known(self, identity: ProcessId) -> HowKnown:
        """How the line from the root down to the process is known, by its weakest part."""
        unrecorded = [member for member in (self.chain(identity) or ())[1:] if member.fork is None]
        if not unrecorded:
            return "fork"
        return "attach" if all(map(self.seen_at_attach, unrecorded)) else "proc"

    def forks_recorded(self, identity: ProcessId) -> bool:
        """Whether the whole line from the root was recorded fork by fork, and not only seen in /proc."""
        return self.how_known(identity) == "fork"

    def seen_at_attach(self, member: Member) -> bool:
        """Whether it was found when the tree, which ran already, was put under watch."""
        first = member.orphaned or (member.seen[0] if member.seen else None)
        return first is not None and any(a.began_ns <= first.ts_ns <= a.ts_ns for a in self._attached)

    def is_ancestor(self, ancestor: ProcessId, identity: ProcessId) -> bool:
        """Whether `ancestor` stands above the process within the tree."""
        above, below = self._spans.get(ancestor), self._spans.get(identity)
        return above is not None and below is not None and above[0] < below[0] and below[1] <= above[1]

    @cached_property
    def _spans(self) -> Mapping[ProcessId, tuple[int, int]]:
        """For each member its place in a walk through the tree, and that of the last one below it."""
        order = list(self.members)  # parents come before their children, and a subtree stands together
        last = {identity: place for place, identity in enumerate(order)}
        first = dict(last)
        for identity in reversed(order):
            parent = self.members[identity].parent
            if parent in last:
                last[parent] = max(last[parent], last[identity])
        return {identity: (first[identity], last[identity]) for identity in order}

    @cached_property
    def _by_tgid(self) -> Mapping[int, list[Member]]:
        found: dict[int, list[Member]] = {}
        for member in self.members.values():
            found.setdefault(member.id.tgid, []).append(member)
        return found

    def alive_at(self, tgid: int, ts_ns: int) -> Member | None:
        """The member with this pid at this moment, if that is certain; for sources that know a pid only."""
        found = [
            m
            for m in self._by_tgid.get(tgid, ())
            if (m.id in self.roots or _had_begun(m, ts_ns)) and (m.end_ns is None or ts_ns <= m.end_ns + _LOG_LAG_NS)
        ]
        return found[0] if len(found) == 1 else None

    def _descendants(self) -> Iterator[Member]:
        waiting, met = list(reversed(self.roots)), set()
        while waiting:
            identity = waiting.pop()
            member = self.processes.get(identity)
            if member is None or identity in met:
                continue
            met.add(identity)
            yield member
            waiting.extend(reversed(member.children))


def _is_of_a_thread(event: AnyEvent) -> bool:
    """Whether its name is that of another thread than the one that the process is named after."""
    return isinstance(event, ProcessExited | OomMark | SignalSent) and event.tid != event.tgid


_SIGHT_LAG_NS = 1_000_000_000
"""A process may have lived this long before the first scan that saw it."""
_LOG_LAG_NS = 5_000_000_000
"""A log line about a process may carry a stamp this much after its exit: printk waits for slow consoles."""


def _had_begun(member: Member, ts_ns: int) -> bool:
    lag_ns = 0 if member.fork is not None else _SIGHT_LAG_NS
    return member.began_ns is not None and member.began_ns - lag_ns <= ts_ns


_ABOUT_A_PROCESS = (
    ProcessSample,
    ProcessForked,
    ProcessOrphaned,
    ProcessExeced,
    ProcessExited,
    ProcessSeen,
    ProcessLooked,
    ProcessGone,
    OomMark,
    SignalSent,
    JobStarted,
    JobEnded,
)


@dataclass
class _Life:
    """A `Member` in the making."""

    start_ns: int = 0
    fork: ProcessForked | None = None
    orphaned: ProcessOrphaned | None = None
    execs: list[ProcessExeced] = field(default_factory=list)
    seen: list[ProcessSeen] = field(default_factory=list)
    looks: list[ProcessLooked] = field(default_factory=list)
    samples: list[ProcessSample] = field(default_factory=list)
    comms: list[str] = field(default_factory=list)
    exit: ProcessExited | None = None
    gone: ProcessGone | None = None
    ended: JobEnded | None = None
    claimed: bool = False

    def take(self, event: AnyEvent) -> None:
        # A start time from the kernel is exact, one from /proc is floored to a tick: the larger is the exact one.
        self.start_ns = max(self.start_ns, getattr(event, "start_ns", 0))
        comm: str | None = getattr(event, "comm", None)
        if comm is not None and (not self.comms or (comm != self.comms[-1] and not _is_of_a_thread(event))):
            self.comms.append(comm)
        if isinstance(event, ProcessSample):  # most events are
            self.samples.append(event)
        else:
            self._take_rare(event)

    def _take_rare(self, event: AnyEvent) -> None:
        match event:
            case ProcessForked():
                # Before it was found, one that ran already forked unseen by the filter.
                self.fork, self.claimed = self.fork or event, self.claimed or bool(event.in_tree)
            case ProcessOrphaned():
                self.orphaned = self.orphaned or event
            case ProcessExeced():
                self.execs.append(event)
                self.claimed = True
            case ProcessSeen():
                self.seen.append(event)
            case ProcessLooked():
                self.looks.append(event)
            case ProcessExited():
                self.exit, self.claimed = self.exit or event, self.claimed or bool(event.in_tree)
            case SignalSent():
                self.claimed = self.claimed or bool(event.in_tree)
            case ProcessGone():
                self.gone = self.gone or event
            case JobEnded():
                self.ended = self.ended or event
            case _:
                pass

    def freeze(self, identity: ProcessId) -> Member:
        return Member(
            id=identity,
            start_ns=self.start_ns,
            fork=self.fork,
            orphaned=self.orphaned,
            execs=tuple(self.execs),
            seen=tuple(self.seen),
            looks=tuple(self.looks),
            samples=tuple(self.samples),
            comms=tuple(self.comms),
            exit=self.exit,
            gone=self.gone,
            ended=self.ended,
            claimed=self.claimed,
        )

# SPDX-License-Identifier: Apache-2.0
"""Records of the kernel's log, put together to reports: who asked for memory, whose limit it was, who was killed."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from tracer.events import (
    LogEvent,
    LoggedChoice,
    LoggedDecision,
    LoggedGroupKill,
    LoggedInvocation,
    LoggedKill,
    LoggedOther,
    LoggedOwner,
    LoggedReaped,
    LoggedSwap,
    LoggedTasks,
    LoggedTrigger,
    LoggedUsage,
    Passage,
)
from tracer.units import has_limit
from tracer.verdict.model import Cause, Limit

_EXITING = re.compile(r"OOM victim (\d{1,10}) ")
_ONE_REPORT_USEC = 120_000_000
"""A report of a machine with many tasks takes long on a slow console."""
_ONE_SHORTAGE_USEC = 1_000_000
_BY_CONSTRAINT: dict[str, Cause] = {
    "CONSTRAINT_MEMCG": "host_oom_cgroup",
    "CONSTRAINT_NONE": "host_oom_global",
    "CONSTRAINT_CPUSET": "host_oom_cpuset",
    "CONSTRAINT_MEMORY_POLICY": "host_oom_mempolicy",
}
_NEARLY = 0.98
_REMEMBERED = 1000


@dataclass
class Victim:
    """A process that the kernel says it killed, or chose."""

    pid: int
    comm: str | None
    passage: Passage
    kill: LoggedKill | None = None
    """`None`: the line of the kill itself is not there."""
    row: LoggedReaped | None = None


@dataclass
class Report:
    """What belongs to one call of the OOM killer, as far as its records are there."""

    passages: list[Passage] = field(default_factory=list)
    invocation: LoggedInvocation | None = None
    trigger: LoggedTrigger | None = None
    usages: dict[str, LoggedUsage] = field(default_factory=dict)
    swaps: dict[str, LoggedSwap] = field(default_factory=dict)
    owner: LoggedOwner | None = None
    choice: LoggedChoice | None = None
    decision: LoggedDecision | None = None
    tasks: LoggedTasks | None = None
    group: str | None = None
    sysrq: bool = False
    in_cgroup: bool = False
    """The stack of the call went through a cgroup's own OOM."""
    exiting: set[int] = field(default_factory=set)
    """Chosen, but exiting already: none of these was killed."""
    victims: list[Victim] = field(default_factory=list)
    caveats: list[str] = field(default_factory=list)

    @property
    def first(self) -> Passage:
        """What tells its time and place best."""
        return self.victims[0].passage if self.victims else self.passages[-1]

    @property
    def cause(self) -> Cause:
        """Whose memory ran out, as far as it is told."""
        if self.sysrq or (self.invocation is not None and self.invocation.order == -1):
            return "operator_oom"
        if self.decision is not None and self.decision.constraint in _BY_CONSTRAINT:
            return _BY_CONSTRAINT[self.decision.constraint]
        kill = self.victims[0].kill if self.victims else None
        by_kill = kill.memcg if kill is not None else None
        if by_kill is None and self.choice is not None:
            by_kill = self.choice.memcg
        if by_kill or (by_kill is None and (self.owner is not None or self.in_cgroup or "memory" in self.usages)):
            return "host_oom_cgroup"
        return "host_oom_unknown_scope"

    def limit(self) -> Limit:
        """What ran out."""
        decision, owner, memory = self.decision, self.owner, self.usages.get("memory")
        cgroup = (decision.oom_memcg if decision is not None else None) or (
            owner.oom_memcg if owner is not None else None
        )
        swap_free, swap_total = self.swaps.get("free"), self.swaps.get("total")
        of_cgroup = self.cause == "host_oom_cgroup"
        return Limit(
            constraint=decision.constraint if decision is not None else None,
            constraint_by="text" if decision is not None else None,
            cgroup=cgroup,
            cgroups=(cgroup,) if cgroup is not None else (),
            cgroup_by=("text",) if cgroup is not None else (),
            usage_bytes=memory.usage_bytes if memory is not None and of_cgroup else None,
            limit_bytes=memory.limit_bytes
            if memory is not None and of_cgroup and has_limit(memory.limit_bytes)
            else None,
            swap_free_bytes=swap_free.size_bytes if swap_free is not None else None,
            swap_total_bytes=swap_total.size_bytes if swap_total is not None else None,
        )

    def hit(self) -> str | None:
        """Which counter stood at its limit: `memory`, `memory+swap`, `kmem`; `None`: not told."""
        for name in ("memory", "memory+swap", "kmem"):
            usage = self.usages.get(name)
            if usage is not None and has_limit(usage.limit_bytes) and usage.usage_bytes >= _NEARLY * usage.limit_bytes:
                return name
        return None


def reports_of(passages: Iterable[Passage]) -> list[Report]:
    """All reports that have a victim, or chose one, in order; those of several texts and machines apart."""
    found: list[Report] = []
    folds: dict[tuple[int, str | None], _Fold] = {}
    for passage in passages:
        if isinstance(passage.event, LogEvent):
            key = (passage.file, passage.host)
            fold = folds.get(key)
            if fold is None:
                fold = folds[key] = _Fold(found)
            fold.take(passage, passage.event)
    for fold in folds.values():
        fold.close()
    merged: list[Report] = []
    for report in sorted(found, key=lambda report: report.first.event.seq):
        if merged and _one_shortage(merged[-1], report):
            merged[-1].victims += report.victims
            merged[-1].passages += report.passages
        else:
            merged.append(report)
    return merged


def _one_shortage(one: Report, other: Report) -> bool:
    """Kills at one limit within a second: memory of the first victim was still being freed."""
    first, second = one.victims[-1].passage, other.first
    if (first.file, first.host) != (second.file, second.host) or one.cause != other.cause:
        return False
    began, went_on = _usec(first), _usec(second)
    if began is None or went_on is None or not 0 <= went_on - began <= _ONE_SHORTAGE_USEC:
        return False
    return one.limit().cgroup is not None and one.limit().cgroup == other.limit().cgroup


def _usec(passage: Passage) -> int | None:
    return passage.event.log_usec if isinstance(passage.event, LogEvent) else None


class _Fold:
    """Records of one machine in one text."""

    def __init__(self, found: list[Report]) -> None:
        self._found = found
        self._now: Report | None = None
        self._began_usec: int | None = None
        self._seen: dict[int, Victim] = {}
        self._before: tuple[str, str, int | None, str | None] | None = None
        self._told: dict[tuple[str, str, int | None, str | None], None] = {}

    def close(self) -> None:
        report, self._now = self._now, None
        if report is None:
            return
        chosen = report.decision.tgid if report.decision is not None else None
        if not report.victims and chosen is not None and chosen not in report.exiting:
            assert report.decision is not None
            if chosen not in self._seen:
                where = next(passage for passage in report.passages if passage.event is report.decision)
                report.victims.append(Victim(chosen, report.decision.comm, where))
        if report.victims:
            self._found.append(report)

    def take(self, passage: Passage, event: LogEvent) -> None:
        if self._repeats(event):
            return
        if self._is_too_late(event):
            self.close()
        if isinstance(event, LoggedKill):
            self._kill(passage, event)
        elif isinstance(event, LoggedReaped):
            self._reaped(passage, event)
        elif isinstance(event, LoggedGroupKill):
            self._open().group = event.memcg
            self._open().passages.append(passage)
        elif isinstance(event, LoggedOther):
            self._other(passage, event)
        else:
            self._part(passage, event)

    def _repeats(self, event: LogEvent) -> bool:
        """Whether it is a record that was there already: of a log that was put together from several."""
        told = (type(event).__name__, event.text, event.log_usec, event.wall)
        before, self._before = self._before, told
        if event.log_usec is None and event.wall is None:
            return told == before
        seen = told in self._told
        self._told[told] = None
        if len(self._told) > _REMEMBERED:
            del self._told[next(iter(self._told))]
        return seen

    def _is_too_late(self, event: LogEvent) -> bool:
        began = self._began_usec
        return (
            self._now is not None
            and began is not None
            and event.log_usec is not None
            and abs(event.log_usec - began) > _ONE_REPORT_USEC
        )

    def _open(self) -> Report:
        if self._now is None:
            self._now, self._began_usec = Report(), None
        return self._now

    def _begin(self, event: LogEvent) -> Report:
        self.close()
        report = self._open()
        self._began_usec = event.log_usec
        return report

    def _part(self, passage: Passage, event: LogEvent) -> None:
        """A record that stands before the kill."""
        report = self._open()
        again = (
            report.victims
            or (isinstance(event, LoggedInvocation) and report.invocation is not None)
            or (isinstance(event, LoggedDecision) and report.decision is not None)
        )
        if again:
            report = self._begin(event)
        if self._began_usec is None:
            self._began_usec = event.log_usec
        report.passages.append(passage)
        if isinstance(event, LoggedInvocation):
            report.invocation = event
        elif isinstance(event, LoggedTrigger):
            report.trigger = report.trigger or event
        elif isinstance(event, LoggedUsage):
            report.usages[event.counter] = event
        elif isinstance(event, LoggedSwap):
            report.swaps[event.counter] = event
        elif isinstance(event, LoggedOwner):
            report.owner = event
        elif isinstance(event, LoggedChoice):
            report.choice = event
        elif isinstance(event, LoggedDecision):
            report.decision = event
        elif isinstance(event, LoggedTasks):
            report.tasks = event

    def _other(self, passage: Passage, event: LoggedOther) -> None:
        if event.about == "sysrq":
            self._begin(event).sysrq = "Manual OOM" in event.text
            self._open().passages.append(passage)
            return
        report = self._now
        if report is None or report.victims:
            return
        if event.about == "call_trace" and "mem_cgroup" in event.text:
            report.in_cgroup = True
        if event.about == "call_trace" and "moom_callback" in event.text:
            report.sysrq = True
        exiting = _EXITING.search(event.text) if event.about == "already_exiting" else None
        if exiting is not None:
            report.exiting.add(int(exiting[1]))

    def _kill(self, passage: Passage, event: LoggedKill) -> None:
        before = self._seen.get(event.pid)
        if before is not None and before.kill is not None and _same(before.kill, event):
            return  # the same line twice
        report = self._open()
        if report.victims and not (report.group is not None and event.memcg is not False):
            report = self._begin(event)
        if not report.victims and _contradicts(report, event):
            # Parts of another report, whose kill is not there.
            report = self._begin(event)
        pid = event.pid
        if not report.victims and report.decision is not None and report.decision.tgid is not None:
            pid = report.decision.tgid  # the process; the kill has a thread of it where its leader is gone
        victim = Victim(pid, event.comm, passage, event)
        self._seen[event.pid] = victim
        if self._began_usec is None:
            self._began_usec = event.log_usec
        report.victims.append(victim)
        report.passages.append(passage)

    def _reaped(self, passage: Passage, event: LoggedReaped) -> None:
        known = self._seen.get(event.pid)
        if known is not None:
            known.row = event
            return
        report = self._open()
        if report.decision is not None and report.decision.tgid == event.pid and not report.victims:
            report.passages.append(passage)
            return
        report = self._begin(event)
        victim = Victim(event.pid, event.comm, passage, row=event)
        self._seen[event.pid] = victim
        report.victims.append(victim)
        report.passages.append(passage)


def _same(one: LoggedKill, other: LoggedKill) -> bool:
    sizes = ("total_vm_bytes", "anon_rss_bytes", "file_rss_bytes", "shmem_rss_bytes")
    stamps_agree = one.log_usec is None or other.log_usec is None or abs(one.log_usec - other.log_usec) < 1_000_000
    return one.comm == other.comm and stamps_agree and all(getattr(one, s) == getattr(other, s) for s in sizes)


def _contradicts(report: Report, kill: LoggedKill) -> bool:
    """Whether what was read so far is about somebody else."""
    decision = report.decision
    if kill.pid in report.exiting:
        return True
    if decision is None:
        choice = report.choice
        # A child may be killed in place of who was chosen; a cgroup's kill is announced as such.
        return choice is not None and None not in {choice.memcg, kill.memcg} and choice.memcg != kill.memcg
    if kill.memcg is not None and kill.memcg != (decision.constraint == "CONSTRAINT_MEMCG"):
        return True
    if decision.tgid is None or decision.tgid == kill.pid:
        return False
    # Of a process whose leader is gone a thread stands in the kill.
    same = decision.comm is not None and decision.comm == kill.comm and decision.uid in {kill.uid, None}
    soon = (
        decision.log_usec is not None
        and kill.log_usec is not None
        and 0 <= kill.log_usec - decision.log_usec <= _ONE_SHORTAGE_USEC
    )
    return not (same and soon)

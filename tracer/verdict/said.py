# SPDX-License-Identifier: Apache-2.0
"""What the job's own log says, beside what the kernel did: whom a line means, and which lines agree.

A line is written by anyone who likes. It corroborates what was proved without it; no link of a proof rests on one.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property

from tracer.attribution.tree import Member
from tracer.events import ProcessId, TrainingLine, process_id
from tracer.units import NS_PER_S
from tracer.verdict.story import Story

OF_A_DEATH = frozenset({
    "worker_killed", "worker_exited", "rank_failed", "failure_report", "exit_status", "shell_killed",
})  # fmt: skip
"""Lines that say how a process ended which they name."""
SOON_NS = 120 * NS_PER_S
"""So long after an end a line about it may come: a rank may be busy before it looks after its workers."""
QUOTED_CHARS = 100
_CLOCK_SLACK_NS = NS_PER_S


class Said:
    """The lines of one recording."""

    def __init__(self, story: Story) -> None:
        self._story = story

    @cached_property
    def lines(self) -> Sequence[TrainingLine]:
        """All that were recorded, in time order."""
        return self._story.of(TrainingLine)

    def meant(self, line: TrainingLine, pid: int) -> ProcessId | None:
        """The process of the job that a line calls by this pid; `None`: none is known, or several may be meant.

        The pid is one of the writer's namespace, which is seldom known: any level counts, and of two that may
        be meant the one whose innermost pid it is.
        """
        there = [member for member in self._by_pid.get(pid, ()) if self._may_mean(line, member)]
        innermost = [member for member in there if self._pids[member.id][-1:] == (pid,)]
        chosen = innermost if len(there) > 1 else there
        return chosen[0].id if len(chosen) == 1 else None

    def about(self, identity: ProcessId) -> Sequence[TrainingLine]:
        """Lines that mean this very process."""
        pids = self._pids.get(identity, ())
        return [
            line
            for line in self.lines
            if any(pid in line.pids and self.meant(line, pid) == identity for pid in dict.fromkeys(pids))
        ]

    def agrees(self, identity: ProcessId, *, signal: int, at_ns: int) -> TrainingLine | None:
        """The first line that says that this process ended by this signal, at a time when it may be meant."""
        return next((line for line in self._of_its_end(identity, at_ns) if line.signal == signal), None)

    def echo(self, identity: ProcessId, *, signal: int = 0, code: int = 0, at_ns: int) -> str:
        """To stand behind a statement of how it ended: what the log says of that as well, if it does."""
        line = next((one for one in self._of_its_end(identity, at_ns) if _agrees(one, signal, code)), None)
        return "" if line is None else f"; the training log says so too: {_quoted(line)}"

    def otherwise(self, identity: ProcessId, *, signal: int = 0, code: int = 0, at_ns: int) -> Iterable[str]:
        """A caveat, where the log says that it ended in another way and nowhere that it ended in this one."""
        told = [one for one in self._of_its_end(identity, at_ns) if one.signal is not None or one.exit_code is not None]
        if told and not any(_agrees(one, signal, code) for one in told):
            yield f"The training log says otherwise of pid {identity.tgid}: {_quoted(told[0])}."

    def _of_its_end(self, identity: ProcessId, at_ns: int) -> Iterable[TrainingLine]:
        """Lines that say how this process ended, at a time when it may be meant."""
        for line in self.about(identity):
            if line.about in OF_A_DEATH and -_CLOCK_SLACK_NS <= line.ts_ns - at_ns <= SOON_NS:
                yield line

    def progress_before(self, at_ns: int) -> TrainingLine | None:
        """The last epoch or step that was told before a moment."""
        return next((line for line in reversed(self.lines) if line.about == "progress" and line.ts_ns <= at_ns), None)

    def _may_mean(self, line: TrainingLine, member: Member) -> bool:
        """Whether it can have been that one: it was there, and has not been gone for long."""
        began_ns, ended_ns = member.began_ns, _ended_ns(member)
        if began_ns is not None and began_ns > line.ts_ns + _CLOCK_SLACK_NS:
            return False
        if ended_ns is not None and line.ts_ns - ended_ns > SOON_NS:
            return False
        return line.about not in OF_A_DEATH or ended_ns is None or ended_ns <= line.ts_ns + _CLOCK_SLACK_NS

    @cached_property
    def _pids(self) -> dict[ProcessId, tuple[int, ...]]:
        """Of each process of the job its pids at every level that is known, the innermost last."""
        return {member.id: _pids_of(member) for member in self._story.tree.members.values()}

    @cached_property
    def _by_pid(self) -> dict[int, list[Member]]:
        found: dict[int, list[Member]] = {}
        for identity, pids in self._pids.items():
            for pid in dict.fromkeys(pids):
                found.setdefault(pid, []).append(self._story.tree.members[identity])
        return found


def writer(line: TrainingLine) -> ProcessId | None:
    """Whose error file it was."""
    return None if line.tgid is None or line.start_ns is None else process_id(line.tgid, line.start_ns)


def _agrees(line: TrainingLine, signal: int, code: int) -> bool:
    """Launchers tell a signal as a negative status, shells as 128 more."""
    if signal:
        return line.signal == signal or (line.signal is None and line.exit_code in {-signal, 128 + signal})
    return line.exit_code == code


def _quoted(line: TrainingLine) -> str:
    text = line.text.strip()
    return f'"{text}"' if len(text) <= QUOTED_CHARS else f'"{text[: QUOTED_CHARS - 3]}..."'


def _pids_of(member: Member) -> tuple[int, ...]:
    seen = next((s.ns_pids for s in reversed(member.seen) if s.ns_pids), None)
    if seen is not None:
        return tuple(dict.fromkeys((member.id.tgid, *seen)))
    fork = member.fork
    if fork is None:
        return (member.id.tgid,)
    deeper = (fork.own_tgid or 0, fork.ns_tgid)
    return tuple(dict.fromkeys((member.id.tgid, *(pid for pid in deeper if pid > 0))))


def _ended_ns(member: Member) -> int | None:
    ends = [event.ts_ns for event in (member.exit, member.gone, member.ended) if event is not None]
    return min(ends, default=None)

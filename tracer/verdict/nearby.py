# SPDX-License-Identifier: Apache-2.0
"""What else was recorded of one and the same kill: its cgroups, the decision behind it, lines of the kernel's log."""

from tracer.events import LoggedDecision, LoggedKill, LoggedUsage, OomDecision, OomLevel, OomMark
from tracer.verdict.story import Story
from tracer.verdict.windows import BRACKET_NS, LOG_WINDOW_NS


def levels_of(story: Story, mark: OomMark) -> tuple[OomLevel, ...]:
    """The chain of the victim's memory cgroups, own first."""
    of_mark = (mark.ts_ns, mark.cpu, mark.tgid)
    levels = story.by(OomLevel, lambda v: (v.ts_ns, v.cpu, v.mark_tgid), "mark").get(of_mark, ())
    found = {level.depth: level for level in levels}
    return tuple(found[depth] for depth in sorted(found))


def decision_of(story: Story, mark: OomMark) -> OomDecision | None:
    """What the same thread had decided just before; `None`: not observed."""
    found = [
        d
        for d in story.by(OomDecision, lambda d: d.trigger_tid, "trigger").get(mark.trigger_tid, ())
        if 0 <= mark.ts_ns - d.ts_ns <= BRACKET_NS
    ]
    return found[-1] if found else None


def logged_kill(story: Story, mark: OomMark) -> LoggedKill | None:
    """The line of the kernel's log that says that the marked one was killed."""
    by_pid = story.by(LoggedKill, lambda r: r.pid, "pid")
    near = [
        r
        for pid in {mark.tgid, mark.tid}
        for r in by_pid.get(pid, ())
        if r.trusted and abs(r.ts_ns - mark.ts_ns) <= LOG_WINDOW_NS
    ]
    return min(near, key=lambda r: abs(r.ts_ns - mark.ts_ns), default=None)


def logged_decision(story: Story, tgid: int, ts_ns: int, *, unnamed: bool = False) -> LoggedDecision | None:
    """The kernel's own word on it.

    Args:
        unnamed: stacks have no names, so that of a line that was seen being printed nobody could tell who printed
            it: better than nothing, and no kill is proved then.
    """
    of_process = story.by(LoggedDecision, lambda r: r.tgid, "tgid").get(tgid, ())
    near = [
        r
        for r in of_process
        if (r.trusted or (unnamed and r.source == "printk_console")) and abs(r.ts_ns - ts_ns) <= LOG_WINDOW_NS
    ]
    return min(near, key=lambda r: abs(r.ts_ns - ts_ns), default=None)


def logged_usage(story: Story, logged: LoggedKill) -> LoggedUsage | None:
    """Usage and limit of the cgroup whose limit was hit, in the same report: just above the line of the kill."""
    above = [
        r
        for r in story.of(LoggedUsage)
        if r.trusted and r.counter == "memory" and 0 <= logged.ts_ns - r.ts_ns <= BRACKET_NS
    ]
    return above[-1] if above else None

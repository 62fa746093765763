# SPDX-License-Identifier: Apache-2.0
"""OOM kills seen by programs that may read none of the kernel's memory: who was meant, and how sure that is.

They see that the kernel's SIGKILL and the mark went to one task, and the stack; they know the task by its address,
which is not told, and what it says of itself when it exits. That is a pid without a start time: so the process is
the one of the job that had this pid then, by /proc, and the kill is `not_observed` for it, never `present`.
"""

from collections.abc import Iterable, Sequence

import msgspec

from tracer.attribution.tree import Member
from tracer.events import LoggedKill, MarkedEnded, OomGlimpse
from tracer.events.signals import TRACE_SIGNAL_DELIVERED
from tracer.verdict.stacks import KILL_PATH, frames_at
from tracer.verdict.story import Story
from tracer.verdict.windows import BRACKET_NS, LOG_WINDOW_NS


class Glimpsed(msgspec.Struct, frozen=True, kw_only=True):
    """One such kill, of a process of the job."""

    member: Member
    glimpse: OomGlimpse
    frames: tuple[str, ...] | None
    ended: MarkedEnded | None
    logged: LoggedKill | None
    why: str


def find_glimpsed(story: Story) -> Iterable[Glimpsed]:
    """In time order, where pids are the kernel's. Left out: what was no kill, or cannot be told to be of the job."""
    glimpses = story.of(OomGlimpse)
    for glimpse in glimpses:
        frames = frames_at(story, glimpse.ts_ns, glimpse.trigger_tgid)
        ends = [e for e in story.of(MarkedEnded) if e.mark_ns == glimpse.ts_ns]
        ended = ends[0] if len(ends) == 1 and _agrees(glimpse, ends[0]) else None
        if len(ends) != (ended is not None):
            continue  # what is told of the task does not fit together
        logged = _logged(story, glimpse, ended, glimpses)
        what = _what(glimpse, frames, logged)
        whose, how = _whose(glimpse, ended, logged)
        member = None if whose is None else story.tree.alive_at(whose, glimpse.ts_ns)
        if what is not None and member is not None:
            yield Glimpsed(
                member=member, glimpse=glimpse, frames=frames, ended=ended, logged=logged, why=f"{what}; {how}"
            )


def _agrees(glimpse: OomGlimpse, ended: MarkedEnded) -> bool:
    """After its SIGKILL, that is; on another CPU it may be gone before its killer marks it."""
    itself = (ended.tgid, ended.tid) == (glimpse.trigger_tgid, glimpse.trigger_tid)
    since_ns = glimpse.ts_ns if glimpse.signal_ns is None else glimpse.signal_ns
    return ended.ts_ns >= since_ns and (itself or not glimpse.itself) and glimpse.victim_tid in {None, ended.tid}


def _what(glimpse: OomGlimpse, frames: Sequence[str] | None, logged: LoggedKill | None) -> str | None:
    """What was seen of it as a kill; `None`: it was none, or nothing shows that it was."""
    in_path = None if frames is None else KILL_PATH in frames
    near = glimpse.signal_ns is not None and 0 <= glimpse.ts_ns - glimpse.signal_ns <= BRACKET_NS
    # Of a bare pid only the kill path says that the thread's last SIGKILL went to that very task.
    signalled = near and (bool(glimpse.same_task) or bool(in_path) or logged is not None)
    if in_path is False or (signalled and glimpse.signal_result != TRACE_SIGNAL_DELIVERED):
        return None
    if signalled and in_path:
        return "SIGKILL and OOM mark in one step of the kernel's OOM killer"
    if signalled and logged is not None:
        return "SIGKILL by the kernel and an OOM mark in one context, and the kernel's log calls it a kill"
    if signalled:
        return "SIGKILL by the kernel and an OOM mark, but the kernel stack was not observed"
    if in_path:
        return "marked in the kernel's kill path, but its SIGKILL was not observed"
    return "marked, and the kernel's log says that it was killed" if logged is not None else None


def _whose(glimpse: OomGlimpse, ended: MarkedEnded | None, logged: LoggedKill | None) -> tuple[int | None, str]:
    """The pid of whom it was about, and how that is known."""
    if glimpse.itself:
        return glimpse.trigger_tgid, "it was allocating itself, and is known by its pid alone"
    if ended is not None:
        return ended.tgid, "it told its pid as it exited, and is known by that alone"
    if glimpse.victim_tid is not None:
        return glimpse.victim_tid, "it is known by its pid alone"
    return (None, "") if logged is None else (logged.pid, "that it was this one is the kernel's log's word")


def _logged(
    story: Story, glimpse: OomGlimpse, ended: MarkedEnded | None, glimpses: Sequence[OomGlimpse]
) -> LoggedKill | None:
    """The log's line of it: by its pid; without one, where no other line and no other kill can be meant."""
    near = [r for r in story.of(LoggedKill) if r.trusted and abs(r.ts_ns - glimpse.ts_ns) <= LOG_WINDOW_NS]
    pids = {glimpse.victim_tid, *((ended.tgid, ended.tid) if ended is not None else ())} - {None}
    if glimpse.itself:
        pids.add(glimpse.trigger_tgid)
    if pids:
        mine = [r for r in near if r.pid in pids]
        return min(mine, key=lambda r: abs(r.ts_ns - glimpse.ts_ns), default=None)
    others = [g for g in glimpses if g is not glimpse and abs(g.ts_ns - glimpse.ts_ns) <= 2 * LOG_WINDOW_NS]
    return near[0] if len(near) == 1 and not others else None

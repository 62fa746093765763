# SPDX-License-Identifier: Apache-2.0
"""Which processes the kernel killed for want of memory: joins signals, marks, stacks and log records to kills.

A mark is not a kill. `mark_oom_victim()` has three callers (mm/oom_kill.c, 4.18 to 7.x):

1. `__oom_kill_process()`: SIGKILL with SEND_SIG_PRIV just before, in the same context with the
   victim's task lock held, so on the same CPU by the same thread. This is a kill.
2. `oom_kill_process()` directly: the chosen task was dying already. No signal, no report, no kill.
3. `out_of_memory()` directly: `current` was dying already. Likewise.

Processes that share the victim's memory map get the same SIGKILL and no mark.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tracer.attribution.tree import Member
from tracer.events import (
    LoggedDecision,
    LoggedKill,
    LoggedUsage,
    MarkedEnded,
    OomDecision,
    OomGlimpse,
    OomLevel,
    OomMark,
    ProcessExited,
    ProcessId,
    SignalSent,
    process_id,
)
from tracer.events.signals import KERNEL_INFO, PF_EXITING, SIGKILL, TRACE_SIGNAL_DELIVERED
from tracer.verdict.glimpses import Glimpsed, find_glimpsed
from tracer.verdict.model import Rung, Status
from tracer.verdict.nearby import decision_of, levels_of, logged_decision, logged_kill, logged_usage
from tracer.verdict.stacks import KILL_PATH, frames_at
from tracer.verdict.story import Story
from tracer.verdict.windows import BRACKET_NS


class Kill(msgspec.Struct, frozen=True, kw_only=True):
    """One process that the kernel killed for want of memory, and what was seen of it."""

    id: ProcessId
    start_ns: int
    at_ns: int
    """The SIGKILL; without one the mark; without one the log record."""
    status: Status
    """Link 1: whether the whole bracket was seen."""
    why: str
    """What was seen, or what is missing."""
    signal: SignalSent | None = None
    mark: OomMark | None = None
    frames: tuple[str, ...] | None = None
    """The stack at the mark, function names only, innermost first; `None`: not observed."""
    levels: tuple[OomLevel, ...] = ()
    """The chain of its memory cgroups, own first."""
    decision: OomDecision | None = None
    logged: LoggedKill | None = None
    logged_decision: LoggedDecision | None = None
    logged_usage: LoggedUsage | None = None
    """Only where nothing better was observed: for a kill that the log alone tells of."""
    glimpse: OomGlimpse | None = None
    """In place of signal and mark, where the kernel's memory could not be read."""
    ended: MarkedEnded | None = None
    sharer_of: ProcessId | None = None
    """It shares this victim's memory map (as the signal suggests)."""
    group_member: bool = False
    """Killed because memory.oom.group is set above it."""

    @property
    def rung(self) -> Rung:
        """What link 1 rests on."""
        if self.mark is not None or self.signal is not None:
            return "bpf"
        return "kernel_log" if self.glimpse is None else "bpf_scalars"

    @property
    def evidence(self) -> tuple[int, ...]:
        """`seq` of what link 1 rests on."""
        parts = (self.signal, self.mark, self.glimpse, self.ended, self.logged)
        return tuple(event.seq for event in parts if event is not None)


class DyingMark(msgspec.Struct, frozen=True, kw_only=True):
    """A mark that was no kill: the process was dying already."""

    id: ProcessId
    start_ns: int
    mark: OomMark
    why: str
    signal: SignalSent | None = None
    """The kernel's SIGKILL in the context of the mark, which found it dying already."""
    frames: tuple[str, ...] | None = None
    levels: tuple[OomLevel, ...] = ()


class Kills(msgspec.Struct, frozen=True, kw_only=True):
    """All OOM kills in a recording, of the job and of others, in time order."""

    kills: tuple[Kill, ...]
    dying: tuple[DyingMark, ...]
    by_id: Mapping[ProcessId, Kill]

    def of(self, identity: ProcessId) -> Kill | None:
        """The kill of this process, if any."""
        return self.by_id.get(identity)

    def may_have_sent(self, signal: SignalSent) -> bool:
        """Whether a SIGKILL of the kernel's own came out of a run of the OOM killer, for all that is known.

        The same thread killed or marked another process than its own just then; or it went to one that had been marked
        as dying, and such a one gets none.
        """
        target = process_id(signal.tgid, signal.start_ns)
        sender = process_id(signal.sender_tgid, signal.sender_start_ns)
        everyone: tuple[Kill | DyingMark, ...] = (*self.kills, *self.dying)
        for one in everyone:
            told = one.mark or one.signal
            if told is None:
                continue
            if isinstance(one, DyingMark) and one.id == target and told.ts_ns <= signal.ts_ns:
                return True
            thread = told.trigger_tid if isinstance(told, OomMark) else told.sender_tid
            if thread == signal.sender_tid and one.id != sender and abs(signal.ts_ns - told.ts_ns) <= BRACKET_NS:
                return True
        return False


def find_kills(story: Story) -> Kills:
    """Join what the recording holds; joined by (tgid, start time) and context, never by order of arrival."""
    kills: dict[ProcessId, Kill] = {}
    dying: list[DyingMark] = []
    for mark in story.of(OomMark):
        tgid, start_ns = _marked(story, mark)
        identity = process_id(tgid, start_ns)
        if identity in kills:
            continue  # a mark for each thread: the first one counts
        found = _from_mark(story, tgid, start_ns, mark)
        if isinstance(found, Kill):
            kills[identity] = found
        else:
            dying.append(found)
    marked = {mark.id for mark in dying}
    by_trigger: dict[int, list[Kill]] = {}
    for kill in kills.values():
        if kill.mark is not None:
            by_trigger.setdefault(kill.mark.trigger_tid, []).append(kill)
    for signal in story.of(SignalSent):
        identity = process_id(signal.tgid, signal.start_ns)
        if is_kernel_kill_signal(signal) and identity not in kills and identity not in marked:
            unmarked = _from_signal(story, signal, by_trigger.get(signal.sender_tid, ()))
            if unmarked is not None:
                kills[unmarked.id] = unmarked
    if not story.pids_differ and not story.watched("mark_victim", "signal_generate"):
        glimpsed = [_from_glimpse(story, seen) for seen in find_glimpsed(story)]
        for kill in (*glimpsed, *_from_log(story, kills)):
            kills.setdefault(kill.id, kill)
    ordered = sorted(kills.values(), key=lambda k: (k.at_ns, k.id))
    return Kills(kills=tuple(ordered), dying=tuple(d for d in dying if d.id not in kills), by_id=kills)


def is_kernel_kill_signal(signal: SignalSent) -> bool:
    """SIGKILL by the kernel itself. Not only the OOM killer sends these (RLIMIT_CPU, pid namespace teardown, ...)."""
    return signal.signal == SIGKILL and signal.info in KERNEL_INFO


def _marked(story: Story, mark: OomMark) -> tuple[int, int]:
    """Whom the mark was for.

    The tracepoint's older form has a thread's id alone, and who is dying already gets no signal that would tell more.
    A process of that pid that was there then, and that had the mark when it exited, is the one.
    """
    if mark.tgid or story.pids_differ:
        return mark.tgid, mark.start_ns
    member = story.tree.alive_at(mark.tid, mark.ts_ns)
    if member is None or member.exit is None or not member.exit.oom_marked:
        return mark.tgid, mark.start_ns
    return member.id.tgid, member.start_ns


def _from_mark(story: Story, tgid: int, start_ns: int, mark: OomMark) -> Kill | DyingMark:
    identity = process_id(tgid, start_ns)
    bracket = _bracket(story, identity, mark)
    frames = frames_at(story, mark.ts_ns, mark.tgid)
    logged = logged_kill(story, mark)
    in_kill_path = None if frames is None else KILL_PATH in frames
    status, why = _judge_bracket(bracket, in_kill_path, logged)
    if status == "absent":
        levels = levels_of(story, mark)
        return DyingMark(
            id=identity, start_ns=start_ns, mark=mark, why=why, signal=bracket, frames=frames, levels=levels
        )
    return Kill(
        id=identity,
        start_ns=start_ns,
        at_ns=bracket.ts_ns if bracket is not None else mark.ts_ns,
        status=status,
        why=why,
        signal=bracket,
        mark=mark,
        frames=frames,
        levels=levels_of(story, mark),
        decision=decision_of(story, mark),
        logged=logged,
        logged_decision=logged_decision(story, tgid, mark.ts_ns, unnamed=frames is None),
        group_member=frames is not None and "oom_kill_memcg_member" in frames,
    )


def _judge_bracket(
    signal: SignalSent | None, in_kill_path: bool | None, logged: LoggedKill | None
) -> tuple[Status, str]:
    if signal is not None and signal.result != TRACE_SIGNAL_DELIVERED:
        return "absent", "marked by the OOM killer when it had a SIGKILL already or was exiting: not a kill"
    if signal is not None and in_kill_path:
        return "present", "SIGKILL and OOM mark in one step of the kernel's OOM killer"
    if signal is not None and in_kill_path is None and logged is not None:
        # __oom_kill_process() alone prints that line (4.18 to 7.x), just after the signal and the mark.
        return "present", "SIGKILL by the kernel and an OOM mark in one context, and the kernel's log calls it a kill"
    if signal is not None and in_kill_path is None:
        return "not_observed", "SIGKILL by the kernel and an OOM mark, but the kernel stack was not observed"
    if in_kill_path:
        return "not_observed", "marked in the kernel's kill path, but its SIGKILL was not observed"
    if logged is not None:
        return "not_observed", "marked, and the kernel's log says that it was killed, but the kill was not observed"
    if signal is None and in_kill_path is None:
        return "absent", "marked by the OOM killer, with nothing that shows a kill"
    return "absent", "marked by the OOM killer while it was already dying: not a kill"


def _bracket(story: Story, identity: ProcessId, mark: OomMark) -> SignalSent | None:
    """The kernel's own SIGKILL to the marked process from the very context of the mark, the newest before it."""
    found = [
        s
        for s in story.signals.get(identity, ())
        if is_kernel_kill_signal(s)
        and s.sender_tid == mark.trigger_tid
        and s.cpu == mark.cpu
        and 0 <= mark.ts_ns - s.ts_ns <= BRACKET_NS
    ]
    return found[-1] if found else None


def _from_signal(story: Story, signal: SignalSent, kills: Sequence[Kill]) -> Kill | None:
    """A kernel SIGKILL without a mark of its own: a sharer of a victim's memory map, or the mark was not recorded."""
    identity = process_id(signal.tgid, signal.start_ns)
    if signal.result != TRACE_SIGNAL_DELIVERED:
        return None
    victim = next((k for k in reversed(kills) if _same_oom(story, k, signal)), None)
    if victim is not None:
        why = f"SIGKILL by the kernel within the OOM kill of pid {victim.id.tgid}; a shared memory map was not observed"
    elif _marked_exit(story, identity) is not None:
        why = "SIGKILL by the kernel, and marked by the OOM killer when it exited; the mark itself was not observed"
    else:
        return None
    return Kill(
        id=identity,
        start_ns=signal.start_ns,
        at_ns=signal.ts_ns,
        status="not_observed",
        why=why,
        signal=signal,
        logged_decision=logged_decision(story, signal.tgid, signal.ts_ns),
        sharer_of=victim.id if victim is not None else None,
    )


def _same_oom(story: Story, kill: Kill, signal: SignalSent) -> bool:
    """Whether the signal came out of the same run of the OOM killer: same thread, just after the mark."""
    mark = kill.mark
    if mark is None or mark.trigger_tid != signal.sender_tid or not 0 <= signal.ts_ns - mark.ts_ns <= BRACKET_NS:
        return False
    # Once the trigger is exiting, its SIGKILLs may be the teardown of its pid namespace. Of one that is none of the
    # job's no exit is recorded, but its flags are.
    if signal.sender_flags & PF_EXITING:
        return False
    trigger = process_id(mark.trigger_tgid, mark.trigger_start_ns)
    exited = story.tree.processes[trigger].exit if trigger in story.tree.processes else None
    return exited is None or exited.ts_ns > signal.ts_ns


def _marked_exit(story: Story, identity: ProcessId) -> ProcessExited | None:
    member: Member | None = story.tree.processes.get(identity)
    exited = member.exit if member else None
    return exited if exited is not None and exited.oom_marked else None


def _from_glimpse(story: Story, seen: Glimpsed) -> Kill:
    """Never present: the process is known by its pid, and by /proc."""
    glimpse, member, logged = seen.glimpse, seen.member, seen.logged
    return Kill(
        id=member.id,
        start_ns=member.start_ns,
        at_ns=glimpse.ts_ns if glimpse.signal_ns is None else glimpse.signal_ns,
        status="not_observed",
        why=seen.why,
        glimpse=glimpse,
        ended=seen.ended,
        frames=seen.frames,
        logged=logged,
        logged_decision=logged_decision(story, member.id.tgid, glimpse.ts_ns),
        logged_usage=None if logged is None else logged_usage(story, logged),
        group_member=seen.frames is not None and "oom_kill_memcg_member" in seen.frames,
    )


def _from_log(story: Story, known: dict[ProcessId, Kill]) -> Iterable[Kill]:
    """Without BPF: a trusted log record about a process of the job that was alive then."""
    for logged in story.of(LoggedKill):
        member = story.tree.alive_at(logged.pid, logged.ts_ns) if logged.trusted else None
        if member is None or member.id in known:
            continue
        yield Kill(
            id=member.id,
            start_ns=member.start_ns,
            at_ns=logged.ts_ns,
            status="not_observed",
            why="the kernel's log says that it was killed; the kill itself was not watched",
            logged=logged,
            logged_decision=logged_decision(story, member.id.tgid, logged.ts_ns),
            logged_usage=logged_usage(story, logged),
        )

# SPDX-License-Identifier: Apache-2.0
"""What the kernel counts as an OOM kill, of what was seen: each run of __oom_kill_process() on who has memory.

That function raises the machine's count and that of the victim's cgroup, sends the SIGKILL, and marks
(mm/oom_kill.c, 4.18 to 7.x). So not everyone who dies is counted, and not every count is of one more who dies:

- Who shares the victim's memory gets the SIGKILL alone: not counted.
- Who is chosen when dying already is marked alone: not counted.
- A group's first victim is killed once more as a member of it, unless its memory is gone by then: counted twice, the
  second time with a SIGKILL that finds it dying.
- A member of a group that had its SIGKILL from elsewhere is marked and counted all the same.
"""

from collections.abc import Iterable

import msgspec

from tracer.events import Losses, ProcessId, SignalSent, process_id
from tracer.events.signals import PF_EXITING, TRACE_SIGNAL_DELIVERED
from tracer.verdict.kills import DyingMark, Kill, Kills, is_kernel_kill_signal
from tracer.verdict.stacks import KILL_PATH
from tracer.verdict.story import Story
from tracer.verdict.windows import BRACKET_NS

MARK = "oom_mark"
"""The record whose loss may be a kill that was not seen."""


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One count of the kernel, as far as it was seen."""

    id: ProcessId
    """Of the victim."""
    at_ns: int
    seq: int
    """Of the record by which it was known."""
    cgroups: tuple[int, ...]
    """Ids of the victim's memory cgroup and those above it, as far as they are known."""
    own_known: bool
    """The first of them is the victim's own."""
    all_known: bool
    again: bool = False
    """It is no further kill."""
    sure: bool = True
    """It may be none at all, if not."""
    unmarked: bool = False
    """Its mark was not recorded."""


def calls(story: Story, kills: Kills) -> tuple[Call, ...]:
    """All of them, in time order."""
    found = [_of_kill(k) for k in kills.kills if k.sharer_of is None]
    found += [_of_dying(d) for d in kills.dying if d.signal is not None and _may_count(d)]
    found += _repeats(story, kills)
    return tuple(sorted(found, key=lambda c: c.at_ns))


def first_victims(kills: Kills) -> tuple[Call, ...]:
    """Kills that the kernel may have counted once more: of a group, or of what may be one."""
    return tuple(
        _of_kill(k)
        for k in kills.kills
        if k.sharer_of is None and not k.group_member and (not k.levels or any(lv.oom_group for lv in k.levels))
    )


def _of_kill(kill: Kill) -> Call:
    event = kill.mark or kill.signal or kill.logged
    return _call(kill, kill.at_ns, event.seq if event is not None else 0)


def _call(of: Kill | DyingMark, at_ns: int, seq: int, *, again: bool = False) -> Call:
    mark, levels = of.mark, of.levels
    return Call(
        id=of.id,
        at_ns=at_ns,
        seq=seq,
        cgroups=tuple(level.cgroup_id for level in levels),
        own_known=bool(levels) and levels[0].depth == 0,
        all_known=mark is not None and bool(levels) and len(levels) >= mark.levels,
        again=again,
        unmarked=mark is None,
    )


def _may_count(dying: DyingMark) -> bool:
    # Names that were not observed leave it open.
    return dying.frames is None or KILL_PATH in dying.frames


def _of_dying(dying: DyingMark) -> Call:
    call = _call(dying, dying.mark.ts_ns, dying.mark.seq, again=True)
    return msgspec.structs.replace(call, sure=dying.frames is not None)


def _repeats(story: Story, kills: Kills) -> Iterable[Call]:
    """Second SIGKILLs to those whom the same run of the OOM killer had killed."""
    before: dict[tuple[int, ProcessId], list[Kill | DyingMark]] = {}
    by_thread: dict[int, list[Kill | DyingMark]] = {}
    sharing: set[int] = set()
    everyone: tuple[Kill | DyingMark, ...] = (*kills.kills, *kills.dying)
    for one in everyone:
        thread = _thread(one)
        if isinstance(one, Kill) and one.sharer_of is not None:
            # Whoever shares memory gets a SIGKILL for each kill of another who does: no count.
            sharing.add(thread)
        else:
            before.setdefault((thread, one.id), []).append(one)
            by_thread.setdefault(thread, []).append(one)
    brackets = {one.signal.seq for one in everyone if one.signal is not None}
    marks_lost = any(losses.dropped.get(MARK) for losses in story.of(Losses))
    for signal in story.of(SignalSent):
        # Once it is exiting, its SIGKILLs may be the teardown of its pid namespace.
        if not is_kernel_kill_signal(signal) or signal.sender_flags & PF_EXITING:
            continue
        if signal.result == TRACE_SIGNAL_DELIVERED or signal.seq in brackets:
            continue
        known = before.get((signal.sender_tid, process_id(signal.tgid, signal.start_ns)), ())
        kill = next((k for k in known if 0 <= signal.ts_ns - _at_ns(k) <= BRACKET_NS), None)
        # Where marks were lost, that of its target may be among them.
        near = by_thread.get(signal.sender_tid, ()) if marks_lost and not known else ()
        kill = kill or next((k for k in near if abs(signal.ts_ns - _at_ns(k)) <= BRACKET_NS), None)
        if kill is not None:
            sure = bool(known) and signal.sender_tid not in sharing
            call = _call(kill, signal.ts_ns, signal.seq, again=True)
            yield msgspec.structs.replace(call, sure=sure, unmarked=False)


def _thread(one: Kill | DyingMark) -> int:
    """That ran the OOM killer; 0: not known."""
    if one.mark is not None:
        return one.mark.trigger_tid
    return one.signal.sender_tid if one.signal is not None else 0


def _at_ns(one: Kill | DyingMark) -> int:
    return one.mark.ts_ns if one.mark is not None else one.signal.ts_ns if one.signal is not None else 0

# SPDX-License-Identifier: Apache-2.0
"""Link 2: what ran out: the machine, a cpuset, a memory policy or a cgroup's limit, with the figures at the mark."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from tracer.attribution.cgroup_paths import place_of
from tracer.events import (
    CgroupSample,
    Constraint,
    LogGap,
    LoggedDecision,
    LoggedInvocation,
    LoggedSwap,
    OomLevel,
    PressureSample,
)
from tracer.units import NS_PER_S, format_bytes, format_duration, format_limit, has_limit
from tracer.verdict.kills import Kill
from tracer.verdict.model import Cause, Level, Limit, Rung, Status
from tracer.verdict.owner import PRINTK_HOOK, find_owner, memsw
from tracer.verdict.story import Story

PRESSURE_NEAR_NS = 10 * NS_PER_S
"""Short of memory the samples themselves have to wait."""
ENOUGH = 0.1
"""Of the machine's memory: with so much available it was not the machine that ran out."""
SYSRQ_ORDER = -1

CONSTRAINT_NAMES = {each.value: each.name for each in Constraint}
CAUSES: dict[str | None, Cause] = {
    "CONSTRAINT_NONE": "host_oom_global",
    "CONSTRAINT_CPUSET": "host_oom_cpuset",
    "CONSTRAINT_MEMORY_POLICY": "host_oom_mempolicy",
    "CONSTRAINT_MEMCG": "host_oom_cgroup",
}


class Shortage(msgspec.Struct, frozen=True, kw_only=True):
    """What ran out, and what that is known from."""

    cause: Cause
    status: Status
    statement: str
    limit: Limit
    evidence: tuple[int, ...] = ()
    caveats: tuple[str, ...] = ()
    rung: Rung | None = None
    via: tuple[str, ...] = ()
    """The hooks of that rung that told of it."""


class LimitKind(NamedTuple):
    """What kind of limit it was, and what told."""

    name: str | None
    by: str | None = None
    sure: bool = True


def find_shortage(story: Story, kill: Kill) -> Shortage:
    """Whose limit the kill was for."""
    chain = _chain(story, kill)
    if _by_operator(story, kill):
        told = _constraint(story, kill)
        limit = Limit(constraint=told.name, constraint_by=told.by, chain=chain)
        statement = "an operator asked for it (sysrq-f): the host need not be out of memory"
        by_log = kill.frames is None and kill.decision is None
        rung: Rung = "kernel_log" if by_log else "bpf" if kill.mark is not None else "bpf_scalars"
        via = () if by_log else _decided_by(story, kill) or ("kernel_stack",)
        return Shortage(cause="operator_oom", status="present", statement=statement, limit=limit, rung=rung, via=via)
    constraint = _constraint(story, kill)
    if constraint.name == "CONSTRAINT_MEMCG":
        return _memcg(story, kill, chain, constraint)
    if constraint.name is None and kill.frames is None and _enough_elsewhere(story, kill):
        found = _memcg(story, kill, chain, constraint)
        if found.status == "present":  # only one limit can be meant, but that it was a limit is not the kernel's word
            return msgspec.structs.replace(found, status="not_observed")
    return _machine(story, kill, constraint, chain)


def _by_operator(story: Story, kill: Kill) -> bool | None:
    """Whether it was asked for; `None`: nothing tells."""
    by_stack = None if kill.frames is None else "moom_callback" in kill.frames
    report = report_of(story, kill)
    order = kill.decision.order if kill.decision is not None else report[0].order if report else None
    return by_stack or (by_stack if order is None else order == SYSRQ_ORDER)


def _decided_by(story: Story, kill: Kill) -> tuple[str, ...]:
    return story.hook_names("oom_kill_process") if kill.decision is not None else ()


def _constraint(story: Story, kill: Kill) -> LimitKind:
    """As the kernel decided it: BPF first, then the stack, then its own words. Machine-wide or not may be unknown."""
    if kill.decision is not None and kill.decision.constraint is not None:
        by = next(iter(_decided_by(story, kill)), None)
        return LimitKind(CONSTRAINT_NAMES.get(kill.decision.constraint), by)
    if kill.frames is not None and {"mem_cgroup_out_of_memory", "mem_cgroup_oom_synchronize"} & set(kill.frames):
        return LimitKind("CONSTRAINT_MEMCG", "kernel_stack")
    told = kill.logged_decision
    if told is not None and told.constraint == "CONSTRAINT_MEMCG" and kill.frames is not None:
        return LimitKind(None)  # the stack says otherwise
    if told is None and kill.logged is not None and kill.logged.memcg:
        return LimitKind("CONSTRAINT_MEMCG", "kmsg")
    if told is None or told.constraint not in CAUSES:
        return LimitKind(None)
    return LimitKind(told.constraint, _told_by(told), told.trusted)


def _told_by(told: LoggedDecision) -> str:
    return PRINTK_HOOK if told.source == "printk_console" else "kmsg"


def _rung(by: Sequence[str | None]) -> Rung:
    """Of what the kernel said in words."""
    return "printk_console" if PRINTK_HOOK in by else "kernel_log"


def _memcg(story: Story, kill: Kill, chain: tuple[Level, ...], constraint: LimitKind) -> Shortage:
    owner = find_owner(story, kill, [level.cgroup for level in chain])
    chain = tuple(msgspec.structs.replace(level, owner=level.cgroup in owner.cgroups) for level in chain)
    levels = [level for level in chain if level.owner]
    lowest = levels[0] if len(levels) == 1 or (levels and owner.sure) else None
    limit = Limit(
        constraint="CONSTRAINT_MEMCG",
        constraint_by=constraint.by,
        cgroup_by=owner.by,
        cgroup=owner.cgroups[0] if owner.cgroups else None,
        cgroups=owner.cgroups,
        usage_bytes=lowest.usage_bytes if lowest else None,
        limit_bytes=lowest.limit_bytes if lowest else None,
        chain=chain,
        place=place_of(owner.cgroups[0]) if len(owner.cgroups) == 1 else None,
    )
    used = f"{_usage(lowest)}; " if lowest is not None else ""
    if not kill.levels and kill.logged_usage is not None:
        usage_bytes, limit_bytes = kill.logged_usage.usage_bytes, kill.logged_usage.limit_bytes
        limit = msgspec.structs.replace(limit, usage_bytes=usage_bytes, limit_bytes=limit_bytes)
        used = f"{format_bytes(usage_bytes)} of {format_limit(limit_bytes)}; "
    names = " or ".join(owner.cgroups)
    statement = f"limit of {names}: {used}{owner.how}{_others(chain)}"
    return Shortage(
        cause="host_oom_cgroup",
        status="present" if owner.sure and constraint.sure else "not_observed",
        statement=statement if owner.cgroups else "a cgroup limit was hit; which one could not be seen",
        limit=limit,
        evidence=tuple(e.seq for e in (*kill.levels, kill.logged_decision) if e is not None),
        caveats=owner.caveats,
        rung=_memcg_rung(kill, (constraint.by, *owner.by)),
        via=tuple(dict.fromkeys(by for by in (constraint.by, *owner.by) if by is not None and by != "kmsg")),
    )


def _memcg_rung(kill: Kill, by: Sequence[str | None]) -> Rung:
    if kill.levels or kill.decision or (kill.frames and kill.glimpse is None):
        return "bpf"
    return "bpf_scalars" if kill.frames else _rung(by)


def _swap(story: Story, level: OomLevel) -> tuple[int | None, int | None]:
    """Usage and limit of swap alone."""
    if story.header is not None and story.header.cgroup_version == 1:
        both = level.swap_usage_bytes
        return (None if both is None else max(0, both - level.usage_bytes), None)
    return level.swap_usage_bytes, level.swap_limit_bytes if has_limit(level.swap_limit_bytes) else None


def _chain(story: Story, kill: Kill) -> tuple[Level, ...]:
    return tuple(_level(story, kill, index) for index in range(len(kill.levels)))


def _level(story: Story, kill: Kill, index: int) -> Level:
    level = kill.levels[index]
    swap_usage_bytes, swap_limit_bytes = _swap(story, level)
    memsw_usage_bytes, memsw_limit_bytes = memsw(story, level)
    path = _path(story, kill.levels, index)
    return Level(
        cgroup=path,
        usage_bytes=level.usage_bytes,
        limit_bytes=level.limit_bytes if has_limit(level.limit_bytes) else None,
        limited=has_limit(level.limit_bytes),
        swap_usage_bytes=swap_usage_bytes,
        swap_limit_bytes=swap_limit_bytes,
        memsw_usage_bytes=memsw_usage_bytes,
        memsw_limit_bytes=memsw_limit_bytes,
        oom_events=level.events_local_oom,
        place=place_of(path),
    )


def _path(story: Story, levels: Sequence[OomLevel], index: int) -> str:
    """From the names that the kernel gave; where the chain is incomplete, from what the cgroup's files were called."""
    above = levels[index:]
    whole = [level.depth for level in above] == list(range(above[0].depth, above[0].depth + len(above)))
    if whole and above[-1].name == "" and not any(level.name_cut for level in above):
        return "/" + "/".join(level.name for level in reversed(above[:-1]))
    named = next((s.path for s in story.of(CgroupSample) if s.cgroup_id == levels[index].cgroup_id), None)
    return named or f"cgroup {levels[index].cgroup_id} ({levels[index].name or '/'})"


def _usage(level: Level) -> str:
    text = f"{format_bytes(level.usage_bytes)} of {format_limit(level.limit_bytes)}"
    if not level.limited:
        text = f"{format_bytes(level.usage_bytes)} used"
    if level.memsw_limit_bytes is not None:
        text += f", with swap {format_bytes(level.memsw_usage_bytes)} of {format_bytes(level.memsw_limit_bytes)}"
    if level.swap_limit_bytes and level.swap_usage_bytes is not None:
        text += f", swap {format_bytes(level.swap_usage_bytes)} of {format_bytes(level.swap_limit_bytes)}"
    return text


def _others(chain: Sequence[Level]) -> str:
    limited = [level for level in chain if level.limited and not level.owner]
    if not limited:
        return ""
    nearest = max(limited, key=lambda level: (level.usage_bytes or 0) / max(level.limit_bytes or 1, 1))
    return f"; nearest other limit: {nearest.cgroup} at {_usage(nearest)}"


def _machine(story: Story, kill: Kill, told: LimitKind, chain: tuple[Level, ...]) -> Shortage:
    constraint = told.name
    pressure, swap = _pressure_before(story, kill), _swap_in_report(story, kill)
    free, total = (pressure.swap_free_bytes, pressure.swap_total_bytes) if pressure else (None, None)
    if swap:
        free, total = (each.size_bytes for each in swap)
    limit = Limit(
        constraint=constraint,
        constraint_by=told.by,
        chain=chain,
        mem_available_bytes=pressure.mem_available_bytes if pressure else None,
        swap_free_bytes=free,
        swap_total_bytes=total,
    )
    parts = [_memory(pressure, kill.at_ns)] if pressure else []
    if total:
        parts.append(f"{'at the kill ' if swap else ''}swap {format_bytes(free)} free of {format_bytes(total)}")
    memory = f"; {', '.join(parts)}" if parts else ""
    if constraint is None:
        statement = f"which limit ran out was not observed{memory}"
        rung: Rung | None = "proc" if pressure else None
        return Shortage(
            cause="host_oom_unknown_scope", status="not_observed", statement=statement, limit=limit, rung=rung
        )
    what = {
        "CONSTRAINT_NONE": "the whole machine was out of memory",
        "CONSTRAINT_CPUSET": "the memory nodes of its cpuset were full",
        "CONSTRAINT_MEMORY_POLICY": "the memory nodes of its memory policy were full",
    }[constraint]
    evidence = tuple(e.seq for e in (kill.decision, kill.logged_decision, pressure, *swap) if e is not None)
    return Shortage(
        cause=CAUSES[constraint],
        # Where only its words tell of a scope, these must tell that nobody asked for it as well.
        status="present" if told.sure and _by_operator(story, kill) is False else "not_observed",
        statement=what + memory,
        limit=limit,
        evidence=evidence,
        rung="bpf" if kill.decision is not None and kill.decision.constraint is not None else _rung((told.by,)),
        via=() if told.by in {None, "kmsg"} else (told.by,),
    )


def _enough_elsewhere(story: Story, kill: Kill) -> bool:
    """Whether the machine itself had memory when it was last looked at."""
    pressure = _pressure_before(story, kill)
    if pressure is None or not pressure.mem_total_bytes or pressure.mem_available_bytes is None:
        return False
    return pressure.mem_available_bytes >= ENOUGH * pressure.mem_total_bytes


def _pressure_before(story: Story, kill: Kill) -> PressureSample | None:
    # Never one from after the kill: by then the victim's memory is free again, and speaks against the truth.
    before = [p for p in story.of(PressureSample) if 0 <= kill.at_ns - p.ts_ns <= PRESSURE_NEAR_NS]
    return before[-1] if before else None


def _swap_in_report(story: Story, kill: Kill) -> tuple[LoggedSwap, ...]:
    """What of the machine's swap was free and what there was, as the kernel's report of this kill has it.

    At the kill itself: a sample may be seconds old by then, and swap is full within these. Reports do not overlap
    (oom_lock): what stands between a report's first line and its decision is its own. Empty: not to be had.
    """
    report = report_of(story, kill)
    if report is None:
        return ()
    first, last = report[0].log_seq or 0, report[1].log_seq or 0
    found = {e.counter: e for e in story.of(LoggedSwap) if e.trusted and first < (e.log_seq or 0) < last}
    return (found["free"], found["total"]) if found.keys() == {"free", "total"} else ()


def report_of(story: Story, kill: Kill) -> tuple[LoggedInvocation, LoggedDecision] | None:
    """The first line of the kernel's report of this kill, and its decision."""
    decision = kill.logged_decision
    last = decision.log_seq if decision is not None else None
    if decision is None or last is None:
        return None
    begun = [e for e in story.of(LoggedInvocation) if e.trusted and e.log_seq is not None and e.log_seq < last]
    if not begun or any(gap.ts_ns >= begun[-1].ts_ns for gap in story.of(LogGap)):
        return None  # another report's, for all that is known
    return begun[-1], decision


def _memory(pressure: PressureSample, at_ns: int) -> str:
    available, total = format_bytes(pressure.mem_available_bytes), format_bytes(pressure.mem_total_bytes)
    return f"{format_duration(at_ns - pressure.ts_ns)} before, {available} of {total} were available"

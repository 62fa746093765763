# SPDX-License-Identifier: Apache-2.0
"""The story in order of time: memory, reclaim, marks, signals, kill, exits. Everything a view shows as a line."""

from collections.abc import Iterable, Sequence

from tracer.events import (
    CgroupSample,
    OomMark,
    ProcessId,
    ReclaimSample,
    SignalSent,
    process_id,
)
from tracer.events.signals import SIGKILL, SIGTERM
from tracer.units import MIB, NS_PER_S, format_bytes, format_duration
from tracer.verdict import growth, people, said_rows, senders, terminations
from tracer.verdict.counters import rises
from tracer.verdict.cuda import rows as cuda_rows
from tracer.verdict.deaths import Death, signal_name
from tracer.verdict.folding import folded
from tracer.verdict.incident import TRAINING_ROLES, Case, Finding
from tracer.verdict.kills import Kill
from tracer.verdict.model import Entry, EntryKind, Series

MAX_GROWERS = 3
FLAT_BYTES = 4 * MIB
LEAST_SHARE = 0.25
"""A curve of its own is for those that grew at least this much of what the most grown did."""
RECLAIM_WINDOW_NS = 10 * NS_PER_S
MAX_ENTRIES = 60
SHOWN_VICTIMS = 6
"""Of one incident; how many more there were is told in one line."""


def build(case: Case, primary: Finding, downed: set[ProcessId]) -> tuple[Entry, ...]:
    """Entries in time order; times are relative to the primary incident."""
    entries = [
        *_start(case, primary),
        *_memory(case, primary),
        *_cgroup(case, primary),
        *_reclaim(case, primary),
        *_dying(case, primary),
        *_kills(case, primary),
        *_signals(case, primary, downed),
        *_exits(case, primary, downed),
        *_gone(case, primary),
        *_counted(case, primary),
        *said_rows.rows(case, primary),
        *cuda_rows.rows(case, primary),
    ]
    ordered = sorted(entries, key=_place)
    return tuple(_thinned(folded(ordered)))


def _place(entry: Entry) -> tuple[int, bool, tuple[int, ...], str]:
    """In time order; of what was read at once lines of the log stand as they were written."""
    return entry.at_ns, entry.kind != "memory", entry.evidence if entry.kind == "log" else (), entry.who


def _thinned(entries: Sequence[Entry]) -> Iterable[Entry]:
    """All that matters stays; of the rest the first ones, and the number of those left out is said."""
    spare = MAX_ENTRIES - sum(1 for e in entries if e.primary or e.series is not None)
    left_out = 0
    for entry in entries:
        if entry.primary or entry.series is not None:
            yield entry
        elif spare > 0:
            spare -= 1
            yield entry
        else:
            left_out += 1
    if left_out:
        last = entries[-1]
        yield Entry(at_ns=last.at_ns, offset_ns=last.offset_ns, kind="note", who="", text=f"{left_out} more events")


def _entry(about: Finding, at_ns: int, kind: EntryKind, who: str, text: str, **more: object) -> Entry:
    return Entry(at_ns=at_ns, offset_ns=at_ns - about.at_ns, kind=kind, who=who, text=text, **more)  # type: ignore[arg-type]


def _start(case: Case, primary: Finding) -> Iterable[Entry]:
    job = case.story.job
    if job is not None:
        argv = case.story.command
        command = " ".join(argv) if argv else "the job"
        command = f"attached to {command}" if job.attached else command
        who = people.short(case.story, process_id(job.tgid, job.start_ns))
        yield _entry(primary, job.ts_ns, "start", who, command, pid=job.tgid, evidence=(job.seq,))


def _memory(case: Case, primary: Finding) -> Iterable[Entry]:
    """The most grown, each with its curve, the victim among them; the rest in one line."""
    victims = [k for k in case.kills.kills if k.id in primary.ids]
    found = growth.growths(case.story, primary.at_ns, victims)
    least = max(FLAT_BYTES, found[0].grown_bytes * LEAST_SHARE) if found else FLAT_BYTES
    shown = [g for g in found[:MAX_GROWERS] if g.grown_bytes >= least]
    if primary.kind == "oom":
        shown += [g for g in found if g.id == primary.ids[0] and g not in shown and len(g.points) > 1]
    group, name = _alike(case, found) if primary.kind == "oom" else ((), "")
    if len(group) > 1:
        shown = [g for g in shown if g not in group or g.id == primary.ids[0]]
        yield _group_entry(primary, group, name)
    for grown in shown:
        rate = grown.rate_bytes_per_s
        speed = f", {format_bytes(round(rate))}/s" if rate is not None and abs(rate) >= MIB else ""
        text = f"{format_bytes(grown.first_bytes)} to {format_bytes(grown.last_bytes)}{speed}"
        at_ns = grown.first_ns
        who = people.short(case.story, grown.id)
        yield _entry(primary, at_ns, "memory", who, text, pid=grown.id.tgid, series=grown.series())
    rest = [g for g in found if g not in shown and g not in group and g.id not in primary.ids]
    if shown and rest:
        low, high = min(g.last_bytes for g in rest), max(g.last_bytes for g in rest)
        size = format_bytes(low) if low == high else f"{format_bytes(low)} to {format_bytes(high)}"
        most = max(g.grown_bytes for g in rest)
        names = f"{len(rest)} others" if len(rest) > 1 else people.short(case.story, rest[0].id)
        text = f"{size}{' each' if len(rest) > 1 else ''}"
        text += f", grown by {format_bytes(most)} at most" if most >= FLAT_BYTES else ", flat"
        yield _entry(primary, min(g.first_ns for g in rest), "memory", names, text)


def _alike(case: Case, found: Sequence[growth.Growth]) -> tuple[Sequence[growth.Growth], str]:
    for role, name in (("dataloader_worker", "workers"), ("rank", "ranks")):
        group = growth.role_group(case.story, found, role)
        if len(group) > 1:
            return group, name
    return (), ""


def _group_entry(primary: Finding, group: Sequence[growth.Growth], name: str) -> Entry:
    """Workers that grew alike: one curve, of them all together."""
    first_ns, last_ns = min(g.first_ns for g in group), max(g.last_ns for g in group)
    series = [growth.resample(g.points, first_ns, last_ns).values_bytes for g in group]
    summed = tuple(sum(v or 0 for v in step) for step in zip(*series, strict=True))
    grown = [g.grown_bytes for g in group]
    least, most = format_bytes(min(grown)), format_bytes(max(grown))
    each = f"{most} more each" if least == most else f"{least} to {most} more each"
    first, last = sum(g.first_bytes for g in group), sum(g.last_bytes for g in group)
    text = f"{format_bytes(first)} to {format_bytes(last)} together, {each}"
    limit = primary.incident.limit
    if limit is not None and limit.usage_bytes is not None and last > limit.usage_bytes:
        # Pages that forks share are counted in each of them: the sum is more than there was.
        first, last = min(g.first_bytes for g in group), max(g.last_bytes for g in group)
        text = f"{format_bytes(first)} to {format_bytes(last)} each, {each.removesuffix(' each')}"
    whole = Series(values_bytes=summed, first_ns=first_ns, last_ns=last_ns)
    return _entry(primary, first_ns, "memory", f"{len(group)} {name}", text, series=whole)


def _cgroup(case: Case, primary: Finding) -> Iterable[Entry]:
    """Usage of the cgroup whose limit was hit."""
    limit = primary.incident.limit
    kill = case.kills.of(primary.ids[0]) if primary.ids else None
    if limit is None or kill is None or limit.cgroup is None:
        return
    owners = [level.owner for level in limit.chain]
    owner = kill.levels[owners.index(True)].cgroup_id if kill.levels and True in owners else None
    points: list[tuple[int, int]] = [
        (s.ts_ns, s.usage_bytes)
        for s in case.story.of(CgroupSample)
        if s.usage_bytes is not None and s.ts_ns <= kill.at_ns and s.cgroup_id == owner is not None
    ]
    if not points or limit.usage_bytes is None:
        return
    points.append((kill.at_ns, limit.usage_bytes))
    series: Series = growth.resample(points, points[0][0], points[-1][0])
    text = f"{format_bytes(points[0][1])} to {format_bytes(limit.usage_bytes)} of {format_bytes(limit.limit_bytes)}"
    yield _entry(primary, points[0][0], "memory", "cgroup", text, series=series)


def _reclaim(case: Case, primary: Finding) -> Iterable[Entry]:
    """How hard the kernel tried to free memory just before."""
    if primary.kind != "oom":
        return
    kill = case.kills.of(primary.ids[0])
    ids = {level.cgroup_id for level in kill.levels} if kill is not None else set()
    if kill is not None:
        ids |= _own_cgroup(case)
    by_cgroup: dict[int, list[ReclaimSample]] = {}
    for sample in case.story.of(ReclaimSample):
        if sample.cgroup_id in ids:
            by_cgroup.setdefault(sample.cgroup_id, []).append(sample)
    runs = stall_ns = direct = 0
    first_ns = None
    for samples in by_cgroup.values():
        inside = [s for s in samples if -RECLAIM_WINDOW_NS <= s.ts_ns - primary.at_ns <= NS_PER_S]
        before = [s for s in samples if s.ts_ns < primary.at_ns - RECLAIM_WINDOW_NS]
        if inside:
            last, base = inside[-1], before[-1] if before else None
            runs += last.memcg_runs - (base.memcg_runs if base else 0)
            direct += last.direct_runs - (base.direct_runs if base else 0)
            stall_ns += last.memcg_stall_ns + last.direct_stall_ns
            stall_ns -= base.memcg_stall_ns + base.direct_stall_ns if base else 0
            first_ns = min(first_ns or inside[0].ts_ns, inside[0].ts_ns)
    if first_ns is not None and runs + direct:
        of_what = f"{runs} runs at the limit" + (f", {direct} for the machine" if direct else "")
        text = f"{of_what}, tasks stalled {format_duration(stall_ns)} in all"
        yield _entry(primary, min(first_ns, primary.at_ns), "reclaim", "kernel", text)


def _own_cgroup(case: Case) -> set[int]:
    """The cgroup made for the job: a sibling of the victim stalls for the same limit."""
    job = case.story.job
    return {job.cgroup_id} if job is not None and job.cgroup_id is not None and job.own_cgroup else set()


def _dying(case: Case, primary: Finding) -> Iterable[Entry]:
    for mark in case.kills.dying:
        outside = not case.story.is_ours(mark.id.tgid, mark.start_ns)
        who = f"{mark.mark.comm} {mark.id.tgid}" if outside else people.short(case.story, mark.id)
        if not mark.id.tgid:  # an old kernel's tracepoint tells the thread alone
            who = f"thread {mark.mark.tid}"
        yield _entry(
            primary,
            mark.mark.ts_ns,
            "mark",
            who,
            mark.why,
            pid=mark.id.tgid,
            outside=outside,
            evidence=(mark.mark.seq,),
        )


def _kills(case: Case, primary: Finding) -> Iterable[Entry]:
    victims, folded_away = set(primary.ids), set(primary.ids[SHOWN_VICTIMS:])
    ours = [k for k in case.kills.kills if case.story.is_ours(k.id.tgid, k.start_ns)]
    others = [k for k in case.kills.kills if not case.story.is_ours(k.id.tgid, k.start_ns)]
    unshown = [kill for kill in ours if kill.id in folded_away]
    if unshown:
        last = unshown[-1]
        text = f"for the same shortage, the last {format_duration(last.at_ns - primary.at_ns)} after the first"
        yield _entry(primary, last.at_ns, "kill", f"{len(unshown)} more", text, evidence=last.evidence)
    for kill in ours:
        if kill.id not in folded_away:
            text = _memory_text(kill.mark) if kill.mark is not None else "killed by the kernel for want of memory"
            yield _kill(case, primary, kill, text, primary_one=kill.id in victims)
    # Of others the nearest one: what they are to this job is not known, and a busy machine has many.
    if others:
        nearest = min(others, key=lambda k: abs(k.at_ns - primary.at_ns))
        unsure = case.story.may_be_ours(nearest.levels, nearest.at_ns)
        text = "killed; whether it was of this job is not known" if unsure else "killed"
        text += f", and {len(others) - 1} more" if len(others) > 1 else ""
        yield _kill(case, primary, nearest, text, outside=not unsure, named=True)


def _kill(
    case: Case,
    about: Finding,
    kill: Kill,
    text: str,
    *,
    primary_one: bool = False,
    outside: bool = False,
    named: bool = False,
) -> Entry:
    comm = kill.mark.comm if kill.mark is not None else "?"
    who = f"{comm} {kill.id.tgid}" if named else people.short(case.story, kill.id)
    return _entry(
        about,
        kill.at_ns,
        "kill",
        who,
        text,
        pid=kill.id.tgid,
        primary=primary_one,
        outside=outside,
        evidence=kill.evidence,
    )


def _memory_text(mark: OomMark) -> str:
    """What the victim held; anonymous memory always, the rest where there is any."""
    parts = (
        (mark.anon_rss_bytes, "anonymous"),
        (mark.file_rss_bytes, "file"),
        (mark.shmem_rss_bytes, "shared"),
        (mark.swap_bytes, "swapped"),
    )
    return ", ".join(f"{format_bytes(size)} {kind}" for size, kind in parts if size or kind == "anonymous")


def _signals(case: Case, primary: Finding, downed: set[ProcessId]) -> Iterable[Entry]:
    """Signals that ended a process of the job, OOM kills aside, and every SIGTERM to one with what came of it."""
    tidied = {d.id for d in case.deaths if _tidied_up(case, primary, d)}
    fatal = [(d.by, d.id) for d in case.deaths if d.by is not None]
    told = {signal.seq: (signal, who) for signal, who in (*fatal, *terminations.shown(case)) if who not in tidied}
    for signal, identity in told.values():
        if case.kills.of(identity) is None or signal.signal != SIGKILL:
            later = signal.ts_ns > primary.at_ns
            yield _signal(case, primary, signal, identity, collateral=later and identity in downed)


def _signal(case: Case, primary: Finding, signal: SignalSent, identity: ProcessId, *, collateral: bool) -> Entry:
    came = terminations.outcome(case, signal) if signal.signal == SIGTERM else ""
    return _entry(
        primary,
        signal.ts_ns,
        "signal",
        people.short(case.story, identity),
        f"{signal_name(signal.signal)} from {senders.sender_in_short(case.story, signal)}{came}",
        pid=identity.tgid,
        primary=identity in primary.ids and signal.ts_ns == primary.at_ns,
        collateral=collateral,
        evidence=(signal.seq,),
    )


def _exits(case: Case, primary: Finding, downed: set[ProcessId]) -> Iterable[Entry]:
    """Ends of those with a part in it; the quiet ones are counted."""
    quiet: list[Death] = []
    victims, folded_away = set(primary.ids), set(primary.ids[SHOWN_VICTIMS:])
    for death in case.deaths:
        if death.id in folded_away:
            continue
        if death.id in victims or death.id in downed or _worth_telling(case, primary, death):
            only_marked = death.exit is not None and death.exit.oom_marked and case.kills.of(death.id) is None
            marked = ", marked by the OOM killer" if only_marked else ""
            yield _entry(
                primary,
                death.at_ns,
                "exit",
                people.short(case.story, death.id),
                f"{death.status}{marked}",
                pid=death.id.tgid,
                primary=death.id in victims,
                collateral=death.id in downed,
                evidence=death.evidence,
            )
        else:
            quiet.append(death)
    if quiet:
        failed = sum(1 for d in quiet if d.failed)
        count = "1 other" if len(quiet) == 1 else f"{len(quiet)} others"
        how = "ended quietly" if not failed else f"ended, {failed} with a non-zero status"
        yield _entry(primary, quiet[-1].at_ns, "exit", count, how)


def _worth_telling(case: Case, primary: Finding, death: Death) -> bool:
    """The root's end, and failures: of a helper only a signal, since many exit with some status by design."""
    if death.id in case.tops:
        return True
    role = case.story.roles.get(death.id)
    part = role is not None and role.name in TRAINING_ROLES
    return bool(death.signal or (death.code and part)) and not _tidied_up(case, primary, death)


def _tidied_up(case: Case, primary: Finding, death: Death) -> bool:
    """Whether a job that ended well had stopped this process by itself, as a loader does with its workers."""
    root = case.root_death
    if primary.kind != "end" or root is None or root.failed:
        return False
    by = death.by or death.terminated
    who = senders.sender(case.story, by) if by is not None else None
    return who is not None and who.kind in {"launcher", "job"}


def _gone(case: Case, primary: Finding) -> Iterable[Entry]:
    for member in case.story.tree.members.values():
        if member.gone is not None and case.death(member.id) is None:
            yield _entry(
                primary,
                member.gone.ts_ns,
                "gone",
                people.short(case.story, member.id),
                "vanished; how it ended was not seen",
                pid=member.id.tgid,
                evidence=(member.gone.seq,),
            )


def _counted(case: Case, primary: Finding) -> Iterable[Entry]:
    """Rises of the count of OOM kills, where nothing better was watched."""
    if case.story.watched("mark_victim", "signal_generate"):
        return
    for rise in rises(case.story):
        who = "machine" if rise.cgroup is None else "cgroup"
        text = f"its count of OOM kills rose by {rise.kills}"
        yield _entry(primary, rise.to_ns, "oom", who, text, outside=rise.cgroup is None, evidence=rise.evidence)

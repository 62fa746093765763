# SPDX-License-Identifier: Apache-2.0
"""Kills by the kernel for want of host memory: one incident a shortage, with the five links of its proof."""

from collections.abc import Iterable, Sequence

import msgspec

from tracer.events import IdentityBy, MarkedEnded
from tracer.events.signals import SIGKILL
from tracer.units import NS_PER_S, format_bytes, format_duration
from tracer.verdict import growth, people, senders, shm_owners
from tracer.verdict.cuda import document, unaccounted
from tracer.verdict.cuda.link import caveats as cuda_caveats, not_cuda
from tracer.verdict.incident import Case, Finding, belongs, doubt_caveats, strength
from tracer.verdict.kills import Kill
from tracer.verdict.limit import Shortage
from tracer.verdict.limit_counted import shortage_of
from tracer.verdict.mechanisms.explain import explain
from tracer.verdict.model import Cause, Incident, Link, Status, Strength
from tracer.verdict.story import SCALAR_SUFFIX

ONE_INCIDENT_NS = 1 * NS_PER_S
"""Memory of a first victim is still being freed this long, and others die for the same shortage."""
IN_TIME_NS = 60 * NS_PER_S
"""A victim stuck in the kernel may take long to exit; beyond this something else may have come between."""

HEADLINES = {
    "host_oom_global": "by the kernel: the machine ran out of host RAM",
    "host_oom_cgroup": "by the kernel: host RAM ran out at a cgroup limit",
    "host_oom_cpuset": "by the kernel: host RAM of its cpuset ran out",
    "host_oom_mempolicy": "by the kernel: host RAM of its memory policy ran out",
    "host_oom_unknown_scope": "by the kernel for want of host RAM",
    "operator_oom": "by the kernel: an operator asked for an OOM kill",
}
SURE = {"proved": "Killed", "likely": "Probably killed", "possible": "Perhaps killed"}
"""How each headline begins: never more certain than the proof."""


class _Shot(msgspec.Struct, frozen=True):
    kill: Kill
    shortage: Shortage


def find(case: Case) -> Iterable[Finding]:
    """Incidents whose victims are the job's; kills of others are no incident of this job."""
    shots = [
        _Shot(kill, shortage_of(case.story, kill))
        for kill in case.kills.kills
        if case.story.is_ours(kill.id.tgid, kill.start_ns)
    ]
    group: list[_Shot] = []
    for shot in shots:
        if group and not _same_incident(group[0], group[-1], shot):
            yield _finding(case, group)
            group = []
        group.append(shot)
    if group:
        yield _finding(case, group)


def _in_a_group(shot: _Shot) -> bool:
    """Whether memory.oom.group was set where the kernel looks for it.

    From the victim's cgroup up to the one whose limit was hit, else up to the root: mem_cgroup_get_oom_group().
    """
    chain = shot.shortage.limit.chain
    owners = [index for index, level in enumerate(chain) if level.owner]
    if shot.shortage.cause == "host_oom_cgroup" and not owners:
        return False
    looked_at = shot.kill.levels[: owners[0] + 1] if owners else shot.kill.levels
    return any(level.oom_group for level in looked_at)


def _same_incident(first: _Shot, last: _Shot, shot: _Shot) -> bool:
    # A large group takes its time: for each of its members the kernel writes a line, to a slow console as well.
    in_one_run = _one_run(last.kill, shot.kill) and (shot.kill.group_member or _in_a_group(shot))
    since = last if in_one_run else first
    if shot.kill.at_ns - since.kill.at_ns > ONE_INCIDENT_NS:
        return False
    if shot.kill.sharer_of is not None:
        return True
    return (first.shortage.cause, first.shortage.limit.cgroup) == (shot.shortage.cause, shot.shortage.limit.cgroup)


def _one_run(one: Kill, other: Kill) -> bool:
    """Whether one thread ran the OOM killer for both."""
    return one.mark is not None and other.mark is not None and one.mark.trigger_tid == other.mark.trigger_tid


def _finding(case: Case, shots: list[_Shot]) -> Finding:
    story, first = case.story, shots[0]
    kill, shortage = first.kill, first.shortage
    death = case.death(kill.id)
    doubts = (*story.doubts(kill.at_ns, death.at_ns if death else kill.at_ns), *case.contradicted)
    links = (
        _killed(case, kill, shortage),
        ran_out(shortage),
        belongs(story, kill.id),
        _died(case, kill),
        not_cuda(case, kill.at_ns, shortage.limit),
    )
    sure = strength(links, doubts)
    found = growth.growths(story, kill.at_ns, [s.kill for s in shots])
    shared_bytes = growth.shmem_growth(story, _limit_id(kill, shortage), kill.at_ns)
    grown = growth.culprit(story, found, shared_bytes)
    why = explain(case, kill, shortage)
    grown = None if why.elsewhere is not None else grown
    whose = shm_owners.grown_words(story, kill.at_ns)
    together = why.elsewhere or (growth.together(story, found, shared_bytes, whose) if grown is None else None)
    caveats = [*doubt_caveats(doubts), *shortage.caveats, *_log_disagrees(kill), *_told_to_end(case, shots)]
    caveats += case.said.otherwise(kill.id, signal=SIGKILL, at_ns=kill.at_ns)
    caveats += [*_unaccounted(case, shortage, kill.at_ns), *cuda_caveats(case, links[4], kill.at_ns)]
    if grown is not None and grown.pid not in {s.kill.id.tgid for s in shots}:
        caveats.append(f"The kernel chose {people.describe(story, kill.id)}, but it was another process that grew.")
    elif grown is None and together is not None and growth.is_flat(found, kill.id):
        caveats.append(f"The kernel chose {people.describe(story, kill.id)}, but it was not that which grew.")
    unsure = sum(1 for s in shots[1:] if s.kill.status != "present")
    alive = sum(1 for s in shots[1:] if (d := case.death(s.kill.id)) is None or d.signal != SIGKILL)
    if alive:
        caveats.append(f"Of the other {len(shots) - 1} victims, {alive} were not seen to die of it.")
    if unsure:
        caveats.append(f"Of the other {len(shots) - 1} victims, the kill of {unsure} was not seen in full.")
    if any(s.kill.group_member for s in shots) or (len(shots) > 1 and any(_in_a_group(s) for s in shots)):
        caveats.append("memory.oom.group is set: the kernel kills every process of the group together.")
    incident = Incident(
        cause=shortage.cause,
        strength=sure,
        at=story.utc(kill.at_ns),
        headline=headline(sure, shortage.cause, links),
        summary=_summary(case, shots),
        victim=people.process(story, kill.id, kill),
        victims=tuple(people.process(story, s.kill.id, s.kill) for s in shots),
        # Who carries an operator's request out asked for no memory.
        trigger=None if shortage.cause == "operator_oom" else people.trigger(story, kill),
        culprit=grown,
        growth=together,
        limit=shortage.limit,
        signal=SIGKILL,
        proof=links,
        mechanism=why.mechanism,
        picture=why.picture,
        remedies=why.remedies,
        caveats=tuple(dict.fromkeys(caveats)),
        cuda=document.build(case, kill.at_ns),
    )
    return Finding(at_ns=kill.at_ns, ids=tuple(s.kill.id for s in shots), incident=incident, kind="oom")


def headline(sure: Strength, cause: Cause, links: Sequence[Link]) -> str:
    """That it was no CUDA allocation is said only where link 5 was seen."""
    ruled_out = cause != "operator_oom" and any(link.link == 5 and link.status == "present" for link in links)
    return f"{SURE[sure]} {HEADLINES[cause]}{', not CUDA' if ruled_out else ''}"


def _unaccounted(case: Case, shortage: Shortage, at_ns: int) -> Iterable[str]:
    """Where the machine ran out, and not a cgroup that has its own accounts."""
    found = None if shortage.cause == "host_oom_cgroup" else unaccounted.unaccounted(case.story, at_ns)
    if found is not None and found.material:
        yield unaccounted.statement(found, case.cuda.held(at_ns).pinned_bytes)


def _told_to_end(case: Case, shots: list[_Shot]) -> Iterable[str]:
    """Who had got a SIGTERM and lived on: an OOM daemon, or whoever stops the job, may have wanted its end as well."""
    told = []
    for kill in (shot.kill for shot in shots):
        death = case.death(kill.id)
        if death is not None and death.terminated is not None and death.terminated.ts_ns <= kill.at_ns:
            told.append((kill, death.terminated))
    if told:
        kill, signal = told[0]
        more = f"; so had {len(told) - 1} more of the victims" if len(told) > 1 else ""
        before = format_duration(kill.at_ns - signal.ts_ns)
        by = senders.sender_in_short(case.story, signal)
        yield f"{before} before, {people.describe(case.story, kill.id)} had got SIGTERM from {by}{more}."


def _limit_id(kill: Kill, shortage: Shortage) -> int | None:
    owners = [level.owner for level in shortage.limit.chain]
    return kill.levels[owners.index(True)].cgroup_id if kill.levels and True in owners else None


def _summary(case: Case, shots: list[_Shot]) -> str:
    story, kill, shortage = case.story, shots[0].kill, shots[0].shortage
    who = people.subject(story, kill.id)
    dead = [s.kill for s in shots[1:] if (death := case.death(s.kill.id)) is not None and death.signal == SIGKILL]
    span = format_duration(dead[-1].at_ns - kill.at_ns) if dead else ""
    others = f", and {len(dead)} more within {span}," if dead else ""
    limit = shortage.limit
    clock = (story.utc(kill.at_ns) or "")[11:23]
    at = f" at {clock} UTC" if clock else ""
    if shortage.cause == "host_oom_cgroup" and shortage.status == "present":
        used = f": {format_bytes(limit.usage_bytes)} of {format_bytes(limit.limit_bytes)}" if limit.limit_bytes else ""
        return f"{who} died{at}{others} because cgroup {' or '.join(limit.cgroups)} reached its limit{used}."
    return f"{who} died{at}{others.rstrip(',')}: {shortage.statement}."


def _killed(case: Case, kill: Kill, shortage: Shortage) -> Link:
    statement = kill.why
    if kill.mark is not None and kill.status == "present":
        mark = kill.mark
        who = "it" if mark.trigger_tgid == kill.id.tgid else f"{mark.trigger_comm!r} ({mark.trigger_tgid})"
        when = "at an operator's request" if shortage.cause == "operator_oom" else f"while {who} was allocating"
        step = "in one step of the OOM killer" if kill.frames is not None else "in one context"
        statement = f"SIGKILL and OOM mark {step}, {when}{_log_text(case, kill)}"
    return Link(
        link=1,
        name="the kernel killed it",
        status=kill.status,
        statement=statement,
        evidence=kill.evidence,
        rung=kill.rung,
        via=_killed_via(case, kill),
    )


def _killed_via(case: Case, kill: Kill) -> tuple[str, ...]:
    """The hooks that saw the kill itself."""
    story, mark = case.story, kill.mark
    told: list[str] = []
    if kill.glimpse is not None:
        signal = ("signal_generate",) if kill.glimpse.signal_ns is not None else ()
        told += story.hook_names(*(f"{name}{SCALAR_SUFFIX}" for name in (*signal, "mark_victim")))
        told += story.hook_names(f"sched_process_exit{SCALAR_SUFFIX}") if kill.ended is not None else ()
    if kill.signal is not None:
        told += story.hook_names("signal_generate")
    if mark is not None:
        by_pid = mark.identity_by not in {None, IdentityBy.TASK}
        told += [f"{name}(pid)" if by_pid else name for name in story.hook_names("mark_victim")]
    return (*told, *(("kernel_stack",) if kill.frames is not None else ()))


def _log_text(case: Case, kill: Kill) -> str:
    if kill.logged is not None:
        return "; the kernel's log disagrees" if _log_disagrees(kill) else "; the kernel's log agrees"
    return "" if not case.story.watched("kmsg") else "; the kernel's log has no line of it"


def _log_disagrees(kill: Kill) -> tuple[str, ...]:
    """The log's figures are the very counters that BPF read a few microseconds before."""
    mark, logged = kill.mark, kill.logged
    if mark is None or logged is None or logged.anon_rss_bytes is None:
        return ()
    seen = (mark.anon_rss_bytes, mark.file_rss_bytes, mark.shmem_rss_bytes)
    told = (logged.anon_rss_bytes, logged.file_rss_bytes, logged.shmem_rss_bytes or mark.shmem_rss_bytes)
    if all(abs(a - (b or 0)) <= _COUNTER_SLACK_BYTES for a, b in zip(seen, told, strict=True)):
        return ()
    return ("The kernel's log prints other sizes for the victim than were seen at the mark.",)


_COUNTER_SLACK_BYTES = 4 << 20
"""Other threads of the victim go on faulting between the mark and the log line."""


def ran_out(shortage: Shortage) -> Link:
    """Link 2: what ran out."""
    return Link(
        link=2,
        name="memory ran out",
        status=shortage.status,
        statement=shortage.statement,
        evidence=shortage.evidence,
        rung=shortage.rung,
        via=shortage.via,
    )


def _died(case: Case, kill: Kill) -> Link:
    name = "it died of that"

    def link(status: Status, statement: str) -> Link:
        evidence, rung, via = (death.evidence, death.rung, death.via) if death is not None else ((), None, ())
        return Link(link=4, name=name, status=status, statement=statement, evidence=evidence, rung=rung, via=via)

    death = case.death(kill.id)
    if death is None and kill.ended is not None:
        return _thread_ended(case, kill, kill.ended)
    if death is None:
        return link("not_observed", "its exit was not seen")
    after_ns = death.at_ns - kill.at_ns
    waited = "; its parent's wait says the same" if death.ended and death.exit else ""
    if not death.waits_agree:
        return link("not_observed", f"the kernel saw {death.status}, but its parent's wait says otherwise")
    if death.signal != SIGKILL:
        return link("absent", f"it ended by {death.status}, not by this kill")
    if death.by is not None and kill.signal is not None and death.by.ts_ns < kill.signal.ts_ns:
        return link("absent", "an earlier SIGKILL had been delivered to it")
    if after_ns < 0 and kill.signal is not None:
        return link("absent", "it was exiting before the kill")
    if after_ns > IN_TIME_NS:
        return link("not_observed", f"it ended by signal 9 only {format_duration(after_ns)} later")
    said = case.said.agrees(kill.id, signal=SIGKILL, at_ns=kill.at_ns)
    echo = "; the job's own log says so too" if said is not None else ""
    return link("present", f"exit by signal 9 after {format_duration(max(after_ns, 0))}{waited}{echo}")


def _thread_ended(case: Case, kill: Kill, ended: MarkedEnded) -> Link:
    after_ns = max(ended.ts_ns - kill.at_ns, 0)
    return Link(
        link=4,
        name="it died of that",
        status="not_observed",
        statement=f"its marked thread ended {format_duration(after_ns)} later; how was not seen",
        evidence=(ended.seq,),
        rung="bpf_scalars",
        via=case.story.hook_names(f"sched_process_exit{SCALAR_SUFFIX}"),
    )

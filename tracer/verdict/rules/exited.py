# SPDX-License-Identifier: Apache-2.0
"""The job's own end: it exited by itself, with whatever status, or its end was not seen."""

from collections.abc import Sequence
from typing import Literal

from tracer.events.signals import SIGKILL
from tracer.verdict import people
from tracer.verdict.counters import counts_were_read, rises
from tracer.verdict.deaths import Death
from tracer.verdict.incident import Case, Finding, belongs, doubt_caveats, said_otherwise, said_too, strength
from tracer.verdict.model import Incident, Link
from tracer.verdict.terminations import went_on

SHELL_SIGKILL = 128 + SIGKILL
HOOKS = ("mark_victim", "signal_generate", "sched_process_fork", "sched_process_exit")
"""All of these must have watched before anything is said of the whole job; a fork that is missed hides a subtree."""


def find(case: Case) -> Finding:
    """Always one finding: what the job's parent saw."""
    death = case.root_death
    return _inconclusive(case) if death is None else _finding(case, death, "end")


def of_member(case: Case, death: Death) -> Finding:
    """The end of a process with a part in the training that failed by itself."""
    return _finding(case, death, "death")


def _finding(case: Case, death: Death, kind: Literal["death", "end"]) -> Finding:
    story = case.story
    doubts = _doubts(case, death)
    links = (_by_itself(death), _nothing_killed(case, doubts), belongs(story, death.id), _waited(case, death))
    how = f"exited with status {death.code}" if not death.signal else f"ended by {death.status}"
    who = "The job" if kind == "end" else people.subject(story, death.id)
    return Finding(
        at_ns=death.at_ns,
        ids=(death.id,),
        kind=kind,
        incident=Incident(
            cause="exited",
            strength=strength(links, doubts),
            at=story.utc(death.at_ns),
            headline=f"{who} {how}",
            summary=_summary(case, death, how, doubts),
            victim=people.process(story, death.id),
            victims=(),
            exit_code=None if death.signal else death.code,
            proof=links,
            caveats=(*doubt_caveats(doubts), *went_on(case, death), *said_otherwise(case, death)),
        ),
    )


def _doubts(case: Case, death: Death) -> tuple[str, ...]:
    """That nothing was killed is a claim about the whole run, so every loss in it counts."""
    story = case.story
    from_ns = story.job.ts_ns if story.job is not None else 0
    return (*story.doubts(from_ns, death.at_ns), *case.unexplained)


def _summary(case: Case, death: Death, how: str, doubts: Sequence[str]) -> str:
    processes = len(case.story.tree.members)
    count = f" ({processes} processes)" if processes > 1 else ""
    if _watched_since_attach(case, doubts):
        who = people.subject(case.story, death.id)
        nothing = f"the kernel killed nothing of the job{count} for want of memory"
        return f"{who} {how} by itself; {nothing} since {_then(case)}."
    if doubts or not case.story.watched_from_start(*HOOKS):
        return f"{people.subject(case.story, death.id)} {how}; that nothing of the job was killed is not certain."
    if case.kills.kills:
        ours = [k for k in case.kills.kills if case.story.is_ours(k.id.tgid, k.start_ns)]
        if ours:
            return f"{people.subject(case.story, death.id)} {how}; {len(ours)} of the job's processes had been killed."
    looks = ""
    if death.code == SHELL_SIGKILL and not any(d.signal == SIGKILL for d in case.deaths):
        looks = " A shell shows a death by SIGKILL like that, but no such death was seen here."
    return (
        f"{people.subject(case.story, death.id)} {how} by itself; "
        f"the kernel killed nothing of the job{count} for want of memory.{looks}"
    )


def _by_itself(death: Death) -> Link:
    if death.signal:
        name, statement = "it ended", death.status
    else:
        name, statement = "it ended by itself", f"exit with status {death.code}, not by a signal"
    return Link(
        link=1,
        name=name,
        status="present",
        statement=statement,
        evidence=death.evidence,
        rung=death.rung,
        via=death.via,
    )


def _nothing_killed(case: Case, doubts: Sequence[str]) -> Link:
    name = "no OOM kill"
    ours = [k for k in case.kills.kills if case.story.is_ours(k.id.tgid, k.start_ns)]
    if ours:
        statement = f"the kernel killed {len(ours)} processes of the job for want of memory"
        return Link(
            link=2, name=name, status="absent", statement=statement, evidence=ours[0].evidence, rung=ours[0].rung
        )
    if _watched_since_attach(case, doubts):
        statement = f"no OOM kill in the job since {_then(case)}; before that nothing was watched"
        return Link(link=2, name=name, status="not_observed", statement=statement, rung="bpf")
    if not case.story.watched_from_start(*HOOKS):
        statement = "OOM kills were not watched from start to end"
        if not counts_were_read(story := case.story):
            return Link(link=2, name=name, status="not_observed", statement=statement)
        # Of the cgroup that the job began in; it may have made others.
        statement += "; the job's cgroup counted " + ("some" if rises(story) else "none")
        return Link(link=2, name=name, status="not_observed", statement=statement, rung="cgroup_counters")
    if doubts:
        return Link(link=2, name=name, status="not_observed", statement=f"not certain: {doubts[0]}", rung="bpf")
    statement = "no OOM kill in the job from its start to its end"
    return Link(link=2, name=name, status="present", statement=statement, rung="bpf")


def _watched_since_attach(case: Case, doubts: Sequence[str]) -> bool:
    """Whether all that is missing to a watch from start to end is what lay before oomtrace attached."""
    ours = any(case.story.is_ours(k.id.tgid, k.start_ns) for k in case.kills.kills)
    return not doubts and not ours and case.story.watched_since_attach(*HOOKS)


def _then(case: Case) -> str:
    job = case.story.job
    clock = (case.story.utc(job.ts_ns) or "")[11:19] if job is not None else ""
    return f"oomtrace attached at {clock} UTC" if clock else "oomtrace attached"


def _waited(case: Case, death: Death) -> Link:
    name = "its status is known"
    if death.ended is None:
        statement = "seen by the kernel" if death.exit is not None else "seen in /proc, before anyone waited for it"
        return Link(
            link=4,
            name=name,
            status="present",
            statement=statement + said_too(case, death),
            evidence=death.evidence,
            rung=death.rung,
            via=death.via,
        )
    agrees = death.waits_agree
    statement = f"its parent's wait says otherwise ({death.ended.status:#x})"
    statement = f"its parent's wait agrees{said_too(case, death)}" if agrees else statement
    return Link(
        link=4,
        name=name,
        status="present" if agrees else "absent",
        statement=statement,
        evidence=(death.ended.seq,),
        rung="wait_status",
    )


def _inconclusive(case: Case) -> Finding:
    story = case.story
    root = story.tree.root
    member = story.tree.processes.get(root) if root else None
    gone = member is not None and member.gone is not None
    last_ns = story.events[-1].ts_ns if story.events else 0
    statement = "it vanished, and its exit was not seen" if gone else "it was still running when the recording ended"
    if root is None:
        statement = "the recording does not say what the job was"
    headline = "No end of the job was observed"
    if story.job is not None and story.job.attached and not gone:
        doubts = (*story.doubts(story.job.ts_ns, last_ns), *case.unexplained)
        headline = "The job still ran when the watching ended"
        if _watched_since_attach(case, doubts):
            statement += f"; the kernel killed nothing of it for want of memory since {_then(case)}"
    return Finding(
        at_ns=last_ns,
        ids=(root,) if root else (),
        kind="end",
        incident=Incident(
            cause="inconclusive",
            strength="possible",
            at=story.utc(last_ns),
            headline=headline,
            summary=f"{people.subject(story, root) if root else 'The job'}: {statement}.",
            victim=people.process(story, root) if root else None,
            proof=(Link(link=4, name="it ended", status="not_observed", statement=statement),),
        ),
    )

# SPDX-License-Identifier: Apache-2.0
"""A kill that the kernel's log has, as an incident: victim, limit, the links as far as text can show them."""

from collections.abc import Iterable, Sequence

from tracer.attribution.cgroup_paths import place_of
from tracer.attribution.places import Place, describe_itself
from tracer.events import Passage, Text
from tracer.units import format_bytes, format_limit, format_utc
from tracer.verdict.model import Cause, Incident, Level, Limit, Link, Process, Role, Status, Strength
from tracer.verdict.textual import advice
from tracer.verdict.textual.deaths import Own
from tracer.verdict.textual.join import Tie
from tracer.verdict.textual.kernel import Report, Victim

_HEADLINES: dict[Cause, str] = {
    "host_oom_global": "by the kernel: the machine ran out of host RAM",
    "host_oom_cgroup": "by the kernel: host RAM ran out at a cgroup limit",
    "host_oom_cpuset": "by the kernel: host RAM of its cpuset ran out",
    "host_oom_mempolicy": "by the kernel: host RAM of its memory policy ran out",
    "host_oom_unknown_scope": "by the kernel for want of host RAM",
    "operator_oom": "by the kernel: an operator asked for an OOM kill",
}
_MOST_VICTIMS = 200
_SIGTERM = 15


def role_of(comm: str | None, claimed: Role | None) -> tuple[Role | None, str | None]:
    """What it was, and by what that is known."""
    if claimed is not None:
        return claimed, "the job's own log"
    if comm == "pt_data_worker":
        return "dataloader_worker", "its name"
    return None, None


def place_of_report(report: Report) -> Place | None:
    """Where the victim ran, as its cgroup says."""
    return place_of(cgroup_of(report))


def cgroup_of(report: Report) -> str | None:
    """The victim's cgroup."""
    decision, owner = report.decision, report.owner
    return (decision.task_memcg if decision is not None else None) or (owner.task_memcg if owner is not None else None)


def incident(report: Report, tie: Tie, own: Own, texts: Sequence[Text]) -> Incident:
    """With links 1 and 2 from the kernel's words, 3 and 4 from the job's, and 5 not observed."""
    cause, limit = report.cause, _limit(report)
    sure = strength_of(report, tie)
    victims = tuple(_process(report, victim, tie, own) for victim in report.victims[:_MOST_VICTIMS])
    first = tie.victim if tie.victim in report.victims else report.victims[0]
    victim = _process(report, first, tie, own)
    otherwise = tuple(_otherwise(first, own, texts))
    if otherwise:
        sure = "possible"
    hints = frozenset(hint for text in texts for hint in text.hints)
    word = {"likely": "Probably killed"}.get(sure, "Perhaps killed")
    return Incident(
        cause=cause,
        strength=sure,
        at=_utc(report.first),
        headline=f"{word} {_HEADLINES[cause]}",
        summary=_summary(report, victim, limit) + _untied(tie),
        victim=victim,
        victims=victims,
        trigger=_trigger(report),
        limit=limit,
        signal=9,
        proof=(
            _killed(report, first, texts),
            _ran_out(report, limit),
            _yours(tie, texts),
            _died(first, tie),
            not_cuda(own),
        ),
        remedies=advice.remedies(cause, limit, place_of_report(report), hints),
        caveats=tuple(dict.fromkeys((*_doubts(report, first), *otherwise, *tie.against))),
    )


def _untied(tie: Tie) -> str:
    if tie.kind != "none":
        return ""
    return " Only its name fits the job." if tie.fits else " Nothing ties it to the job."


def _otherwise(victim: Victim, own: Own, texts: Sequence[Text]) -> Iterable[str]:
    """What the job's log says of this pid that a kill by the kernel does not explain."""
    for pid, passage, line in own.claims(_SIGTERM):
        if pid == victim.pid and line.signal == _SIGTERM:
            where = place_in(passage, texts)
            yield f"The job's log says that pid {pid} ended by SIGTERM ({where}): it may be another one."
            return


def strength_of(report: Report, tie: Tie) -> Strength:
    """`likely` at most; less where it is not the kill itself that was read, or only a name ties it to the job."""
    if tie.kind in {"name", "none"} and tie.line is None:
        return "possible"
    if report.victims[0].kill is not None:
        return "likely"
    # Chosen, or reaped: it may have been exiting by itself. That somebody killed it, the job's log has to say.
    said = tie.kind == "pid" and tie.line is not None and tie.line.signal == 9
    return "likely" if said and report.decision is not None else "possible"


def place_in(passage: Passage, texts: Sequence[Text]) -> str:
    """`dmesg.txt, line 12`."""
    return f"{texts[passage.file].name}, line {passage.line}"


def _process(report: Report, victim: Victim, tie: Tie, own: Own) -> Process:
    claimed = tie.line if tie.victim is victim else None
    role, known_by = role_of(victim.comm, _ROLE_OF_LINE.get(claimed.about) if claimed is not None else None)
    kill = victim.kill
    inner = claimed.pids[0] if claimed is not None and tie.kind == "time" and claimed.pids else None
    cgroup = cgroup_of(report) if victim is report.victims[0] or report.group is not None else None
    return Process(
        pid=victim.pid,
        ns_pids=(victim.pid, inner) if inner is not None and inner != victim.pid else None,
        comm=victim.comm,
        role=role,
        role_known_by=known_by,
        rank=own.rank_of(claimed) if claimed is not None else None,
        local_rank=claimed.local_rank if claimed is not None else None,
        worker=claimed.worker if claimed is not None else None,
        rss_anon_bytes=kill.anon_rss_bytes if kill is not None else None,
        rss_file_bytes=kill.file_rss_bytes if kill is not None else None,
        rss_shmem_bytes=kill.shmem_rss_bytes if kill is not None else None,
        cgroup=cgroup,
        place=place_of(cgroup),
    )


_ROLE_OF_LINE: dict[str, Role] = {
    "worker_killed": "dataloader_worker", "worker_exited": "dataloader_worker", "rank_failed": "rank",
    "failure_report": "rank", "spawn_failed": "rank",
}  # fmt: skip


def _limit(report: Report) -> Limit:
    limit = report.limit()
    if report.cause != "host_oom_cgroup":
        return limit
    memsw = report.usages.get("memory+swap")
    swap = report.usages.get("swap")
    level = Level(
        cgroup=limit.cgroup or "?",
        usage_bytes=limit.usage_bytes,
        limit_bytes=limit.limit_bytes,
        swap_usage_bytes=swap.usage_bytes if swap is not None else None,
        swap_limit_bytes=swap.limit_bytes if swap is not None else None,
        memsw_usage_bytes=memsw.usage_bytes if memsw is not None else None,
        memsw_limit_bytes=memsw.limit_bytes if memsw is not None else None,
        owner=True,
        place=place_of(limit.cgroup),
    )
    return Limit(**{name: getattr(limit, name) for name in limit.__struct_fields__} | {
        "chain": (level,) if limit.cgroup is not None else (), "place": place_of(limit.cgroup),
    })  # fmt: skip


def _trigger(report: Report) -> Process | None:
    trigger, invocation = report.trigger, report.invocation
    if report.cause == "operator_oom" or trigger is None or trigger.pid is None:
        return None
    if invocation is not None and invocation.comm != trigger.comm and None not in {invocation.comm, trigger.comm}:
        return None
    return Process(pid=trigger.pid, comm=trigger.comm)


def _summary(report: Report, victim: Process, limit: Limit) -> str:
    who = f"{victim.comm or 'a process'} (pid {victim.pid})"
    more = f" and {len(report.victims) - 1} more" if len(report.victims) > 1 else ""
    had = f", {format_bytes(victim.rss_anon_bytes)} anonymous memory" if victim.rss_anon_bytes else ""
    if report.cause == "host_oom_cgroup":
        of = f" of {limit.cgroup}" if limit.cgroup else ""
        whose = describe_itself(limit.place) if limit.place is not None else None
        size = f" of {format_limit(limit.limit_bytes)}" if limit.limit_bytes else ""
        counter = report.hit()
        which = f"{counter} limit" if counter not in {None, "memory"} else "memory limit"
        return f"{who}{more}{had}: the {which}{size}{of}{f' ({whose})' if whose else ''} was reached."
    if report.cause == "operator_oom":
        return f"{who}{more}{had}: asked for with sysrq; host RAM need not have run out."
    swap = " with swap all used" if limit.swap_free_bytes == 0 and limit.swap_total_bytes else ""
    what = {
        "host_oom_global": f"the whole machine had no memory left{swap}",
        "host_oom_cpuset": "the NUMA nodes of its cpuset had no memory left",
        "host_oom_mempolicy": "the NUMA nodes of its memory policy had no memory left",
    }.get(report.cause, "the log does not say whether the machine's or that of some NUMA nodes or a cgroup")
    return f"{who}{more}{had}: {what}."


def _killed(report: Report, victim: Victim, texts: Sequence[Text]) -> Link:
    where = place_in(victim.passage, texts)
    status: Status = "present"
    if victim.kill is not None:
        statement = f"the kernel's log says so ({where})"
    elif victim.row is not None:
        status = "not_observed"
        statement = f"its memory was reaped as a victim's ({where}); the line of the kill is not there"
    else:
        statement = f"the kernel chose it ({where}); the line of the kill itself is not there"
    if report.group is not None:
        statement += "; memory.oom.group is set, so its whole cgroup was killed"
    return Link(
        link=1,
        name="the kernel killed it",
        status=status,
        statement=statement,
        evidence=(victim.passage.event.seq,),
        rung="kernel_log",
    )


def _ran_out(report: Report, limit: Limit) -> Link:
    telling = (report.decision, report.owner, *report.usages.values())
    evidence = tuple(event.seq for event in telling if event is not None)
    name = "memory ran out"
    if report.cause == "operator_oom":
        statement = "somebody asked for the kill: nothing is said of memory that ran out"
        return Link(link=2, name=name, status="absent", statement=statement, rung="kernel_log")
    parts = []
    if report.decision is not None:
        parts.append(report.decision.constraint)
    if limit.limit_bytes is not None:
        parts.append(f"{format_bytes(limit.usage_bytes)} of {format_bytes(limit.limit_bytes)} used")
    memsw = report.usages.get("memory+swap")
    if memsw is not None and report.hit() == "memory+swap":
        parts.append(f"memory and swap {format_bytes(memsw.usage_bytes)} of {format_bytes(memsw.limit_bytes)}")
    if limit.cgroup is not None:
        parts.append(f"limit of {limit.cgroup}")
    if not parts:
        told = report.cause == "host_oom_cgroup"
        statement = "a cgroup's limit; which one and how much is not there" if told else "whose memory is not told"
        return Link(link=2, name=name, status="present" if told else "not_observed", statement=statement,
                    evidence=(report.first.event.seq,), rung="kernel_log")  # fmt: skip
    return Link(
        link=2,
        name=name,
        status="present",
        statement=", ".join(parts),
        evidence=evidence or (report.first.event.seq,),
        rung="kernel_log",
    )


def _yours(tie: Tie, texts: Sequence[Text]) -> Link:
    where = f" ({place_in(tie.passage, texts)})" if tie.passage is not None else ""
    evidence = (tie.passage.event.seq,) if tie.passage is not None else ()
    status: Status = "present" if tie.kind in {"pid", "cgroup", "time"} else "not_observed"
    return Link(
        link=3,
        name="it is yours",
        status=status,
        statement=tie.statement + where,
        evidence=evidence,
    )


def _died(victim: Victim, tie: Tie) -> Link:
    name = "it died of that"
    if tie.line is not None and tie.line.signal == 9 and tie.passage is not None:
        statement = "whoever started it says: signal 9"
        return Link(link=4, name=name, status="present", statement=statement, evidence=(tie.passage.event.seq,))
    if victim.row is not None:
        statement = "its memory was reaped; its exit is not there"
        return Link(link=4, name=name, status="not_observed", statement=statement, rung="kernel_log",
                    evidence=(victim.row.seq,))  # fmt: skip
    return Link(link=4, name=name, status="not_observed", statement="no line tells how it ended")


def not_cuda(own: Own) -> Link:
    """Text cannot show it."""
    refused = any(failure.how in {"device", "cuda_error"} for failure in own.failures)
    if refused:
        statement = "the job's log has a refusal of GPU memory as well"
    elif own.lines:
        statement = "text cannot show it; no refusal of GPU memory stands in the job's log"
    else:
        statement = "text cannot show it"
    return Link(link=5, name="not CUDA", status="not_observed", statement=statement)


def _doubts(report: Report, victim: Victim) -> list[str]:
    caveats = list(report.caveats)
    kill, choice = victim.kill, report.choice
    if kill is None:
        caveats.append("The line of the kill itself is not among what was given.")
    if kill is not None and kill.pid != victim.pid:
        caveats.append(f"The kernel chose pid {victim.pid} and names pid {kill.pid} in the kill: a thread of it.")
    if choice is not None and choice.pid != victim.pid:
        caveats.append(f"Pid {choice.pid} ({choice.comm}) was chosen, and its child was killed in its place.")
    if report.cause in {"host_oom_global", "host_oom_unknown_scope"} and not _is_begun(report):
        caveats.append("The beginning of the report is not there: an operator may have asked for it (sysrq-f).")
    if report.cause == "host_oom_unknown_scope":
        caveats.append("Kills of the machine, of a cpuset and of a memory policy read alike here.")
    said_by = victim.passage.event.said_by if hasattr(victim.passage.event, "said_by") else None
    if said_by != "kernel":
        caveats.append("Whether the kernel itself wrote these lines, a text does not show.")
    return caveats


def _is_begun(report: Report) -> bool:
    """Whether the line is there, and whole, that says who asked: -1 as the order is an operator."""
    return report.invocation is not None and report.invocation.order is not None


def _utc(passage: Passage) -> str | None:
    if passage.wall_ns is None or not (passage.zone_known and passage.year_known):
        return None
    return format_utc(passage.wall_ns)

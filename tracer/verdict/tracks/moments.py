# SPDX-License-Identifier: Apache-2.0
"""What happened when: incidents, kills, marks, signals, ends, refusals of CUDA, lines of the job's log. All of them."""

from collections.abc import Iterator, Mapping

from tracer.events import LoggedXid, ProcessId, SignalSent, TrainingLine
from tracer.verdict import senders, terminations
from tracer.verdict.cuda.calls import result_text, symbol_name
from tracer.verdict.deaths import signal_name
from tracer.verdict.incident import Case
from tracer.verdict.kills import Kill
from tracer.verdict.model import Incident, Report
from tracer.verdict.people import describe
from tracer.verdict.said import writer
from tracer.verdict.tracks.actors import parts_in
from tracer.verdict.tracks.model import Moment
from tracer.verdict.words import headline, moment, rung

_KERNEL_FACTS = ("anon_rss_bytes", "file_rss_bytes", "shmem_rss_bytes", "swap_bytes", "oom_score_adj", "trigger_tgid")


def moments(case: Case, report: Report) -> Iterator[Moment]:
    """In no order."""
    primary = report.verdict.incidents[report.verdict.primary] if report.verdict.incidents else None
    victims = {one for one, parts in parts_in(primary).items() if "victim" in parts} if primary is not None else set()
    for place, incident in enumerate(report.verdict.incidents):
        yield from _incident(case, report, incident, primary=place == report.verdict.primary)
    for kill in case.kills.kills:
        yield _kill(case, kill, primary=kill.id in victims)
    for mark in case.kills.dying:
        yield Moment(
            at_ns=mark.mark.ts_ns,
            kind="mark",
            what=f"marked by the OOM killer: {mark.why}",
            actor=mark.id,
            evidence=(mark.mark.seq,),
        )
    yield from _signals(case)
    yield from _ends(case, victims)
    for line in case.said.lines:
        yield _line(case, line)
    yield from _cuda(case)


def moment_of(case: Case, report: Report, incident: Incident) -> int | None:
    """When an incident was."""
    if incident is report.verdict.incidents[report.verdict.primary]:
        told = next((e for e in report.timeline if e.offset_ns is not None), None)
        return None if told is None or told.offset_ns is None else told.at_ns - told.offset_ns
    for identity in parts_in(incident):
        kill, death = case.kills.of(identity), case.death(identity)
        if kill is not None or death is not None:
            return kill.at_ns if kill is not None else death.at_ns if death is not None else None
    return None


def _incident(case: Case, report: Report, incident: Incident, *, primary: bool) -> Iterator[Moment]:
    at_ns = moment_of(case, report, incident)
    if at_ns is None:
        return
    facts: dict[str, str | int] = {"cause": incident.cause, "strength": incident.strength, "summary": incident.summary}
    if incident.at is not None:
        facts["at"] = moment(incident.at)
    for link in incident.proof:
        told = rung(link)
        facts[f"proof {link.link} {link.name}"] = f"{link.status}: {link.statement}{f' [{told}]' if told else ''}"
    if incident.mechanism is not None:
        facts["mechanism"] = f"{incident.mechanism.name}, {incident.mechanism.strength}: {incident.mechanism.statement}"
    for number, caveat in enumerate((*incident.caveats, *report.verdict.caveats), 1):
        facts[f"caveat {number}"] = caveat
    yield Moment(
        at_ns=at_ns, kind="incident", what=f"{headline(incident)} ({incident.strength})", facts=facts, primary=primary
    )


def _kill(case: Case, kill: Kill, *, primary: bool) -> Moment:
    ours = case.story.is_ours(kill.id.tgid, kill.start_ns)
    facts: dict[str, str | int] = {"pid": kill.id.tgid, "seen": kill.why}
    if kill.mark is not None:
        facts |= {name: getattr(kill.mark, name) for name in _KERNEL_FACTS}
        facts["trigger_comm"] = kill.mark.trigger_comm
    if not ours:
        facts["of"] = "not of this job"
    who = describe(case.story, kill.id) if ours else f"{kill.mark.comm if kill.mark else '?'} (pid {kill.id.tgid})"
    return Moment(
        at_ns=kill.at_ns,
        kind="kill",
        what=f"OOM kill of {who}",
        actor=kill.id,
        facts=facts,
        primary=primary,
        evidence=kill.evidence,
    )


def _signals(case: Case) -> Iterator[Moment]:
    """Those that ended a process of the job, OOM kills aside, and every SIGTERM."""
    told: dict[int, tuple[SignalSent, ProcessId]] = {
        death.by.seq: (death.by, death.id)
        for death in case.deaths
        if death.by is not None and case.kills.of(death.id) is None
    }
    told |= {signal.seq: (signal, identity) for signal, identity in terminations.shown(case)}
    for signal, identity in told.values():
        facts: dict[str, str | int] = {
            "signal": signal.signal,
            "sender_pid": signal.sender_tgid,
            "sender_comm": signal.sender_comm,
            "sender": senders.sender_text(case.story, signal),
            "target_pid": identity.tgid,
        }
        yield Moment(
            at_ns=signal.ts_ns,
            kind="signal",
            what=f"{signal_name(signal.signal)} from {senders.sender_in_short(case.story, signal)}",
            actor=identity,
            facts=facts,
            evidence=(signal.seq,),
        )


def _ends(case: Case, victims: set[ProcessId]) -> Iterator[Moment]:
    for death in case.deaths:
        facts: Mapping[str, str | int] = {"pid": death.id.tgid, "signal": death.signal, "exit_code": death.code}
        yield Moment(
            at_ns=death.at_ns,
            kind="exit",
            what=death.status,
            actor=death.id,
            facts=facts,
            primary=death.id in victims,
            evidence=death.evidence,
        )
    for member in case.story.tree.members.values():
        if member.gone is not None and case.death(member.id) is None:
            what = "vanished; how it ended was not seen"
            yield Moment(at_ns=member.gone.ts_ns, kind="gone", what=what, actor=member.id, evidence=(member.gone.seq,))


def _line(case: Case, line: TrainingLine) -> Moment:
    meant = {who for pid in line.pids if (who := case.said.meant(line, pid)) is not None}
    wrote = writer(line)
    whose = wrote if wrote in case.story.tree.processes else next(iter(meant)) if len(meant) == 1 else None
    facts: dict[str, str | int] = {"about": line.about, "stream": line.stream, "line": line.text}
    facts |= {name: value if isinstance(value, int) else str(value) for name, value in line.numbers.items()}
    return Moment(at_ns=line.ts_ns, kind="log", what=line.text, actor=whose, facts=facts, evidence=(line.seq,))


def _cuda(case: Case) -> Iterator[Moment]:
    for identity, failures in case.cuda.calls.failures.items():
        for failure in failures:
            call = failure.call
            survived = "; survived" if failure.survived is not None else ""
            facts: dict[str, str | int] = {"result": call.result, "device_bytes": call.device_bytes}
            if call.bytes is not None:
                facts["asked_bytes"] = call.bytes
            yield Moment(
                at_ns=call.ts_ns,
                kind="gpu",
                what=f"{symbol_name(call)}: {result_text(call)}{survived}",
                actor=identity,
                facts=facts,
                evidence=(call.seq,),
            )
    for xid in case.story.of(LoggedXid):
        if xid.trusted:
            member = case.story.tree.alive_at(xid.pid, xid.ts_ns) if xid.pid is not None else None
            yield Moment(
                at_ns=xid.ts_ns,
                kind="gpu",
                what=f"Xid {xid.xid}{f' of {xid.pci}' if xid.pci is not None else ''}",
                actor=member.id if member is not None else None,
                evidence=(xid.seq,),
            )

# SPDX-License-Identifier: Apache-2.0
"""Deaths by a signal that was no OOM kill: who sent it, or what crashed."""

from collections.abc import Iterable, Mapping, Sequence

from tracer.events import SignalSent
from tracer.events.machine import SHM
from tracer.events.signals import CRASH_SIGNALS, SIGABRT, SIGBUS, SIGKILL, SIGSEGV, SIGTERM
from tracer.verdict import people, senders
from tracer.verdict.counters import counts_were_read, rises
from tracer.verdict.deaths import Death, signal_name
from tracer.verdict.incident import Case, Finding, belongs, doubt_caveats, said_otherwise, said_too, strength
from tracer.verdict.kills import is_kernel_kill_signal
from tracer.verdict.model import Cause, Incident, Link, Remedy, Rung, Sender, Status
from tracer.verdict.refused.remedies import of_shared_memory
from tracer.verdict.refused.rooms import Room
from tracer.verdict.shm import may_have_run_full, ran_full

SIGNAL_HOOK = "signal_generate"
WAIT_DIFFERS = "its parent's wait says otherwise"
HOOKED_SIGNALS = frozenset({SIGKILL, SIGTERM, SIGABRT, SIGBUS, SIGSEGV})


def find(case: Case) -> Iterable[Finding]:
    """One finding a process of the job that a signal ended, OOM victims aside."""
    for death in case.deaths:
        if death.signal and case.kills.of(death.id) is None:
            yield _finding(case, death)


def _finding(case: Case, death: Death) -> Finding:
    story = case.story
    doubts = story.doubts(death.by.ts_ns if death.by else death.at_ns, death.at_ns)
    cause = _cause(case, death)
    if cause == "kernel_sigkill_other" and death.by is not None and is_kernel_kill_signal(death.by):
        doubts = (*doubts, *case.unexplained)
    unsure = cause == "kernel_sigkill_other" and _may_be_oom(case, death, doubts)
    cause = "inconclusive" if unsure else cause
    links = (
        _sent(case, death, unsure=unsure),
        not_oom(case, death, unsure=unsure) if cause != "shm_exhausted" else _no_room(case, death),
        belongs(story, death.id),
        _died(case, death),
    )
    sent_by = senders.sender(story, death.by) if death.by is not None else None
    caveats = [*doubt_caveats(doubts), *said_otherwise(case, death)]
    if case.was_dying(death.id):
        caveats.append("The OOM killer marked it while it was already dying: that was not a kill.")
    incident = Incident(
        cause=cause,
        strength="possible"
        if cause == "inconclusive" or _is_another_tmpfs(case, death, cause)
        else strength(links, doubts),
        at=story.utc(death.at_ns),
        headline=_headline(case, death, cause, sent_by),
        summary=_summary(case, death),
        victim=people.process(story, death.id),
        victims=(people.process(story, death.id),),
        sender=sent_by,
        signal=death.signal,
        proof=links,
        remedies=_remedies(case, death) if cause == "shm_exhausted" else (),
        caveats=tuple(caveats),
    )
    inside = sent_by is not None and sent_by.kind in {"launcher", "job"}
    return Finding(at_ns=_moment(death), ids=(death.id,), incident=incident, kind="inside" if inside else "death")


def _may_be_oom(case: Case, death: Death, doubts: Sequence[str]) -> bool:
    """Whether a SIGKILL of the kernel's own may be an OOM kill of which the mark was lost, or never watched.

    Or one without a mark, of a process that shares the memory of a victim.
    """
    if death.by is None or not is_kernel_kill_signal(death.by):
        return False
    watched = case.story.watched("mark_victim", SIGNAL_HOOK)
    return bool(doubts) or not watched or case.kills.may_have_sent(death.by)


def _from_oom_daemon(case: Case, signal: SignalSent) -> bool:
    program = senders.program(case.story, signal)
    return program is not None and program.trade == "oom_daemon"


def _cause(case: Case, death: Death) -> Cause:
    if death.signal == SIGKILL:
        if death.by is None:
            return "inconclusive"
        if is_kernel_kill_signal(death.by) or senders.is_parents_death(death.by) or senders.is_failed_exec(death.by):
            return "kernel_sigkill_other"
        if not senders.names_its_sender(death.by):
            return "inconclusive"
        return "userspace_oom_daemon" if _from_oom_daemon(case, death.by) else "sigkill"
    if death.signal == SIGTERM:
        by_daemon = death.by is not None and _from_oom_daemon(case, death.by)
        return "userspace_oom_daemon" if by_daemon else "sigterm"
    if ran_full(case.story, death) is not None:
        return "shm_exhausted"
    return "crash" if death.signal in CRASH_SIGNALS else "exited"


_HEADLINES: Mapping[Cause, str] = {
    "kernel_sigkill_other": "Killed by the kernel, but not by its OOM killer",
    "shm_exhausted": "Ended by SIGBUS: shared memory ran out",
}


def _headline(case: Case, death: Death, cause: Cause, sent_by: Sender | None) -> str:
    name = signal_name(death.signal)
    if cause == "inconclusive" and death.by is not None and is_kernel_kill_signal(death.by):
        return "Killed by the kernel, and whether by its OOM killer was not observed"
    if cause == "inconclusive":
        return f"Ended by {name}, and who sent it was not observed"
    if cause in _HEADLINES:
        return "Ended by SIGBUS while a tmpfs was full" if _is_another_tmpfs(case, death, cause) else _HEADLINES[cause]
    if cause == "crash":
        outside = sent_by is not None and sent_by.kind in {"outside", "daemon", "launcher", "job"}
        return f"Ended by {name}, sent by another process" if outside else f"Crashed: {name}"
    if cause == "exited":
        return f"Ended by {name}"
    if sent_by is None:
        return f"Ended by {name}, and who sent it was not observed"
    assert death.by is not None
    if cause == "userspace_oom_daemon":
        ended = "Ended" if sent_by.kind == "daemon" else "Probably ended"
        return f"{ended} by an OOM daemon: {name} from {senders.sender_name(case.story, death.by)}"
    return f"Ended by {name} from {senders.sender_name(case.story, death.by)}"


def _summary(case: Case, death: Death) -> str:
    clock = (case.story.utc(death.at_ns) or "")[11:23]
    at = f" at {clock} UTC" if clock else ""
    by = ""
    if death.by is not None and death.signal in {SIGKILL, SIGTERM}:
        by = f" from {senders.sender_text(case.story, death.by)}"
    return f"{people.subject(case.story, death.id)} ended{at} by {signal_name(death.signal)}{by}."


def _moment(death: Death) -> int:
    return death.by.ts_ns if death.by is not None else death.at_ns


def _sent(case: Case, death: Death, *, unsure: bool = False) -> Link:
    number, by = signal_name(death.signal), death.by

    def link(status: Status, statement: str) -> Link:
        evidence = (by.seq,) if by is not None else ()
        rung: Rung | None = "bpf" if by is not None else death.rung if status == "present" else None
        via = case.story.hook_names(SIGNAL_HOOK) if by is not None else death.via if rung is not None else ()
        return Link(
            link=1, name="the signal", status=status, statement=statement, evidence=evidence, rung=rung, via=via
        )

    if by is None:
        if death.signal in HOOKED_SIGNALS | CRASH_SIGNALS:
            return link("not_observed", f"nobody was seen to send {number}")
        # Nothing claims to know who sent it; that it ended the process stands in its status.
        return link("present", f"{death.status}; senders of it are not watched")
    if is_kernel_kill_signal(by) or senders.is_failed_exec(by):
        why = "whether from the OOM killer was not observed" if unsure else "not from the OOM killer"
        return link("present", f"SIGKILL by the kernel, {senders.by_the_kernel(case.story, by)}; {why}")
    if senders.is_parents_death(by):
        comm = f"{by.sender_comm!r} ({by.sender_tgid})"
        return link("present", f"{number} that was to come when its parent {comm} ended (PR_SET_PDEATHSIG)")
    if by.code > 0 and death.signal in CRASH_SIGNALS:
        return link("present", f"{number} raised by the kernel for what it did (code {by.code})")
    if by.code > 0:
        return link("not_observed", f"{number} raised in its own context, by the kernel or by itself (code {by.code})")
    if not senders.names_its_sender(by):
        return link("not_observed", f"{number} of a timer or the like (code {by.code}): who set it up was not seen")
    told = f"{number} ({senders.way(by)}) from {senders.sender_text(case.story, by)}"
    program = senders.program(case.story, by)
    unsure_who = program is not None and program.trade == "oom_daemon" and not program.certain
    return link("not_observed" if unsure_who else "present", told)


def not_oom(case: Case, death: Death, *, unsure: bool = False) -> Link:
    """Link 2 of an end by something else."""
    name = "not an OOM kill"
    if may_have_run_full(case.story, death):
        statement = "no OOM kill, but whether a tmpfs had no room was not observed"
        return Link(link=2, name="no want of memory", status="not_observed", statement=statement)
    marked = death.exit is not None and death.exit.oom_marked
    status: Status = "present"
    if not (case.story.watched("mark_victim", SIGNAL_HOOK) and case.story.follows_job):
        return _counted_none(case, name)
    if unsure:
        statement = "records of the OOM killer may have been lost"
        return Link(link=2, name=name, status="not_observed", statement=statement, rung="bpf")
    if case.was_dying(death.id) or (marked and death.by is not None and not is_kernel_kill_signal(death.by)):
        statement = "the OOM killer marked it when it was dying already; it did not kill it"
    elif marked:
        status, statement = "not_observed", "it was marked by the OOM killer, and how was not seen"
    else:
        statement = "the OOM killer neither killed nor marked it"
    return Link(link=2, name=name, status=status, statement=statement, rung="bpf")


def _no_room(case: Case, death: Death) -> Link:
    """Which mapping it wrote to is not watched: that it was of the full tmpfs is likely, and no more."""
    full = ran_full(case.story, death)
    assert full is not None
    return Link(
        link=2,
        name="no room left",
        status="not_observed",
        statement=f"{full.statement}; that it wrote there was not observed",
        evidence=(full.sample.seq,),
        rung="proc",
    )


def _remedies(case: Case, death: Death) -> tuple[Remedy, ...]:
    full = ran_full(case.story, death)
    if full is None or full.fill.mount_point != SHM:
        return ()
    workers = sum(role.name == "dataloader_worker" for role in case.story.roles.values())
    seen = Room(fill=full.fill, sample=full.sample, statement=full.statement)
    return of_shared_memory(seen, people.process(case.story, death.id).place, workers)


def _is_another_tmpfs(case: Case, death: Death, cause: Cause) -> bool:
    """Whether the full one is not where shared memory lies: it may well have nothing to do with it."""
    full = ran_full(case.story, death) if cause == "shm_exhausted" else None
    return full is not None and full.fill.mount_point != SHM


def _counted_none(case: Case, name: str) -> Link:
    """Without BPF: what the count of the job's cgroup says."""
    statement = "the kernel's OOM killer was not watched"
    if not counts_were_read(case.story) or rises(case.story):
        return Link(link=2, name=name, status="not_observed", statement=statement)
    statement = "its cgroup counted no OOM kill"
    return Link(link=2, name=name, status="not_observed", statement=statement, rung="cgroup_counters")


def _died(case: Case, death: Death) -> Link:
    waited = "; its parent's wait says the same" if death.ended is not None else ""
    status: Status = "present" if death.waits_agree else "absent"
    statement = f"{death.status}{waited}{said_too(case, death)}" if death.waits_agree else WAIT_DIFFERS
    evidence = tuple(e.seq for e in (death.exit, death.ended, death.zombie) if e is not None)
    return Link(
        link=4,
        name="it died of that",
        status=status,
        statement=statement,
        evidence=evidence,
        rung=death.rung,
        via=death.via,
    )

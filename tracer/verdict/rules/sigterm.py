# SPDX-License-Identifier: Apache-2.0
"""The job, or a process that trains, got SIGTERM from elsewhere, handled it and failed soon after: it was stopped."""

from collections.abc import Iterable

from tracer.events import SignalSent
from tracer.events.signals import SIGTERM
from tracer.units import format_duration
from tracer.verdict import people, senders
from tracer.verdict.deaths import Death
from tracer.verdict.incident import (
    TRAINING_ROLES,
    Case,
    Finding,
    belongs,
    doubt_caveats,
    said_otherwise,
    said_too,
    strength,
)
from tracer.verdict.model import Incident, Link
from tracer.verdict.rules.signals import SIGNAL_HOOK, not_oom
from tracer.verdict.terminations import SHELL_SIGTERM, ended_of


def find(case: Case) -> Iterable[Finding]:
    """One finding a process that exited because of a SIGTERM from elsewhere, as far as that can be known."""
    for death in case.deaths:
        if death.id in case.story.tree.roots or _trains(case, death):
            signal = ended_of(case, death)
            if signal is not None:
                yield _finding(case, death, signal)


def _trains(case: Case, death: Death) -> bool:
    role = case.story.roles.get(death.id)
    return role is not None and role.name in TRAINING_ROLES


def _finding(case: Case, death: Death, signal: SignalSent) -> Finding:
    story = case.story
    sent_by = senders.sender(story, signal)
    by_daemon = sent_by is not None and sent_by.trade == "oom_daemon"
    doubts = story.doubts(signal.ts_ns, death.at_ns)
    links = (_sent(case, signal), not_oom(case, death), belongs(story, death.id), _ended(case, death, signal))
    victim = people.process(story, death.id)
    incident = Incident(
        cause="userspace_oom_daemon" if by_daemon else "sigterm",
        strength=strength(links, doubts),
        at=story.utc(signal.ts_ns),
        headline=f"Stopped by SIGTERM from {senders.sender_name(story, signal)}",
        summary=f"{people.subject(story, death.id)} got SIGTERM and then exited with status {death.code}.",
        victim=victim,
        victims=(victim,),
        sender=sent_by,
        signal=SIGTERM,
        exit_code=death.code,
        proof=links,
        caveats=(*doubt_caveats(doubts), *said_otherwise(case, death)),
    )
    return Finding(at_ns=signal.ts_ns, ids=(death.id,), incident=incident, kind="death")


def _sent(case: Case, signal: SignalSent) -> Link:
    return Link(
        link=1,
        name="the signal",
        status="present",
        statement=f"SIGTERM from {senders.sender_text(case.story, signal)}",
        evidence=(signal.seq,),
        rung="bpf",
        via=case.story.hook_names(SIGNAL_HOOK),
    )


def _ended(case: Case, death: Death, signal: SignalSent) -> Link:
    """That a handler ran, and what it did, is not watched."""
    after = format_duration(death.at_ns - signal.ts_ns)
    how = "which says that it was for a SIGTERM" if death.code == SHELL_SIGTERM else "likely because of it"
    return Link(
        link=4,
        name="it ended of that",
        status="not_observed",
        statement=f"it exited with status {death.code} {after} afterwards, {how}{said_too(case, death)}",
        evidence=death.evidence,
        rung=death.rung,
        via=death.via,
    )

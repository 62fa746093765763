# SPDX-License-Identifier: Apache-2.0
"""Whether anything may have gone wrong before a failure that nobody is seen to have caused from elsewhere.

That a process exited by itself, or was ended by another one of its job, is known of that process. That it was the
*first* failure is a claim about all others, and needs the end of each of them, and no sign of a record that is gone.
"""

from collections.abc import Iterable

import msgspec

from tracer.attribution.tree import Member
from tracer.events import ProcessId, SenderSeen, SignalSent, TmpfsSample, process_id
from tracer.units import format_duration
from tracer.verdict import people, senders
from tracer.verdict.deaths import signal_name
from tracer.verdict.failures import Failures
from tracer.verdict.incident import TRAINING_ROLES, Case, Finding


def as_first(case: Case, finding: Finding, others: Iterable[Finding], failed: Failures) -> Finding:
    """A finding as the first failure: no longer proved where something may have come before it.

    Args:
        others: that it does not explain.
        failed: what failed by itself.
    """
    finding = _with_caveats(
        finding, (*_had_failed(case, finding, failed), *_failed_since(case, finding, others, failed))
    )
    incident = finding.incident
    if incident.strength != "proved" or not _rests_on_the_others(finding):
        return finding
    doubts = tuple(dict.fromkeys([*_signs(case, finding), *case.unexplained]))
    if not doubts:
        return finding
    weaker = msgspec.structs.replace(finding, incident=msgspec.structs.replace(incident, strength="likely"))
    return _with_caveats(weaker, (f"Not proved to have come first: {doubt}." for doubt in doubts))


def _with_caveats(finding: Finding, caveats: Iterable[str]) -> Finding:
    incident = finding.incident
    return msgspec.structs.replace(
        finding, incident=msgspec.structs.replace(incident, caveats=(*incident.caveats, *caveats))
    )


def _had_failed(case: Case, finding: Finding, failed: Failures) -> Iterable[str]:
    """A job of which one rank had failed may hang, and is ended for that: the blow is seen, its reason is not."""
    found = [] if finding.kind == "end" else list(failed.before(finding))
    if found:
        one = found[0]
        ago, who = format_duration(finding.at_ns - one.at_ns), people.describe(case.story, one.id)
        more = f"; so had {len(found) - 1} more" if len(found) > 1 else ""
        yield f"{ago} before, {who} had exited by itself with status {one.code}{more}."


def _failed_since(case: Case, finding: Finding, others: Iterable[Finding], failed: Failures) -> Iterable[str]:
    """Of what failed by itself after a helper was killed: the two may have nothing to do with each other."""
    unexplained = {one.ids for one in others}
    one = next((one for one in failed.apart(finding) if one.ids in unexplained), None)
    if one is not None:
        later, who = format_duration(one.at_ns - finding.at_ns), people.describe(case.story, one.ids[0])
        status = one.incident.exit_code
        yield f"Whether {who}, which exited with status {status} {later} later, failed because of that was not seen."


def _rests_on_the_others(finding: Finding) -> bool:
    """Whether nobody from elsewhere, and not the kernel, is seen to have begun it: then what others did matters."""
    if finding.kind == "inside":
        return True
    return finding.incident.cause == "exited" and finding.incident.exit_code not in {0, None}


def _signs(case: Case, finding: Finding) -> Iterable[str]:
    yield from _blows(case, finding)
    yield from _ends_not_seen(case, finding)
    yield from _known_by_a_piece(case)
    yield from _looks_at_nothing(case)
    yield from _why_inside(case, finding)


def _blows(case: Case, finding: Finding) -> Iterable[str]:
    """Others that a signal had ended, but for what the job tidied up by itself."""
    found = [d for d in case.deaths if d.signal and d.at_ns <= finding.at_ns and d.id not in finding.ids]
    for death in found:
        by = senders.sender(case.story, death.by) if death.by is not None else None
        if by is None or by.kind not in {"launcher", "job"}:
            yield f"{people.describe(case.story, death.id)} had ended by {signal_name(death.signal)} before"
            return


def _ends_not_seen(case: Case, finding: Finding) -> Iterable[str]:
    """Of those that were there before and are not seen to have been there after."""
    unseen = [
        member
        for member in case.story.tree.processes.values()
        if member.id not in finding.ids
        and (member.id in case.story.tree.members or member.claimed)
        and (member.began_ns or 0) <= finding.at_ns
        and _ended_unseen(case, member, finding.at_ns)
    ]
    if unseen:
        more = f", nor of {len(unseen) - 1} more" if len(unseen) > 1 else ""
        yield f"the end of {people.describe(case.story, unseen[0].id)} was not seen{more}"


def _ended_unseen(case: Case, member: Member, at_ns: int) -> bool:
    if case.death(member.id) is not None:
        return False
    signs = [*member.samples[-1:], *member.seen[-1:], *member.looks[-1:], *member.execs[-1:]]
    signs += [fork for child in member.children if (fork := case.story.tree.processes[child].fork) is not None]
    return not any(sign.ts_ns > at_ns for sign in signs)


def _known_by_a_piece(case: Case) -> Iterable[str]:
    """Whoever was in the kernel's tree filter was forked under watch: of this one not even that was recorded."""
    story = case.story
    if not story.watched_from_start("sched_process_fork"):
        return
    pieces = [m for m in story.tree.processes.values() if m.claimed and m.id not in story.tree.members]
    if pieces:
        more = f", nor of {len(pieces) - 1} more" if len(pieces) > 1 else ""
        yield f"the fork of {people.describe(story, pieces[0].id)} was not seen{more}"


def _looks_at_nothing(case: Case) -> Iterable[str]:
    """A fatal signal has its sender from outside looked at, a SIGBUS the tmpfs: the signal is recorded before that."""
    sent = {senders.sender_id(signal) for signal in case.story.of(SignalSent)}
    hit = {signal.tgid for signal in case.story.of(SignalSent)}
    for seen in case.story.of(SenderSeen):
        if process_id(seen.tgid, seen.start_ns) not in sent:
            yield f"pid {seen.tgid} sent the job a signal from outside, and that was not recorded"
    for sample in case.story.of(TmpfsSample):
        if sample.signalled_tgid is not None and sample.signalled_tgid not in hit:
            yield f"pid {sample.signalled_tgid} got a SIGBUS, and that was not recorded"


def _why_inside(case: Case, finding: Finding) -> Iterable[str]:
    """What has a part in the training ends another such process for a reason: that may be an earlier failure."""
    if finding.kind != "inside":
        return
    death = case.death(finding.ids[0])
    sender = senders.sender_id(death.by) if death is not None and death.by is not None else None
    if sender is not None and _trains(case, sender) and _trains(case, finding.ids[0]):
        yield f"why {people.describe(case.story, sender)} ended it was not seen"


def _trains(case: Case, identity: ProcessId) -> bool:
    role = case.story.roles.get(identity)
    return role is not None and role.name in TRAINING_ROLES

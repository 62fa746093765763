# SPDX-License-Identifier: Apache-2.0
"""From events to a report: run the rules in a written order, pick what started the failure, the rest is collateral."""

from collections.abc import Iterable, Sequence

import msgspec

from tracer.events import AnyEvent
from tracer.verdict.before import as_first
from tracer.verdict.blows import as_one, gathered
from tracer.verdict.collateral import Cascades, of_nobody_known
from tracer.verdict.confirm.signs import checklist
from tracer.verdict.failures import Failures
from tracer.verdict.first import first_failure
from tracer.verdict.incident import Case, Finding
from tracer.verdict.model import Collateral, Job, Report, Verdict
from tracer.verdict.reconcile import caveats
from tracer.verdict.rules import (
    asked,
    counted,
    cuda_oom,
    cuda_said,
    exited,
    host_oom,
    refused as of_host,
    signals,
    sigterm,
    stall,
)
from tracer.verdict.story import Story
from tracer.verdict.timeline import build
from tracer.verdict.verify import filled_in, run_and_compare

MAX_CAVEATS = 30


def judge(events: Iterable[AnyEvent], *, recording: str | None = None) -> Report:
    """The verdict over one recording, however its events are ordered.

    Args:
        events: all of one recording; live and replay give the same.
        recording: its path, for the report alone.
    """
    return judge_case(Case(Story(events)), recording=recording)


def judge_case(case: Case, *, recording: str | None = None) -> Report:
    """The same where the facts were joined already."""
    end = exited.find(case)
    counts = list(counted.find(case))
    meant = {identity for finding in counts for identity in finding.ids}
    # That somebody sent a SIGKILL, unseen, is no news beside the count that tells of one.
    ended = [f for f in signals.find(case) if f.incident.cause != "inconclusive" or not set(f.ids) <= meant]
    refused = list(cuda_oom.find(case))
    known = {one.ids[0] for one in refused} | set(case.kills.by_id)
    refused += cuda_said.find(case, known | meant)
    refused += of_host.find(case, known | meant | {one.ids[0] for one in refused})
    not_had = {finding.ids[0] for finding in refused}  # an exception that nobody caught ends by SIGABRT
    ended = [f for f in (*ended, *sigterm.find(case)) if not set(f.ids) <= not_had]
    findings = sorted([*host_oom.find(case), *counts, *refused, *ended], key=lambda f: (f.at_ns, f.ids))
    stalls = list(stall.find(case))
    failed = Failures(case)
    as_asked = asked.find(case, end)
    if as_asked is not None:
        end = as_asked
        findings = [f for f in findings if f.at_ns < end.at_ns or f.kind == "oom"]
    primary = first_failure(case, findings, end, failed)
    if as_asked is not None and primary.kind != "oom" and primary.at_ns >= end.at_ns:
        primary = end  # what came of our SIGTERM
    if primary is end and case.root_death is None and stalls:
        primary = stalls[0]  # it still runs, and this is why it gets no further
    cascades = Cascades(case, primary, [*(f for f in findings if f.kind in {"oom", "death"}), *failed.apart(primary)])
    downed = {one.death.id for root in cascades.roots for one in cascades.of(root)}
    covered = downed if of_nobody_known(primary) else downed | set(primary.ids)
    # What went down because of another incident is told there, not as one of its own.
    others = [f for f in cascades.roots if f is not primary and (not set(f.ids) <= covered or of_nobody_known(f))]
    others += [f for f in stalls if f is not primary]
    told, *others = [_with(as_one(group), cascades.told(group)) for group in gathered([primary, *others])]
    told = as_first(case, told, others, failed)
    ordered = sorted([told, *others], key=lambda f: (f.at_ns, f.ids))
    verdict = Verdict(
        primary=ordered.index(told),
        incidents=tuple(filled_in(f.incident, run_and_compare(case, f.at_ns, recording)) for f in ordered),
        job=_job(case),
        caveats=_caveats(case, ordered, told.at_ns),
        watched_by=case.story.watched_by,
        pids_of="tracer" if case.story.pids_differ else "host",
        reconciliation=case.counters,
        confirm=checklist(case, told, recording),
    )
    return Report(
        verdict=verdict,
        timeline=build(case, msgspec.structs.replace(told, ids=primary.ids), downed),
        recording=recording,
    )


def _with(finding: Finding, collateral: tuple[Collateral, ...]) -> Finding:
    if not collateral:
        return finding
    return msgspec.structs.replace(finding, incident=msgspec.structs.replace(finding.incident, collateral=collateral))


def _job(case: Case) -> Job | None:
    story, started = case.story, case.story.job
    if started is None:
        return None
    death = case.root_death
    member = story.tree.processes.get(story.tree.root) if story.tree.root else None
    vanished = member is not None and member.gone is not None
    return Job(
        argv=story.command,
        pid=started.tgid,
        cgroup=started.cgroup,
        started_at=story.began_at(started),
        attached_at=story.utc(started.ts_ns) if started.attached else None,
        ended_at=story.utc(death.at_ns) if death else None,
        status=death.status if death else None if vanished else "running",
    )


def _differences(case: Case, findings: Sequence[Finding]) -> tuple[str, ...]:
    """What the kernel counted and nothing explains; not where an incident tells of those very counts."""
    if case.counters is None:
        return ()
    by_count = any(link.rung == "cgroup_counters" and link.link == 1 for f in findings for link in f.incident.proof)
    return () if by_count and not case.counters.watched else caveats(case.counters)


def _caveats(case: Case, findings: Sequence[Finding], at_ns: int) -> tuple[str, ...]:
    """What holds for the whole recording, and what was seen of others, of several the nearest to the incident."""
    told = {caveat for finding in findings for caveat in finding.incident.caveats}
    story = case.story
    found = [c for c in (*_differences(case, findings), *story.caveats) if c not in told]
    strangers = [k for k in case.kills.kills if not story.is_ours(k.id.tgid, k.start_ns)]
    for unsure, where in ((True, "; whether that was of this job could not be told"), (False, " outside this job")):
        group = [k for k in strangers if story.may_be_ours(k.levels, k.at_ns) == unsure]
        if group:
            # The one that the timeline shows.
            nearest = min(group, key=lambda k: abs(k.at_ns - at_ns))
            name = nearest.mark.comm if nearest.mark is not None else "?"
            more = f" and {len(group) - 1} more" if len(group) > 1 else ""
            found.append(f"The kernel also killed {name!r} (pid {nearest.id.tgid}){more}{where}.")
    if len(found) > MAX_CAVEATS:
        found = [*found[:MAX_CAVEATS], f"{len(found) - MAX_CAVEATS} more remarks stand in the recording."]
    return tuple(found)

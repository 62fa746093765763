# SPDX-License-Identifier: Apache-2.0
"""From passages to a verdict: what the kernel's log, services and the job's own log tell, weighed."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from tracer.events import LogEvent, LogGap, Passage, ReportedLine, Text, TrainingLine
from tracer.verdict.model import Collateral, Incident
from tracer.verdict.textual import host, others, several
from tracer.verdict.textual.citing import cited, what_was_read
from tracer.verdict.textual.deaths import Failure, Own, own_of
from tracer.verdict.textual.join import RANKS, Tie, may_train, tie
from tracer.verdict.textual.kernel import Report, reports_of
from tracer.verdict.textual.model import TextVerdict
from tracer.verdict.textual.times import gap, is_near

MOST_INCIDENTS = 20
_ONE_BURST_NS = 60_000_000_000

_OF_OOM = {"container_oom": 3, "step_oom": 3, "system_oom": 3, "unit_oom": 3}
_BY_DAEMON = {"daemon_kill", "poll_kill", "evicted"}
_BY_REQUEST = {"service_kills", "container_kill", "cancelled"}
_STATUS = {"exit_137", "unit_killed"}


class Candidate(NamedTuple):
    """What may have started it; the lowest counts."""

    rank: float
    seq: int
    incident: Incident
    tie: Tie | None = None


def explain(passages: Sequence[Passage], texts: Sequence[Text]) -> TextVerdict:
    """The verdict of what `tracer.logs.texts.numbered` gave."""
    own = own_of(passages)
    reported = [passage for passage in passages if isinstance(passage.event, ReportedLine)]
    genuine, alike = _told_apart(passages, texts, own)
    candidates = [
        *_of_kernel(reports_of(genuine), own, reported, texts),
        *_of_services(reported, own, texts),
        *_of_the_job(own, texts),
    ]
    candidates.sort(key=lambda one: (one.rank, one.seq))
    if not candidates or candidates[0].rank >= _NOT_OURS:
        # What cannot be tied to the job stands beside it, and is not what ended it.
        fit = [one.tie.victim for one in candidates if one.tie is not None and one.tie.fits]
        fit = sorted((victim for victim in fit if victim.kill is not None), key=lambda each: each.passage.event.seq)
        untold = several.one_of_several(fit, texts) if len(fit) > 1 else others.nothing(own, texts)
        candidates = [Candidate(_NOT_OURS - 1, 0, untold), *candidates]
    primary = candidates[0]
    first = own.first
    incidents = (_whole(primary, own, texts), *(one.incident for one in _distinct(candidates)))
    caveats = [*_caveats(primary, own, passages, texts), *_alike(alike, texts)]
    if len(incidents) > MOST_INCIDENTS:
        caveats.append(f"{len(incidents) - MOST_INCIDENTS} more kills, longer before, were left out.")
    started = _initiating(primary, own)
    return TextVerdict(
        primary=0,
        incidents=incidents[:MOST_INCIDENTS],
        caveats=tuple(dict.fromkeys(caveats)),
        watched_by=tuple(sorted({text.kind for text in texts})),
        first_failure=_first_in_words(first, texts),
        initiating_rank=started[0],
        initiating_local_rank=started[1],
        cited=cited(incidents[0], own, first, passages, texts),
        assumed=primary.tie.assumed if primary.tie is not None else (),
        read=what_was_read(passages, texts),
    )


_NOT_OURS = 8


def _told_apart(passages: Iterable[Passage], texts: Sequence[Text], own: Own) -> tuple[list[Passage], list[Passage]]:
    """Records of the kernel, and lines that only look like some: in a job's log, or with somebody else's name."""
    genuine: list[Passage] = []
    alike: list[Passage] = []
    has_own = {passage.file for passage in own.lines}
    for passage in passages:
        event = passage.event
        if not isinstance(event, LogEvent):
            continue
        kind = texts[passage.file].kind
        bare = event.said_by is None and event.log_usec is None and event.wall is None
        other = event.said_by == "user" or kind == "training" or (kind == "mixed" and bare and passage.file in has_own)
        (alike if other else genuine).append(passage)
    return genuine, alike


def _of_kernel(
    reports: Sequence[Report], own: Own, reported: Sequence[Passage], texts: Sequence[Text]
) -> Iterable[Candidate]:
    ties = [
        tie(report, own, reported, host.place_of_report(report), drifts=texts[report.first.file].boot_clock)
        for report in reports
    ]
    last = {id(report) for report in _last_burst(reports, ties)}
    by_name = sum(found.kind == "name" for found in ties)
    for report, found in zip(reports, ties, strict=True):
        rank: float = {"pid": 0, "cgroup": 0.5, "time": 1, "alone": 2, "name": 5, "none": _NOT_OURS}[found.kind]
        if found.kind == "alone":
            rank += 0 if id(report) in last else 0.5
            if not any(may_train(victim.comm) for victim in report.victims):
                rank = _NOT_OURS if own.lines else rank + 0.25
        if found.kind == "name" and by_name > 1:
            rank, found = _NOT_OURS, found._replace(fits=report.cause != "operator_oom")  # noqa: PLW2901 - of several none is tied
        if rank >= _NOT_OURS:
            found = found._replace(kind="none")  # noqa: PLW2901 - several would fit: none is tied
        # Of those that were survived the last ones stand first.
        seq = report.first.event.seq if found.kind != "alone" or id(report) in last else -report.first.event.seq
        yield Candidate(rank, seq, host.incident(report, found, own, texts), found)


def _last_burst(reports: Sequence[Report], ties: Sequence[Tie]) -> list[Report]:
    """Of a log of many weeks the last kills that belong together: those before were survived."""
    burst: list[Report] = []
    alone = [report for report, found in zip(reports, ties, strict=True) if found.kind == "alone"]
    trains = [report for report in alone if any(may_train(victim.comm) for victim in report.victims)] or alone
    for report in trains:
        if burst and not _together(burst[-1], report):
            burst = []
        burst.append(report)
    return burst


def _together(one: Report, other: Report) -> bool:
    first, second = one.first, other.first
    if first.file != second.file:
        return False
    assert isinstance(first.event, LogEvent)
    assert isinstance(second.event, LogEvent)
    if first.event.log_usec is not None and second.event.log_usec is not None:
        return abs(second.event.log_usec - first.event.log_usec) * 1000 <= _ONE_BURST_NS
    if first.wall_ns is not None and second.wall_ns is not None:
        return abs(second.wall_ns - first.wall_ns) <= _ONE_BURST_NS
    return True


def _untied(incident: Incident) -> Incident:
    """Of the job's machine, it may be, but of the job? Nothing says so."""
    caveat = "Nothing but its kind ties this line to the job: it may be about another one."
    return msgspec.structs.replace(
        incident,
        strength="possible",
        headline=incident.headline.replace("Probably", "Perhaps"),
        caveats=(*incident.caveats, caveat),
    )


def _is_tied(passage: Passage, own: Own, *, named: bool) -> bool:
    """By a pid, a place among the job's own lines, a time; without lines of the job, by being given."""
    line = passage.event
    assert isinstance(line, ReportedLine)
    if named or not own.lines or line.by in {"kubernetes", "flux", "vertex-ai"} or passage.file in own.files:
        return True
    ends = [failure.passage for failure in own.failures] or [own.lines[-1]]
    gaps = [gap(passage, end) for end in ends]
    return any(found is not None and is_near(found) for found in gaps)


def _of_services(reported: Sequence[Passage], own: Own, texts: Sequence[Text]) -> Iterable[Candidate]:
    killed = {pid for pid, _, _ in (*own.claims(), *own.claims(others.SIGTERM))}
    first = own.first
    seen: set[tuple[str, str]] = set()
    for passage in reported:
        line = passage.event
        assert isinstance(line, ReportedLine)
        key = (line.about, line.by)
        named = line.pid is not None and line.pid in killed
        if key in seen and not named:
            continue
        seen.add(key)
        seq = line.seq
        if line.about in _BY_DAEMON:
            fits = named or (may_train(line.comm) and not (line.pid is not None and killed))
            rank = 0.25 if named else 2.25 if fits else _NOT_OURS
            incident = others.by_daemon(passage, own, texts)
        elif line.about in _OF_OOM:
            fits = may_train(line.comm) and (first is None or first.how in _MAY_BE_KILLED or named)
            rank = 0.75 if named else 3 if fits else 6
            incident = others.by_report(passage, own, texts)
        elif line.about in _BY_REQUEST:
            fits = named or line.pid is None or not killed
            rank = 3.5 if fits else _NOT_OURS
            incident = others.by_request(passage, own, texts)
        elif line.about in _STATUS and line.signal != others.SIGTERM:
            yield Candidate(5.5, seq, others.from_status(passage, texts))
            continue
        else:
            continue
        tied = _is_tied(passage, own, named=named)
        yield Candidate(rank, seq, incident if tied else _untied(incident))


_MAY_BE_KILLED = frozenset({"sigkill", "vanished", "raised", "told", "crash"})


def _of_the_job(own: Own, texts: Sequence[Text]) -> Iterable[Candidate]:
    for passage in own.lines:
        line = passage.event
        assert isinstance(line, TrainingLine)
        if line.about == "ray_memory":
            yield Candidate(2.25, line.seq, others.by_daemon(passage, own, texts))
            break
    first = own.first
    if first is None:
        return
    if first.how == "told":
        yield Candidate(4, first.line.seq, others.by_request(first.passage, own, texts))
        return
    rank = 5.25 if first.how in {"sigkill", "vanished", "raised"} else 4
    if first.how in {"raised", "vanished"}:
        rank = 5.75
    yield Candidate(rank, first.line.seq, others.by_itself(first, own, texts))


def _distinct(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The others that say something else than the first: what a service saw of the same kill is no second one."""
    first = candidates[0]
    kept: list[Candidate] = []
    for one in candidates[1:]:
        same = one.tie is None and first.incident.cause == one.incident.cause
        echo = one.tie is None and one.incident.cause in {"inconclusive", "host_oom_unknown_scope", "exited"}
        reported = one.tie is None and first.tie is not None and one.incident.cause == "host_oom_cgroup"
        if not (same or echo or reported):
            kept.append(one)
    return kept


def _whole(primary: Candidate, own: Own, texts: Sequence[Text]) -> Incident:
    """With who went down because of it."""
    victims = {victim.pid for victim in primary.incident.victims}
    fallen: dict[int, Collateral] = {}
    for passage in own.collateral:
        line = passage.event
        assert isinstance(line, TrainingLine)
        for pid in line.pids:
            if pid not in victims and pid not in fallen:
                how = "signal 15" if line.signal == others.SIGTERM else "ended by its launcher"
                fallen[pid] = Collateral(pid=pid, how=f"{how} ({host.place_in(passage, texts)})")
    return msgspec.structs.replace(primary.incident, collateral=tuple(fallen.values())[:100])


def _caveats(primary: Candidate, own: Own, passages: Sequence[Passage], texts: Sequence[Text]) -> Iterable[str]:
    if primary.tie is not None:
        for failure in own.failures:
            if failure.how == "device" and not failure.survived:
                yield (
                    f"GPU memory was refused as well ({host.place_in(failure.passage, texts)}): which was first, "
                    "texts do not show for sure."
                )
                break
    for assumed in primary.tie.assumed if primary.tie is not None else ():
        yield f"Assumed: {assumed}."
    lost = sum(passage.event.lost for passage in passages if isinstance(passage.event, LogGap))
    if lost:
        yield f"The kernel's log has lost {lost} records: a kill or a limit may be among them."
    for text in texts:
        if text.left_out:
            yield f"{text.name}: {text.left_out} more lines of kinds that had come often were left out."
    left = [text.name for text in texts if text.boot_clock]
    if left and primary.tie is not None and primary.tie.kind == "time":
        yield f"{left[0]} has times of dmesg -T, which drift where the machine sleeps."


def _alike(alike: Sequence[Passage], texts: Sequence[Text]) -> Iterable[str]:
    if alike:
        first = alike[0]
        yield (
            f"Lines that look like the kernel's were not taken for such ({host.place_in(first, texts)}): they stand in "
            "the job's log, or under another name. If they are the kernel's, give them with --kernel-log."
        )


def _initiating(primary: Candidate, own: Own) -> tuple[int | None, int | None]:
    line = primary.tie.line if primary.tie is not None else None
    first = own.first.line if own.first is not None else None
    for found in (line, first):
        rank = own.rank_of(found) if found is not None else None
        if found is not None and (rank is not None or found.local_rank is not None):
            return rank, found.local_rank
    return None, None


def _first_in_words(first: Failure | None, texts: Sequence[Text]) -> str | None:
    if first is None:
        return None
    return f"{first.line.text[:200]} ({host.place_in(first.passage, texts)})"


__all__ = ["RANKS", "explain"]

# SPDX-License-Identifier: Apache-2.0
"""What stands where on the page, in words; the templates say how it looks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tracer.units import MIB, format_bytes
from tracer.verdict import words
from tracer.verdict.dossier.model import Chart, Dossier, Exhibit, Layer, Part, Person
from tracer.verdict.mechanisms.model import Part as Share
from tracer.verdict.model import Entry, Incident, Level, Link, Mechanism, Process, Report, Status
from tracer.views.webpage.drawing import NARROW, WIDE, Drawing, draw, styles
from tracer.views.webpage.marks import Numbered, is_drawn
from tracer.views.webpage.safe import Shape
from tracer.views.webpage.sparkline import sparkline

MOST_EVIDENCE = 8
"""Events shown below one link."""
MOST_COLLATERAL = 4
MOST_OTHERS = 10
"""Incidents beside the primary one that are told with their proof; those that follow have a line each."""
MOST_LINES = 90
TABLE_ROWS = 24
_BEYOND_SHARE = 0.05
_LEAST_SHARE_BYTES = 64 * 1024

STATES: Mapping[Status, tuple[str, str]] = {
    "present": ("present", "✓"),
    "absent": ("absent", "✗"),
    "not_observed": ("not observed", "?"),
}
PARTS: Mapping[Part, str] = {
    "victim": "victim",
    "subject": "the one it is about",
    "culprit": "grew",
    "trigger": "asked for memory",
    "sender": "sent the signal",
    "collateral": "collateral",
}


@dataclass(frozen=True)
class Proof:
    """One link, with the events that it rests on."""

    link: Link
    state: str
    sign: str
    exhibits: tuple[Exhibit, ...]
    unshown: int


@dataclass(frozen=True)
class Told:
    """An incident as it is laid out."""

    incident: Incident
    headline: str
    moment: str
    clean: bool
    happened: tuple[tuple[str, str], ...]
    proof: tuple[Proof, ...]
    chain: tuple[tuple[Level, str, float | None], ...]
    mechanism: str
    mechanism_exhibits: tuple[Exhibit, ...]
    shares: tuple[tuple[Share, str, float, str], ...]
    total: str
    caveats: tuple[str, ...]


@dataclass(frozen=True)
class Key:
    """A layer of a chart in its legend."""

    letter: str
    style: str
    layer: Layer
    parts: tuple[str, ...]
    at_incident: str
    peak: str


@dataclass(frozen=True)
class Plate:
    """A chart with its two drawings, its legend and its table."""

    chart: Chart
    drawings: tuple[Drawing, ...]
    keys: tuple[Key, ...]
    rows: tuple[tuple[str, str, tuple[str, ...]], ...]
    beyond: bool
    """Its layers come to clearly more than the whole."""


@dataclass(frozen=True)
class Row:
    """An entry of the timeline."""

    number: int
    entry: Entry
    relative: str
    utc: str
    line: Shape
    """A sparkline as a path; empty where there is none."""


@dataclass(frozen=True)
class Page:
    """Everything that the templates need."""

    dossier: Dossier
    title: str
    told: Told
    others: tuple[Told, ...]
    more: tuple[Incident, ...]
    """Those that have a line each."""
    unshown: int
    """Incidents of which there is only the number."""
    plates: tuple[Plate, ...]
    rows: tuple[Row, ...]
    zero: str
    people: tuple[tuple[Person, str, str, tuple[str, ...]], ...]
    caveats: tuple[str, ...]
    unobserved: tuple[str, ...]
    sure: bool
    """Proved, and nothing was lost at all."""
    job: str


def page(dossier: Dossier) -> Page:
    """From a dossier to what the templates write down."""
    report = dossier.report
    primary = report.verdict.incidents[report.verdict.primary]
    told = _told(dossier, primary)
    rows = tuple(_rows(dossier))
    numbered = [
        Numbered(row.number, row.entry.at_ns, row.entry.kind, row.entry.primary)
        for row in rows
        if is_drawn(row.entry.kind)
    ]
    others = [one for one in report.verdict.incidents if one is not primary]
    return Page(
        dossier=dossier,
        title=told.headline,
        told=told,
        others=tuple(_told(dossier, one) for one in others[:MOST_OTHERS]),
        more=tuple(others[MOST_OTHERS : MOST_OTHERS + MOST_LINES]),
        unshown=max(0, len(others) - MOST_OTHERS - MOST_LINES),
        plates=tuple(_plate(dossier, chart, numbered) for chart in dossier.charts),
        rows=rows,
        zero=words.moment(primary.at) if dossier.at_ns is not None else "",
        people=tuple(_people(dossier)),
        caveats=tuple(dict.fromkeys((*primary.caveats, *report.verdict.caveats))),
        unobserved=tuple(f"{link.name}: {link.statement}" for link in primary.proof if link.status == "not_observed"),
        sure=primary.strength == "proved" and dossier.facts.losses_known and not dossier.facts.losses,
        job=words.job(report.verdict.job) if report.verdict.job is not None else "",
    )


def _told(dossier: Dossier, incident: Incident) -> Told:
    mechanism = incident.mechanism
    picture = incident.picture
    total = 0 if picture is None else picture.usage_bytes if picture.limit_bytes is None else picture.limit_bytes
    return Told(
        incident=incident,
        headline=words.headline(incident),
        moment=words.moment(incident.at),
        clean=words.is_clean(incident),
        happened=tuple(_happened(dossier.report, incident)),
        proof=tuple(_proof(dossier, link) for link in incident.proof),
        chain=tuple(_chain(incident)),
        mechanism="" if mechanism is None else names(mechanism),
        mechanism_exhibits=() if mechanism is None else _exhibits(dossier, mechanism.evidence),
        shares=() if picture is None else tuple(_share(one, total) for one in picture.parts if _matters(one)),
        total=format_bytes(total) if picture is not None else "",
        caveats=incident.caveats,
    )


def names(mechanism: Mechanism) -> str:
    """All that it may have been, since none of them is the one that was seen."""
    return " or ".join((mechanism.name, *mechanism.or_))


def _happened(report: Report, incident: Incident) -> Iterator[tuple[str, str]]:
    """Three to six lines for somebody who was not there."""
    people = incident.victims or ((incident.victim,) if incident.victim is not None else ())
    if len(people) == 1:
        yield words.part_of(incident), _with_memory(people[0])
    elif people:
        yield (
            "victims" if words.has_victim(incident) else "processes",
            f"{len(people)} processes, the first being {_with_memory(people[0])}",
        )
    culprit = incident.culprit
    if culprit is not None:
        itself = len(people) == 1 and people[0].pid == culprit.pid
        who = f"the {words.part_of(incident)} itself"
        yield "grew", f"{who if itself else culprit.who or f'pid {culprit.pid}'}: {culprit.why}"
    elif incident.growth is not None:
        yield "grew", incident.growth
    if incident.sender is not None:
        yield "sender", words.sender(incident.sender)
    if incident.trigger is not None and (not people or incident.trigger.pid != people[0].pid):
        yield "trigger", f"{words.described(incident.trigger)}: it asked for memory at that moment"
    if incident.mechanism is not None:
        yield "why", f"{incident.mechanism.statement} ({names(incident.mechanism)}, {incident.mechanism.strength})"
    if incident.collateral:
        told = [one.how for one in incident.collateral[:MOST_COLLATERAL]]
        more = len(incident.collateral) - len(told)
        yield "then", "; ".join([*told, *([f"and {more} more"] if more else [])])
    job = report.verdict.job
    if job is not None and job.status is not None:
        yield "job", "was running when the recording ended" if job.status == "running" else f"ended with {job.status}"


def _with_memory(process: Process) -> str:
    memory = words.memory(process)
    ran_in = words.ran_in(process)
    told = ", ".join(part for part in (words.who(process), words.pid(process), process.comm) if part)
    return f"{told}{f': {memory}' if memory else ''}{f', in {ran_in}' if ran_in else ''}"


def _proof(dossier: Dossier, link: Link) -> Proof:
    state, sign = STATES[link.status]
    found = _exhibits(dossier, link.evidence)
    return Proof(link, state, sign, found, len(set(link.evidence)) - len(found))


def _exhibits(dossier: Dossier, evidence: Sequence[int]) -> tuple[Exhibit, ...]:
    known = (dossier.exhibits.get(seq) for seq in list(dict.fromkeys(evidence))[:MOST_EVIDENCE])
    return tuple(one for one in known if one is not None)


def _chain(incident: Incident) -> Iterator[tuple[Level, str, float | None]]:
    """The limits from the victim's cgroup upwards, and how full each was."""
    for level in incident.limit.chain if incident.limit is not None else ():
        used, limit = level.usage_bytes, level.limit_bytes
        filled = None if used is None or not limit or level.limited is False else min(1.0, used / limit)
        yield level, words.level_limit(level), filled


def _share(one: Share, total_bytes: int) -> tuple[Share, str, float, str]:
    share = one.size_bytes / total_bytes if total_bytes else 0.0
    grown = one.grown_bytes
    if grown is None or abs(grown) < _LEAST_SHARE_BYTES:
        return one, f"{share:.0%}", min(1.0, max(0.0, share)), ""
    sign = "+" if grown > 0 else ""
    rate = one.rate_bytes_per_s
    fast = f", {sign}{format_bytes(rate)}/s" if rate is not None and abs(rate) >= MIB else ""
    return one, f"{share:.0%}", min(1.0, max(0.0, share)), f"{sign}{format_bytes(grown)}{fast}"


def _matters(one: Share) -> bool:
    return one.kind == "unexplained" or max(abs(one.size_bytes), abs(one.grown_bytes or 0)) >= _LEAST_SHARE_BYTES


def _rows(dossier: Dossier) -> Iterator[Row]:
    first = next(iter(dossier.report.timeline), None)
    for number, entry in enumerate(dossier.report.timeline, 1):
        since = entry.offset_ns if entry.offset_ns is not None else entry.at_ns - (first.at_ns if first else 0)
        line = sparkline(entry.series.values_bytes) if entry.series is not None else Shape()
        yield Row(number, entry, words.offset(since), clock(dossier, entry.at_ns), line)


def clock(dossier: Dossier, at_ns: int | None) -> str:
    """`07:41:47.772`, of the day that the head of the page names."""
    utc = dossier.utc.get(at_ns) if at_ns is not None else None
    return utc[11:23] if utc is not None else ""


def _people(dossier: Dossier) -> Iterator[tuple[Person, str, str, tuple[str, ...]]]:
    for person in dossier.family.people:
        began, ended = (
            "" if ns is None else words.offset(ns - dossier.at_ns) if dossier.at_ns is not None else clock(dossier, ns)
            for ns in (person.began_ns, person.ended_ns)
        )
        yield person, began, ended, tuple(PARTS[part] for part in person.parts)


def _plate(dossier: Dossier, chart: Chart, numbered: Sequence[Numbered]) -> Plate:
    at_ns = dossier.at_ns
    at = None if at_ns is None else next((i for i, ns in enumerate(chart.moments_ns) if ns >= at_ns), None)
    keys = [
        Key(
            letter=letter,
            style=style,
            layer=layer,
            parts=tuple(PARTS[part] for part in layer.parts),
            at_incident="" if at is None else format_bytes(layer.values_bytes[at]),
            peak=format_bytes(max(layer.values_bytes[: None if at is None else at + 1])),
        )
        for (letter, style), layer in zip(styles(chart.layers), chart.layers, strict=True)
    ]
    return Plate(
        chart=chart,
        drawings=tuple(draw(chart, size, at_ns, numbered) for size in (WIDE, NARROW)),
        keys=tuple(keys),
        rows=tuple(_table(dossier, chart, at)),
        beyond=chart.beyond_bytes > _BEYOND_SHARE * max(chart.totals_bytes),
    )


def _table(dossier: Dossier, chart: Chart, at: int | None) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """The chart in numbers: as many rows as a person reads, the incident among them."""
    count = len(chart.moments_ns)
    chosen = {step * (count - 1) // (TABLE_ROWS - 1) for step in range(TABLE_ROWS)} | (
        {at} if at is not None else set()
    )
    zero_ns = dossier.at_ns if dossier.at_ns is not None else chart.from_ns
    for place in sorted(chosen):
        ns = chart.moments_ns[place]
        sizes = (*(layer.values_bytes[place] for layer in chart.layers), chart.totals_bytes[place])
        yield words.offset(ns - zero_ns), clock(dossier, ns), tuple(map(format_bytes, sizes))

# SPDX-License-Identifier: Apache-2.0
"""From a judged case to a dossier: the verdict with all that it rests on."""

from collections.abc import Iterable, Iterator

from tracer.verdict.dossier.chart import charts
from tracer.verdict.dossier.exhibits import exhibits
from tracer.verdict.dossier.facts import facts
from tracer.verdict.dossier.family import family, parts_in
from tracer.verdict.dossier.kernel_report import kernel_report
from tracer.verdict.dossier.model import Chart, Dossier, Exhibit, Family, KernelReport
from tracer.verdict.incident import Case
from tracer.verdict.model import Report


def compile_dossier(case: Case, report: Report) -> Dossier:
    """All that can be shown of one recording, which `report` is about."""
    incident = report.verdict.incidents[report.verdict.primary]
    at_ns = next((e.at_ns - e.offset_ns for e in report.timeline if e.offset_ns is not None), None)
    parts = parts_in(incident)
    shown = charts(case, incident, at_ns, parts)
    people = family(case, parts)
    evidence = exhibits(case.story, report)
    said = kernel_report(case.story, at_ns)
    moments = set(_moments(report, shown, people, evidence.values(), said))
    return Dossier(
        report=report,
        at_ns=at_ns,
        utc={ns: text for ns in sorted(moments) if (text := case.story.utc(ns)) is not None},
        charts=shown,
        family=people,
        exhibits=evidence,
        kernel=said,
        facts=facts(case.story),
    )


def _moments(
    report: Report, shown: Iterable[Chart], people: Family, evidence: Iterable[Exhibit], said: KernelReport
) -> Iterator[int]:
    """All that a view may give a time of day."""
    yield from (entry.at_ns for entry in report.timeline)
    for chart in shown:
        yield from (chart.from_ns, chart.to_ns, *chart.moments_ns)
        yield from (epoch.at_ns for epoch in chart.epochs)
    for person in people.people:
        yield from (ns for ns in (person.began_ns, person.ended_ns) if ns is not None)
    yield from (one.at_ns for one in evidence)
    yield from (line.at_ns for line in said.lines)

# SPDX-License-Identifier: Apache-2.0
"""The report for a terminal, a pipe or a file: two lines that say it all, then the proof and the story."""

from itertools import chain

from tracer.doctor.model import Diagnosis, Selftest
from tracer.verdict.comparison.model import Comparison
from tracer.verdict.integrity import Integrity
from tracer.verdict.model import Entry, Incident, Report
from tracer.verdict.words import is_clean
from tracer.views.terminal import comparison as compared, diagnosis as found, integrity as verified, memory, sections
from tracer.views.terminal.checklist import write_checklist
from tracer.views.terminal.page import ASCII, UNICODE, Page
from tracer.views.terminal.safe import safe_report
from tracer.views.terminal.timeline import write_timeline

DEFAULT_WIDTH = 80
MOST_WIDTH = 120
"""Longer lines are hard to read."""
LEAST_WIDTH = 40
"""Narrower than this the terminal has to wrap."""

_TROUBLE = frozenset({"oom", "mark", "signal", "kill", "gone"})

__all__ = [
    "DEFAULT_WIDTH",
    "LEAST_WIDTH",
    "MOST_WIDTH",
    "render",
    "render_comparison",
    "render_diagnosis",
    "render_integrity",
    "render_selftest",
]


def render(
    report: Report, *, width: int | None = None, color: bool = False, ascii_only: bool = False, confirm: bool = False
) -> str:
    """Lay the report out for `width` columns: 80 for `None`, kept between 40 and 120.

    `color` brings escape codes for colours and weights, and without it there are none; `ascii_only` leaves
    nothing but printable ASCII, for outputs of another encoding than UTF-8; `confirm` adds the checklist, of which
    there is a line otherwise.
    """
    page = Page(_columns(width), ASCII if ascii_only else UNICODE)
    _write(page, safe_report(report, ascii_only=ascii_only), confirm=confirm)
    return page.written(color=color)


def render_diagnosis(
    diagnosis: Diagnosis, *, width: int | None = None, color: bool = False, ascii_only: bool = False
) -> str:
    """Lay out what `doctor` found, by the same rules."""
    return found.render_diagnosis(diagnosis, width=_columns(width), color=color, ascii_only=ascii_only)


def render_selftest(
    selftest: Selftest, *, width: int | None = None, color: bool = False, ascii_only: bool = False
) -> str:
    """Lay out what `selftest` compared, by the same rules."""
    return found.render_selftest(selftest, width=_columns(width), color=color, ascii_only=ascii_only)


def render_comparison(
    comparison: Comparison, *, width: int | None = None, color: bool = False, ascii_only: bool = False
) -> str:
    """Lay out what `compare` found, by the same rules."""
    return compared.render_comparison(comparison, width=_columns(width), color=color, ascii_only=ascii_only)


def render_integrity(
    integrity: Integrity, *, width: int | None = None, color: bool = False, ascii_only: bool = False
) -> str:
    """Lay out what `verify` found, by the same rules."""
    return verified.render_integrity(integrity, width=_columns(width), color=color, ascii_only=ascii_only)


def _columns(width: int | None) -> int:
    return DEFAULT_WIDTH if width is None else min(max(width, LEAST_WIDTH), MOST_WIDTH)


def _write(page: Page, report: Report, *, confirm: bool) -> None:
    incident = _primary(report)
    sections.write_headline(page, incident)
    clean = is_clean(incident)
    if not clean:
        sections.write_facts(page, report, incident)
        sections.write_proof(page, incident.proof)
        sections.write_chain(page, incident)
        memory.write_picture(page, incident)
        memory.write_mechanism(page, incident)
    if not clean or _eventful(report.timeline):
        write_timeline(page, report.timeline, incident)
    sections.write_projection(page, report.verdict)
    sections.write_remedies(page, incident)
    if confirm and report.verdict.confirm is not None:
        write_checklist(page, report.verdict.confirm)
    sections.write_others(page, report, incident)
    sections.write_caveats(page, chain(incident.caveats, report.verdict.caveats))
    sections.write_footer(page, report, confirmed=confirm)


def _primary(report: Report) -> Incident:
    incidents = report.verdict.incidents
    if 0 <= report.verdict.primary < len(incidents):
        return incidents[report.verdict.primary]
    return Incident(cause="inconclusive", strength="possible", headline="Nothing was observed")


def _eventful(timeline: tuple[Entry, ...]) -> bool:
    # A job that ended well needs no story, unless something was killed beside it.
    return any(entry.kind in _TROUBLE or entry.outside for entry in timeline)

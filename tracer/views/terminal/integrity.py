# SPDX-License-Identifier: Apache-2.0
"""Whether a recording is whole, for a terminal: the answer, each place that is wrong, what the file is."""

from rich.text import Text

from tracer.units import NS_PER_S, format_bytes, format_duration
from tracer.verdict.integrity import Flaw, Integrity, State
from tracer.views.terminal.page import ASCII, UNICODE, Page
from tracer.views.terminal.safe import safe

_TITLES: dict[State, tuple[str, str]] = {
    "whole": ("The recording is whole", "bold green"),
    "unfinished": ("Nothing is missing, but it has no end", "bold yellow"),
    "damaged": ("The recording is damaged", "bold red"),
}
_LABEL = 10
_MOST_FLAWS = 20
_TIME_OF_DAY = 11
"""Where it begins in a time of RFC 3339."""


def render_integrity(integrity: Integrity, *, width: int, color: bool = False, ascii_only: bool = False) -> str:
    """Lay it out for `width` columns."""
    page = Page(width, ASCII if ascii_only else UNICODE)
    found = safe(integrity, ascii_only=ascii_only)
    title, style = _TITLES[found.state]
    page.title(Text.styled(title, "bold"), Text.styled(found.state, style))
    page.text(Text(page.tame(found.statement)))
    _write_flaws(page, found)
    _write_file(page, found)
    if found.kinds:
        page.heading("Events")
        page.text(Text(page.tame(", ".join(f"{kind} {count}" for kind, count in found.kinds.items()))))
    page.heading("Verdict")
    page.text(Text(page.tame(found.verdict)))
    page.blank()
    page.text(Text(f"file  {page.short(found.file, width - 10)}"))
    return page.written(color=color)


def _write_flaws(page: Page, found: Integrity) -> None:
    if not found.flaws:
        return
    page.heading("Where")
    for flaw in found.flaws[:_MOST_FLAWS]:
        page.hang(Text(page.glyphs.bullet), Text(page.tame(_told(flaw))), indent=2)
    more = len(found.flaws) - _MOST_FLAWS + found.flaws_left_out
    if more > 0:
        page.hang(Text(page.glyphs.bullet), Text(f"and {more} more; --json has the first 200"), indent=2)


def _told(flaw: Flaw) -> str:
    lines = "1 line" if flaw.lines == 1 else f"{flaw.lines} lines"
    what = {
        "damaged": f"{lines} damaged ({format_bytes(flaw.size_bytes)})",
        "missing": "no trace of what is missing before it",
        "repeated": f"{lines} with numbers that had come already, left out",
        "torn": "the torn end",
    }[flaw.wrong]
    told = f"line {flaw.line}, at byte {flaw.offset_bytes}: {what}"
    if flaw.missing == 1:
        told += f"; event {flaw.first_seq} is missing"
    elif flaw.missing:
        told += f"; {flaw.missing} events are missing, {flaw.first_seq} to {flaw.last_seq}"
    elif flaw.wrong == "damaged" and flaw.before_ns is None:
        told += "; how many events it was is not known"
    return told + _between(flaw)


def _between(flaw: Flaw) -> str:
    after, before = flaw.after_at, flaw.before_at
    if after is not None and before is not None:
        later = before[_TIME_OF_DAY:] if before[:_TIME_OF_DAY] == after[:_TIME_OF_DAY] else before
        return f"; between {after} and {later}"
    if after is not None:
        return f"; after {after}"
    return "" if before is None else f"; before {before}"


def _write_file(page: Page, found: Integrity) -> None:
    page.heading("The file")
    rows = [("holds", f"{found.events} events in {found.lines} lines, {format_bytes(found.size_bytes)}")]
    if found.first_at is not None and found.seconds is not None:
        lasted = format_duration(round(found.seconds * NS_PER_S))
        rows.append(("time", f"{found.first_at} to {found.last_at or '?'}, {lasted}"))
    begun = found.begun
    if begun is not None:
        cgroups = None if begun.cgroup_version is None else f"cgroup v{begun.cgroup_version}"
        parts = (f"oomtrace {begun.version}", begun.kernel_release and f"Linux {begun.kernel_release}", begun.machine)
        rows.append(("made by", ", ".join(filter(None, (*parts, cgroups, begun.hostname)))))
    rows.append(("format", found.format or "not known, for the header is damaged"))
    rows.append(("closed", "yes" if found.closed else "no"))
    if found.unknown:
        rows.append(("newer", f"{found.unknown} events of a newer version, which this one does not understand"))
    for name, words in rows:
        page.hang(Text(name, "dim"), Text(page.tame(words, indent=_LABEL)), indent=_LABEL)

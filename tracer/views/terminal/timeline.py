# SPDX-License-Identifier: Apache-2.0
"""The timeline: one row an entry, times right-aligned, memory as a sparkline, the decisive moment marked."""

from rich.cells import cell_len
from rich.text import Text

from tracer.verdict import words
from tracer.verdict.model import Entry, EntryKind, Incident, Series
from tracer.views.terminal.fit import pad
from tracer.views.terminal.page import INDENT, Page
from tracer.views.terminal.sparkline import sparkline

_KIND_STYLES: dict[EntryKind, str] = {
    "memory": "cyan", "reclaim": "magenta", "oom": "red", "mark": "red", "signal": "red", "kill": "bold red",
    "exit": "yellow", "gone": "yellow", "gpu": "blue",
}  # fmt: skip
_GUTTER = 2


def write_timeline(page: Page, entries: tuple[Entry, ...], incident: Incident) -> None:
    """All entries, in the order given."""
    if not entries:
        return
    from_moment = any(entry.offset_ns is not None for entry in entries)
    when = words.moment(incident.at)
    zero = f"0 is {when}" if from_moment and when else "" if from_moment else "from the first entry on"
    page.heading("Timeline", zero)
    times = [_time(entry, entries[0], from_moment=from_moment) for entry in entries]
    time_room = max(cell_len(time) for time in times)
    kind_room = max(len(entry.kind) for entry in entries)
    names = [page.short(entry.who, 24 if page.width >= 100 else 15) for entry in entries]
    who_room = max(map(cell_len, names))
    indent = _GUTTER + time_room + 2 + kind_room + 2 + who_room + 2
    drawings = [_drawn(page, entry.series) for entry in entries]
    drawing_room = max(map(len, drawings))
    for entry, time, name, drawing in zip(entries, times, names, drawings, strict=True):
        faint = entry.collateral or entry.outside
        strong = "bold" if entry.primary else "dim" if faint else ""
        lead = Text.styled(pad(page.glyphs.pointer if entry.primary else "", _GUTTER), "bold red")
        lead.append(pad(time, time_room, right=True), strong).append("  ")
        lead.append(pad(entry.kind, kind_room), "dim" if faint else _KIND_STYLES.get(entry.kind, "")).append("  ")
        lead.append(name, strong)
        body = Text.styled(pad(drawing, drawing_room) + "  ", "cyan") if drawing else Text()
        body.append(page.tame(entry.text, indent=INDENT + indent), strong)
        for marked, note in ((entry.collateral, "collateral"), (entry.outside, "outside the job")):
            if marked:
                body.append(f" ({note})", "dim")
        page.hang(lead, body, indent=indent)


def _time(entry: Entry, first: Entry, *, from_moment: bool) -> str:
    if entry.offset_ns is not None:
        return words.offset(entry.offset_ns)
    return words.UNKNOWN if from_moment else words.offset(entry.at_ns - first.at_ns)


def _drawn(page: Page, series: Series | None) -> str:
    if series is None or all(value is None for value in series.values_bytes):
        return ""
    return sparkline(series.values_bytes, 20 if page.width >= 100 else 8, levels=page.glyphs.levels)

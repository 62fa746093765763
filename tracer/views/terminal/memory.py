# SPDX-License-Identifier: Apache-2.0
"""Why memory grew, and the table of who held what at the kill."""

from rich.cells import cell_len
from rich.text import Text

from tracer.units import format_bytes
from tracer.verdict.mechanisms.model import Part
from tracer.verdict.model import Incident, Mechanism
from tracer.views.terminal.page import INDENT, Page

_LEAST_RATE = 1024 * 1024
_LEAST_SIZE = 64 * 1024
_LABEL = 8
_NARROW = 60


def write_mechanism(page: Page, incident: Incident) -> None:
    """What speaks for it, what against, and what would decide."""
    mechanism = incident.mechanism
    if mechanism is None or not (mechanism.because or mechanism.against or mechanism.decide):
        return
    page.heading("Why memory grew")
    for label, texts in (
        ("named", (names(mechanism),)),
        ("for", mechanism.because),
        ("but", mechanism.against),
        ("decides", mechanism.decide),
    ):
        for index, text in enumerate(texts):
            lead = Text.styled("" if index else label, "dim")
            page.hang(lead, Text(page.tame(text, indent=INDENT + _LABEL + 1)), indent=_LABEL + 1)


def write_picture(page: Page, incident: Incident) -> None:
    """A line for each process or kind of memory; the last line is the sum."""
    picture = incident.picture
    if picture is None or not picture.parts:
        return
    by = "by the kernel's own report" if picture.by == "kernel_log" else "by the last samples"
    page.heading("Memory at the kill", by)
    parts = [one for one in picture.parts if _matters(one)]
    total = picture.usage_bytes if picture.limit_bytes is None else picture.limit_bytes
    rows = [(one.what, format_bytes(one.size_bytes), _of(one.size_bytes, total), _grown(one)) for one in parts]
    rows.append(("limit" if picture.limit_bytes is not None else "in use", format_bytes(total), "", ""))
    size_room, share_room = (max(cell_len(row[column]) for row in rows) for column in (1, 2))
    room = max(page.width - INDENT - size_room - share_room - 4 - (0 if page.width < _NARROW else 24), 12)
    name_room = min(max(cell_len(row[0]) for row in rows), room)
    for index, (what, size, share, grown) in enumerate(rows):
        last = index == len(rows) - 1
        lead = Text(page.short(what, name_room), "bold" if last else "")
        body = Text(f"{size.rjust(size_room)}  {share.rjust(share_room)}")
        if grown and page.width >= _NARROW:
            body.append(f"  {grown}", "dim")
        page.hang(lead, body, indent=name_room + 2)
    if picture.statement:
        page.text(Text(page.tame(picture.statement)))


def names(mechanism: Mechanism) -> str:
    """All that it may have been, since none of them is the one that was seen, and how sure that is."""
    return f"{' or '.join((mechanism.name, *mechanism.or_))}, {mechanism.strength}"


def _of(size_bytes: int, total_bytes: int) -> str:
    return f"{round(100 * size_bytes / total_bytes)}%" if total_bytes else ""


def _grown(one: Part) -> str:
    if one.grown_bytes is None or abs(one.grown_bytes) < _LEAST_SIZE:
        return ""
    sign = "+" if one.grown_bytes > 0 else ""
    rate = one.rate_bytes_per_s
    fast = f", {sign}{format_bytes(rate)}/s" if rate is not None and abs(rate) >= _LEAST_RATE else ""
    return f"{sign}{format_bytes(one.grown_bytes)}{fast}"


def _matters(one: Part) -> bool:
    return one.kind in {"process", "unexplained"} or max(abs(one.size_bytes), abs(one.grown_bytes or 0)) >= _LEAST_SIZE

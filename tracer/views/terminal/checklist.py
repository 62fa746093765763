# SPDX-License-Identifier: Apache-2.0
"""The checklist by which a kill is confirmed: a line for each sign, and the commands to type."""

from rich.cells import cell_len
from rich.text import Text

from tracer.verdict.confirm.model import Checklist, Seen
from tracer.views.terminal.fit import pad
from tracer.views.terminal.page import INDENT, Page

_STYLES: dict[Seen, str] = {"present": "green", "absent": "bold red", "not_observed": "yellow"}
_WIDEST = 38


def write_checklist(page: Page, checklist: Checklist) -> None:
    """Signs first; a mark is a sign or a word, never a colour alone. Commands are never shortened."""
    page.heading("Confirm", checklist.statement)
    glyphs = page.glyphs
    marks: dict[Seen, str] = {
        "present": glyphs.present, "absent": glyphs.absent, "not_observed": glyphs.not_observed,
    }  # fmt: skip
    room = max(cell_len(mark) for mark in marks.values())
    name_room = min(max(cell_len(sign.what) for sign in checklist.signs), _WIDEST)
    indent = room + 1 + name_room + 2
    for sign in checklist.signs:
        lead = Text.styled(pad(marks[sign.status], room), _STYLES[sign.status])
        lead.append(" ").append(page.short(sign.what, name_room))
        page.hang(lead, Text(page.tame(sign.statement, indent=INDENT + indent)), indent=indent)
    page.blank()
    for number, step in enumerate(checklist.steps, 1):
        lead_text = f"{number}."
        page.hang(Text(lead_text), Text(step.do), indent=len(lead_text) + 1)
        if step.command:
            page.command(Text(), step.command, indent=INDENT + len(lead_text) + 1)

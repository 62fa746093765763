# SPDX-License-Identifier: Apache-2.0
"""The sheet that sections write on: wrapping, hanging indents, and the one place where rows become text."""

import io
import re
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from tracer.views.terminal.fit import command_rows, shorten, shorten_words

INDENT = 2
"""Only the headline and the headings stand in the first column: no outside text can pose as one."""

LEAST_BODY = 22
"""Narrower than this beside its lead, a text goes below it."""
_STACKED_INDENT = 6
_TOGETHER = re.compile(
    r"(?<=\d) (?=(?:[KMGT]i)?B\b|[mun]?s\b|min\b|h\b|%|OOM)"
    r"|(?<=\bpid) (?=\d)|(?<=\brank) (?=\d)|(?<=\bworker) (?=\d)|(?<=\bsignal) (?=\d)|(?<=\bexit) (?=\d)"
    r"|(?<=\[bare) (?=BPF)|(?<=BPF:) (?=[a-z])"
)
"""Spaces at which a line should not break: within a quantity, before the number of a thing, before a hook."""
_JOINT = "\ue000"
"""Stands for a space that must not become a line break; private characters never come through `safe`."""


@dataclass(frozen=True)
class Glyphs:
    """The characters that are not letters."""

    present: str
    absent: str
    not_observed: str
    pointer: str
    bullet: str
    ellipsis: str
    levels: str
    full: str
    empty: str


UNICODE = Glyphs("✓", "✗", "?", "▸", "·", "…", "▁▂▃▄▅▆▇█", "■", "·")
ASCII = Glyphs("ok", "no", "?", ">", "-", "...", "_.:-=+*#", "#", ".")


class Page:
    """Rows of a fixed width; every method keeps to it."""

    def __init__(self, width: int, glyphs: Glyphs) -> None:
        self.width = width
        self.glyphs = glyphs
        self._rows: list[Text] = []
        # Everything that rich would take from the environment is said here: a view has no environment.
        self._console = Console(
            file=io.StringIO(),
            width=width,
            height=100,
            color_system="standard",
            force_terminal=True,
            force_jupyter=False,
            force_interactive=False,
            legacy_windows=False,
            markup=False,
            emoji=False,
            highlight=False,
            _environ={},
        )

    def heading(self, words: str, note: str = "") -> None:
        """Begin a section."""
        self.blank()
        title = Text.styled(words, "bold")
        if note and cell_len(words) + 2 + cell_len(note) <= self.width:
            title.append("  ").append(note, "dim")
        self._rows.append(title)

    def blank(self) -> None:
        """An empty row, unless there is one already or nothing yet."""
        if self._rows and self._rows[-1].plain:
            self._rows.append(Text())

    def text(self, body: Text, *, indent: int = INDENT) -> None:
        """A paragraph."""
        self._rows.extend(Text(" " * indent).append_text(row) for row in self._wrapped(body, self.width - indent))

    def title(self, words: Text, badge: Text) -> None:
        """The first line, with the badge at the right end of its first row."""
        room = self.width - badge.cell_len - 2 if badge else self.width
        first, *rest = self._wrapped(words, room)
        if rest and not badge:
            first, *rest = self._wrapped(words, room - INDENT)
        if badge:
            first.append(" " * (self.width - first.cell_len - badge.cell_len)).append_text(badge)
        self._rows.append(first)
        for row in rest:
            self._rows.append(Text(" " * INDENT).append_text(row))
        if rest:
            self.blank()

    def hang(self, lead: Text, body: Text, *, indent: int) -> None:
        """`lead`, and `indent` cells further `body`; below the lead where there is no room beside it."""
        room = self.width - INDENT - indent
        if room < LEAST_BODY or lead.cell_len + 1 > indent:
            lead.rstrip()
            if lead:
                self.text(lead)
            if body:
                self.text(body, indent=_STACKED_INDENT)
            return
        for index, row in enumerate(self._wrapped(body, room)):
            margin = Text(" " * INDENT)
            if index == 0:
                margin.append_text(lead)
            margin.append(" " * (INDENT + indent - margin.cell_len))
            self._rows.append(margin.append_text(row))

    def command(self, label: Text, command: str, *, indent: int = INDENT) -> None:
        """What can be pasted: beside its label where it fits, else below it with the shell's own line breaks."""
        room = self.width - indent
        rows = command_rows(command, room)
        if len(rows) == 1 and label.cell_len + cell_len(rows[0]) <= room:
            self.text(label.append(rows[0], "cyan"), indent=indent)
            return
        if label:
            label.rstrip()
            self.text(label, indent=indent)
        for row in rows:
            self.text(Text(row, "cyan"), indent=indent)

    def tame(self, sentence: str, *, indent: int = INDENT) -> str:
        """A sentence whose over-long words (paths, most often) are shortened to what a row can hold."""
        room = min(max(self.width - indent, LEAST_BODY), 56)
        return shorten_words(sentence, room, ellipsis=self.glyphs.ellipsis)

    def short(self, text: str, room: int) -> str:
        """`text` in at most `room` cells."""
        return shorten(text, room, ellipsis=self.glyphs.ellipsis)

    def written(self, *, color: bool) -> str:
        """All rows as text; without colour there is no escape code in it."""
        rows = []
        while self._rows and not self._rows[-1].plain:
            self._rows.pop()
        for row in self._rows:
            row.rstrip()
            rows.append(self._colored(row) if color else row.plain)
        return "\n".join(rows) + "\n"

    def _colored(self, row: Text) -> str:
        with self._console.capture() as capture:
            self._console.print(row, end="", no_wrap=True, overflow="ignore", crop=False)
        return capture.get()

    def _wrapped(self, body: Text, room: int) -> list[Text]:
        joined = body.copy()
        joined.plain = _TOGETHER.sub(_JOINT, body.plain)
        rows = list(joined.wrap(self._console, max(room, 2), overflow="fold")) or [Text()]
        for row in rows:
            row.plain = row.plain.replace(_JOINT, " ")
        return rows

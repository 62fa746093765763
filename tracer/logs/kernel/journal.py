# SPDX-License-Identifier: Apache-2.0
"""Records of the journal that have a line for each field: `journalctl -o verbose` and `-o export`. Bounded."""

import re

from tracer.logs.prefixes import Line
from tracer.logs.prefixes.walltime import wall_time
from tracer.logs.prefixes.wrapped import JOURNAL_FIELDS, takes_journal

MOST_FIELDS = 128
_MOST_CHARS = 4096

_HEAD = re.compile(
    r"(?:\S{1,12} )?(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2}) (?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):"
    r"(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]{1,9}))? (?P<zone>[A-Za-z0-9+:-]{1,8}) "
    r"\[s=[0-9a-f]{1,32};i=[0-9a-f]{1,16};[^\]]{0,200}\]\s*"
)
_FIELD = re.compile(r"(?P<indent>[ \t]{0,16})(?P<name>[A-Z_][A-Z0-9_]{0,63})=(?P<value>.*)")
_MORE = re.compile(r"[ \t]{5,}\S")
_FIRST = JOURNAL_FIELDS | {"__CURSOR", "_BOOT_ID", "_MACHINE_ID", "PRIORITY", "SYSLOG_FACILITY"}
_ZONES = frozenset({"UTC", "GMT"})


class JournalBlocks:
    """Record by record. A block begins with its head, or with one of the journal's own fields."""

    def __init__(self) -> None:
        self._line: Line | None = None
        self._fields: dict[str, str | None] = {}
        self._count = 0
        self._last: str | None = None
        self._indent = 0

    def take(self, text: str, number: int, ended: list[Line]) -> bool:
        """Whether the line is of a block. What ended with it goes to `ended`."""
        head = _HEAD.fullmatch(text.lstrip("> \t"))
        if head is not None:
            ended += self.end()
            parts = head.groupdict()
            if parts["zone"] not in _ZONES:
                parts["zone"] = None
            self._line = Line("", number=number, wall=wall_time(parts), forms=["journal-verbose"], depth=1)
            return True
        field = _FIELD.fullmatch(text.lstrip(">"))
        if field is not None and (self._line is not None or field["name"] in _FIRST):
            self._take_field(field, number, ended)
            return True
        if self._line is None:
            return False
        if self._last == "MESSAGE" and _MORE.match(text) and len(text) - len(text.lstrip()) > self._indent:
            value = f"{self._fields['MESSAGE']}\n{text.strip()}"
            self._fields["MESSAGE"] = value[:_MOST_CHARS]
            return True
        ended += self.end()
        return not text.strip()

    def end(self) -> list[Line]:
        """The record that stands open, if it has a text."""
        line, fields = self._line, self._fields
        self._line, self._fields, self._count, self._last = None, {}, 0, None
        text = fields.get("MESSAGE")
        if line is None or text is None:
            return []
        takes_journal(line, fields)
        line.text = text
        return [line]

    def _take_field(self, field: re.Match[str], number: int, ended: list[Line]) -> None:
        name = field["name"]
        if self._line is None or name in self._fields or self._count >= MOST_FIELDS:
            ended += self.end()
            self._line = Line("", number=number, forms=["journal-export"], depth=1)
        assert self._line is not None
        self._count += 1
        self._last, self._indent = name, len(field["indent"])
        if name in JOURNAL_FIELDS:
            self._fields[name] = field["value"][:_MOST_CHARS]
        if name == "MESSAGE":
            self._line.number, self._line.column = number, field.start("value") + 1

# SPDX-License-Identifier: Apache-2.0
"""Records of the journal that have a line for each field: `journalctl -o verbose`, `-o export`, `-o json-pretty`.

Bounded. What is no plain text has a form of its own: `-o export` has the length in eight bytes before it, which may be
a line end or no text either, and `-o json-pretty` a line for each byte.
"""

import contextlib
import re

import msgspec

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
_PRETTY = re.compile(r'\s{0,16}"(?P<name>[A-Z_][A-Z0-9_]{0,63})" ?: ?(?P<value>".*"|null|\[)\s?,?\s{0,4}')
_BYTE = re.compile(r"\s{0,32}(?P<byte>[0-9]{1,3})\s?,?\s{0,4}")
_BRACES = re.compile(r"\s{0,16}[\[\]{}]\s?,?\s{0,4}")
_BARE = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
_SIZE = re.compile(r"(?:\\x[0-9a-f]{2}|[\s\S]){8}")
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")
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
        self._binary: _Binary | None = None
        self._array: bytearray | None = None
        self._pretty = False
        """Whether records have braces around them, each on a line of its own."""

    def take(self, text: str, number: int, ended: list[Line]) -> bool:
        """Whether the line is of a block. What ended with it goes to `ended`."""
        if self._goes_on(text):
            return True
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
        if self._take_pretty(text, number, ended):
            return True
        if self._line is None:
            return False
        if _BARE.fullmatch(text):
            self._binary = _Binary(text)
            return True
        if self._last == "MESSAGE" and _MORE.match(text) and len(text) - len(text.lstrip()) > self._indent:
            value = f"{self._fields['MESSAGE']}\n{text.strip()}"
            self._fields["MESSAGE"] = value[:_MOST_CHARS]
            return True
        ended += self.end()
        return not text.strip()

    def _goes_on(self, text: str) -> bool:
        """Whether the line is of a field that is no plain text."""
        if self._binary is not None:
            self._take_binary(self._binary, text)
            return True
        return self._array is not None and self._take_byte(self._array, text)

    def end(self) -> list[Line]:
        """The record that stands open, if it has a text."""
        line, fields = self._line, self._fields
        self._line, self._fields, self._count, self._last = None, {}, 0, None
        self._binary = self._array = None
        text = fields.get("MESSAGE")
        if line is None or text is None:
            return []
        takes_journal(line, fields)
        line.text = text
        return [line]

    def _take_field(self, field: re.Match[str], number: int, ended: list[Line]) -> None:
        form = "journal-export" if not field["indent"] else "journal-verbose"
        self._begin(field["name"], (number, field.start("value") + 1), ended, form)
        self._indent = len(field["indent"])
        self._keep(field["name"], field["value"])

    def _take_pretty(self, text: str, number: int, ended: list[Line]) -> bool:
        if self._line is not None and "journal-pretty" not in self._line.forms:
            return False
        field = _PRETTY.fullmatch(text)
        if field is None:
            if not self._pretty or not _BRACES.fullmatch(text):
                return False
            ended += self.end()
            return True
        if self._line is None and field["name"] not in _FIRST:
            return False
        self._begin(field["name"], (number, field.start("value") + 2), ended, "journal-pretty")
        self._pretty = True
        if field["value"] == "[":
            self._array = bytearray()
        elif field["value"] != "null":
            with contextlib.suppress(msgspec.MsgspecError, UnicodeError):  # cut, or wrapped: unknown
                self._keep(field["name"], msgspec.json.decode(field["value"], type=str))
        return True

    def _take_byte(self, array: bytearray, text: str) -> bool:
        found = _BYTE.fullmatch(text)
        if found is not None and int(found["byte"]) < 256:
            if len(array) < _MOST_CHARS:
                array.append(int(found["byte"]))
            return True
        self._array = None
        if text.strip().rstrip(",") != "]":
            return False
        if self._last is not None:
            self._keep(self._last, array.decode("utf-8", "backslashreplace"))
        return True

    def _take_binary(self, binary: "_Binary", text: str) -> None:
        if not binary.add(text):
            return
        self._binary = None
        if binary.value is not None and self._line is not None:
            self._count += 1
            self._last = binary.name
            self._keep(binary.name, binary.value)
            if binary.name == "MESSAGE":
                self._indent = 1 << 16  # lines behind it are none of it: it said how long it is

    def _begin(self, name: str, place: tuple[int, int], ended: list[Line], form: str) -> None:
        if self._line is None or name in self._fields or self._count >= MOST_FIELDS:
            ended += self.end()
            self._line = Line("", number=place[0], forms=[form], depth=1)
        self._count += 1
        self._last = name
        if name == "MESSAGE":
            self._line.number, self._line.column = place

    def _keep(self, name: str, value: str) -> None:
        if name in JOURNAL_FIELDS:
            self._fields[name] = value[:_MOST_CHARS]


class _Binary:
    """A field of `-o export` whose length stands before it, line by line."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.value: str | None = None
        """`None`: that was no such field, or it is longer than looked at."""
        self._size: int | None = None
        self._text = ""

    def add(self, text: str) -> bool:
        """Whether it is whole with this line, or given up."""
        self._text += text
        if self._size is None:
            found = _SIZE.match(self._text)
            if found is None:
                self._text += "\n"
                return len(self._text) > 8
            size = _bytes_of(found[0])
            self._size = int.from_bytes(size, "little")
            self._text = self._text[found.end() :]
            if len(size) != 8 or self._size > _MOST_CHARS:
                return True
        if len(_bytes_of(self._text)) < self._size:
            self._text += "\n"
            return len(self._text) > 5 * _MOST_CHARS
        self.value = self._text
        return True


def _bytes_of(text: str) -> bytes:
    """Of a line that was decoded with what is no text written out."""
    return (
        _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text).encode("latin-1", "ignore")
        if (text.isascii())
        else _ESCAPED.sub(".", text).encode("utf-8", "replace")
    )

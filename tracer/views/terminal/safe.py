# SPDX-License-Identifier: Apache-2.0
"""Makes outside text safe to print: names of processes and cgroups, arguments, log lines are written by anyone."""

import unicodedata
from functools import lru_cache
from typing import TypeVar

import msgspec
from rich.cells import cell_len

from tracer.verdict.model import Report

MOST_CHARACTERS = 1000
"""No single text of a report is shown longer than this; the JSON document has the whole."""

_SHORT_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_INVISIBLE = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Letters and symbols that show nothing: Hangul fillers, blank braille."""

_OURS = frozenset("✓✗▸")
"""The marks that begin a row of the proof or point at one: a long name, wrapped, could imitate such a row."""

_Value = TypeVar("_Value")


def safe_report(report: Report, *, ascii_only: bool = False) -> Report:
    """The same report with every text in it made visible, so that no layout can forget one."""
    return safe(report, ascii_only=ascii_only)


def safe(value: _Value, *, ascii_only: bool = False) -> _Value:
    """The same for any document."""
    return _rebuilt(value, ascii_only)


def _rebuilt(value: _Value, ascii_only: bool) -> _Value:
    if isinstance(value, str):
        return visible(value, ascii_only=ascii_only)  # type: ignore[return-value]
    if isinstance(value, tuple):
        return tuple(_rebuilt(item, ascii_only) for item in value)  # type: ignore[return-value]
    if isinstance(value, msgspec.Struct):
        fields = {name: _rebuilt(getattr(value, name), ascii_only) for name in value.__struct_fields__}
        return type(value)(**fields)
    return value


def visible(text: str, *, ascii_only: bool = False) -> str:
    r"""Text that cannot move the cursor, hide, reorder or start a line; the rest is shown as `\x1b`, `\u202e`.

    A backslash stays single: systemd puts `\x2d` in cgroup names, and such a name must stay one that can be
    copied. So a name that spells out an escape looks like one; it does no harm. Of more than two spaces in
    a row the rest is escaped, since a wide gap can imitate a column.
    """
    cut = text[:MOST_CHARACTERS]
    if not (cut.isascii() and cut.isprintable()):
        cut = "".join(_shown(character, ascii_only) for character in cut)
    if "   " in cut:
        cut = _gaps_closed(cut)
    left_out = len(text) - MOST_CHARACTERS
    return cut if left_out <= 0 else f"{cut} ({left_out} more characters)"


def _gaps_closed(text: str) -> str:
    kept: list[str] = []
    run = 0
    for character in text:
        run = run + 1 if character == " " else 0
        kept.append(character if run <= 2 else "\\x20")
    return "".join(kept)


@lru_cache(maxsize=4096)
def _shown(character: str, ascii_only: bool) -> str:
    if " " <= character <= "~" or not (ascii_only or _is_trouble(character)):
        return character
    code = ord(character)
    if code <= 0xFF:
        return _SHORT_ESCAPES.get(character, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _is_trouble(character: str) -> bool:
    """Whether a terminal could do anything but show this character in its own cells, in the order written."""
    category = unicodedata.category(character)
    return (
        # Controls, formats, surrogates, private and unassigned ones; marks, which join what stands
        # before them; every space but U+0020, and the line and paragraph separators.
        category[0] in "CMZ"
        # Letters written from right to left, and their digits: terminals that know about it reorder
        # the rest of our line around them.
        or unicodedata.bidirectional(character) in {"R", "AL", "AN"}
        # Flags and skin tones: terminals disagree on the width of what they combine to.
        or 0x1F1E6 <= ord(character) <= 0x1F1FF
        or 0x1F3FB <= ord(character) <= 0x1F3FF
        or character in _INVISIBLE
        or character in _OURS
        or cell_len(character) == 0
    )

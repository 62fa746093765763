# SPDX-License-Identifier: Apache-2.0
"""What programs, mail and pages put before the text of a log's line: taken off, and what it says is kept. Pure.

`split` does one line. It looks at `LINE_CHARS` of it, and each rule at a bounded part of these. A line has few
prefixes, in a fixed order: what looks like another one is the text's own, which may be any name of user space.
"""

import re

from tracer.logs.prefixes.rules import BEFORE_LETTERS, BY_FIRST, CALLER, may_begin
from tracer.logs.prefixes.shape import Line
from tracer.logs.prefixes.walltime import WallTime
from tracer.logs.prefixes.wrapped import has_markup, unwrapped, without_markup

LINE_CHARS = 16384
"""Of a line no more is looked at."""

_COLOURS = re.compile(r"\x1b(?:\[[0-9;:?]{0,32}[ -/]{0,4}[@-~]|\][^\x07\x1b]{0,256}(?:\x07|\x1b\\)|[@-Z\\^_])")
_ESCAPES = re.compile(r"(?:\\x[0-9a-f]{2})+")
_MOST_WRAPPERS = 3


def split(text: str, number: int = 0) -> Line:
    """A line without its end, taken apart."""
    line = Line(text[:LINE_CHARS].rstrip("\r\n"), number=number, width=len(text))
    if "\x1b" in line.text:
        line.text = _COLOURS.sub("", line.text)
    whole = line.text
    for _ in range(_MOST_WRAPPERS):
        if not _strip(line):
            break
    if line.forms and line.forms[-1] == "kmsg":
        line.text = _ESCAPES.sub(_unescaped, line.text)
    place = whole.find(line.text) if line.text else len(whole)
    line.column = max(place, 0) + 1
    return line


def _strip(line: Line) -> bool:
    """Takes off what is there; whether a text came out that was wrapped and may have prefixes of its own."""
    at, phase = 0, -1
    for _ in range(CALLER + 1):
        prefixes = BY_FIRST.get(line.text[at : at + 1])
        if prefixes is None:
            prefixes = BEFORE_LETTERS if may_begin(line.text, at) else ()
        for prefix in prefixes:
            if prefix.phase <= phase:
                continue
            match = prefix.pattern.match(line.text, at)
            if match is not None and match.end() > at and prefix.apply(line, match):
                at, phase = match.end(), prefix.phase
                line.forms.append(prefix.name)
                line.depth += prefix.of_record
                break
        else:
            break
        if line.text.startswith("{", at):
            break
    line.text = line.text[at:]
    return line.text.startswith("{") and "journal-json" not in line.forms and unwrapped(line)


def _unescaped(match: re.Match[str]) -> str:
    return bytes.fromhex(match[0].replace("\\x", "")).decode("utf-8", "backslashreplace")


__all__ = ["LINE_CHARS", "Line", "WallTime", "has_markup", "split", "without_markup"]

# SPDX-License-Identifier: Apache-2.0
"""Shortens safe text to a number of cells, in the middle, since the ends of names and paths tell the most."""

import re

from rich.cells import cell_len

_LONG_ID = re.compile(r"([0-9a-f]{12})[0-9a-f]{20,}")
"""Ids of containers and the like; twelve digits are what their own tools show."""
_SHELL_WORD = re.compile(r"""(?:[^\s'"\\]|'[^']*'|"(?:\\.|[^"\\])*"|\\.)+""")
_LEAST_NAME = 12
"""With less room than this the last component of a path is not worth more than the others."""


def shorten(text: str, room: int, *, ellipsis: str) -> str:
    """`text` in at most `room` cells; of a path whole middle components go where that is enough."""
    if cell_len(text) <= room:
        return text
    text = _LONG_ID.sub(lambda match: match[1] + ellipsis, text)
    if cell_len(text) <= room:
        return text
    return (text.count("/") > 1 and _shorten_path(text, room, ellipsis)) or _shorten_middle(text, room, ellipsis)


def shorten_words(text: str, room: int, *, ellipsis: str) -> str:
    """Each word of a sentence in at most `room` cells; the closing `:`, `,` or `.` of a word stays with it."""
    if cell_len(text) <= room:
        return text
    return " ".join(shorten(word, room, ellipsis=ellipsis) for word in text.split(" "))


def command_rows(text: str, room: int) -> list[str]:
    """Commands as rows that a shell takes as they stand: each begins its own, and goes on behind a backslash.

    A word that has no room in a row of its own is left as it is.
    """
    rows: list[str] = []
    row = ""
    for word in _shell_words(text):
        longer = f"{row} {word}" if row else word
        # The backslash that may have to follow needs its room, too.
        if row and cell_len(longer) > room - 2:
            rows.append(f"{row} \\")
            longer = word
        row = longer
        if word.endswith(";"):
            rows.append(row[:-1])
            row = ""
    return [*rows, row] if row or not rows else rows


def _shell_words(text: str) -> list[str]:
    words = _SHELL_WORD.findall(text)
    # With a quote that is left open nothing is known of where a word ends.
    return words if " ".join(words) == " ".join(text.split(" ")) else text.split()


def pad(text: str, room: int, *, right: bool = False) -> str:
    """`text` filled up to `room` cells: on its right, or with `right` on its left, so that it ends there."""
    fill = " " * (room - cell_len(text))
    return fill + text if right else text + fill


def _shorten_path(path: str, room: int, ellipsis: str) -> str | None:
    components = path.split("/")
    # An absolute path starts with an empty component.
    first = "/".join(components[: 2 if path.startswith("/") else 1])
    for head in (f"{first}/", ""):
        for start in range(2, len(components)):
            short = f"{head}{ellipsis}/{'/'.join(components[start:])}"
            if cell_len(short) <= room:
                return short
    spare = room - cell_len(ellipsis) - 1
    return f"{ellipsis}/{_shorten_middle(components[-1], spare, ellipsis)}" if spare >= _LEAST_NAME else None


def _shorten_middle(text: str, room: int, ellipsis: str) -> str:
    if cell_len(text) <= room:
        return text
    spare = room - cell_len(ellipsis)
    if spare < 2:
        return _start(text, room)
    head = _start(text, spare // 2)
    return head + ellipsis + _end(text, spare - cell_len(head))


def _start(text: str, room: int) -> str:
    used = 0
    for index, character in enumerate(text):
        used += cell_len(character)
        if used > room:
            return text[:index]
    return text


def _end(text: str, room: int) -> str:
    return _start(text[::-1], room)[::-1]

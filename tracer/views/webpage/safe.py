# SPDX-License-Identifier: Apache-2.0
"""Makes outside text visible on a page: names, arguments and lines of logs are written by anyone.

Markup is the template's business, which escapes everything. What is left is text that would hide, reorder or pile up.
"""

import re
import unicodedata
from functools import lru_cache

MOST_CHARACTERS = 1000
"""No single text is shown longer than this."""
_SHORT_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_INVISIBLE = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Letters and symbols that show nothing: Hangul fillers, blank braille."""
_PLAIN = re.compile(r"[ -~]*")
_RTL = frozenset({"R", "AL", "AN"})
_ISOLATE, _END_ISOLATE = "\u2068", "\u2069"


class Shape(str):
    """A path of ours, of whatever length: numbers and letters, and never outside text."""

    __slots__ = ()


def visible(text: str, most: int = MOST_CHARACTERS) -> str:
    r"""Text with all that does not show written out: `\x1b`, `\u202e`.

    What is written from right to left is set apart, so that it cannot reorder what stands beside it. Of marks that
    join a letter one is left to it.
    """
    cut = text[:most]
    if _PLAIN.fullmatch(cut) is None:
        cut = _shown(cut)
    return cut if len(text) <= most else f"{cut} ({len(text) - most} more characters)"


def _shown(text: str) -> str:
    parts: list[str] = []
    marked = apart = False
    for character in text:
        mark = unicodedata.category(character).startswith("M")
        piece = _escaped(character) if _hides(character) or (mark and (marked or not parts)) else character
        backwards = piece == character and unicodedata.bidirectional(character) in _RTL
        if backwards != apart and not (mark and apart):
            parts.append(_ISOLATE if backwards else _END_ISOLATE)
            apart = backwards
        parts.append(piece)
        marked = mark
    if apart:
        parts.append(_END_ISOLATE)
    return "".join(parts)


@lru_cache(maxsize=4096)
def _hides(character: str) -> bool:
    if character == " ":
        return False
    # Controls, formats, surrogates, private and unassigned ones; spaces that are none, separators of lines.
    return unicodedata.category(character)[0] in "CZ" or character in _INVISIBLE


def _escaped(character: str) -> str:
    code = ord(character)
    if code <= 0xFF:
        return _SHORT_ESCAPES.get(character, f"\\x{code:02x}")
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"

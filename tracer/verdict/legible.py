# SPDX-License-Identifier: Apache-2.0
"""Outside text for files that other programs show: nothing in it can hide, reorder or begin a line."""

import re

_TROUBLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff0-\uffff\ud800-\udfff\U000e0000-\U000effff]"
)
"""Controls of C0 and C1, what is shown as nothing, what turns the direction of text, lone surrogates."""
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def legible(text: str) -> str:
    r"""The same with `\x1b`, `\u202e` in place of what would do something."""
    if text.isascii() and text.isprintable():
        return text
    return _TROUBLE.sub(_shown, text)


def _shown(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code <= 0xFF:
        return _SHORT.get(match[0], f"\\x{code:02x}")
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"

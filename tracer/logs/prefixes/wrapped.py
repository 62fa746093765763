# SPDX-License-Identifier: Apache-2.0
"""Lines that are JSON objects, of the journal or of what collects the logs of containers, and lines of markup."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from tracer.logs.prefixes.shape import Line
from tracer.logs.prefixes.walltime import from_epoch_usec, wall_time

MOST_BYTES = 16384

_ISO = re.compile(
    r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})[T ](?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):"
    r"(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]{1,9})[0-9]{0,9})? ?(?P<zone>Z|UTC|[+-][0-9]{2}:?[0-9]{2})?"
)
_TEXTS = ("log", "message", "msg", "MESSAGE", "text", "textPayload", "line")
_TIMES = ("time", "@timestamp", "timestamp", "ts")
_MARKUP = re.compile(r"<(?:br|/?(?:p|div|span|pre|code|td|tr|li|b|i|em|strong|font|wbr))(?: [^<>]{0,256})?/?>")
_BREAK = re.compile(r"<(?:br|/p|/div|/li|/tr)(?: [^<>]{0,64})? ?/?>")
_ENTITY = re.compile(r"&(?:amp|lt|gt|quot|apos|nbsp|#[0-9]{1,6}|#x[0-9a-fA-F]{1,5});")
_NAMED = {"&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&apos;": "'", "&nbsp;": " "}
_DECODER = msgspec.json.Decoder()


def unwrapped(line: Line) -> bool:
    """Whether the line was an object with a text of its own; the line has that one then, and what the object knows."""
    text = line.text.strip()
    if not (text.startswith("{") and text.endswith("}")):
        return False
    try:
        content = _DECODER.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return False
    if not isinstance(content, dict):
        return False
    if "MESSAGE" in content:
        return _journal(line, content)
    return _container(line, content)


def journal_text(value: object) -> str | None:
    """A field of the journal's JSON: text, or the bytes of what is no printable text."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(byte, int) and 0 <= byte < 256 for byte in value):
        return bytes(value[:MOST_BYTES]).decode("utf-8", "backslashreplace")
    if isinstance(value, list) and value:  # a field that was set several times
        return journal_text(value[0])
    return None


def takes_journal(line: Line, fields: Mapping[str, str | None]) -> None:
    """What the journal says of a record, in JSON or in `-o verbose`.

    Names with an underscore are the journal's own and cannot be sent to it.
    """
    transport, identifier = fields.get("_TRANSPORT"), fields.get("SYSLOG_IDENTIFIER")
    if transport is not None:
        line.said_by = "kernel" if transport == "kernel" else "user"
    elif identifier is not None:
        line.said_by = "name" if identifier == "kernel" else "user"
    line.host = fields.get("_HOSTNAME") or line.host
    realtime = _number(fields.get("_SOURCE_REALTIME_TIMESTAMP")) or _number(fields.get("__REALTIME_TIMESTAMP"))
    if realtime is not None:
        line.wall = from_epoch_usec(realtime)
    line.usec = _number(fields.get("_SOURCE_MONOTONIC_TIMESTAMP"))
    if line.usec is None:
        line.usec = _number(fields.get("__MONOTONIC_TIMESTAMP"))


def _journal(line: Line, content: dict[str, Any]) -> bool:
    text = journal_text(content["MESSAGE"])
    if text is None:
        return False
    takes_journal(line, {name: journal_text(content.get(name)) for name in _JOURNAL})
    line.text = text
    line.forms.append("journal-json")
    line.depth += 1
    return True


_JOURNAL = (
    "_TRANSPORT", "SYSLOG_IDENTIFIER", "_HOSTNAME", "_SOURCE_REALTIME_TIMESTAMP", "__REALTIME_TIMESTAMP",
    "_SOURCE_MONOTONIC_TIMESTAMP", "__MONOTONIC_TIMESTAMP",
)  # fmt: skip
JOURNAL_FIELDS = frozenset(_JOURNAL) | {"MESSAGE"}


def _container(line: Line, content: dict[str, Any]) -> bool:
    text = next((content[name] for name in _TEXTS if isinstance(content.get(name), str)), None)
    if text is None:
        return False
    stamp = next((content[name] for name in _TIMES if isinstance(content.get(name), str)), "")
    found = _ISO.match(stamp)
    if found is not None:
        line.wall = wall_time(found.groupdict())
    pod = content.get("kubernetes")
    named = pod.get("pod_name") if isinstance(pod, dict) else content.get("container_name")
    line.writer = named if isinstance(named, str) else line.writer
    line.partial = "log" in content and not text.endswith("\n") and len(text) >= MOST_BYTES // 2
    line.text = text.rstrip("\r\n")
    line.forms.append("json")
    return True


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) <= 18 else None


def has_markup(text: str) -> bool:
    """Whether a line may be of a page: it has tags or entities."""
    return ("&" in text and _ENTITY.search(text) is not None) or ("<" in text and _MARKUP.search(text) is not None)


def without_markup(text: str) -> list[str]:
    """The lines that a reader of the page sees."""
    return [_ENTITY.sub(_entity, _MARKUP.sub("", part)) for part in _BREAK.split(text)]


def _entity(match: re.Match[str]) -> str:
    known = _NAMED.get(match[0])
    if known is not None:
        return known
    digits = match[0][2:-1]
    number = int(digits[1:], 16) if digits[0] == "x" else int(digits)
    return chr(number) if 0 < number < 0x110000 and not 0xD800 <= number < 0xE000 else match[0]

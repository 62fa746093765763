# SPDX-License-Identifier: Apache-2.0
"""Lines that were one record once: every way to put them together is read, and what the readings share is known.

A record is broken by a terminal (nothing is lost), by mail (a blank is), or it has line ends of its own, since any
name in it may have them. Which of the three it was, the lines themselves do not say.
"""

import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from tracer.events import LogEvent, LoggedDecision, LoggedInvocation, LoggedKill, LoggedOther
from tracer.logs.kernel import FAMILIES, older
from tracer.logs.kernel.shape import TEXT_CHARS, Stamp

MOST_JOINED = 12
"""Lines that are tried as one."""
_MOST_MIXED = 4
_COMM_BYTES = 15
_SEPARATORS = ("", " ", "\n")
_UID_LAST = re.compile(r", UID:[0-9]+\Z")
_OF_PLACE = frozenset(LogEvent.__struct_fields__)


_TELLING = (
    "oom", "OOM", "Kill", "ut of memory", ": usage ", "swap", "Task", "CPU: ", "Pid: ", "cpuset=", "+0x", "emory",
    "Mem-Info", " free:", "SysRq", "sysrq", "NVRM", "total_vm",
    " messages",
)  # fmt: skip
"""Without one of these a line says nothing to any family; most lines have none."""


_STARTS = (
    "Kill", "Task", "Out of memory", "Memory ", "memory: ", "memory+swap: ", "swap: ", "kmem: ", "oom-kill:",
    "oom_reaper: ", "NVRM: ", "CPU: ", "Pid: ", "Free swap", "Total swap", "Mem-Info:", "Node ", "Manual OOM",
    "OOM request", "sysrq: ", "SysRq : ", "System is ", "Kernel panic ",
)  # fmt: skip
_WITHIN = (" invoked oom-killer: ", " cpuset=", " callbacks suppressed", "+0x")
"""A record that says something by itself, and whole, begins with one of the former, or has one of the latter."""
_SQUEEZED_STARTS = tuple("".join(start.split()) for start in _STARTS)
_SQUEEZED_WITHIN = tuple("".join(part.split()) for part in _WITHIN)


def may_tell(text: str) -> bool:
    """Whether a line is worth any pattern."""
    for word in _TELLING:  # noqa: SIM110 - most lines come here: half the time of any()
        if word in text:
            return True
    return False


def strict(text: str, stamp: Stamp) -> LogEvent | None:
    """What a record says by itself, and whole."""
    if not (text.startswith(_STARTS) or any(part in text for part in _WITHIN)):
        return None
    event = older.parse(text, stamp)
    if event is not None:
        return event
    for parse in FAMILIES:
        event = parse(text, stamp)
        if event is not None:
            return None if _is_cut(event) else _without_cut_uid(event)
    return None


def joined(lines: Sequence[str], widths: Sequence[int], stamp: Stamp) -> tuple[LogEvent | None, int]:
    """What the first lines say together, and how many they are; `None`: nothing that is whole."""
    # However they are put together, blanks and line ends are all that is between them.
    squeezed = "".join("".join(lines[:MOST_JOINED]).split())
    if not (squeezed.startswith(_SQUEEZED_STARTS) or any(part in squeezed for part in _SQUEEZED_WITHIN)):
        return None, 0
    events: list[LogEvent] = []
    used = 0
    for count in range(1, min(len(lines), MOST_JOINED) + 1):
        found = _strictly(_by_terminal(lines[:count], widths[:count]), stamp) or _strictly(_texts(lines[:count]), stamp)
        if found:
            events += found
            used = count
    if not events:
        return None, 0
    return _agreed(events, " ".join(lines[:used]), stamp), used


def _strictly(texts: Iterable[str], stamp: Stamp) -> list[LogEvent]:
    return [event for text in texts if (event := strict(text, stamp)) is not None]


def _by_terminal(lines: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    """Three or more lines, all but the last of one width: a terminal's, which loses nothing where it breaks one."""
    if len(lines) > 2 and len(set(widths[:-1])) == 1 and widths[-1] < widths[0]:
        yield "".join(lines)


def _texts(lines: Sequence[str]) -> Iterator[str]:
    if len(lines) == 1:
        yield lines[0]
        return
    if len(lines) <= _MOST_MIXED:
        for separators in itertools.product(_SEPARATORS, repeat=len(lines) - 1):
            yield lines[0] + "".join(itertools.chain.from_iterable(zip(separators, lines[1:], strict=True)))
        return
    for separator in _SEPARATORS:
        yield separator.join(lines)


def _agreed(events: Sequence[LogEvent], text: str, stamp: Stamp) -> LogEvent:
    """What all of them say. Of a value on which they differ nothing is known; one that needs it is a mere report."""
    events = [event for event in events if not isinstance(event, LoggedOther)] or events
    first = events[-1]
    if len(events) == 1:
        return first
    if any(type(event) is not type(first) for event in events):
        return LoggedOther(about="report", **stamp.fields(text))
    changes: dict[str, Any] = {"text": text[:TEXT_CHARS]}
    for field, required, default in _fields(type(first)):
        values = {value for event in events if (value := getattr(event, field)) is not None}
        if len(values) > 1:
            if required:
                return LoggedOther(about="report", **stamp.fields(text))
            changes[field] = default
        elif values:
            changes[field] = values.pop()
    return msgspec.structs.replace(first, **changes)


@functools.lru_cache(maxsize=32)
def _fields(kind: type[LogEvent]) -> list[tuple[str, bool, Any]]:
    fields = (field for field in msgspec.structs.fields(kind) if field.name not in _OF_PLACE)
    return [(field.name, field.required, None if field.required else field.default) for field in fields]


def _without_cut_uid(event: LogEvent) -> LogEvent:
    # No kernel ends the line of a kill with the uid.
    if isinstance(event, LoggedKill) and _UID_LAST.search(event.text):
        return msgspec.structs.replace(event, uid=None)
    return event


def _is_cut(event: LogEvent) -> bool:
    if isinstance(event, LoggedDecision):
        return event.tgid is None
    if isinstance(event, LoggedOther):  # its pattern takes any end, and `older` none
        return event.about == "reaped" and "reaped process" in event.text
    return isinstance(event, LoggedInvocation) and len((event.comm or "").encode("utf-8", "replace")) > 4 * _COMM_BYTES

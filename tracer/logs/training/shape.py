# SPDX-License-Identifier: Apache-2.0
"""What the families of lines share: what was found in one, sizes, pids, names of signals, prefixes and colours."""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tracer.logs.late import LatePattern
from tracer.units import GIB, KIB, MIB

LINE_BYTES = 4096
"""Of a line no more is looked at."""
TEXT_CHARS = 300
MAX_PID = 1 << 22
"""PID_MAX_LIMIT, include/linux/threads.h."""
MAX_PIDS = 16

PID = r"[1-9]\d{0,6}"
SMALL = r"\d{1,6}"
"""A rank, a worker, a device."""
SIZE = r"[0-9.,]{1,16} {0,2}(?:[KMGTPE]i?B|[kMGT]i?B|[bB]ytes?|[KMGT]\b|B\b)"
CODE = r"-?\d{1,3}"

SIGNALS = {
    "SIGHUP": 1, "SIGINT": 2, "SIGQUIT": 3, "SIGILL": 4, "SIGTRAP": 5, "SIGABRT": 6, "SIGBUS": 7, "SIGFPE": 8,
    "SIGKILL": 9, "SIGUSR1": 10, "SIGSEGV": 11, "SIGUSR2": 12, "SIGPIPE": 13, "SIGALRM": 14, "SIGTERM": 15,
    "SIGXCPU": 24, "SIGXFSZ": 25,
}  # fmt: skip
"""x86-64 and arm64 numbers (include/uapi/asm-generic/signal.h)."""
_IN_WORDS = {
    "hangup": 1, "interrupt": 2, "quit": 3, "illegal instruction": 4, "aborted": 6, "bus error": 7,
    "floating point exception": 8, "killed": 9, "segmentation fault": 11, "broken pipe": 13, "terminated": 15,
}  # fmt: skip
"""glibc's strsignal(3), in English: of another language the number stays unknown."""
_MOST_BYTES = 1 << 62
_UNITS = {"": 1, "k": KIB, "m": MIB, "g": GIB, "t": 1024 * GIB, "p": 1024**2 * GIB, "e": 1024**3 * GIB}


class Found(NamedTuple):
    """What a line says."""

    about: str
    fields: Mapping[str, Any]
    """Fields of `TrainingLine`, but for those that the reader gives."""
    text: str | None = None
    """The part that is kept; `None`: the line."""


def found(about: str, text: str | None = None, **fields: Any) -> Found:
    """With those fields alone that are known."""
    return Found(about, {name: value for name, value in fields.items() if value is not None}, text)


def pids(*texts: str | None) -> tuple[int, ...]:
    """Those that a pid can be; comma-separated lists are taken apart."""
    words = (word.strip() for text in texts if text for word in text.split(","))
    numbers = (int(word) for word in words if word.isascii() and word.isdigit() and len(word) <= 7)
    return tuple(number for number in numbers if 0 < number <= MAX_PID)[:MAX_PIDS]


def size(text: str | None) -> int | None:
    """Bytes in `1.25 GiB`, `512.00MiB`, `20 bytes`, `10.5G`."""
    match = re.fullmatch(r"([0-9.,]{1,16}) {0,2}([A-Za-z]{0,5})", text or "")
    if match is None:
        return None
    unit = match[2].lower()
    factor = _UNITS.get("" if unit in {"", "b", "byte", "bytes"} else unit[:1])
    try:
        found_bytes = None if factor is None else round(float(match[1].replace(",", "")) * factor)
    except (ValueError, OverflowError):
        return None
    return found_bytes if found_bytes is None or found_bytes < _MOST_BYTES else None


def numbers(**given: float | None) -> dict[str, int | float] | None:
    """Those that are known; `None`: none is."""
    return {name: value for name, value in given.items() if value is not None} or None


def integer(text: str | None) -> int | None:
    """A number of a sane length, thousands apart or not."""
    digits = (text or "").replace(",", "").strip()
    return int(digits) if 0 < len(digits.lstrip("-")) <= 18 and re.fullmatch(r"-?[0-9]+", digits) else None


def signal_of(name: str | None) -> int | None:
    """The number of `SIGKILL`, `Killed`, `9`; `None`: not known."""
    word = (name or "").strip().rstrip(".").removeprefix("Signals.")
    if word.isascii() and word.isdigit() and len(word) <= 2:
        return int(word)
    return SIGNALS.get(word.upper()) or _IN_WORDS.get(word.lower())


def ended_by(code: str | None) -> dict[str, Any]:
    """`exit_code` as it was written, and `signal` where it says one: -9, and 247, which is -9 in eight bits."""
    value = integer(code)
    if value is None:
        return {}
    if -64 <= value < 0:
        return {"exit_code": value, "signal": -value}
    if 192 <= value < 256 and 256 - value in SIGNALS.values():
        return {"exit_code": value, "signal": 256 - value}
    if 128 < value < 192 and value - 128 in SIGNALS.values():
        return {"exit_code": value, "signal": value - 128}
    return {"exit_code": value}


_COLOURS = re.compile(r"\x1b(?:\[[0-9;:?]{0,32}[ -/]{0,4}[@-~]|\][^\x07\x1b]{0,256}(?:\x07|\x1b\\)|[@-Z\\^_])")
_PREFIX = re.compile(
    r"\[rank(?P<rank>\d{1,6})\]:\s?"  # torch, from 2.3 on
    r"|\[(?P<role>[a-z_]{1,20}?)(?P<local>\d{1,4})\]:\s?"  # torch elastic's --tee: role and local rank
    r"|\[\d{1,6},(?P<mpi>\d{1,6})\]<std(?:out|err)>:\s?"  # mpirun --tag-output
    r"|\x00+"  # torch's handlers of SIGBUS and SIGSEGV write one behind their line
)
_MOST_PREFIXES = 4


class Line(NamedTuple):
    """A line as the families see it."""

    text: str
    """Without prefix and colours."""
    prefix: str
    """Who wrote it, where lines say that: lines of one writer belong together."""
    rank: int | None
    local_rank: int | None


def line_of(raw: bytes) -> Line:
    """A line's text, whatever bytes it has."""
    text = raw[:LINE_BYTES].decode("utf-8", "replace")
    if "\x1b" in text:
        text = _COLOURS.sub("", text)
    rank = local_rank = None
    at = 0
    for _ in range(_MOST_PREFIXES):
        match = _PREFIX.match(text, at)
        if match is None:
            break
        at = match.end()
        if match["rank"] or match["mpi"]:
            rank = int(match["rank"] or match["mpi"])
        elif match["local"]:
            local_rank = int(match["local"])
    return Line(text[at:].rstrip("\x00 \t\r\n"), text[:at], rank, local_rank)


Build = Callable[[re.Match[str], str], "Found | None"]
"""Of the match and the whole text."""


class Rule(NamedTuple):
    """How one kind of line is recognised."""

    needle: str
    """In lower case; where it is not, the pattern is not tried."""
    pattern: LatePattern
    """Searched, so that whatever stands before or behind does not matter; its work is linear in the line."""
    build: Build


def rule(needle: str, pattern: str, build: Build) -> Rule:
    """A rule; `pattern` as for `re.compile`."""
    return Rule(needle, LatePattern(pattern), build)


def says(about: str, **fixed: Any) -> Build:
    """Builds what needs nothing of the line but that it is there."""
    return lambda _match, _text: found(about, **fixed)


def asks(about: str, what: str) -> Build:
    """Builds from a line that says how much was asked for, and perhaps of how much, where."""

    def build(match: re.Match[str], _: str) -> Found:
        parts = match.groupdict()
        asked = integer(parts.get("bytes"))
        figures = numbers(
            requested_bytes=size(parts.get("size")) if asked is None else asked,
            used_bytes=size(parts.get("used")),
            total_bytes=size(parts.get("total")),
            device=integer(parts.get("device")),
        )
        return found(about, what=what, numbers=figures)

    return build

# SPDX-License-Identifier: Apache-2.0
"""The prefixes that lines of logs have, as a table."""

import re

from tracer.logs.prefixes.shape import (
    FRAGMENT,
    OF_A_RECORD,
    Apply,
    Line,
    Prefix,
    takes_facility,
    takes_identifier,
    takes_nothing,
    takes_stamp,
    takes_time,
)
from tracer.logs.prefixes.walltime import from_epoch_usec

_CLOCK = r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
_FRACTION = r"(?P<fraction>[0-9]{1,9})"
_ZONE = r"(?P<zone>Z|UTC|GMT|[+-][0-9]{2}:?[0-9]{2})"
_DATE = r"(?P<year>[0-9]{4})[-/](?P<month>[0-9]{2})[-/](?P<day>[0-9]{2})"
_ISO = rf"{_DATE}[T ]{_CLOCK}(?:\.{_FRACTION})?(?: ?{_ZONE})?"
_WORD = r"[^\s\[\]:;,0-9]{1,12}"
_MONTH = rf"(?P<month>{_WORD}|[0-9]{{1,2}}[月월])"
_IDENTIFIER = r"(?P<identifier>[A-Za-z0-9_.@/()+-]{1,64})(?:\[(?P<pid>[0-9]{1,10})\])?: "
_HOST = r"(?P<host>[^\s:\[\]]{1,255})"
_LEVEL = r"(?:emerg|alert|crit|err|error|warn|warning|notice|info|debug)"
_FACILITIES = "kern|user|mail|daemon|auth|syslog|lpr|news|uucp|cron|authpriv|ftp|local[0-7]"


def _rule(name: str, phase: int, pattern: str, apply: Apply = takes_nothing, of_record: int = OF_A_RECORD) -> Prefix:
    return Prefix(name, phase, re.compile(pattern), apply, of_record)


def _writer(line: Line, match: re.Match[str]) -> bool:
    line.writer = match["writer"]
    return True


def _cri(line: Line, match: re.Match[str]) -> bool:
    line.partial = match["tag"] == "P"
    return takes_time(line, match)


def _facility_name(line: Line, match: re.Match[str]) -> bool:
    # The kernel keeps facility `kern` from all others in its own buffer, which is what dmesg and Talos read.
    line.said_by = "kernel" if match["facility"] == "kern" else "user"
    return "hour" not in match.groupdict() or takes_time(line, match)


def _raw_priority(line: Line, match: re.Match[str]) -> bool:
    takes_facility(line, match)
    line.said_by = "kernel" if line.said_by == "name" else line.said_by
    return True


def _kmsg(line: Line, match: re.Match[str]) -> bool:
    takes_facility(line, match)
    line.said_by = "kernel" if line.said_by == "name" else line.said_by
    line.seq, line.usec = int(match["seq"]), int(match["usec"])
    # Until 4.9 a line begins with `c` and goes on with `+`; since then all parts but the first have `c`.
    line.fragment = match["flag"] == "+" or (match["flag"] == "c" and line.text.startswith(" ", match.end()))
    return max(line.seq, line.usec) < 1 << 63


def _whole_seconds(line: Line, match: re.Match[str]) -> bool:
    # A row of a task table begins alike: `[ 4711]     0  4711 ...`.
    row = re.match(r" {1,12}[0-9]{1,10} {1,12}[0-9]{1,10} {1,12}[0-9]", line.text[match.end() : match.end() + 60])
    return row is None and takes_stamp(line, match)


def _epoch(line: Line, match: re.Match[str]) -> bool:
    line.wall = from_epoch_usec(int(match["epoch"]) * 1_000_000 + int(match["usec"]))
    return takes_identifier(line, match)


def _classic(line: Line, match: re.Match[str]) -> bool:
    takes_time(line, match)
    if match["identifier"]:
        takes_identifier(line, match)
    else:
        line.host = match.groupdict().get("only_host") or line.host
    return line.wall is not None


QUOTE, WRAPPED, PRIORITY, TIME, STAMP, BEHIND, CALLER = range(7)

PREFIXES: tuple[Prefix, ...] = (
    _rule("quoted", QUOTE, r"[ \t]{0,64}(?:>[ \t]{0,8}){1,16}|[ \t]{1,256}", of_record=FRAGMENT),
    # docker compose, stern; `kubectl logs --prefix`
    _rule("compose", WRAPPED, r"(?P<writer>[A-Za-z0-9][\w./-]{0,100}) {1,40}\| ?", _writer, FRAGMENT),
    _rule("pod", WRAPPED, r"\[(?P<writer>pod/[\w.-]{1,253}/[\w.-]{1,253})\] ", _writer, FRAGMENT),
    _rule(
        "cri",
        WRAPPED,
        rf"{_DATE}T{_CLOCK}\.{_FRACTION}{_ZONE} (?P<stream>stdout|stderr) (?P<tag>[FP])(?: |$)",
        _cri,
        FRAGMENT,
    ),
    _rule(
        "kmsg",
        STAMP,
        r"(?P<priority>[0-9]{1,6}),(?P<seq>[0-9]{1,19}),(?P<usec>[0-9]{1,19}),(?P<flag>[-c+])"
        r"(?:,[a-zA-Z_]{1,32}=[^,;]{0,64}){0,8};",
        _kmsg,
    ),
    _rule("talos", TIME, rf"(?P<facility>{_FACILITIES}): {{1,4}}{_LEVEL}: \[{_ISO}\]: ", _facility_name),
    _rule("dmesg-x", PRIORITY, rf"(?P<facility>{_FACILITIES}) {{0,8}}:{_LEVEL} {{0,8}}: ", _facility_name),
    _rule(
        "rfc5424",
        TIME,
        rf"<(?P<priority>[0-9]{{1,3}})>1 {_ISO} (?P<host>\S{{1,255}}) (?P<identifier>\S{{1,48}}) (?P<pid>)\S{{1,128}} "
        r"\S{1,32} (?:-|\[[^\]]{0,256}\]) ?",
        lambda line, match: takes_time(line, match) and takes_identifier(line, match),
    ),
    _rule("dmesg-r", PRIORITY, r"<(?P<priority>[0-9]{1,3})>(?=\[)", _raw_priority),
    _rule("priority", PRIORITY, r"<(?P<priority>[0-9]{1,3})>(?=[A-Z])", takes_facility),
    # dmesg --time-format iso has a comma, and no host behind it
    _rule("dmesg-iso", TIME, rf"{_DATE}T{_CLOCK},{_FRACTION}{_ZONE}(?: |$)", takes_time),
    # rsyslog's own format, journalctl -o short-iso
    _rule(
        "iso-syslog",
        TIME,
        rf"{_ISO} {_HOST} {_IDENTIFIER}",
        lambda line, match: takes_time(line, match) and takes_identifier(line, match),
    ),
    _rule(
        "iso-kernel",
        TIME,
        rf"{_ISO} (?P<identifier>kernel): ",
        lambda line, match: takes_time(line, match) and takes_identifier(line, match),
    ),
    _rule("iso", TIME, rf"\[?{_ISO}\]?:?(?: |$)", takes_time),
    # journalctl -o short-full, whose zone is a name, and short-unix
    _rule(
        "journal-full",
        TIME,
        rf"(?:{_WORD} )?{_DATE} {_CLOCK}(?:\.{_FRACTION})? (?P<zone>[A-Z]{{2,5}}|[+-][0-9]{{2}}(?:[0-9]{{2}})?) "
        rf"{_HOST} {_IDENTIFIER}",
        lambda line, match: takes_time(line, match) and takes_identifier(line, match),
    ),
    _rule("journal-unix", TIME, rf"(?P<epoch>[0-9]{{9,11}})\.(?P<usec>[0-9]{{6}}) {_HOST} {_IDENTIFIER}", _epoch),
    # Mon DD HH:MM:SS, and DD Mon as some locales have it; a year before, behind or nowhere; a host or none
    _rule(
        "syslog",
        TIME,
        rf"(?:{_WORD} )?(?:{_MONTH} {{1,2}}(?P<day>[0-9]{{1,2}})) (?:(?P<year>[0-9]{{4}}) )?{_CLOCK}(?:\.{_FRACTION})?"
        rf"(?: (?P<zone>Z|UTC|GMT|[+-][0-9]{{4}}))?(?: (?:{_HOST} )?(?=[^\s\[]{{1,80}}(?:\[[0-9]{{1,10}}\])?: )"
        rf"{_IDENTIFIER}| {_HOST.replace('host', 'only_host')} (?=\[ {{0,8}}[0-9]{{1,10}}\.[0-9]{{6}}\])| (?=\[)|$)",
        _classic,
    ),
    _rule(
        "syslog-day-first",
        TIME,
        rf"(?:{_WORD} )?(?P<day>[0-9]{{1,2}})\.? {_MONTH} (?:(?P<year>[0-9]{{4}}) )?{_CLOCK}(?:\.{_FRACTION})?"
        rf" {_HOST} {_IDENTIFIER}",
        _classic,
    ),
    # dmesg -T, in any locale; the zone is the reader's
    _rule(
        "dmesg-T",
        TIME,
        rf"\[(?:\S{{1,12}} {{1,3}})?{_MONTH} {{1,3}}(?P<day>[0-9]{{1,2}}) {_CLOCK}(?:\.{_FRACTION})? "
        r"(?P<year>[0-9]{4})\] ?",
        takes_time,
    ),
    _rule(
        "dmesg-d", STAMP, r"\[ {0,8}(?P<seconds>[0-9]{1,10})\.(?P<micros>[0-9]{6}) <[ 0-9.+-]{1,20}>\] ?", takes_stamp
    ),
    _rule("dmesg", STAMP, r"\[? {0,8}(?P<seconds>[0-9]{1,10})\.(?P<micros>[0-9]{6}) ?\](?: |$|(?=\[))", takes_stamp),
    # dmesg -H: seconds since the record before, and a minute of the day now and then
    _rule("dmesg-H", STAMP, r"\[(?: {0,8}\+[0-9]{1,8}\.[0-9]{6}|[A-Z][a-z]{2} {0,2}[0-9]{1,2} [0-9]{2}:[0-9]{2})\] "),
    _rule("dmesg-seconds", STAMP, r"\[ {0,8}(?P<seconds>[0-9]{1,10})\] ", _whole_seconds),
    # journalctl -o short-monotonic
    _rule("monotonic", BEHIND, rf"{_HOST} (?P<identifier>kernel): ", takes_identifier),
    _rule("caller", CALLER, r"\[ {0,8}(?:T[0-9]{1,10}|C[0-9]{1,6})\](?: |$)", of_record=FRAGMENT),
)

_DIGITS = frozenset({
    "kmsg", "cri", "compose", "dmesg-iso", "iso-syslog", "iso-kernel", "iso", "syslog-day-first", "dmesg", "monotonic",
    "journal-full", "journal-unix",
})  # fmt: skip
_BRACKETS = frozenset({"pod", "iso", "dmesg-T", "dmesg-d", "dmesg", "dmesg-H", "dmesg-seconds", "caller"})
_BLANKS = frozenset({"quoted", "dmesg"})
_ANGLES = frozenset({"rfc5424", "dmesg-r", "priority", "monotonic"})
_LETTERS = frozenset({"compose", "talos", "dmesg-x", "journal-full", "syslog", "syslog-day-first", "monotonic"})


def _those(names: frozenset[str]) -> tuple[Prefix, ...]:
    return tuple(prefix for prefix in PREFIXES if prefix.name in names)


BY_FIRST: dict[str, tuple[Prefix, ...]] = {
    "": (),
    **dict.fromkeys("0123456789", _those(_DIGITS)),
    "[": _those(_BRACKETS),
    **dict.fromkeys(" \t>", _those(_BLANKS)),
    "<": _those(_ANGLES),
}
"""Rules that a line may meet, by the character at the place."""
BEFORE_LETTERS = _those(_LETTERS)
"""Of any other character."""
_CLOCK_NEAR = re.compile(r"[0-9]:[0-9]{2}:[0-9]{2}")
_CLOCK_WITHIN = 64
"""Before the time of day stand a weekday, a month, a day and a year at most, and blanks."""
_FACILITY_STARTS = tuple(_FACILITIES.replace("local[0-7]", "local").split("|"))


def may_begin(text: str, at: int) -> bool:
    """Whether one of `BEFORE_LETTERS` can be met there: each has one of these signs."""
    if "|" in text:
        return True
    if ":" not in text:
        return False
    return (
        " kernel: " in text
        or text.startswith(_FACILITY_STARTS, at)
        or _CLOCK_NEAR.search(text, at, at + _CLOCK_WITHIN) is not None
    )

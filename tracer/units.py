# SPDX-License-Identifier: Apache-2.0
"""Units: constants, and the one place where a number becomes text."""

import datetime

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000
NS_PER_US = 1_000

USER_HZ = 100
"""Ticks a second in /proc/PID/stat: a constant of the x86 and arm64 user-space ABI."""

TICK_NS = NS_PER_S // USER_HZ
"""Process start times in /proc are floored to this; the kernel's own are exact."""

NO_LIMIT_BYTES = 1 << 62
"""A page_counter at or above this has no limit (PAGE_COUNTER_MAX is LONG_MAX / PAGE_SIZE pages)."""


def format_bytes(value_bytes: int | None) -> str:
    """`402 MiB`, `1.5 GiB`, `12 KiB`; `?` for unknown. Three significant digits at most."""
    if value_bytes is None:
        return "?"
    sign, size = ("-" if value_bytes < 0 else ""), abs(value_bytes)
    if size < KIB:
        return f"{sign}{size} B"
    for unit, name in ((KIB, "KiB"), (MIB, "MiB"), (GIB, "GiB"), (1024 * GIB, "TiB")):
        if size < 1000 * unit or name == "TiB":
            number = size / unit
            digits = 0 if number >= 99.95 or unit == KIB else 1 if number >= 9.995 else 2
            text = f"{number:.{digits}f}"
            return f"{sign}{text.rstrip('0').rstrip('.') if digits else text} {name}"
    raise AssertionError("unreachable")


def format_limit(limit_bytes: int | None) -> str:
    """As `format_bytes`, but `no limit` for a counter that has none."""
    if limit_bytes is not None and limit_bytes >= NO_LIMIT_BYTES:
        return "no limit"
    return format_bytes(limit_bytes)


def has_limit(limit_bytes: int | None) -> bool:
    """Whether a limit is known and is one."""
    return limit_bytes is not None and limit_bytes < NO_LIMIT_BYTES


def format_duration(duration_ns: int | None) -> str:
    """`3.1 ms`, `212 ms`, `4.2 s`, `2 min 5 s`; `?` for unknown."""
    if duration_ns is None:
        return "?"
    sign, span = ("-" if duration_ns < 0 else ""), abs(duration_ns)
    if span < NS_PER_MS:
        return f"{sign}{span / NS_PER_US:.0f} us"
    if span < 100 * NS_PER_MS:
        return f"{sign}{span / NS_PER_MS:.1f} ms"
    if span < NS_PER_S:
        return f"{sign}{span / NS_PER_MS:.0f} ms"
    if span < 100 * NS_PER_S:
        return f"{sign}{span / NS_PER_S:.1f} s"
    minutes, seconds = divmod(round(span / NS_PER_S), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{sign}{hours} h {minutes} min" if hours else f"{sign}{minutes} min {seconds} s"


def format_utc(realtime_ns: int) -> str | None:
    """RFC 3339 in UTC with microseconds: `2026-11-30T14:02:31.118204Z`; `None`: no calendar has that moment."""
    seconds, rest_ns = divmod(realtime_ns, NS_PER_S)
    try:
        moment = datetime.datetime.fromtimestamp(seconds, tz=datetime.timezone.utc)
    except (OverflowError, ValueError, OSError):
        return None
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{rest_ns // NS_PER_US:06d}Z"

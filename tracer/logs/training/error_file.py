# SPDX-License-Identifier: Apache-2.0
"""torch elastic's error file: what a rank's `@record` wrote before it ended. Anyone may have written it."""

import math
from typing import Any, NamedTuple

import msgspec

MAX_BYTES = 256 * 1024
_LATEST_S = 1 << 40


class ErrorFile(NamedTuple):
    """What it says."""

    message: str
    """First line."""
    at_s: float | None
    """CLOCK_REALTIME, as the rank had it; whole seconds."""


def parse_error_file(raw: bytes) -> ErrorFile | None:
    """What it says; `None`: it is none, or not whole yet.

    Two shapes: `{"message": {"message": M, "extraInfo": {"timestamp": T, ...}}}`, and `{"message": M}`.
    """
    if len(raw) > MAX_BYTES:
        return None
    try:
        told: Any = msgspec.json.decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    message = told.get("message") if isinstance(told, dict) else None
    at_s = None
    if isinstance(message, dict):
        extra = message.get("extraInfo")
        at_s = _seconds(extra.get("timestamp")) if isinstance(extra, dict) else None
        message = message.get("message")
    if not isinstance(message, str):
        return None
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return ErrorFile(lines[0], at_s) if lines else None


def _seconds(value: object) -> float | None:
    try:
        seconds = float(value) if isinstance(value, str | int | float) and len(str(value)) < 32 else math.nan
    except ValueError:
        return None
    return seconds if 0 < seconds < _LATEST_S else None

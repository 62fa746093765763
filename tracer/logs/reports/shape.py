# SPDX-License-Identifier: Apache-2.0
"""A rule: what is looked for first, the pattern, and what becomes of it. Every repetition has a bound."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from tracer.logs.late import LatePattern
from tracer.logs.training.shape import signal_of

TEXT_CHARS = 300
PID = r"[1-9]\d{0,6}"
HASH = r"[0-9a-f]{12,64}"
CGROUP = r"/[^\s\"']{0,400}"
UNIT = r"[A-Za-z0-9:_.\\@-]{1,200}\.(?:service|scope|slice)"

Told = dict[str, Any]


class Rule(NamedTuple):
    """How one wording is recognised."""

    needle: str
    pattern: LatePattern
    build: Callable[[re.Match[str]], Told | None]


def rule(needle: str, pattern: str, about: str, by: str, **fixed: Any) -> Rule:
    """One whose groups are fields of `ReportedLine`; `sig` is a signal by name or number."""

    def build(match: re.Match[str]) -> Told:
        told: Told = {"about": about, "by": by, **fixed}
        for name, value in match.groupdict().items():
            if value is None:
                continue
            if name == "sig":
                told["signal"] = signal_of(value if value.isdigit() or value.startswith("SIG") else f"SIG{value}")
            else:
                told[name] = int(value) if name in {"pid", "exit_code"} else value
        return told

    return Rule(needle, LatePattern(pattern), build)

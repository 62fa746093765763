# SPDX-License-Identifier: Apache-2.0
"""What takes several lines to say: torch elastic's report of failures, and the last line of a Python traceback."""

import re
from typing import Any

from tracer.logs.training.shape import CODE, PID, SMALL, Found, Line, ended_by, found, integer, pids

NEEDLES = (
    "traceback (most recent call last)",
    "root cause (first observed",
    "local_rank",
    "exitcode",
    "received by pid",
    "failures:",
)
_OF_REPORT = ("rank ", "exitcode ", "Failures:", "Root Cause", "received by PID")
_ROOT = "Root Cause (first observed failure)"
_OTHERS = re.compile(r"^ {0,4}(?:Other )?Failures:")
_RANK = re.compile(rf"^ {{0,8}}rank {{1,8}}: (?P<rank>{SMALL}) \(local_rank: (?P<local>{SMALL})\)")
_CODE = re.compile(rf"^ {{0,8}}exitcode {{1,8}}: (?P<code>{CODE}) \(pid: (?P<pid>{PID})\)")
_SIGNAL = re.compile(rf"\bSignal (?P<number>\d{{1,2}}) \(SIG[A-Z]{{2,6}}\) received by PID (?P<pid>{PID})")
_BEGINS = "Traceback (most recent call last)"
_EXCEPTION = re.compile(
    r"^(?P<what>(?:[A-Za-z_]\w{0,60}\.){0,8}_?[A-Z]\w{0,60}?"
    r"(?:Error|Exception|Interrupt|Exit|Failure|Fault|Timeout|Warning|Iteration|Aborted|Group))(?::|$)"
)
_MOST_LINES = 2000
_MOST_OTHERS = 4
"""Lines of somebody else among those of a traceback."""
MOST_WRITERS = 64


def may_report(text: str) -> bool:
    """Whether a line is worth any pattern of a report."""
    return any(word in text for word in _OF_REPORT)


class Blocks:
    """What earlier lines of one stream have begun. Bounded."""

    def __init__(self) -> None:
        self._rank: int | None = None
        self._local: int | None = None
        self._root = False
        self._told_pid: int | None = None
        self._traces: dict[str, list[int]] = {}
        """By writer: lines that are left until a traceback is given up, and likewise lines that are none of it."""

    @property
    def open(self) -> bool:
        """Whether lines without any sign of their own may be part of something."""
        return bool(self._traces)

    def report(self, text: str) -> Found | None:
        """A failure of torch elastic's report, once its last line that matters is there."""
        rank = _RANK.match(text)
        if rank is not None:
            self._rank, self._local = int(rank["rank"]), int(rank["local"])
            return None
        if _ROOT in text or _OTHERS.match(text):
            self._root = _ROOT in text
            self._told_pid = None
            return None
        code = _CODE.match(text)
        if code is not None:
            place, self._rank, self._local = (self._rank, self._local), None, None
            self._told_pid = int(code["pid"])
            fields: dict[str, Any] = {"rank": place[0], "local_rank": place[1], **ended_by(code["code"])}
            return found("failure_report", pids=pids(code["pid"]), root_cause=self._root or None, **fields)
        told = _SIGNAL.search(text)
        if told is None or int(told["pid"]) == self._told_pid:
            return None
        return found("failure_report", pids=pids(told["pid"]), signal=integer(told["number"]))

    def begins(self, line: Line) -> bool:
        """Whether a traceback begins."""
        if _BEGINS not in line.text:
            return False
        if len(self._traces) >= MOST_WRITERS:
            self._traces.pop(next(iter(self._traces)))
        self._traces[line.prefix] = [_MOST_LINES, _MOST_OTHERS]
        return True

    def ends(self, line: Line) -> bool:
        """Whether it is the last line of one; that is closed with it."""
        return _EXCEPTION.match(line.text) is not None and self._traces.pop(line.prefix, None) is not None

    def exception(self, line: Line) -> Found | None:
        """What a traceback ends with; other lines of it are counted."""
        left = self._traces.get(line.prefix)
        if left is None:
            return None
        match = _EXCEPTION.match(line.text)
        if match is not None:
            del self._traces[line.prefix]
            return found("exception", what=match["what"])
        inside = not line.text or line.text[0] in " \t|+"
        left[0 if inside else 1] -= 1
        if min(left) <= 0:
            del self._traces[line.prefix]
        return None

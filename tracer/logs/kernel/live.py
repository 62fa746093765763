# SPDX-License-Identifier: Apache-2.0
"""Records of a live kernel log, one by one: events, and the tables of a report as one event each. Pure and bounded."""

from tracer.events import LogEvent, LoggedOther, LoggedStats
from tracer.logs.kernel import parse_record
from tracer.logs.kernel.shape import Stamp, bare
from tracer.logs.kernel.tables import Stats, TaskTable, stats_at, table_at

PATIENCE = 64
"""So many other records may come between two rows: of other CPUs, which do not wait for a report to end."""
_STATS = "Memory cgroup stats for "


class LiveRecords:
    """The kernel's own records, in order; what user space wrote is not to be given to it."""

    def __init__(self) -> None:
        self._block: TaskTable | Stats | None = None
        self._patience = 0

    def push(self, text: str, stamp: Stamp) -> list[LogEvent]:
        """What is known once this record is there: a table is, when another part of the report begins."""
        line = bare(text)
        # The values of memory.stat are one record of many lines on some kernels; the log escapes the line ends.
        parts = line.replace("\\x0a", "\n") if line.startswith(_STATS) else line
        begun = table_at(line, stamp) or stats_at(parts, stamp)
        if begun is not None:
            ended = self._close()
            if isinstance(begun, LoggedStats):
                return [*ended, begun]
            self._block, self._patience = begun, PATIENCE
            return ended
        if self._block is not None and self._block.take([line], stamp):
            self._patience = PATIENCE
            return []
        event = parse_record(
            text,
            ts_ns=stamp.ts_ns,
            log_usec=stamp.log_usec,
            log_seq=stamp.log_seq,
            trusted=stamp.trusted,
            source=stamp.source,
        )
        self._patience -= 1
        ends = self._patience <= 0 or (event is not None and not isinstance(event, LoggedOther))
        return [*(self._close() if ends else []), *([event] if event is not None else [])]

    def lost(self) -> None:
        """Records are missing: a table that stands open is no whole one, and is forgotten."""
        self._block = None

    def _close(self) -> list[LogEvent]:
        block, self._block = self._block, None
        return [] if block is None else [block.event()]

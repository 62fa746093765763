# SPDX-License-Identifier: Apache-2.0
"""Lines of one writer: they become records, and records become events. Bounded memory, bounded work a line."""

import re
from dataclasses import dataclass, field

from tracer.events import LogEvent, LogGap, LoggedOther, LoggedStats
from tracer.logs.kernel import loose
from tracer.logs.kernel.joining import joined, may_tell, strict
from tracer.logs.kernel.shape import Stamp
from tracer.logs.kernel.tables import Stats, TaskTable, stats_at, table_at
from tracer.logs.prefixes import Line, has_markup, split, without_markup

RECORD_CHARS = 2048
"""A record of the kernel has at most 1024 (LOG_LINE_MAX); what a reader puts into it may come on top."""
BLOCK_PATIENCE = 64
"""So many other records may come between two rows of a table: from other CPUs, or of other programs."""
_MOST_BARE = 6

_DROPPED = re.compile(r"\*\* (?P<lost>[0-9]{1,9}) printk messages dropped \*\*\s*(?P<rest>.*)", re.DOTALL)
_MISSED = re.compile(
    r"Missed (?P<lost>[0-9]{1,9}) kernel messages|(?P<rate>[0-9]{1,9}) messages lost due to rate-limiting.*"
)


_MAY_GO_ON = re.compile(
    r"Tasks? in /|Memory cgroup stats for |Memory limit reached|oom-kill:|oom_reaper: |(?:.* )?Kill(?:ed)? process "
)
"""Records that have a name within them, which may have line ends."""


@dataclass(slots=True)
class _Record:
    line: Line
    """Its first."""
    lines: list[str] = field(default_factory=list)
    widths: list[int] = field(default_factory=list)
    chars: int = 0
    open: bool | None = None
    """Of one without prefix: whether it may go on in the next line."""

    def add(self, line: Line) -> None:
        self.chars += len(line.text) + 1
        if self.line.partial or line.fragment:
            self.lines[-1] += line.text
            self.line.partial = line.partial
        elif self.lines == [""] and line.text:
            self.lines, self.widths = [line.text], [line.width]
            self.line.number, self.line.column = line.number, line.column
        else:
            self.lines.append(line.text)
            self.widths.append(line.width)


class Stream:
    """One writer's lines, in order."""

    def __init__(self) -> None:
        self._record: _Record | None = None
        self._block: TaskTable | Stats | None = None
        self._patience = 0
        self.rows = 0
        """Records that went into tables so far: they tell something, but not yet."""

    def push(self, line: Line) -> list[LogEvent]:
        """What is known once this line is there: mostly of the records before it."""
        record = self._record
        if record is not None and self._goes_on(record, line):
            record.add(line)
            return []
        events = [] if record is None else self._read(record)
        dropped = _DROPPED.fullmatch(line.text) if line.text.startswith("** ") else None
        if dropped is not None:
            events.append(LogGap(lost=int(dropped["lost"]), **stamp_of(line).fields(line.text)))
            if not dropped["rest"]:
                self._record = None
                return events
            line = _behind(line, dropped["rest"])
        self._record = _Record(line, [line.text], [line.width], len(line.text))
        return events

    def flush(self) -> list[LogEvent]:
        """All that stands open."""
        record, self._record = self._record, None
        events = [] if record is None else self._read(record)
        return [*events, *self._close()]

    def _goes_on(self, record: _Record, line: Line) -> bool:
        """Whether a line is a part of the record before it."""
        if record.chars > RECORD_CHARS:
            return False
        if record.line.partial or line.fragment:
            return True
        if record.line.depth == 0:
            return line.depth == 0 and self._may_go_on(record, line)
        if line.depth == 0:
            return bool(line.text) or self._is_open(record)
        # A line end in a name, which a syslog daemon made two lines of: the second has no stamp of the kernel's.
        shorter = line.depth < record.line.depth and line.forms == record.line.forms[: len(line.forms)]
        return shorter and line.said_by == record.line.said_by and self._is_open(record)

    def _may_go_on(self, record: _Record, line: Line) -> bool:
        """Of lines without prefix: the first has begun something, and the second begins nothing."""
        if not line.text or len(record.lines) >= _MOST_BARE:
            return False
        return self._is_open(record) and not self._begins(line)

    def _is_open(self, record: _Record) -> bool:
        if record.open is None and self._block is None and not may_tell(record.lines[0]):
            record.open = True
        if record.open is None:
            text, stamp = record.lines[0], stamp_of(record.line)
            record.open = (
                strict(text, stamp) is None
                and table_at(text, stamp) is None
                and stats_at(text, stamp) is None
                and not self._is_row(text, stamp)
            )
        return record.open

    def _begins(self, line: Line) -> bool:
        if self._block is None and not may_tell(line.text):
            return False
        stamp = stamp_of(line)
        return (
            strict(line.text, stamp) is not None
            or (may_tell(line.text) and loose.parse(line.text, stamp) is not None)
            or table_at(line.text, stamp) is not None
            or self._is_row(line.text, stamp)
        )

    def _is_row(self, text: str, stamp: Stamp) -> bool:
        return self._block is not None and self._block.fits(text, stamp)

    def _read(self, record: _Record) -> list[LogEvent]:
        whole = "\n".join(record.lines) if len(record.lines) > 1 else record.lines[0]
        if self._block is None and not may_tell(whole):
            return [] if len(record.lines) == 1 else self._read_rest(record, 1)
        stamp = stamp_of(record.line)
        if self._block is not None and self._block.take(record.lines, stamp):
            self._patience = BLOCK_PATIENCE
            self.rows += 1
            return []
        begun = self._begin_block(whole, stamp)
        if begun is not None:
            return begun
        event, used = joined(record.lines, record.widths, stamp)
        ended = event is not None and not isinstance(event, LoggedOther)
        if event is None:
            event, used = self._loosely(record.lines[0], stamp), 1
        if record.line.depth and not ended and (event is not None or _MAY_GO_ON.match(whole)):
            used = len(record.lines)  # what a name with line ends may have made look like records
        return [*self._after(event), *self._read_rest(record, used)]

    def _read_rest(self, record: _Record, used: int) -> list[LogEvent]:
        events: list[LogEvent] = []
        for text, width in zip(record.lines[used:], record.widths[used:], strict=True):
            events += self._read_alone(text, width, record.line)
        return events

    def _read_alone(self, text: str, width: int, head: Line) -> list[LogEvent]:
        """A line that turned out to be no part of the record before it: it has no stamp of its own."""
        if self._block is None and not may_tell(text):
            return []
        stamp = Stamp(ts_ns=stamp_of(head).ts_ns, said_by="user" if head.depth else head.said_by, host=head.host)
        if self._block is not None and self._block.take([text], stamp):
            self._patience = BLOCK_PATIENCE
            self.rows += 1
            return []
        begun = self._begin_block(text, stamp)
        if begun is not None:
            return begun
        return self._after(joined([text], [width], stamp)[0] or self._loosely(text, stamp))

    def _loosely(self, text: str, stamp: Stamp) -> LogEvent | None:
        if not may_tell(text):
            return None
        event = loose.parse(text, stamp)
        if event is not None:
            return event
        missed = _MISSED.fullmatch(text)
        if missed is not None:
            return LogGap(lost=int(missed["lost"] or missed["rate"]), **stamp.fields(text))
        if has_markup(text):
            shown = " ".join(without_markup(text)).replace("\u00a0", " ").strip()
            event = strict(shown, stamp) or loose.parse(shown, stamp)
        return event or loose.quoted(text, stamp)

    def _begin_block(self, text: str, stamp: Stamp) -> list[LogEvent] | None:
        begun = table_at(text, stamp) or stats_at(text, stamp)
        if begun is None:
            return None
        events = self._close()
        if isinstance(begun, LoggedStats):
            return [*events, begun]
        self._block, self._patience = begun, BLOCK_PATIENCE
        return events

    def _after(self, event: LogEvent | None) -> list[LogEvent]:
        """An event that is not of the open table ends it; other lines only wear out its patience."""
        if self._block is None:
            return [] if event is None else [event]
        self._patience -= 1
        if event is None and self._patience > 0:
            return []
        between = isinstance(event, LogGap) or (isinstance(event, LoggedOther) and isinstance(self._block, TaskTable))
        if between and event is not None and self._patience > 0:
            return [event]
        return [*self._close(), *([] if event is None else [event])]

    def _close(self) -> list[LogEvent]:
        block, self._block = self._block, None
        return [] if block is None else [block.event()]


def stamp_of(line: Line) -> Stamp:
    """What an event takes over from the first line of its record."""
    wall_ns = None if line.wall is None else line.wall.utc_ns()
    return Stamp(
        ts_ns=min(wall_ns or 0 if line.usec is None else line.usec * 1000, (1 << 63) - 1),
        log_usec=line.usec,
        log_seq=line.seq,
        said_by=line.said_by,
        wall=None if line.wall is None else str(line.wall),
        host=line.host or line.writer,
        log_line=line.number,
        log_column=line.column,
    )


def _behind(line: Line, rest: str) -> Line:
    """What stands behind a marker: it may have a stamp again."""
    inner = split(rest, line.number)
    line.text, line.column = inner.text, line.column + len(line.text) - len(rest) + inner.column - 1
    line.usec = inner.usec if inner.usec is not None else line.usec
    line.forms, line.depth = [*line.forms, *inner.forms], line.depth + inner.depth
    return line

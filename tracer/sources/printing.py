# SPDX-License-Identifier: Apache-2.0
"""Pieces of the kernel's "oom-kill:" line, as its printk is hit by them, joined to what the log would have held.

User space prints as well, by writing to /dev/kmsg, and in its own context: so the text counts as the kernel's
only where the stack of its first piece shows printk called from within the OOM killer.
"""

from dataclasses import dataclass, field

from tracer.events import KernelStack, LogEvent, LoggedDecision, OomMark, OomStack, Printed
from tracer.logs.kernel import parse_record

_PRINTING = frozenset({"printk_sprint", "vprintk_store"})
"""Where the tracepoint is hit by whoever prints. Up to 5.15 it was in console_unlock(), with text of anybody."""
_DECIDING = frozenset({"out_of_memory", "oom_kill_process"})
MAX_LINES = 64
"""That are waited for. A kill has one; a forger may begin many."""

_Key = tuple[int, int]


@dataclass
class _Line:
    tid: int
    pieces: list[Printed] = field(default_factory=list)
    whole: bool = False
    stack_comes: bool = False
    trusted: bool | None = None

    def text(self) -> str:
        """Up to the first piece that is missing or was cut."""
        parts = []
        for index, piece in enumerate(self.pieces):
            if piece.piece != index:
                break
            parts.append(piece.text)
            if len(piece.text.encode("utf-8", "surrogateescape")) < piece.length:
                break
        return "".join(parts)


class Printing:
    """Lines in the making, one a thread."""

    def __init__(self) -> None:
        self._lines: dict[_Key, _Line] = {}

    def take(self, piece: Printed) -> None:
        """One more piece. The last one ends with the line's end, which may have been taken off."""
        for key, line in self._lines.items():
            line.whole = line.whole or (line.tid == piece.tid and key[0] != piece.first_ns)
        line = self._lines.setdefault((piece.first_ns, piece.tgid), _Line(piece.tid))
        line.pieces.append(piece)
        line.whole = line.whole or ",uid=" in piece.text
        while len(self._lines) > MAX_LINES:
            del self._lines[next(iter(self._lines))]

    def marked(self, mark: OomMark) -> None:
        """The mark comes after the line: what is there of it is all."""
        for line in self._lines.values():
            line.whole = line.whole or line.tid == mark.trigger_tid

    def expect(self, stack: OomStack) -> None:
        """A stack is to get its names; perhaps that of a first piece."""
        line = self._lines.get((stack.ts_ns, stack.tgid))
        if line is not None:
            line.stack_comes = True

    def is_of_a_line(self, stack: KernelStack) -> bool:
        """Whether this is the stack of a first piece; if so it is taken in."""
        line = self._lines.get((stack.mark_ts_ns, stack.tgid))
        if line is None:
            return False
        functions = set(stack.functions)
        line.trusted = bool(functions & _PRINTING) and bool(functions & _DECIDING)
        return True

    def finished(self) -> list[LogEvent]:
        """What is whole, and whose stack is known or will not come."""
        events: list[LogEvent] = []
        for key in [k for k, v in self._lines.items() if v.whole and (v.trusted is not None or not v.stack_comes)]:
            line = self._lines.pop(key)
            event = parse_record(line.text(), ts_ns=key[0], trusted=bool(line.trusted), source="printk_console")
            if isinstance(event, LoggedDecision):
                events.append(event)
        return events

# SPDX-License-Identifier: Apache-2.0
"""How each process of the job ended, and which signal did it where one did."""

from collections.abc import Sequence

import msgspec

from tracer.attribution.tree import Member
from tracer.events import JobEnded, ProcessExited, ProcessId, ProcessSample, SignalSent, process_id
from tracer.events.signals import SIGKILL, SIGTERM, TRACE_SIGNAL_DELIVERED
from tracer.units import NS_PER_S
from tracer.verdict.model import Rung
from tracer.verdict.story import Story

SIGNAL_NAMES = {
    1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE",
    9: "SIGKILL", 10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM",
    24: "SIGXCPU", 25: "SIGXFSZ", 31: "SIGSYS",
}  # fmt: skip
"""x86-64 and arm64 numbers (include/uapi/asm-generic/signal.h)."""
EXIT_HOOK = "raw_tracepoint:sched_process_exit"
RAISED_AGAIN_NS = 5 * NS_PER_S
"""So long a handler may take before it sends its process the signal again."""


class Death(msgspec.Struct, frozen=True, kw_only=True):
    """The end of one process of the job."""

    id: ProcessId
    at_ns: int
    signal: int
    """That ended it; 0: it exited by itself."""
    code: int
    exit: ProcessExited | None = None
    ended: JobEnded | None = None
    zombie: ProcessSample | None = None
    """It was dead and not yet waited for: /proc shows how it ended, and that it had by then."""
    by: SignalSent | None = None
    """The delivered signal of that number that ended it, where it was seen."""
    terminations: tuple[SignalSent, ...] = ()
    """The SIGTERMs that were delivered to it, whether or not it died of one."""

    @property
    def terminated(self) -> SignalSent | None:
        """The first of these."""
        return self.terminations[0] if self.terminations else None

    @property
    def waits_agree(self) -> bool:
        """Whether what `waitpid` told the parent is what the kernel saw, where both are known."""
        return self.exit is None or self.ended is None or (self.exit.status ^ self.ended.status) & 0xFF7F == 0

    @property
    def failed(self) -> bool:
        return bool(self.signal or self.code)

    @property
    def status(self) -> str:
        """`signal 9 (SIGKILL)` or `exit 1`."""
        return f"signal {self.signal} ({signal_name(self.signal)})" if self.signal else f"exit {self.code}"

    @property
    def rung(self) -> Rung:
        """Who told of it."""
        return "bpf" if self.exit is not None else "wait_status" if self.ended is not None else "proc"

    @property
    def via(self) -> tuple[str, ...]:
        """The hook, where it was one."""
        return (EXIT_HOOK,) if self.exit is not None else ()

    @property
    def evidence(self) -> tuple[int, ...]:
        return tuple(e.seq for e in (self.by, self.exit, self.ended, self.zombie) if e is not None)


def signal_name(number: int) -> str:
    """`SIGKILL`; `signal 34` for one without a name of its own."""
    return SIGNAL_NAMES.get(number, f"signal {number}")


def find_deaths(story: Story) -> tuple[Death, ...]:
    """The ends of all processes of the job that were seen, in time order. One that vanished is not among them."""
    found = []
    for member in story.tree.processes.values():
        if not (member.id in story.tree.members or member.claimed):
            continue
        told = [end.status for end in (member.exit, member.ended) if end is not None]
        status = told[0] if told else member.zombie.exit_status if member.zombie is not None else None
        if status is not None:
            found.append(_death(member, status, story.signals.get(member.id, ())))
    return tuple(sorted(found, key=lambda d: (d.at_ns, d.id)))


def _death(member: Member, status: int, signals: Sequence[SignalSent]) -> Death:
    number = status & 0x7F
    zombie = None if member.exit or member.ended else member.zombie
    at_ns = next(e.ts_ns for e in (member.exit, member.ended, zombie) if e is not None)
    delivered = [s for s in signals if s.result == TRACE_SIGNAL_DELIVERED and s.ts_ns <= at_ns]
    return Death(
        id=member.id,
        at_ns=at_ns,
        signal=number,
        code=(status >> 8) & 0xFF if not number else 0,
        exit=member.exit,
        ended=member.ended,
        zombie=zombie,
        by=_fatal(number, delivered),
        terminations=tuple(s for s in delivered if s.signal == SIGTERM),
    )


def _fatal(number: int, delivered: Sequence[SignalSent]) -> SignalSent | None:
    """The signal that ended it. SIGKILL cannot be handled: the first one is it. Others may have been: the last one.

    A handler that tidies up and then sends itself the same signal passes on what it got: that one is told.
    """
    same = [s for s in delivered if number and s.signal == number]
    if not same or number == SIGKILL:
        return same[0] if same else None
    last = same[-1]
    got = [s for s in same[:-1] if not _to_itself(s) and last.ts_ns - s.ts_ns <= RAISED_AGAIN_NS]
    return got[-1] if got and _to_itself(last) else last


def _to_itself(signal: SignalSent) -> bool:
    return process_id(signal.sender_tgid, signal.sender_start_ns) == process_id(signal.tgid, signal.start_ns)

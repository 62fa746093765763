# SPDX-License-Identifier: Apache-2.0
"""Who sends the job a fatal signal from outside: looked at while it is still there, and all that stand above it."""

import time

from tracer.events import Event, ProcessId, SeenProgram, SenderSeen, SignalInfo, SignalSent, process_id
from tracer.events.signals import SENT_BY_CURRENT, SIGKILL, SIGTERM
from tracer.pipeline.helper import Helper
from tracer.pipeline.members import Members
from tracer.pipeline.ports import Processes

MAX_LINE = 16
MAX_LOOKS = 200
"""Senders in one watch: whoever sends from ever new processes is told by the record of the signal alone."""


class Senders:
    """Has each sender looked at once, off the loop: /proc may block."""

    def __init__(self, processes: Processes, helper: Helper, members: Members) -> None:
        self._processes = processes
        self._helper = helper
        self._members = members
        self._looked: set[ProcessId] = set()

    def at(self, signal: SignalSent, own_tgid: int) -> None:
        """A signal was sent: look at its sender, if that is a process outside of the job.

        Args:
            own_tgid: the tracer's, whose signals go on to the job.
        """
        sender = process_id(signal.sender_tgid, signal.sender_start_ns)
        ours = signal.in_tree or signal.tgid == own_tgid
        if not ours or signal.sender_tgid == own_tgid or not _has_sender(signal):
            return
        if sender in self._members or sender in self._looked or len(self._looked) >= MAX_LOOKS:
            return
        self._looked.add(sender)
        self._helper.submit(lambda: _look(self._processes, signal))


def _has_sender(signal: SignalSent) -> bool:
    if signal.signal not in {SIGKILL, SIGTERM}:
        return False
    return signal.info == SignalInfo.NOINFO or (signal.info == SignalInfo.POINTER and signal.code in SENT_BY_CURRENT)


def _look(processes: Processes, signal: SignalSent) -> Event | None:
    line: list[SeenProgram] = []
    now_ns = time.monotonic_ns()
    tgid, start_ns = signal.sender_tgid, signal.sender_start_ns
    for depth in range(MAX_LINE):
        seen = processes.seen(tgid)
        if seen is None or process_id(tgid, seen.start_ns) != process_id(tgid, start_ns):
            if depth:
                break
            # Gone already; the kernel told who its parent was.
            tgid, start_ns = signal.sender_parent_tgid, signal.sender_parent_start_ns
            continue
        line.append(
            SeenProgram(
                depth=depth,
                tgid=tgid,
                start_ns=seen.start_ns,
                comm=seen.comm,
                exe=seen.exe,
                uid=seen.uid,
                cgroup=seen.cgroup,
                cgroup_id=seen.cgroup_id,
                foreign_user_ns=seen.foreign_user_ns,
            )
        )
        if not seen.parent_tgid or seen.parent_start_ns is None:
            break
        tgid, start_ns = seen.parent_tgid, seen.parent_start_ns
    if not line:
        return None
    return SenderSeen(
        ts_ns=now_ns,
        source="proc",
        tgid=signal.sender_tgid,
        start_ns=signal.sender_start_ns,
        line=tuple(line),
    )

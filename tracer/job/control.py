# SPDX-License-Identifier: Apache-2.0
"""Job control: what a shell does for its job, and what a job must see of its shell, with us in between.

The job leads a process group of its own: a `kill 0` in it, or Ctrl-C, does not end its witness.

- Alone in our group, we hand the terminal's foreground to the job: keys and window sizes reach it and nobody else.
- In a pipeline or a script the keys are for all of them. The foreground stays with our group, and what the
  kernel sends to that (Ctrl-C, Ctrl-Z, a new window size) is passed on to the job, once. Whoever then touches
  the terminal from the wrong group is stopped by the kernel, gets the foreground, and goes on.
- A job that stops (Ctrl-Z; a read from the background) stops us and our group by the same signal: that is
  what the shell waits for. When the shell continues us, the job goes on.
"""

import os
import signal
import time
from collections.abc import Callable, Iterable

from tracer.job.launch import Job
from tracer.job.signals import ENDING, FOR_THE_FIRST, FORWARDED, STOPPING, SignalInbox, stop_ourselves
from tracer.job.terminal import Terminal, group_is_shared
from tracer.units import NS_PER_S

_FOR_WANT_OF_THE_TERMINAL = (signal.SIGTTIN, signal.SIGTTOU)
STOPPED_AGAIN_NS = NS_PER_S
"""So long a job stays stopped that nobody can continue: it would only run into the same stop again."""


class JobControl:
    """Between one job, the terminal and whoever sends signals to us. Only for the main thread."""

    def __init__(self, job: Job, inbox: SignalInbox, note: Callable[[str], None]) -> None:
        """`note` gets one line about each signal that was passed on to end the job."""
        self._job = job
        self._inbox = inbox
        self._note = note
        self._terminal = Terminal.controlling()
        self._keeps_foreground = self._terminal is None or group_is_shared()
        self._is_session_leader = os.getsid(0) == os.getpid()
        self._given_to_the_first: set[int] = set()
        self._gives_on = False
        self._go_on_at_ns: int | None = None

    def start(self) -> None:
        """Hand the foreground to the job, and let it run."""
        if self._terminal is not None and not self._keeps_foreground:
            self._terminal.give(self._job.group)
        self._job.release()

    def look(self) -> bool:
        """Look once after the job, without waiting unless we are stopped with it; whether it has ended."""
        if self._job.poll():
            return True
        stopped_by = self._job.stopped_by
        if stopped_by is not None and self._terminal is not None:
            if self._go_on_at_ns is None:
                self._follow_stop(self._terminal, stopped_by)
            elif time.monotonic_ns() >= self._go_on_at_ns:
                self._go_on(self._terminal)
        return False

    def forward(self) -> None:
        """Pass on what came to us meanwhile."""
        self._pass_on(self._inbox.take())

    def end(self) -> None:
        """Take the foreground back and, after a crash, set the terminal's modes back. May be called twice."""
        status, terminal = self._job.status, self._terminal
        killed_by = os.WTERMSIG(status) if status is not None and os.WIFSIGNALED(status) else None
        if killed_by in ENDING and killed_by in self._given_to_the_first:
            # It took no care of its own children, who may have been meant as well: they are not left behind.
            self._given_to_the_first.clear()
            self._job.signal(killed_by)
        if terminal is not None:
            terminal.take_back(self._job.group)
            if killed_by is not None:
                terminal.restore_modes()
            terminal.close()
            self._terminal = None

    def _follow_stop(self, terminal: Terminal, stopped_by: int) -> None:
        job, wants_terminal = self._job, stopped_by in _FOR_WANT_OF_THE_TERMINAL
        had_foreground = terminal.is_of(job.group)
        attended = had_foreground or terminal.is_ours()
        job.stopped_by = None
        self._gives_on = had_foreground or wants_terminal or not self._keeps_foreground
        if wants_terminal and attended:
            self._go_on(terminal)
        elif attended or stopped_by in STOPPING:  # else: stopped by hand (SIGSTOP), and to be continued by hand
            terminal.take_back(job.group)
            # By SIGSTOP itself we would stop even where no shell is there to continue us.
            stop_ourselves(signal.Signals(stopped_by) if stopped_by in STOPPING else signal.SIGTSTP)
            came = self._inbox.take()
            if signal.SIGCONT in came:
                self._go_on(terminal)
                self._pass_on(tuple(number for number in came if number not in STOPPING))
            else:
                self._pass_on(came)
                self._not_stopped(terminal, stopped_by)

    def _not_stopped(self, terminal: Terminal, stopped_by: int) -> None:
        # The kernel discarded our stop: no shell waits for it, and none will continue the job.
        if stopped_by in _FOR_WANT_OF_THE_TERMINAL:
            self._job.stopped_by = stopped_by
            self._go_on_at_ns = time.monotonic_ns() + STOPPED_AGAIN_NS
        else:
            terminal.give(self._job.group)
            if stopped_by in STOPPING:
                self._job.signal(signal.SIGCONT)

    def _go_on(self, terminal: Terminal) -> None:
        self._go_on_at_ns = self._job.stopped_by = None
        if self._gives_on:
            terminal.give(self._job.group)
        self._job.signal(signal.SIGCONT)

    def _pass_on(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            if number not in FORWARDED or (number in _FOR_WANT_OF_THE_TERMINAL and self._serves_our_group()):
                continue
            if number in FOR_THE_FIRST or (number in ENDING and self._is_session_leader):
                self._given_to_the_first.add(number)
                self._job.signal_first(number)
                self._tell(number, "first process")
            else:
                self._job.signal(number)
                self._tell(number, "process group")

    def _serves_our_group(self) -> bool:
        """Whether one of our own group was stopped because the job has the terminal; it gets that, and goes on."""
        terminal = self._terminal
        if terminal is None or not (terminal.is_of(self._job.group) or terminal.is_ours()):
            return False
        terminal.take_back(self._job.group)
        os.killpg(os.getpgrp(), signal.SIGCONT)
        return True

    def _tell(self, number: int, whom: str) -> None:
        if number in ENDING or number in FOR_THE_FIRST:
            self._note(f"{signal.Signals(number).name} was sent to oomtrace, and passed on to the job's {whom}")

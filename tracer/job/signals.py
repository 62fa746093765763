# SPDX-License-Identifier: Apache-2.0
"""Signals that reach the tracer while a job runs: taken as numbers from a descriptor, for the loop to forward."""

import os
import signal
from types import FrameType, TracebackType
from typing import final

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""What a person or a supervisor sends to end a program; the job is the program that is meant."""
FOR_THE_FIRST = (signal.SIGUSR1, signal.SIGUSR2)
"""What schedulers and trainers agree upon ("save a checkpoint, you will be ended"): Slurm, Lightning, submitit.

A process that does not expect them dies of them, so they are for the job's first process alone."""
STOPPING = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
FORWARDED = (*ENDING, *FOR_THE_FIRST, *STOPPING, signal.SIGCONT, signal.SIGWINCH)


@final
class SignalInbox:
    """Turns signals into bytes on a pipe. A context manager; only for the main thread.

    A signal that was ignored when we started (`nohup`, `&` in a script) stays ignored.
    """

    def __init__(self) -> None:
        self._read_fd, self._write_fd = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._before: dict[signal.Signals, object] = {}
        self._wakeup_before = -1

    def __enter__(self) -> "SignalInbox":
        self._wakeup_before = signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
        for number in FORWARDED:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, _noted)
        # Ignored SIGCHLD would make the kernel reap the job, and its status would be lost.
        self._before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, _noted)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)  # type: ignore[arg-type]
        signal.set_wakeup_fd(self._wakeup_before)
        os.close(self._read_fd)
        os.close(self._write_fd)

    def fileno(self) -> int:
        """Readable when a signal has come."""
        return self._read_fd

    def take(self) -> tuple[int, ...]:
        """The signals that came since the last call, in order."""
        taken = b""
        while True:
            try:
                more = os.read(self._read_fd, 4096)
            except BlockingIOError:
                return tuple(taken)
            taken += more


def stop_ourselves(number: signal.Signals) -> None:
    """Stop our process group by a stop signal, as the terminal does it; returns once we were continued.

    In an orphaned group (no shell is left to continue it) the kernel discards such a signal, and this returns at once.
    """
    handler = signal.signal(number, signal.SIG_DFL)
    try:
        # Delivered to the calling main thread before this call returns, and the kernel stops all threads with it.
        os.killpg(os.getpgrp(), number)
    finally:
        signal.signal(number, signal.SIG_DFL if handler is None else handler)


def end_by_interrupt() -> None:
    """End by SIGINT, as the job did: a shell then gives up its loop or script too; at exit code 130 not."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)


def _noted(_number: int, _frame: FrameType | None) -> None:
    """Nothing to do: the interpreter has written the number to the pipe."""

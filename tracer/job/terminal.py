# SPDX-License-Identifier: Apache-2.0
"""The terminal's foreground: handed to the job and taken back, as a shell does. Waits for nothing."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager


class Terminal:
    """Standard input, where it is our controlling terminal."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._us = os.getpgrp()

    @classmethod
    def of_stdin(cls, fd: int = 0) -> "Terminal | None":
        """The terminal, or `None` where standard input is none of ours."""
        try:
            os.tcgetpgrp(fd)
        except OSError:
            return None
        return cls(fd)

    def is_ours(self) -> bool:
        """Whether our process group is in the foreground."""
        return self._foreground() == self._us

    def give(self, group: int) -> None:
        """Put the job's process group into the foreground, if that is ours to give."""
        if self.is_ours():
            self._set(group)

    def take_back(self, group: int) -> None:
        """Put ourselves back, unless someone else than the job has the foreground by now."""
        if self._foreground() == group:
            self._set(self._us)

    def job_stopped(self, group: int) -> None:
        """The job was stopped (Ctrl-Z, or it read the terminal from the background): stop as well, then go on.

        Returns when the shell has continued us. Not to stop would leave the shell waiting for us forever.
        """
        if not self.is_ours():
            self.take_back(group)
            # The whole group, as the terminal does it: others of the same pipeline stop too. In an
            # orphaned group the kernel discards this signal, and the job simply goes on.
            os.killpg(self._us, signal.SIGTSTP)
        self.give(group)
        os.killpg(group, signal.SIGCONT)

    def _foreground(self) -> int:
        try:
            return os.tcgetpgrp(self._fd)
        except OSError:
            return -1

    def _set(self, group: int) -> None:
        with _blocked(signal.SIGTTOU):
            try:
                os.tcsetpgrp(self._fd, group)
            except OSError:
                # The terminal hung up, or the group is gone: nobody is left to hand anything to.
                return


@contextmanager
def _blocked(number: signal.Signals) -> Iterator[None]:
    # From the background tcsetpgrp raises SIGTTOU, which would stop us.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

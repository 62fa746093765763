# SPDX-License-Identifier: Apache-2.0
"""The terminal's foreground: handed to the job and taken back, as a shell does. Waits for nothing."""

import contextlib
import os
import signal
import stat
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tracer.job.identity import is_sudo


class Terminal:
    """Our controlling terminal."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._us = os.getpgrp()
        # A shell keeps these, and puts them back when a job crashes; from us it sees no crash but an exit.
        self._modes = self._read_modes() if self.is_ours() else None

    @classmethod
    def controlling(cls, path: str = "/dev/tty") -> "Terminal | None":
        """The terminal of our session, whatever standard input is; `None` where we have none."""
        try:
            return cls(os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
        except OSError:
            return None

    def close(self) -> None:
        """Give the descriptor back."""
        with contextlib.suppress(OSError):  # what a terminal that hung up may say to this
            os.close(self._fd)

    def is_ours(self) -> bool:
        """Whether our process group is in the foreground."""
        return self._foreground() == self._us

    def is_of(self, group: int) -> bool:
        """Whether that process group is in the foreground."""
        return self._foreground() == group

    def give(self, group: int) -> None:
        """Put the job's process group into the foreground, if that is ours to give."""
        if self.is_ours():
            self._set(group)

    def take_back(self, group: int) -> None:
        """Put ourselves back, unless someone else than the job has the foreground by now."""
        foreground = self._foreground()
        # A group without processes is what a shell of the job left behind that was killed.
        if foreground == group or (foreground > 0 and foreground != self._us and not _exists(foreground)):
            self._set(self._us)

    def restore_modes(self) -> None:
        """Set back what a program that was killed had changed (echo, line editing), if the foreground is ours."""
        if self._modes is not None and self.is_ours():
            with _blocked(signal.SIGTTOU), contextlib.suppress(OSError, termios.error):
                # At once: output that the terminal holds back (Ctrl-S) must not hold us.
                termios.tcsetattr(self._fd, termios.TCSANOW, self._modes)

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

    def _read_modes(self) -> list[Any] | None:
        try:
            return termios.tcgetattr(self._fd)
        except (OSError, termios.error):
            return None


def group_is_shared() -> bool:
    """Whether our process group seems to have other members than us and the sudo that started us.

    They are the rest of a pipeline, or a script: the terminal's keys are for them as well, and some
    read from it (`| less`).
    """
    leader = os.getpgrp()
    if leader != os.getpid() and not (leader == os.getppid() and is_sudo("/proc", leader)):
        return True
    return any(_is_pipe(fd) for fd in (0, 1))


def _is_pipe(fd: int) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(fd).st_mode)
    except OSError:
        return False


def _exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


@contextmanager
def _blocked(number: signal.Signals) -> Iterator[None]:
    # From the background tcsetpgrp raises SIGTTOU, which would stop us.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

# SPDX-License-Identifier: Apache-2.0
"""A process that goes on in the background: a session of its own, no terminal, and word to whoever started it."""

import os
import signal
from collections.abc import Callable
from typing import final

from tracer.errors import OomtraceError

DIED = 125
"""Exit code of a child that ended by something that nobody foresaw."""


@final
class Background:
    """The child's side: it shares its parent's terminal until it says that it is ready."""

    def __init__(self, fd: int) -> None:
        self._fd: int | None = fd

    def ready(self, word: str) -> None:
        """Let go of the terminal and the folder, and send the parent on its way with one line."""
        if self._fd is None:
            return
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        if null > 2:
            os.close(null)
        os.chdir("/")
        fd, self._fd = self._fd, None
        try:
            os.write(fd, word.encode("utf-8", "backslashreplace"))
        finally:
            os.close(fd)


def go_on_in_background(work: Callable[[Background], int]) -> tuple[int, str | None]:
    """Do the work in a child, and wait until that says that it is ready or has ended.

    Call it before any thread is started.

    Args:
        work: gives an exit code; must catch what may go wrong, and say so to the person at the terminal.

    Returns:
        its pid, and its word; without one it has ended, and the first number is its exit code.

    Raises:
        OomtraceError: no process can be made here.
    """
    read_fd, write_fd = os.pipe2(os.O_CLOEXEC)
    try:
        pid = os.fork()
    except OSError as error:
        os.close(read_fd)
        os.close(write_fd)
        raise OomtraceError(f"cannot start a process: {error.strerror}") from error
    if pid == 0:
        code = DIED
        try:
            os.close(read_fd)
            os.setsid()
            signal.signal(signal.SIGHUP, signal.SIG_IGN)  # whatever becomes of the terminal
            code = work(Background(write_fd))
        finally:
            os._exit(code)
    os.close(write_fd)
    try:
        with os.fdopen(read_fd, "rb") as pipe:
            word = pipe.read()
    except KeyboardInterrupt:
        os.kill(pid, signal.SIGTERM)  # not waited for yet, so nobody else has its pid
        os.waitpid(pid, 0)
        raise
    if word:
        return pid, word.decode("utf-8", "replace")
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return (code if code >= 0 else 128 - code), None

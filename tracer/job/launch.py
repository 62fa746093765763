# SPDX-License-Identifier: Apache-2.0
"""The job's first process: forked and held on a pipe, released into the program, waited for.

It is held so that it can be put into the tree filter and into its cgroup before it runs anything.
"""

import contextlib
import enum
import errno
import os
import signal
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tracer.errors import OomtraceError
from tracer.job.identity import Caller
from tracer.job.rlimits import set_rlimits

NOT_FOUND, NOT_EXECUTABLE, NOT_RELEASED = 127, 126, 125
"""Exit codes of a shell: no such program; there is one, but it cannot be run. The last is ours."""

_FAILURE = struct.Struct("=ii")
_MISSING = (errno.ENOENT, errno.ENOTDIR)
_NEVER = -1000
"""OOM_SCORE_ADJ_MIN, include/uapi/linux/oom.h: not even memory.oom.group takes such a process."""
# Ignored by every Python at start, and ignored signals survive exec: a job must not inherit that.
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


class Stage(enum.IntEnum):
    """What the held process was doing when it failed."""

    IDENTITY = 1
    EXEC = 2


@dataclass(frozen=True)
class StartFailure:
    """Why the job's program never ran."""

    stage: Stage
    errno: int

    def why(self, command: str) -> str:
        """One line for a person, about the command's first word."""
        if self.stage is Stage.EXEC and self.errno in _MISSING:
            return "not found, or the interpreter that it names is not" if "/" in command else "command not found"
        return ("cannot become the caller: " if self.stage is Stage.IDENTITY else "") + os.strerror(self.errno)


class Job:
    """A child of ours that leads its own process group. Made by `hold`."""

    def __init__(self, pid: int, hold_fd: int, failure_fd: int) -> None:
        self.pid = pid
        self.status: int | None = None
        """Wait status, once it has ended."""
        self.stopped_by: int | None = None
        """The signal that has stopped it."""
        self._hold_fd: int | None = hold_fd
        self._failure_fd: int | None = failure_fd
        self._pidfd = open_pidfd(pid)

    @property
    def group(self) -> int:
        """Its process group."""
        return self.pid

    def fileno(self) -> int | None:
        """A descriptor that is readable once it has ended; `None` where the kernel has no pidfd (before 5.3)."""
        return self._pidfd

    def release(self) -> None:
        """Let it run its program."""
        if self._hold_fd is not None:
            with contextlib.suppress(BrokenPipeError):  # Killed while it was held: `poll` will tell.
                os.write(self._hold_fd, b"\n")
            os.close(self._hold_fd)
            self._hold_fd = None

    def poll(self) -> bool:
        """Look once, without waiting; whether it has ended. Sets `stopped_by` while it is stopped."""
        while self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            if pid == 0:
                break
            self._take(status)
        return self.status is not None

    def wait(self) -> int:
        """Wait until it has ended, whatever else happens."""
        while self.status is None:
            self._take(os.waitpid(self.pid, 0)[1])
        return self.status

    def signal(self, number: int) -> bool:
        """Send a signal to its whole process group; whether there was one left."""
        try:
            os.killpg(self.group, number)
        except (ProcessLookupError, PermissionError):  # the latter: all of them have become someone else's
            return False
        return True

    def signal_first(self, number: int) -> None:
        """Send a signal to its first process alone, if that has not ended."""
        if self.status is None:  # not waited for yet, so the pid is still its own
            with contextlib.suppress(PermissionError):
                os.kill(self.pid, number)

    def start_failure(self) -> StartFailure | None:
        """Why the program never ran; `None` if it did. Meaningful once it has ended."""
        if self._failure_fd is None:
            return None
        try:
            raw = os.read(self._failure_fd, _FAILURE.size)
        except BlockingIOError:
            raw = b""  # A descendant of a failed start cannot exist; a pipe still open means that it runs.
        if len(raw) != _FAILURE.size:
            return None
        stage, number = _FAILURE.unpack(raw)
        return StartFailure(Stage(stage), number)

    def abandon(self) -> None:
        """End it if it is still held: its program never runs."""
        if self._hold_fd is not None:
            os.close(self._hold_fd)
            self._hold_fd = None
            self.wait()

    def close(self) -> None:
        """Give the descriptors back."""
        self.abandon()
        for fd in (self._failure_fd, self._pidfd):
            if fd is not None:
                os.close(fd)
        self._failure_fd = self._pidfd = None

    def _take(self, status: int) -> None:
        self.stopped_by = os.WSTOPSIG(status) if os.WIFSTOPPED(status) else None
        if os.WIFEXITED(status) or os.WIFSIGNALED(status):
            self.status = status


def hold(argv: tuple[str, ...], caller: Caller, *, output: Sequence[tuple[int, int]] = ()) -> Job:
    """Fork the job's first process and hold it.

    Call it before any thread is started: what a thread of ours had locked stays locked in the child.

    Args:
        output: descriptors of ours, each with the one that it is to be in the job; the rest it inherits.

    Raises:
        OomtraceError: no process can be made here.
    """
    candidates = _candidates(argv[0], caller.environ)
    hold_read, hold_write = os.pipe2(os.O_CLOEXEC)
    failure_read, failure_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    # Handlers of ours must not run in the child: they would write into our own pipe.
    mask = signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    try:
        pid = os.fork()
    except OSError as error:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        raise OomtraceError(f"cannot start a process: {error.strerror}") from error
    if pid == 0:
        try:
            os.close(hold_write)
            os.close(failure_read)
            _become_the_job(argv, candidates, caller, _Pipes(hold_read, failure_write, tuple(output)), mask)
        finally:
            os._exit(NOT_RELEASED)
    with contextlib.suppress(OSError):  # Here as well as there: whoever comes first.
        os.setpgid(pid, pid)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    os.close(hold_read)
    os.close(failure_write)
    return Job(pid, hold_write, failure_read)


def reset_oom_score_adj(pid: int, caller: Caller, *, proc_root: str = "/proc") -> str | None:
    """Give the held process what it would have had without us.

    Returns:
        What went wrong, one line; `None` when nothing had to be done or it was done.
    """
    wanted = caller.oom_score_adj
    path = f"{proc_root}/{pid}/oom_score_adj"
    try:
        with open(path, encoding="ascii") as file:
            if wanted is None or int(file.read()) == wanted:
                return None
        with open(path, "w", encoding="ascii") as file:
            file.write(str(wanted))
    except (OSError, ValueError) as error:
        return f"the job's oom_score_adj could not be set back to {wanted}: {error}"
    return None


def shun_oom_killer(*, proc_root: str = "/proc") -> bool:
    """Have the OOM killer pass this process over: short of memory, the witness must not be the victim.

    Call it after `hold`: a job that was forked before does not inherit it.

    Returns:
        Whether that was allowed: it needs CAP_SYS_RESOURCE.
    """
    try:
        with open(f"{proc_root}/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write(str(_NEVER))
    except OSError:
        return False
    return True


@dataclass(frozen=True)
class _Pipes:
    hold: int
    failure: int
    output: tuple[tuple[int, int], ...] = ()


def _become_the_job(
    argv: tuple[str, ...], candidates: tuple[str, ...], caller: Caller, pipes: _Pipes, mask: set[int]
) -> None:
    # Between fork and exec: nothing that takes a lock or allocates much. Never returns to the caller's code.
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        handler = signal.getsignal(number)
        if number in _IGNORED_BY_PYTHON or not isinstance(handler, signal.Handlers | None):
            signal.signal(number, signal.SIG_DFL)
    os.setpgid(0, 0)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    if not os.read(pipes.hold, 1):
        return
    stage = Stage.IDENTITY
    try:
        for fd, target in pipes.output:
            os.dup2(fd, target)
        set_rlimits(caller.rlimits)
        if not caller.is_us:
            os.setgroups(caller.groups)
            os.setresgid(caller.gid, caller.gid, caller.gid)
            os.setresuid(caller.uid, caller.uid, caller.uid)
        if caller.umask is not None:
            os.umask(caller.umask)
        stage = Stage.EXEC
        _exec(argv, candidates, caller.environ)
    except OSError as error:
        os.write(pipes.failure, _FAILURE.pack(stage, error.errno or errno.EIO))
        missing = stage is Stage.EXEC and error.errno in _MISSING
        os._exit(NOT_FOUND if missing else NOT_EXECUTABLE)


def _exec(argv: tuple[str, ...], candidates: tuple[str, ...], environ: Mapping[str, str]) -> None:
    # As execvp(3) and shells: the first that can be run; "permission denied" wins over "not found".
    refused: OSError | None = None
    missing = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    for path in candidates:
        try:
            os.execve(path, argv, environ)  # noqa: S606 - the caller's own command, and no shell is wanted
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError as error:
            # A folder in PATH that may not even be looked into says nothing about the command.
            if len(candidates) == 1 or os.path.lexists(path):
                refused = refused or error
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
            # A script without `#!`.
            os.execve("/bin/sh", ("/bin/sh", path, *argv[1:]), environ)  # noqa: S606 - as execvp(3) does
    raise refused or missing


def _candidates(command: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    if not command:
        return ()  # as an empty word is for a shell: found nowhere
    if "/" in command:
        return (command,)
    folders = environ.get("PATH", _DEFAULT_PATH).split(":")
    return tuple(os.path.join(folder or ".", command) for folder in folders)


def open_pidfd(pid: int) -> int | None:
    """A descriptor of this very process; `None` before 5.3, and where Python was built against older headers."""
    pidfd_open = getattr(os, "pidfd_open", None)
    try:
        return None if pidfd_open is None else int(pidfd_open(pid))
    except OSError:
        return None

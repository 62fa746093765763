# SPDX-License-Identifier: Apache-2.0
"""The job's output on its way to where it was to go, seen by us: terminals or pipes, and who copies (`copier`).

The copier is a process of its own, in a session of its own: neither Ctrl-C nor our death ends it. It goes on until
the last writer has closed its output, so that the job never writes to nobody because of us.
"""

import contextlib
import errno
import fcntl
import os
import select
import signal
import socket
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

from tracer.errors import InputError, NameTaken, OomtraceError, PermissionDenied, UsageError
from tracer.job import copier
from tracer.job.identity import Caller
from tracer.rights import acting_as

LOG_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
SIDE_BYTES = 4 << 20
"""Of what was read the tracer may be behind; more it will not see (the log will)."""
PATIENCE_S = 5.0
STREAMS = {1: "stdout", 2: "stderr"}
_SO_SNDBUFFORCE = 32


class Read(NamedTuple):
    """Something that the copier did."""

    at_ns: int
    """CLOCK_MONOTONIC."""
    data: bytes
    what: int
    missing: int
    """Bytes that the log misses so far."""
    unseen: int
    """Bytes of this stream that came too fast to be seen here, before this."""
    refused: int
    """Bytes that where they were to go took none of (a full disk)."""
    error: int


@final
class Channel:
    """One stream of the job, or both where they go to one place: then their order is kept."""

    def __init__(self, targets: tuple[int, ...], source: int, job_side: int, *, tty: bool) -> None:
        self.targets = targets
        self.stream = "both" if len(targets) > 1 else STREAMS[targets[0]]
        self.tty = tty
        self.source, self.job_side = source, job_side
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with contextlib.suppress(OSError):
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SIDE_BYTES)
            theirs.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, SIDE_BYTES)
        ours.setblocking(False)
        # Both stay open here: so ours never says that the other side is gone, which nobody could wait for.
        self.ours, self.theirs = ours, theirs
        self.dry = self.ended = False

    def fileno(self) -> int:
        """Readable when `read` has something."""
        return self.ours.fileno()

    def read(self, most: int = 64) -> Iterator[Read]:
        """What the copier has read since the last call."""
        for _ in range(most):
            try:
                packet = self.ours.recv(copier.HEAD.size + copier.CHUNK_BYTES)
            except BlockingIOError:
                return
            at_ns, missing, unseen, refused, error, what = copier.HEAD.unpack_from(packet)
            self.dry = self.dry or what == copier.DRY
            self.ended = self.ended or what == copier.END
            yield Read(at_ns, packet[copier.HEAD.size :], what, missing, unseen, refused, error)

    def ask(self) -> None:
        """Have it copy what is there by now, and say so: `dry`."""
        self.dry = False
        with contextlib.suppress(OSError):
            self.ours.send(b"?")

    def close(self) -> None:
        for one in (self.ours, self.theirs):
            one.close()


@dataclass(frozen=True)
class LogFile:
    """The log that was asked for, open and empty; the caller's."""

    fd: int
    path: str | None
    owner: tuple[int | None, int | None, Sequence[int] | None] = (None, None, None)

    @classmethod
    def create(cls, path: str, caller: Caller) -> "LogFile":
        """A new file, as a recording is made: mode 0600, the caller's, never over another.

        Raises:
            UsageError: that is no name.
            NameTaken: there is such a file already.
            PermissionDenied: the caller may not create it.
            InputError: it cannot be created for another reason.
        """
        owner = (caller.uid, caller.gid, caller.groups)
        if path in ("", "-"):
            raise UsageError("--log needs the name of a file" + (" (./- for one that is called so)" if path else ""))
        try:
            with acting_as(*owner):
                fd = os.open(path, LOG_FLAGS, 0o600)
        except FileExistsError as error:
            raise NameTaken("is not written over", path=path) from error
        except PermissionError as error:
            raise PermissionDenied(f"cannot create {path}: {error.strerror}") from error
        except (OSError, ValueError) as error:
            raise InputError(f"cannot be created: {getattr(error, 'strerror', error)}", path=path) from error
        with contextlib.suppress(OSError):
            os.fchmod(fd, 0o600)
        return cls(fd, path, owner)

    def discard(self) -> None:
        """Remove it: the job never ran. One that is no longer ours is left alone."""
        if self.path is None:
            return
        with contextlib.suppress(OSError), acting_as(*self.owner):
            named, ours = os.lstat(self.path), os.fstat(self.fd)
            if (named.st_dev, named.st_ino) == (ours.st_dev, ours.st_ino):
                os.unlink(self.path)


@final
class Tee:
    """What stands between the job and its output. Made before the job is, and before any thread."""

    def __init__(self, channels: tuple[Channel, ...], notes: tuple[str, ...]) -> None:
        self.channels = channels
        self.notes = notes
        """What is to be said before the start."""
        self.pid: int | None = None
        """Of the copier."""

    @classmethod
    def start(cls, log: LogFile, caller: Caller) -> "Tee":
        """Make the job's side of its output, and start the copier.

        Raises:
            OomtraceError: that is not possible here; nothing is left.
        """
        notes: list[str] = []
        channels: list[Channel] = []
        tee = cls((), ())
        try:
            for targets in _places():
                channels.append(_channel(targets, caller, notes))  # noqa: PERF401 - those made are closed if one fails
            tee = cls(tuple(channels), tuple(notes))
            if channels:
                tee.pid = _spawn(log.fd, channels)
                tee._await_copier()
        except OSError as error:
            for channel in channels:
                os.close(channel.job_side)
                channel.close()
            raise OomtraceError(f"the job's output cannot be copied: {error.strerror}") from error
        finally:
            for channel in channels:
                os.close(channel.source)
        return tee

    @property
    def for_the_job(self) -> tuple[tuple[int, int], ...]:
        """Each a descriptor of ours, and the one that it is to be in the job."""
        return tuple((channel.job_side, target) for channel in self.channels for target in channel.targets)

    def let_go(self) -> None:
        """The job has its side: ours would keep its output open for ever."""
        for channel in self.channels:
            if channel.job_side >= 0:
                os.close(channel.job_side)
                channel.job_side = -1

    def is_gone(self) -> bool:
        """Whether the copier has ended."""
        if self.pid is None:
            return True
        try:
            ended, _ = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            ended = self.pid
        if ended:
            self.pid = None
        return bool(ended)

    def _await_copier(self) -> None:
        """Until it runs, what the job wrote would have no reader, and its terminal could become somebody's own."""
        waiting, until = set(self.channels), time.monotonic() + PATIENCE_S
        while waiting and time.monotonic() < until and not self.is_gone():
            waiting -= set(select.select(waiting, [], [], 0.05)[0])
        if self.is_gone():
            raise OSError(errno.ECHILD, "the copier ended at once")

    def close(self) -> None:
        """Let go of it; it copies on as long as the job's processes write."""
        self.let_go()
        for channel in self.channels:
            channel.close()


def _places() -> list[tuple[int, ...]]:
    """The standard streams that the job would inherit, those that are one place together."""
    streams = [fd for fd in STREAMS if _is_inherited(fd)]
    if len(streams) == 2 and _place(1) == _place(2):
        return [(1, 2)]
    return [(fd,) for fd in streams]


def _is_inherited(fd: int) -> bool:
    """Whether whoever started us gave us this one: where that was closed, a file of ours may have its number."""
    try:
        return not fcntl.fcntl(fd, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
    except OSError:
        return False


def _place(fd: int) -> tuple[int, int, int]:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino, found.st_rdev


def _channel(targets: tuple[int, ...], caller: Caller, notes: list[str]) -> Channel:
    place = targets[0]
    source, job_side, tty = -1, -1, os.isatty(place)
    if tty:
        try:
            source, job_side = _terminal_like(place)
        except OSError as error:
            tty = False
            notes.append(f"no terminal can be made for the job's output ({error.strerror}): it gets a pipe instead")
    if not tty:
        source, job_side = os.pipe2(os.O_CLOEXEC)
    if not caller.is_us:
        # Else the job could not open /dev/stdout, which is its own without us.
        with contextlib.suppress(OSError):
            os.fchown(job_side, caller.uid, -1)
    return Channel(targets, source, job_side, tty=tty)


def _terminal_like(place: int) -> tuple[int, int]:
    """A terminal that passes on what is written to it as it is: the real one does the rest. Both its sides."""
    source, side = os.openpty()
    try:
        modes = termios.tcgetattr(place)
        modes[1] &= ~termios.OPOST
        modes[3] &= ~(termios.ECHO | termios.ECHONL)
        termios.tcsetattr(side, termios.TCSANOW, modes)
        fcntl.ioctl(source, termios.TIOCSWINSZ, fcntl.ioctl(place, termios.TIOCGWINSZ, b"\0" * 8))
        # To be written alone: nothing that is typed ever comes out of it, and a read would wait for ever.
        with contextlib.suppress(OSError):
            written_only = fcntl.ioctl(source, copier.TIOCGPTPEER, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)
            os.close(side)
            side = written_only
    except (OSError, termios.error) as error:
        os.close(source)
        os.close(side)
        raise OSError(errno.ENOTTY, str(error.args[-1])) from error
    return source, side


def _spawn(log_fd: int, channels: Sequence[Channel]) -> int:
    python = sys.executable or "/usr/bin/python3"
    words = [f"{c.source},{c.targets[0]},{c.theirs.fileno()},{int(c.tty)}" for c in channels]
    kept = [fd for c in channels for fd in (c.source, c.theirs.fileno())] + ([log_fd] if log_fd >= 0 else [])
    # It may need this to find its own libraries; and nothing else of ours.
    environ = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    return os.posix_spawn(
        python,
        [python, "-I", "-S", copier.__file__, str(log_fd), *words],
        environ,
        file_actions=[(os.POSIX_SPAWN_DUP2, fd, fd) for fd in kept],
        setsid=True,
        setsigmask=signal.valid_signals(),
    )

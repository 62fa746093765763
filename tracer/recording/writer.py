# SPDX-License-Identifier: Apache-2.0
"""Writes a recording: who owns the file, what happens on a full disk, when it is safe on disk."""

import contextlib
import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TypeVar, final

import msgspec

from tracer.errors import InputError, NameTaken, PermissionDenied
from tracer.events import (
    CgroupSample,
    Event,
    Header,
    PressureSample,
    ProcessSample,
    ReclaimSample,
    TracerCost,
    VmstatSample,
)
from tracer.recording.line import LineEncoder
from tracer.recording.reader import RecordingReader
from tracer.rights import acting_as

EventT = TypeVar("EventT", bound=Event)

FLUSH_BYTES = 128 * 1024
"""A buffer as full as this is written without being asked."""

HELD_BYTES = 8 * 1024 * 1024
"""What is kept in memory while the disk is full. Facts only: samples are let go at once."""

_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_Owner = tuple[int | None, int | None, Sequence[int] | None]
"""User, group and supplementary groups that a file is made as."""
_OURSELVES: _Owner = (None, None, None)
_SAMPLES = (ProcessSample, CgroupSample, PressureSample, ReclaimSample, VmstatSample, TracerCost)


@dataclass(frozen=True)
class Trouble:
    """The file cannot be written as it should."""

    why: str
    lost: int = 0
    """Events that are neither in the file nor held in memory. Their numbers are missing in the file."""


@final
class RecordingWriter:
    """Appends events. A full disk never ends the run that is watched: see `trouble`.

    One thread appends and flushes; another may call `sync` meanwhile.
    """

    def __init__(self, fd: int, path: str | None) -> None:
        self.path = path
        """`None`: an unlinked temporary file."""
        self.trouble: Trouble | None = None
        """What went wrong last, and what it cost so far; stays set."""
        self._fd = fd
        self._owner = _OURSELVES
        self._encoder = LineEncoder()
        self._buffer = bytearray()
        self._next_seq = 0
        self._size_bytes = os.fstat(fd).st_size
        self._refused = False

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        header: Header,
        *,
        uid: int | None = None,
        gid: int | None = None,
        groups: Sequence[int] | None = None,
    ) -> "RecordingWriter":
        """A new file, mode 0600, that begins with the header.

        With `uid`, `gid` and supplementary `groups` it is opened as that user and is theirs: a tracer
        that is root must not be led to write where its caller could not.

        Raises:
            NameTaken: there is such a file already.
            PermissionDenied: this user may not create it.
            InputError: it cannot be created for another reason.
        """
        name = os.fspath(path)
        try:
            with acting_as(uid, gid, groups):
                fd = os.open(name, _FLAGS, 0o600)
        except FileExistsError as error:
            raise NameTaken("a recording is never overwritten", path=name) from error
        except PermissionError as error:
            raise PermissionDenied(f"cannot create {name}: {error.strerror}") from error
        except (OSError, ValueError) as error:
            raise InputError(f"cannot be created: {getattr(error, 'strerror', error)}", path=name) from error
        return cls._begin(fd, name, header, (uid, gid, groups))

    @classmethod
    def anonymous(cls, header: Header) -> "RecordingWriter":
        """An unlinked temporary file, for a run that keeps no recording; `read_back` reads it.

        Raises:
            InputError: there is no place for one.
        """
        try:
            return cls._begin(_unlinked(), None, header, _OURSELVES)
        except OSError as error:
            raise InputError(f"no temporary file can be made: {_reason(error)}") from error

    @classmethod
    def _begin(cls, fd: int, name: str | None, header: Header, owner: _Owner) -> "RecordingWriter":
        try:
            os.fchmod(fd, 0o600)  # the umask may have taken the owner's own bits
            uid, gid, _ = owner
            have = os.fstat(fd)
            if (uid is not None and uid != have.st_uid) or (gid is not None and gid != have.st_gid):
                # A set-gid folder gives its own group; a file system without owners refuses, which is no harm.
                with contextlib.suppress(OSError):
                    os.fchown(fd, -1 if uid is None else uid, -1 if gid is None else gid)
            writer = cls(fd, name)
            writer._owner = owner
            writer.append(header)
            writer.flush()
        except BaseException:
            os.close(fd)
            raise
        return writer

    @property
    def events(self) -> int:
        """How many events were appended, the header among them."""
        return self._next_seq

    @property
    def size_bytes(self) -> int:
        """What the file holds and what still waits to be written."""
        return self._size_bytes + len(self._buffer)

    def append(self, event: EventT) -> EventT:
        """Take an event in; it is in the file after the next `flush`.

        Returns:
            the event with its place in the recording.
        """
        stamped = msgspec.structs.replace(event, seq=self._next_seq)
        self._next_seq += 1
        if self._refused and (isinstance(event, _SAMPLES) or len(self._buffer) > HELD_BYTES):
            self._lose(1)
        elif not self._encoder.append(stamped, self._buffer):
            self._note(f"an event of kind {type(event).__name__} does not fit into a line")
            self._lose(1)
        elif len(self._buffer) >= FLUSH_BYTES and not self._refused:
            self.flush()
        return stamped

    def flush(self) -> bool:
        """Hand what waits to the operating system; from then on a kill of this process loses nothing.

        Returns:
            whether all of it is there. If not, `trouble` says why, the file still ends with a whole
            line, and the rest is tried again at the next flush.
        """
        done = 0
        failure: OSError | None = None
        with memoryview(self._buffer) as view:
            while done < len(view) and failure is None:
                try:
                    with view[done:] as rest:
                        done += os.write(self._fd, rest)
                except OSError as error:
                    failure = error
        whole = done if failure is None else self._buffer.rfind(b"\n", 0, done) + 1
        if done > whole and not self._cut(self._size_bytes + whole):
            whole = done  # the half line stays, and its other half is what the next flush writes first
        del self._buffer[:whole]
        self._size_bytes += whole
        self._refused = failure is not None
        if failure is not None:
            self._note(_reason(failure))
        return failure is None

    def sync(self) -> None:
        """Wait until the disk has what was flushed; safe in another thread."""
        try:
            os.fdatasync(self._fd)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EROFS):  # no such thing on this file system
                self._note(_reason(error))

    def read_back(self) -> RecordingReader:
        """All that was appended so far, including what a full disk could not take.

        Raises:
            RecordingError: the header never reached the file.
        """
        self.flush()
        return RecordingReader(os.dup(self._fd), self.path, tail=bytes(self._buffer))

    def discard(self) -> None:
        """Remove the file: nothing happened that was worth a recording. One that is no longer ours is left alone."""
        if self.path is None:
            return
        with contextlib.suppress(OSError), acting_as(*self._owner):
            if self._is_ours(self.path):
                os.unlink(self.path)

    def in_place(self) -> bool:
        """Whether the file still lies where it was made; one that never had a name always does."""
        if self.path is None:
            return True
        try:
            with acting_as(*self._owner):
                return self._is_ours(self.path)
        except FileNotFoundError:
            return False
        except OSError:
            return True  # nobody can say

    def _is_ours(self, path: str) -> bool:
        named, ours = os.lstat(path), os.fstat(self._fd)
        return (named.st_dev, named.st_ino) == (ours.st_dev, ours.st_ino)

    def close(self) -> None:
        """Flush and sync what can be, and let go of the file."""
        if self._fd < 0:
            return
        if not self.flush():
            self._lose(self._buffer.count(b"\n"))
        self.sync()
        os.close(self._fd)
        self._fd = -1

    def __enter__(self) -> "RecordingWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _cut(self, size_bytes: int) -> bool:
        try:
            os.ftruncate(self._fd, size_bytes)
        except OSError:
            return False
        return True

    def _note(self, why: str) -> None:
        self.trouble = Trouble(why) if self.trouble is None else replace(self.trouble, why=why)

    def _lose(self, count: int) -> None:
        if self.trouble is not None:
            self.trouble = replace(self.trouble, lost=self.trouble.lost + count)


def _reason(error: OSError) -> str:
    return error.strerror or f"error {error.errno}"


def _unlinked() -> int:
    # /var/tmp before /tmp, which is often in memory: the last thing to use up here.
    for folder in ("/var/tmp", os.environ.get("TMPDIR"), "/tmp"):  # noqa: S108
        if folder:
            with contextlib.suppress(OSError):
                return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_APPEND | os.O_CLOEXEC, 0o600)
            with contextlib.suppress(OSError):  # a file system without O_TMPFILE
                name = f"{folder}/.oomtrace-{os.urandom(12).hex()}"
                fd = os.open(name, _FLAGS, 0o600)
                os.unlink(name)
                return fd
    return os.memfd_create("oomtrace", os.MFD_CLOEXEC)

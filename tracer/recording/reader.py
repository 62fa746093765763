# SPDX-License-Identifier: Apache-2.0
"""Reads a recording back, in bounded memory, and says what is missing or damaged in it."""

import os
import shlex
import stat
from collections.abc import Iterator
from typing import final

import msgspec

from tracer.errors import InputError, PermissionDenied, RecordingError
from tracer.events import RECORDING_SCHEMA, AnyEvent, Header
from tracer.recording.damage import Damage
from tracer.recording.line import BadLine, LineDecoder, NotUnderstood, intact
from tracer.recording.walk import Line, Walk, lines_of

_CHUNK_BYTES = 256 * 1024
_FAMILY = RECORDING_SCHEMA.partition("/")[0] + "/"


def read_recording(path: str | os.PathLike[str]) -> "RecordingReader":
    """Open a recording.

    Raises:
        InputError: there is no such file, or it is no regular file.
        PermissionDenied: it may not be read.
        RecordingError: it is not a recording, or of a newer format.
    """
    name = os.fspath(path)
    return RecordingReader(_opened(name), name)


def inspect_recording(path: str | os.PathLike[str]) -> "Inspection":
    """Open a recording to see what is wrong with it.

    Raises:
        InputError: there is no such file, or it is no regular file.
        PermissionDenied: it may not be read.
    """
    name = os.fspath(path)
    return Inspection(_opened(name), name)


def _opened(name: str) -> int:
    try:
        # O_NONBLOCK: a FIFO in its place must not block.
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except PermissionError as error:
        raise PermissionDenied(f"cannot read {name}: {error.strerror}", need="its owner or root") from error
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read: {getattr(error, 'strerror', error)}", path=name) from error
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        raise InputError("is a folder" if stat.S_ISDIR(mode) else "is no regular file", path=name)
    return fd


@final
class RecordingReader:
    """The events of a recording in their order, the header first; each iteration reads it anew.

    Takes the descriptor over. `damage` is complete once an iteration has come to its end.
    """

    def __init__(self, fd: int, path: str | None, *, tail: bytes = b"") -> None:
        self.path = path
        self.damage = Damage()
        self._fd = fd
        self._tail = tail
        self._decoder = LineDecoder()
        try:
            self.header: Header = self._read_header()
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> Iterator[AnyEvent]:
        walk = Walk(self._chunks(), self._decoder)
        yield from walk
        self.damage = walk.damage

    @property
    def torn(self) -> str | None:
        return self.damage.torn

    @property
    def damaged_lines(self) -> int:
        return self.damage.damaged_lines

    @property
    def gaps(self) -> int:
        return self.damage.gaps

    def close(self) -> None:
        """Let go of the file; an iteration is not possible any more."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> "RecordingReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def _read_header(self) -> Header:
        line, whole, _ = next(lines_of(self._chunks()), Line(b"", False, 0))
        if not line and not whole:
            raise RecordingError("is empty", path=self.path)
        schema = _schema_in(line)
        if schema is None:
            raise RecordingError("is not a recording of oomtrace", path=self.path)
        if schema != RECORDING_SCHEMA and not schema.startswith(RECORDING_SCHEMA + "."):
            raise RecordingError(f"is of format {schema[:60]!r}; this version reads {RECORDING_SCHEMA}", path=self.path)
        try:
            event = self._decoder.decode(line)
        except (BadLine, NotUnderstood):
            look = None if self.path is None else f"oomtrace verify {shlex.quote(self.path)}"
            what = "its first line, the header, is damaged"
            raise RecordingError(what, path=self.path, line=1, next_command=look) from None
        if not isinstance(event, Header):
            raise RecordingError("does not begin with a header", path=self.path, line=1)
        return event

    def _chunks(self) -> Iterator[bytes]:
        yield from _chunks_of(self._fd, self.path)
        if self._tail:
            yield self._tail


@final
class Inspection:
    """What can still be read of a recording, even one whose header is damaged; each iteration reads it anew.

    Takes the descriptor over. `walk` is complete once an iteration has come to its end.
    """

    def __init__(self, fd: int, path: str) -> None:
        self.path = path
        self.header: Header | None = None
        """`None`: it is damaged."""
        self._fd = fd
        self._decoder = LineDecoder()
        self._refused: RecordingError | None = None
        self.walk = Walk((), self._decoder)
        try:
            with RecordingReader(os.dup(fd), path) as reader:
                self.header = reader.header
        except RecordingError as error:
            self._refused = error
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> Iterator[AnyEvent]:
        """The events.

        Raises:
            RecordingError: there is not one, or the header is that of another format.
        """
        self._refuse_another_format()
        self.walk = Walk(_chunks_of(self._fd, self.path), self._decoder)
        yield from self.walk
        if self._refused is not None and not self.walk.events:
            raise self._refused

    def close(self) -> None:
        """Let go of the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> "Inspection":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _refuse_another_format(self) -> None:
        if self._refused is not None:
            first = next(lines_of(_chunks_of(self._fd, self.path)), Line(b"", False, 0))
            if intact(first.content) and _schema_in(first.content) is not None:
                raise self._refused


def _chunks_of(fd: int, path: str | None) -> Iterator[bytes]:
    offset = 0
    while True:
        try:
            chunk = os.pread(fd, _CHUNK_BYTES, offset)
        except OSError as error:
            raise InputError(f"cannot be read on: {error.strerror}", path=path) from error
        if not chunk:
            return
        offset += len(chunk)
        yield chunk


class _Named(msgspec.Struct):
    kind: str = ""
    schema: str = ""


def _schema_in(line: bytes) -> str | None:
    """What a first line says that it is; `None` when it is the line of something else."""
    try:
        schema = msgspec.json.decode(line, type=_Named).schema
    except (msgspec.MsgspecError, ValueError, RecursionError):
        # The start of ours all the same, but damaged or cut: that deserves its own words.
        return RECORDING_SCHEMA if line.startswith(b'{"kind":"Header"') else None
    return schema if schema.startswith(_FAMILY) else None

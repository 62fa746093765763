# SPDX-License-Identifier: Apache-2.0
"""Reads a recording back, in bounded memory, and says what is missing or damaged in it."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import msgspec

from tracer.errors import InputError, PermissionDenied, RecordingError
from tracer.events import RECORDING_SCHEMA, AnyEvent, Header
from tracer.recording.line import MAX_LINE_BYTES, BadLine, LineDecoder, NotUnderstood

_CHUNK_BYTES = 256 * 1024
_TOO_LONG = b"\0"
"""Stands for what was read of a line that is too long. Whatever follows it, that is no event."""

_FAMILY = RECORDING_SCHEMA.partition("/")[0] + "/"


@dataclass(frozen=True)
class Damage:
    """What is wrong with a recording; all of it belongs among the caveats."""

    torn: str | None = None
    """The file does not end as a recording does; at most its last event is lost."""
    damaged_lines: int = 0
    """Lines that are not what was written: holes, flipped bits, foreign text, too long."""
    gaps: int = 0
    """Places where numbers are missing."""
    missing: int = 0
    """Events that are missing there."""
    duplicates: int = 0
    """Lines with a number that had come already; left out."""
    unknown: int = 0
    """Whole lines of a kind or shape that this version does not know: a newer one wrote them."""

    def statements(self) -> tuple[str, ...]:
        """One sentence for each thing that is wrong."""
        said = [] if self.torn is None else [f"The recording has a torn end: {self.torn}."]
        if self.damaged_lines:
            said.append(f"{self.damaged_lines} damaged line(s) of the recording could not be read.")
        if self.missing:
            said.append(f"{self.missing} event(s) are missing in the recording, in {self.gaps} place(s).")
        if self.duplicates:
            said.append(f"{self.duplicates} line(s) of the recording repeat an earlier number and were left out.")
        if self.unknown:
            said.append(f"{self.unknown} event(s) of the recording are of a newer version and were not understood.")
        return tuple(said)


def read_recording(path: str | os.PathLike[str]) -> "RecordingReader":
    """Open a recording.

    Raises:
        InputError: there is no such file, or it is no regular file.
        PermissionDenied: it may not be read.
        RecordingError: it is not a recording, or of a newer format.
    """
    name = os.fspath(path)
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
    return RecordingReader(fd, name)


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
        count = _Count()
        bad_last: str | None = None
        for line, whole in self._lines():
            if bad_last is not None:
                count.damaged_lines += 1
                bad_last = None
            if not line and whole:
                bad_last = "an empty line"
                continue
            try:
                event: AnyEvent = self._decoder.decode(line)
            except NotUnderstood as other:
                count.unknown += count.in_order(other.seq)
            except BadLine:
                bad_last = "the last line is damaged" if whole else "the last line is cut"
            else:
                if not whole:
                    count.torn = "the last line lacks its newline; its event is whole"
                if count.in_order(event.seq):
                    yield event
        self.damage = Damage(
            torn=bad_last or count.torn,
            damaged_lines=count.damaged_lines,
            gaps=count.gaps,
            missing=count.missing,
            duplicates=count.duplicates,
            unknown=count.unknown,
        )

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
        line, whole = next(self._lines(), (b"", False))
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
            raise RecordingError("its first line, the header, is damaged", path=self.path, line=1) from None
        if not isinstance(event, Header):
            raise RecordingError("does not begin with a header", path=self.path, line=1)
        return event

    def _lines(self) -> Iterator[tuple[bytes, bool]]:
        """Each line without its newline, and whether it had one. One that is too long lacks its start."""
        rest = b""
        for chunk in self._chunks():
            if rest == _TOO_LONG and b"\n" not in chunk:
                continue
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield line, True
            if len(rest) > MAX_LINE_BYTES:
                rest = _TOO_LONG
        if rest:
            yield rest, False

    def _chunks(self) -> Iterator[bytes]:
        offset = 0
        while True:
            try:
                chunk = os.pread(self._fd, _CHUNK_BYTES, offset)
            except OSError as error:
                raise InputError(f"cannot be read on: {error.strerror}", path=self.path) from error
            if not chunk:
                break
            offset += len(chunk)
            yield chunk
        if self._tail:
            yield self._tail


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


class _Count:
    """What an iteration counts on its way."""

    def __init__(self) -> None:
        self.torn: str | None = None
        self.damaged_lines = self.gaps = self.missing = self.duplicates = self.unknown = 0
        self._next_seq = 0

    def in_order(self, seq: int) -> bool:
        """Take note of a line's number; whether it is a new one."""
        if seq < self._next_seq:
            self.duplicates += 1
            return False
        if seq > self._next_seq:
            self.gaps += 1
            self.missing += seq - self._next_seq
        self._next_seq = seq + 1
        return True

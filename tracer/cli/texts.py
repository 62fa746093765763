# SPDX-License-Identifier: Apache-2.0
"""Texts that somebody gives: files, packed ones, standard input, the clipboard. In chunks, whatever their size."""

import io
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import BinaryIO, NamedTuple, Protocol

from tracer.cli.console import command_line
from tracer.errors import InputError, PermissionDenied, UsageError
from tracer.events import TextKind

CHUNK_BYTES = 1 << 20
MOST_BYTES = 1 << 40
"""Of a file no more is read: a packed one can grow without end."""
_LOOKED_AT = 4096
_MOST_CONTROLS = 0.3
_LEAST_TEXT = 0.75
"""Of UTF-8; a log in an older encoding has few letters that are none."""
STDIN = "-"
_CLIPBOARDS: tuple[tuple[str, ...], ...] = (
    ("wl-paste", "--no-newline"),
    ("xclip", "-selection", "clipboard", "-o"),
    ("xsel", "--clipboard", "--output"),
    ("pbpaste",),
)
_CLIPBOARD_TIMEOUT_S = 10


class Given(NamedTuple):
    """A text, and as what it was given."""

    path: str
    """`-` for standard input; the clipboard has none."""
    kind: TextKind
    name: str
    content: bytes | None = None


class _Reads(Protocol):
    def read(self, size: int, /) -> bytes: ...


def chunks(given: Given) -> Iterator[bytes]:
    """Its bytes, unpacked.

    Raises:
        InputError: it is not there, no file, or damaged.
        PermissionDenied: it may not be read.
    """
    if given.content is not None:
        yield given.content
        return
    with _opened(given) as file:
        first = _read(file, given)
        if not first:
            raise InputError("there is nothing in it", path=given.name)
        unpacked = _unpacked(first, file, given)
        if unpacked is None:
            _refuse_what_is_no_text(first, given)
            yield first
            unpacked = file
        with nullcontext() if unpacked is file else _closed(unpacked):
            read_bytes = len(first)
            while read_bytes < MOST_BYTES:
                chunk = _read(unpacked, given)
                if not chunk:
                    return
                if unpacked is not file and read_bytes == len(first):
                    _refuse_what_is_no_text(chunk, given)
                read_bytes += len(chunk)
                yield chunk


def from_clipboard() -> bytes:
    """What was copied.

    Raises:
        UsageError: there is no tool for it, or it gives nothing.
    """
    import shutil
    import subprocess

    for command in _CLIPBOARDS:
        if shutil.which(command[0]) is None:
            continue
        try:
            done = subprocess.run(command, capture_output=True, timeout=_CLIPBOARD_TIMEOUT_S, check=True)
        except (OSError, subprocess.SubprocessError):
            continue
        if done.stdout:
            return done.stdout
        raise UsageError("the clipboard is empty", next_command="oomtrace explain FILE")
    names = ", ".join(command[0] for command in _CLIPBOARDS)
    raise UsageError(f"the clipboard cannot be read: it takes one of {names}", next_command="oomtrace explain -")


@contextmanager
def _opened(given: Given) -> Iterator[BinaryIO]:
    if given.path == STDIN:
        if sys.stdin is None:
            raise InputError("there is no standard input")
        yield sys.stdin.buffer
        return
    try:
        # A FIFO is read like any other; a terminal or a socket has nothing to read.
        file = open(given.path, "rb", buffering=0)  # noqa: SIM115 - closed below, whatever becomes of it
    except PermissionError as error:
        raise PermissionDenied(f"{given.name}: may not be read") from error
    except FileNotFoundError as error:
        raise InputError("there is no such file", path=given.name) from error
    except (OSError, ValueError) as error:
        what = "is a folder, and no text" if isinstance(error, IsADirectoryError) else getattr(error, "strerror", error)
        raise InputError(str(what), path=given.name) from error
    with file:
        if stat.S_ISDIR(os.fstat(file.fileno()).st_mode):
            raise InputError("is a folder, and no text", path=given.name)
        yield file


def _read(file: _Reads, given: Given) -> bytes:
    try:
        return file.read(CHUNK_BYTES)
    except IsADirectoryError as error:
        raise InputError("is a folder, and no text", path=given.name) from error
    except (OSError, EOFError, ValueError) as error:
        raise InputError(f"cannot be read on: {error}", path=given.name) from error
    except Exception as error:
        if type(error).__name__ in {"LZMAError", "error", "ZstdError"}:  # of modules that are loaded when needed
            raise InputError(f"is damaged: {error}", path=given.name) from error
        raise


class _Rest(io.BufferedIOBase):
    """A file of which the beginning was read already."""

    def __init__(self, first: bytes, file: BinaryIO) -> None:
        self._first, self._file = first, file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def read(self, size: int | None = -1, /) -> bytes:
        size = -1 if size is None else size
        if self._first:
            if size < 0:
                size = len(self._first)
            part, self._first = self._first[:size], self._first[size:]
            return part
        return self._file.read(size)


def _unpacked(first: bytes, file: BinaryIO, given: Given) -> _Reads | None:
    rest = _Rest(first, file)
    if first.startswith(b"\x1f\x8b"):
        import gzip

        return gzip.GzipFile(fileobj=rest)
    if first.startswith(b"\xfd7zXZ\0"):
        import lzma

        return lzma.LZMAFile(rest)  # type: ignore[arg-type] # it reads, and no more is asked of it
    if first.startswith(b"BZh"):
        import bz2

        return bz2.BZ2File(rest)
    if first.startswith(b"\x28\xb5\x2f\xfd"):
        return _zstd(rest, given)
    return None


def _zstd(rest: _Rest, given: Given) -> _Reads:
    from tracer.cli import zstd

    found = zstd.opened(rest)
    if found is None:
        raise InputError(
            "is packed with zstd, which takes the program zstd, the Python package zstandard, or Python 3.14",
            path=given.name,
            next_command="sudo apt-get install zstd",
        )
    return found


@contextmanager
def _closed(unpacked: _Reads) -> Iterator[None]:
    """Closes it at the end, where it is anything to be closed: the file below stays open."""
    try:
        yield
    finally:
        close = getattr(unpacked, "close", None)
        if close is not None:
            close()


def _refuse_what_is_no_text(first: bytes, given: Given) -> None:
    start = first[:_LOOKED_AT]
    if start.startswith(b'{"kind":"Header"'):
        next_command = command_line(("oomtrace", "report", given.path))
        raise InputError("is a recording, and no log", path=given.name, next_command=next_command)
    if start.startswith(b"\x7fELF") or start[:4] in (b"PK\3\4", b"\x89PNG", b"%PDF"):
        raise InputError("is no text", path=given.name)
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return  # UTF-16
    if len(start.decode("utf-8", "ignore").encode()) < _LEAST_TEXT * len(start):
        raise InputError("is no text", path=given.name)
    controls = len(start) - len(start.translate(None, _CONTROLS))
    if controls > _MOST_CONTROLS * len(start):
        raise InputError("is no text", path=given.name)


_CONTROLS = bytes(byte for byte in range(32) if byte not in b"\t\n\r\x1b\f\b") + b"\x7f"

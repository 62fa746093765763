# SPDX-License-Identifier: Apache-2.0
"""What zstd packed, unpacked bit by bit by whatever is there: Python 3.14, the package zstandard, the program zstd."""

import contextlib
import importlib
import shutil
import subprocess
import threading
from collections.abc import Callable
from typing import IO, Protocol

_CHUNK_BYTES = 1 << 17
_WAIT_S = 10


class Reads(Protocol):
    """As a binary file is read; what has a `close` needs it at the end."""

    def read(self, size: int, /) -> bytes: ...


class ZstdError(Exception):
    """The program could not unpack it."""


def opened(packed: Reads) -> Reads | None:
    """What it unpacks to; `None`: nothing here can read it. Memory is bounded by what zstd allows a window to have."""
    found: Reads
    with contextlib.suppress(ImportError):
        found = importlib.import_module("compression.zstd").ZstdFile(packed)
        return found
    with contextlib.suppress(ImportError):
        decompressor = importlib.import_module("zstandard").ZstdDecompressor()
        found = decompressor.stream_reader(packed, read_across_frames=True)
        return found
    program = shutil.which("zstd")
    return None if program is None else _Program(program, packed.read)


class _Program:
    """`zstd -dc`, fed by a thread of its own, since it writes before it has read all."""

    def __init__(self, program: str, read: Callable[[int], bytes]) -> None:
        self._child = subprocess.Popen(
            [program, "-dcq"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._out = self._child.stdout
        threading.Thread(target=_feed, args=(read, self._child.stdin), daemon=True).start()

    def read(self, size: int, /) -> bytes:
        """Some of what it wrote.

        Raises:
            ZstdError: it refused the rest.
        """
        data = self._out.read(size)
        if data:
            return data
        assert self._child.stderr is not None
        words = self._child.stderr.read(400).decode("utf-8", "replace").split("\n", 1)[0]
        if self._child.wait(_WAIT_S):
            raise ZstdError(words or "zstd gave up")
        return b""

    def close(self) -> None:
        """Nothing more is wanted of it."""
        with self._child as child:
            child.kill()


def _feed(read: Callable[[int], bytes], to: IO[bytes]) -> None:
    with contextlib.suppress(OSError, ValueError), to:  # it has ended, or nobody wants the rest
        while data := read(_CHUNK_BYTES):
            to.write(data)

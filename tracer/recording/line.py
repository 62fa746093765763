# SPDX-License-Identifier: Apache-2.0
"""One line of a recording: an event as JSON, closed by a checksum of itself."""

import math
import zlib
from typing import Any

import msgspec

from tracer.events import AnyEvent, Event

MAX_LINE_BYTES = 1024 * 1024
"""A longer line is never written, and never held in memory by a reader."""

MAX_NUMBER = 1 << 64

_SUFFIX = b',"crc":"%08x"}\n'
_SUFFIX_BYTES = len(_SUFFIX % 0) - 1


class _Head(msgspec.Struct):
    """What any line has, whatever its kind."""

    kind: str
    seq: int = 0


class LineEncoder:
    """Appends events to a buffer, each as one line."""

    def __init__(self) -> None:
        self._encoder = msgspec.json.Encoder()

    def append(self, event: Event, buffer: bytearray) -> bool:
        """Whether the event went into the buffer; one that is longer than a line may be does not."""
        start = len(buffer)
        try:
            self._encoder.encode_into(event, buffer, start)
        except UnicodeEncodeError:
            # Bytes that are no UTF-8 travel through Python as lone surrogates; JSON cannot hold those.
            self._encoder.encode_into(_printable(event), buffer, start)
        if len(buffer) - start > MAX_LINE_BYTES - _SUFFIX_BYTES:
            del buffer[start:]
            return False
        del buffer[-1:]
        with memoryview(buffer) as view:
            checksum = zlib.crc32(view[start:])
        buffer += _SUFFIX % checksum
        return True


class LineDecoder:
    """Reads lines back, strictly."""

    def __init__(self) -> None:
        self._decoder = msgspec.json.Decoder(AnyEvent)
        self._head = msgspec.json.Decoder(_Head)

    def decode(self, line: bytes) -> Any:
        """The event.

        Raises:
            BadLine: damaged.
            NotUnderstood: whole, but of a kind or shape that this version does not know.
        """
        if not intact(line):
            raise BadLine
        try:
            event = self._decoder.decode(line)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            pass
        else:
            if all(map(_can_be, msgspec.structs.astuple(event))):
                return event
        try:
            head = self._head.decode(line)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise BadLine from None
        raise NotUnderstood(head.seq)


class BadLine(Exception):
    """A line is not what was written."""


class NotUnderstood(Exception):
    """A line is whole, but its kind or shape is of another version."""

    def __init__(self, seq: int) -> None:
        super().__init__(seq)
        self.seq = seq


def intact(line: bytes) -> bool:
    """Whether a line, without its newline, is closed by its own checksum."""
    body = line[:-_SUFFIX_BYTES]
    return bool(body) and line[-_SUFFIX_BYTES:] == (_SUFFIX % zlib.crc32(body))[:-1]


def _can_be(value: Any) -> bool:
    """Whether a value is one that any source could have written: JSON has numbers of any length."""
    if isinstance(value, int):
        return -MAX_NUMBER < value < MAX_NUMBER
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, tuple):
        return all(map(_can_be, value))
    return all(map(_can_be, value.values())) if isinstance(value, dict) else True


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        errors = "surrogateescape" if _escaped(value) else "backslashreplace"
        return value.encode("utf-8", errors).decode("utf-8", "backslashreplace")
    if isinstance(value, tuple):
        return tuple(_printable(item) for item in value)
    if isinstance(value, dict):
        return {_printable(key): _printable(item) for key, item in value.items()}
    if isinstance(value, msgspec.Struct):
        names = value.__struct_fields__
        return msgspec.structs.replace(value, **{name: _printable(getattr(value, name)) for name in names})
    return value


def _escaped(text: str) -> bool:
    """Whether all surrogates are bytes that Python smuggled (U+DC80 to U+DCFF), not lone ones of other origin."""
    return all(not "\ud800" <= char <= "\udfff" or "\udc80" <= char <= "\udcff" for char in text)

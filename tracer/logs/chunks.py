# SPDX-License-Identifier: Apache-2.0
"""A text in chunks of bytes as whole lines, in bounded memory: of a line that does not end little is kept."""


class WholeLines:
    """One text.

    Args:
        line_bytes: so much is kept of a line of which only a part has come; the rest of it is dropped.
    """

    def __init__(self, line_bytes: int) -> None:
        self._line_bytes = line_bytes
        self._pending = b""

    def feed(self, chunk: bytes) -> bytes:
        """All lines that end in this chunk, with their ends; nothing where none does."""
        end = chunk.rfind(b"\n") + 1
        if not end:
            self._keep(chunk)
            return b""
        data = self._pending + chunk[:end] if self._pending else chunk[:end]
        self._pending = b""
        self._keep(chunk[end:])
        return data

    def end(self) -> bytes:
        """The last line, which has no end, with one; nothing where there is none."""
        data, self._pending = self._pending, b""
        return data + b"\n" if data else b""

    def _keep(self, part: bytes) -> None:
        room = self._line_bytes - len(self._pending)
        if room > 0:
            self._pending += part[:room]

# SPDX-License-Identifier: Apache-2.0
"""Where to look, and small files as text: every check takes its places as an argument, so that tests build trees."""

import os
from dataclasses import dataclass

MAX_BYTES = 256 * 1024


@dataclass(frozen=True)
class Places:
    """The roots of what is read."""

    proc: str = "/proc"
    sys: str = "/sys"
    dev: str = "/dev"
    etc: str = "/etc"
    run: str = "/run"

    @property
    def cgroup(self) -> str:
        return f"{self.sys}/fs/cgroup"


def read(path: str) -> str | None:
    """A small file's text; `None`: there is none, or it may not be read."""
    try:
        # O_NONBLOCK: what stands in its place may be a FIFO.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            return os.read(fd, MAX_BYTES).decode("utf-8", "backslashreplace")
        finally:
            os.close(fd)
    except (OSError, ValueError):
        return None


def word(path: str) -> str | None:
    """The first line, stripped; `None` where there is nothing."""
    text = (read(path) or "").strip()
    return text.split("\n", 1)[0].strip() or None


def number(path: str) -> int | None:
    """A file that holds one number."""
    text = word(path)
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def fields(path: str) -> dict[str, str]:
    """`Name: value` lines; the first of each name counts, since a process writes its own name above them."""
    found: dict[str, str] = {}
    for line in (read(path) or "").split("\n"):
        name, colon, value = line.partition(":")
        if colon:
            found.setdefault(name, value.strip())
    return found

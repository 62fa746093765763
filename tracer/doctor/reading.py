# SPDX-License-Identifier: Apache-2.0
"""Where to look, and small files as text: every check takes its places as an argument, so that tests build trees."""

from dataclasses import dataclass

from tracer.pseudofiles import read_bytes

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
    raw = read_bytes(path, MAX_BYTES)
    return None if raw is None else raw.decode("utf-8", "backslashreplace")


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

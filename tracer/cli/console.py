# SPDX-License-Identifier: Apache-2.0
"""What the command line knows of its output: width, colour, characters. Writes; lays nothing out."""

import contextlib
import os
import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TextIO


@dataclass(frozen=True)
class Look:
    """How a view is to be laid out for one stream."""

    width: int | None
    """`None`: no terminal, and nobody said; the view has its own."""
    color: bool
    ascii_only: bool


def look_of(stream: TextIO | None, environ: Mapping[str, str]) -> Look:
    """What suits a stream."""
    terminal = stream is not None and _is_terminal(stream)
    encoding = (getattr(stream, "encoding", None) or "ascii").lower().replace("-", "")
    return Look(
        width=width_of(stream, environ) if terminal else _columns(environ),
        color=terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb",
        ascii_only=not encoding.startswith(("utf", "cp65001")),
    )


def say(text: str, *, next_command: str | None = None) -> None:
    """One line for the person at the terminal, on standard error, and what to type now.

    Raises:
        OSError: it takes no more.
    """
    lines = [f"oomtrace: {text}"] + ([] if next_command is None else [f"try: {next_command}"])
    write(sys.stderr, "".join(f"{shown(line)}\n" for line in lines))


def try_to_say(text: str, *, next_command: str | None = None) -> None:
    """The same where a job is at stake: nobody who listens is no reason to give it up."""
    with contextlib.suppress(OSError, ValueError):
        say(text, next_command=next_command)


def write(stream: TextIO | None, text: str) -> None:
    """Write a text whole, whatever the stream's encoding can hold; a closed stream takes nothing.

    Raises:
        OSError: the stream takes no more (a full disk, a reader that left).
    """
    if stream is None or stream.closed:
        return
    encoding = stream.encoding or "ascii"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()


def shown(text: str) -> str:
    """Names of files and words of others in a line of ours: they may hold what moves a cursor."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def command_line(words: Iterable[str]) -> str:
    """A command to type, of the caller's own words: it may end up in a log, so what looks like a secret is masked."""
    from tracer.masking import mask_arguments

    return shlex.join(mask_arguments(words))


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


def width_of(stream: TextIO | None, environ: Mapping[str, str]) -> int | None:
    """What COLUMNS says, else what a terminal has."""
    columns = _columns(environ)
    if columns is not None or stream is None:
        return columns
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):
        return None


def _columns(environ: Mapping[str, str]) -> int | None:
    text = environ.get("COLUMNS", "")
    return int(text) if text.isdecimal() and text.isascii() and 0 < int(text) < 10_000 else None

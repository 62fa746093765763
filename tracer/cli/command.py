# SPDX-License-Identifier: Apache-2.0
"""What a subcommand is."""

import argparse
from collections.abc import Sequence
from typing import Protocol

Example = tuple[str, str]
"""What it is good for, and the command line to type; one that takes root begins with sudo."""


class Command(Protocol):
    """A small object; its docstring is its help. The first line stands in the list of commands.

    It may have `examples`, a sequence of `Example`: help and man page show them, and a test parses them.
    """

    name: str

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Declare its arguments."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it.

        Returns:
            the exit code.

        Raises:
            OomtraceError: it could not be done; `main` says so and chooses the exit code.
        """


def examples_of(command: Command) -> Sequence[Example]:
    """Those that it has."""
    found: Sequence[Example] = getattr(command, "examples", ())
    return found


def takes_root(command: Command) -> bool:
    """Whether it is shown with sudo; an example may show another command beside it."""
    return any(f"{line} ".startswith(f"sudo oomtrace {command.name} ") for _, line in examples_of(command))

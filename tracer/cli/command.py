# SPDX-License-Identifier: Apache-2.0
"""What a subcommand is."""

import argparse
from typing import Protocol


class Command(Protocol):
    """A small object; its docstring is its help. The first line stands in the list of commands."""

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

# SPDX-License-Identifier: Apache-2.0
"""`oomtrace help`, `completion`, `man`: what the parser says of itself, for a person, a shell and man(1)."""

import argparse
import sys

from tracer.cli.console import write

SHELLS = ("bash", "zsh", "fish")


class HelpCommand:
    """Show what a command does, with examples."""

    name = "help"
    examples = (("What can follow `oomtrace run`", "oomtrace help run"),)

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("about", metavar="COMMAND", nargs="?", help="the command; without it, all of them")

    def run(self, args: argparse.Namespace) -> int:
        program = args.program
        parser = program if args.about is None else program.children.choices.get(args.about)
        if parser is None:
            from tracer.cli.suggestions import unknown_topic

            raise unknown_topic(args.about, program)
        write(sys.stdout, parser.format_help())
        return 0


class CompletionCommand:
    """Print the completion of `oomtrace` for a shell.

    It completes commands, options, recordings for what reads them, and behind `run` the programs and files of
    the job. `scripts/setup` installs it for bash.
    """

    name = "completion"
    examples = (
        ("In ~/.bashrc", 'eval "$(oomtrace completion bash)"'),
        ("In ~/.zshrc, after compinit", 'eval "$(oomtrace completion zsh)"'),
        ("For fish, once", "oomtrace completion fish > ~/.config/fish/completions/oomtrace.fish"),
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help="bash, zsh or fish")

    def run(self, args: argparse.Namespace) -> int:
        from tracer.cli.completion import script

        write(sys.stdout, script(args.program, args.shell))
        return 0


class ManCommand:
    """Print the man page.

    All that the commands say of themselves, their options, their examples and the exit codes.
    `scripts/setup` installs it, so that `man oomtrace` finds it.
    """

    name = "man"
    examples = (("Read it without installing it", "oomtrace man | man -l -"),)

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """It has no arguments."""

    def run(self, args: argparse.Namespace) -> int:
        from tracer.cli.manpage import page

        write(sys.stdout, page(args.program))
        return 0

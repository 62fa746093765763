# SPDX-License-Identifier: Apache-2.0
"""The parser of the whole command line, and the help that it prints: made from the commands themselves."""

import argparse
import inspect
import os
import sys
import textwrap
from collections.abc import Sequence
from typing import NoReturn

from tracer import __version__
from tracer.cli.command import Command, Example, examples_of, takes_root
from tracer.cli.console import width_of
from tracer.errors import UsageError

TAGLINE = "What killed my training run?"
PURPOSE = """\
Watches the kernel (eBPF) while a job runs, and says with proof who was killed, by
whom, whose memory ran out and who grew. Most jobs that die of "Killed", -9 or 137
ran out of host RAM, which no GPU setting helps."""
FIRST_STEPS: tuple[tuple[str, str, str], ...] = (
    ("run", "sudo oomtrace run -- python train.py", "watch a job, judge it at the end"),
    ("report", "oomtrace report FILE.oomtrace", "its verdict again, anywhere"),
    ("explain", "oomtrace explain train.log dmesg.txt", "only logs, nothing was watched"),
    ("doctor", "sudo oomtrace doctor", "what works on this machine"),
)
OUTPUT = """\
The job's own output is untouched. The report goes to standard error, once the job
has ended; the recording to oomtrace-DATE-PID.oomtrace in the folder where you are,
readable by you alone. Nothing leaves the machine."""
EXIT_CODES: tuple[tuple[str, str], ...] = (
    ("0", "done"),
    ("1", "the thing asked about is not so"),
    ("2", "usage"),
    ("3", "the input cannot be read or understood"),
    ("4", "no permission"),
    ("5", "this kernel or machine cannot do it"),
    ("run", "the job's own status; 128 + signal; 126 and 127 as a shell has them;"),
    ("", "those above only if the job never ran"),
)
_WIDTH = 80


class Formatter(argparse.HelpFormatter):
    """Fills paragraph by paragraph; one with an indented line in it is laid out already."""

    def __init__(self, prog: str) -> None:
        super().__init__(
            prog, max_help_position=26, width=(width_of(sys.__stdout__, os.environ) or 80) - 2
        )  # without shutil

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        filled = []
        for part in text.split("\n\n"):
            laid_out = "\n " in part or part.startswith(" ")
            filled.append(part if laid_out else super()._fill_text(part, width, indent))
        return "\n\n".join(filled)


class Parser(argparse.ArgumentParser):
    """Raises its errors, so that they are told as all others are."""

    def __init__(self, *, prog: str, description: str | None = None, epilog: str | None = None, **_: object) -> None:
        # What it is given through `**_` are argparse's own wishes for subparsers, none of which concern us.
        super().__init__(
            prog=prog, description=description, epilog=epilog, formatter_class=Formatter, allow_abbrev=False
        )
        self.color = False  # Python 3.14 would colour it, and the man page is made from the same text

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, next_command=f"{self.prog} --help")


class Program(Parser):
    """The whole of it: `oomtrace --help` is a page of its own."""

    def __init__(self, commands: Sequence[Command]) -> None:
        super().__init__(prog="oomtrace")
        self.commands = tuple(commands)
        self.add_argument(
            "--version",
            action="version",
            version=f"oomtrace {__version__} (Python {sys.version.split()[0]})",
            help="show the version, and that of Python, and exit",
        )
        self.children = self.add_subparsers(
            title="commands", metavar="COMMAND", required=True, parser_class=Parser, prog="oomtrace"
        )
        for command in commands:
            text = description_of(command)
            child = self.children.add_parser(
                command.name, help=text.partition("\n")[0], description=text, epilog=_epilog(examples_of(command))
            )
            command.prepare_parser(child)
            child.set_defaults(its_command=command)

    def format_help(self) -> str:
        names = [command.name for command in self.commands]
        steps = [f"  {line:<38} {what}" for name, line, what in FIRST_STEPS if name in names]
        root = ", ".join(command.name for command in self.commands if takes_root(command))
        return "\n\n".join((
            "usage: oomtrace COMMAND [options]\n       oomtrace COMMAND --help | --version",
            _filled(f"{TAGLINE} {PURPOSE}"),
            "Begin with:\n" + "\n".join(steps),
            "All commands:\n" + "\n".join(map(_in_list, self.commands)),
            _filled(OUTPUT),
            _filled(f"Take root, to watch the kernel: {root}. The others read files, as any user and anywhere."),
            "Exit codes:\n" + "\n".join(f"  {code:<5}{meaning}" for code, meaning in EXIT_CODES),
        )) + "\n"  # fmt: skip


def options_of(parser: argparse.ArgumentParser) -> list[str]:
    """All spellings of its options, but for the hidden ones."""
    shown = (action for action in parser._actions if action.help is not argparse.SUPPRESS)  # noqa: SLF001 - see below
    return [option for action in shown for option in action.option_strings]


def takes_a_job(parser: argparse.ArgumentParser) -> bool:
    """Whether a command of the user's own stands at its end."""
    # There is no public way to list what a parser takes.
    return any(action.nargs == argparse.REMAINDER for action in parser._actions)  # noqa: SLF001


def astray(words: Sequence[str], job: Sequence[str], parser: argparse.ArgumentParser) -> str | None:
    """One line about an option of ours that stands behind the job's command, where the job gets it."""
    if "--" in words:
        return None
    ours = {option for option in options_of(parser) if option.startswith("--")} - {"--help"}
    lost = next((name for name in (word.partition("=")[0] for word in job[1:]) if name in ours), None)
    if lost is None:
        return None
    return f"{lost} stands behind {job[0]}, so the job gets it; what is for oomtrace stands before"


def description_of(command: Command) -> str:
    """Its docstring."""
    return inspect.getdoc(command) or ""


def _in_list(command: Command) -> str:
    first = description_of(command).partition("\n")[0]
    return _filled(first, initial_indent=f"  {command.name:<12}", subsequent_indent=" " * 14)


def _epilog(examples: Sequence[Example]) -> str | None:
    if not examples:
        return None
    shown = "\n".join(f"  {_filled(what + ':', subsequent_indent='  ')}\n    {line}" for what, line in examples)
    return f"examples:\n{shown}"


def _filled(text: str, *, initial_indent: str = "", subsequent_indent: str = "") -> str:
    return textwrap.fill(
        text,
        _WIDTH - 2,
        initial_indent=initial_indent,
        subsequent_indent=subsequent_indent,
        break_on_hyphens=False,
    )

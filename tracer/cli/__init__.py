# SPDX-License-Identifier: Apache-2.0
"""The command line: one file a subcommand, and the only place where an error becomes an exit code.

0 done; 1 the thing asked about is not so; 2 usage; 3 input unreadable or not understood; 4 no
permission; 5 this kernel cannot. `run` gives the job's own status.
"""

import contextlib
import os
import sys
from collections.abc import Sequence

from tracer.cli.codes import INTERRUPTED, exit_code_of
from tracer.cli.command import Command
from tracer.cli.console import say, write
from tracer.cli.parser import Program
from tracer.errors import OomtraceError

_BROKEN_PIPE = 128 + 13


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    _occupy_standard_descriptors()
    words = list(sys.argv[1:] if argv is None else argv)
    program = Program(_commands(words))
    try:
        code = _run(program, words)
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        return _BROKEN_PIPE
    except OomtraceError as error:
        return _explained(error, words, program)
    except OSError as error:  # the output: all else is translated where it happens
        code = _told(f"output: {error.strerror or error}", 3)
        _discard_output()
    return code


def __getattr__(name: str) -> tuple[Command, ...]:
    if name != "COMMANDS":
        raise AttributeError(name)
    return _commands([])


def _commands(words: Sequence[str]) -> tuple[Command, ...]:
    # `explain` answers at once: what others import takes longer than all that it does.
    if words[:1] == ["explain"]:
        from tracer.cli.explain import ExplainCommand

        return (ExplainCommand(),)
    from tracer.cli.commands import COMMANDS

    return COMMANDS


def _run(program: Program, words: list[str]) -> int:
    if not words:
        write(sys.stderr, program.format_help())
        return 2
    if words[0] not in (*program.children.choices, "-h", "--help", "--version"):
        from tracer.cli import suggestions

        why = suggestions.unknown_options if words[0].startswith("-") else suggestions.unknown_command
        raise why(words[:1], words, program)
    try:
        args, unknown = program.parse_known_args(words)
    except SystemExit as error:  # argparse has printed what --help or --version asked for
        return error.code if isinstance(error.code, int) else 2
    if unknown:
        from tracer.cli.suggestions import unknown_options

        raise unknown_options(unknown, words, program)
    args.words, args.program = words, program
    command: Command = args.its_command
    return command.run(args)


def _explained(error: OomtraceError, words: Sequence[str], program: Program) -> int:
    from tracer.cli.suggestions import next_command

    return _told(str(error), exit_code_of(error), next_command=next_command(error, words, program))


def _told(text: str, code: int, *, next_command: str | None = None) -> int:
    try:
        say(text, next_command=next_command)
    except (OSError, ValueError):
        _discard_output()
    return code


def _occupy_standard_descriptors() -> None:
    # Started with one of them closed, the recording would become standard error, and get its text. The
    # job is given what we were given: these are closed on exec.
    for fd in (0, 1, 2):
        if not _is_open(fd):
            os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)  # takes the lowest number that is free


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _discard_output() -> None:
    # The interpreter flushes once more on its way out, and would complain.
    null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):
            os.dup2(null, stream.fileno())
    os.close(null)

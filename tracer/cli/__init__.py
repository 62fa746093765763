# SPDX-License-Identifier: Apache-2.0
"""The command line: one file a subcommand, and the only place where an error becomes an exit code.

0 done; 1 the thing asked about is not so; 2 usage; 3 input unreadable or not understood; 4 no
permission; 5 this kernel cannot. `run` gives the job's own status.
"""

import argparse
import contextlib
import inspect
import os
import sys
from collections.abc import Sequence

from tracer import __version__
from tracer.cli.command import Command
from tracer.cli.console import say
from tracer.cli.doctor import DoctorCommand
from tracer.cli.report import ReportCommand
from tracer.cli.run import RunCommand
from tracer.cli.selftest import SelftestCommand
from tracer.errors import InputError, KernelUnavailable, OomtraceError, PermissionDenied, UsageError

_EXIT_CODES: tuple[tuple[type[OomtraceError], int], ...] = (
    (UsageError, 2),
    (InputError, 3),
    (PermissionDenied, 4),
    (KernelUnavailable, 5),
    (OomtraceError, 5),
)
_INTERRUPTED, _BROKEN_PIPE = 128 + 2, 128 + 13


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    _occupy_standard_descriptors()
    try:
        code = _run(argv)
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        return _BROKEN_PIPE
    except OomtraceError as error:
        return _told(str(error), next(code for kind, code in _EXIT_CODES if isinstance(error, kind)))
    except OSError as error:  # the output: all else is translated where it happens
        code = _told(f"output: {error.strerror or error}", 3)
        _discard_output()
    return code


def _run(argv: Sequence[str] | None) -> int:
    try:
        args = _parser().parse_args(argv)
    except SystemExit as error:  # argparse: --help, or wrong usage, of which it has told already
        return error.code if isinstance(error.code, int) else 2
    args.words = list(sys.argv[1:] if argv is None else argv)
    command: Command = args.its_command
    return command.run(args)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="oomtrace",
        description="What killed my training run: watches the kernel while a job runs, and says who, by whom and why.",
    )
    parser.add_argument("--version", action="version", version=f"oomtrace {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in (RunCommand(), ReportCommand(), DoctorCommand(), SelftestCommand()):
        text = inspect.getdoc(command) or ""
        child = commands.add_parser(command.name, help=text.partition("\n")[0], description=text)
        command.prepare_parser(child)
        child.set_defaults(its_command=command)
    return parser


def _told(text: str, code: int) -> int:
    try:
        say(text)
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

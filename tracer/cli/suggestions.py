# SPDX-License-Identifier: Apache-2.0
"""The next command to type, for whatever went wrong on the command line. Loaded only then."""

import contextlib
import difflib
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from tracer.cli.console import command_line
from tracer.cli.parser import Program, options_of, takes_a_job
from tracer.errors import InputError, KernelUnavailable, NameTaken, OomtraceError, PermissionDenied, UsageError

RECORDING = ".oomtrace"
_MAKE_A_FILE = ("--log", "--output", "--record")
_READ_A_RECORDING = ("export", "report")
_MOST_NAMES = 1000
_TO_BEGIN = "oomtrace --help"


def unknown_command(unknown: Sequence[str], words: Sequence[str], program: Program) -> UsageError:
    """The first word is none of ours: a slip of the fingers, a job without `run`, or a recording without `report`."""
    first = unknown[0]
    names = list(program.children.choices)
    if _is_recording(first):
        return UsageError(f"{first} is a recording, and no command", next_command=_line("report", *words))
    job = _job(words)
    # The same letters in another order come first: `reprot` is nearer to `repro` than to what was meant.
    swapped = [name for name in names if sorted(name) == sorted(first)]
    near = swapped or difflib.get_close_matches(first, names, n=1, cutoff=0.6)
    if near and not first.endswith(".py") and (job is None or not Path(first).exists()):
        return UsageError(f"there is no command {first!r}", next_command=_line(near[0], *words[1:]))
    if job is not None:
        return UsageError(f"{first!r} is a job, and no command of oomtrace", next_command=_run_line(job))
    return UsageError(f"there is no command {first!r}", next_command=_TO_BEGIN)


def unknown_topic(name: str, program: Program) -> UsageError:
    """Help was asked for what is no command."""
    near = difflib.get_close_matches(name, program.children.choices, n=1, cutoff=0.6)
    return UsageError(f"there is no command {name!r}", next_command=_line("help", *near))


def unknown_scenario(name: str, known: Iterable[str]) -> UsageError:
    """No scenario of `repro` is called so."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    line = f"sudo {_line('repro', near[0])}" if near else _line("repro", "--list")
    return UsageError(f"there is no scenario {name!r}", next_command=line)


def unknown_options(unknown: Sequence[str], words: Sequence[str], program: Program) -> UsageError:
    """Words that no parser took."""
    parser = program.children.choices.get(words[0], program)
    wrong, _, value = unknown[0].partition("=")
    if not wrong.startswith("-"):
        if words[0] == "attach" and wrong.isdecimal():
            return UsageError(f"{wrong}: a process is given with --pid", next_command=_line("attach", "--pid", wrong))
        return UsageError(f"{' '.join(unknown)}: more than is taken", next_command=f"{parser.prog} --help")
    options = {option.lstrip("-"): option for option in options_of(parser)}
    near = difflib.get_close_matches(wrong.lstrip("-"), options, n=1, cutoff=0.6)
    if near:
        right = options[near[0]] + (f"={value}" if value else "")
        next_command = _line(*(right if word == unknown[0] else word for word in words))
    elif takes_a_job(parser) and "--" not in words:
        said = f"there is no option {wrong}; options of the job stand behind its command"
        return UsageError(said, next_command=f"{parser.prog} -- COMMAND {wrong}")
    else:
        next_command = f"{parser.prog} --help"
    return UsageError(f"there is no option {wrong}", next_command=next_command)


def not_a_job(argv: Sequence[str]) -> str | None:
    """What to type where a job could not be started."""
    if argv[0].startswith("-"):
        return "oomtrace run --help"
    name, assigned, _ = argv[0].partition("=")
    if assigned and name.isidentifier():
        return "oomtrace run -- env NAME=VALUE COMMAND"
    if argv[0].endswith(RECORDING):
        return _line("report", argv[0])
    if argv[0].endswith(".py") and Path(argv[0]).exists():
        return _run_line(["python", *argv])
    return None


def next_command(error: OomtraceError, words: Sequence[str], program: Program) -> str | None:
    """The one that the error names itself, or what helps against its like."""
    known: str | None = getattr(error, "next_command", None)
    if known is not None:
        return known
    command = words[0] if words and words[0] in program.children.choices else None
    if isinstance(error, NameTaken) and command is not None:
        return _with_a_free_name(error.path, words)
    if isinstance(error, UsageError):
        return _TO_BEGIN if command is None else f"oomtrace {command} --help"
    if isinstance(error, InputError) and command in _READ_A_RECORDING:
        return _other_recording(error.path, words)
    if isinstance(error, PermissionDenied) and command in _READ_A_RECORDING and os.geteuid() != 0:
        return "sudo " + _line(*words)
    if isinstance(error, KernelUnavailable) and command != "doctor":
        return "sudo oomtrace doctor"
    return None


def _line(*words: str) -> str:
    return command_line(("oomtrace", *words))


def _run_line(job: Sequence[str]) -> str:
    return ("" if os.geteuid() == 0 else "sudo ") + _line("run", "--", *job)


def _job(words: Sequence[str]) -> list[str] | None:
    """The words as a job, if they look like one."""
    first = words[0]
    if first.endswith(".py"):
        return ["python", *words]
    if shutil.which(first) is not None:
        return list(words)
    return None


def _is_recording(name: str) -> bool:
    if name.endswith(RECORDING):
        return True
    with contextlib.suppress(OSError, ValueError), open(name, "rb") as file:
        return Path(name).is_file() and file.read(64).startswith(b'{"kind":"Header"')
    return False


def _with_a_free_name(path: str, words: Sequence[str]) -> str:
    """The same, with a name beside the one that is taken: `train.2.log` for `train.log`."""
    stem, suffix = os.path.splitext(path)
    free = next((name for n in range(2, _MOST_NAMES) if not os.path.lexists(name := f"{stem}.{n}{suffix}")), path)
    changed = list(words)
    for number, word in enumerate(words):
        if word == "--":
            break
        if word == path and words[number - 1] in _MAKE_A_FILE:
            changed[number] = free
        elif word in (f"{option}={path}" for option in _MAKE_A_FILE):
            changed[number] = word.removesuffix(path) + free
    by_sudo = os.geteuid() == 0 and "SUDO_UID" in os.environ
    return ("sudo " if by_sudo else "") + _line(*changed)


def _other_recording(path: str | None, words: Sequence[str]) -> str:
    """The recording that may have been meant: the newest beside it, and one with a like name rather than that."""
    folder = Path(path or ".").parent
    with contextlib.suppress(OSError, ValueError):
        there = sorted(folder.glob(f"*{RECORDING}"), key=lambda each: each.stat().st_mtime, reverse=True)
        names = [str(each) for each in there if str(each) != path]
        near = difflib.get_close_matches(path or "", names, n=1, cutoff=0.8)
        if near or names:
            return _line(*((near or names)[0] if word == path else word for word in words))
    return "oomtrace run --help"

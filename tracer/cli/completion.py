# SPDX-License-Identifier: Apache-2.0
"""Shell completion, by shtab from the parser; what completes a word is told from what its help calls it."""

import argparse
from typing import Any

import shtab

from tracer.cli.parser import Program

# Behind the job's command come its files; its own completion is asked where the shell lets us.
_PREAMBLE = {
    "bash": """\
_oomtrace_file_of_the_job() {
  case ${COMP_WORDS[COMP_CWORD-1]} in
    --|run) compgen -c -- "$1" ;;
  esac
  compgen -f -- "$1"
}
""",
    "zsh": """\
_oomtrace_the_job() {
  [[ $words[1] == -- ]] && { shift words; (( CURRENT-- )); }
  _normal
}
""",
    "fish": "",
}

_JOB: dict[str, Any] = {
    "bash": "_oomtrace_file_of_the_job",
    "zsh": "_oomtrace_the_job",
    "fish": "(__fish_complete_subcommand --fcs-skip=2)",
}

# shtab's own pattern for zsh, in brackets, is one of file attributes there.
_GLOB: Any = shtab.glob("*.oomtrace")
_RECORDING: dict[str, Any] = {**_GLOB, "zsh": "_files -g '*.oomtrace'"}


def script(program: Program, shell: str) -> str:
    """The script for one shell."""
    for parser in (program, *program.children.choices.values()):
        for action in parser._actions:  # noqa: SLF001 - argparse has no public way to list them; shtab does the same
            completed_by = _completed_by(action)
            if completed_by is not None:
                action.complete = completed_by  # type: ignore[attr-defined]
    return str(shtab.complete(program, shell, preamble=_PREAMBLE[shell]))


def _completed_by(action: argparse.Action) -> Any:
    if action.nargs == argparse.REMAINDER:
        return _JOB
    if action.metavar == "FILE":
        return shtab.FILE if action.option_strings else _RECORDING
    if action.metavar == "PATH":
        return shtab.DIRECTORY
    return None

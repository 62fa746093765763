# SPDX-License-Identifier: Apache-2.0
"""The man page, in roff, from the parser and the commands' own words.

Our own few lines, for what argparse-manpage makes has neither the commands' examples nor their
paragraphs, and comes as a source package alone, whose build nothing would pin.
"""

import argparse
import textwrap
from collections.abc import Iterator

from tracer import __version__
from tracer.cli.command import examples_of
from tracer.cli.parser import EXIT_CODES, FIRST_STEPS, OUTPUT, PURPOSE, TAGLINE, Program, description_of


def page(program: Program) -> str:
    """All of it."""
    names = program.children.choices
    lines = [
        f'.TH OOMTRACE 1 "" "oomtrace {__version__}" "User Commands"',
        ".SH NAME",
        rf"oomtrace \- {_escaped(TAGLINE)}",
        ".SH SYNOPSIS",
        r".B oomtrace",
        r"\fICOMMAND\fR [\fIoptions\fR]",
        ".SH DESCRIPTION",
        *_paragraphs(PURPOSE),
        ".PP",
        "Begin with:",
        *_verbatim([line for name, line, _ in FIRST_STEPS if name in names]),
        ".SH COMMANDS",
    ]
    for command in program.commands:
        parser = names[command.name]
        lines += [f".SS {_escaped(command.name)}", *_verbatim(parser.format_usage().partition(": ")[2].splitlines())]
        lines += _paragraphs(description_of(command))
        lines += _options(parser)
        for what, line in examples_of(command):
            lines += [".PP", *_text(f"{what}:"), *_verbatim([line])]
    lines += [".SH OUTPUT", *_paragraphs(OUTPUT), ".SH EXIT STATUS"]
    for code, meaning in EXIT_CODES:
        lines += [".TP", rf"\fB{code}\fR", *_text(meaning)] if code else _text(meaning)
    return "\n".join(lines) + "\n"


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    formatter = parser._get_formatter()  # noqa: SLF001 - as argparse's own help is made; there is no public way
    for action in parser._actions:  # noqa: SLF001 - the same
        if action.help is argparse.SUPPRESS or isinstance(action, argparse._HelpAction):  # noqa: SLF001
            continue
        yield ".TP"
        yield rf"\fB{_escaped(formatter._format_action_invocation(action))}\fR"  # noqa: SLF001
        yield from _text(formatter._expand_help(action) if action.help else "")  # noqa: SLF001


def _paragraphs(text: str) -> Iterator[str]:
    for number, paragraph in enumerate(text.split("\n\n")):
        if number:
            yield ".PP"
        if "\n " in paragraph or paragraph.startswith(" "):
            yield from _verbatim(paragraph.splitlines())
        else:
            yield from _text(paragraph)


def _verbatim(lines: list[str]) -> list[str]:
    return [".RS 4", ".nf", *map(_escaped, lines), ".fi", ".RE"]


def _text(text: str) -> list[str]:
    return [_escaped(line) for line in textwrap.wrap(text, 100, break_on_hyphens=False)]


def _escaped(text: str) -> str:
    # A hyphen of roff is no minus that can be copied; a dot or an apostrophe in front would be a request.
    escaped = text.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq").replace("`", r"\(ga")
    return r"\&" + escaped if escaped.startswith(".") else escaped

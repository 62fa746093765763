# SPDX-License-Identifier: Apache-2.0
"""`oomtrace explain`: only logs, no recording. Needs no root, no psutil, no bcc; imports only what it takes."""

import argparse
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tracer.errors import UsageError

if TYPE_CHECKING:
    from tracer.cli import texts

_STDIN = "-"


class ExplainCommand:
    """Say from logs alone what killed a job.

    Reads kernel logs, training logs, and what services and clusters write, in one file or many, packed or not; the
    kinds are recognised. A text can be forged and lines get lost, so the verdict is "likely" at most, and where
    nothing is settled it says which commands would settle it. Nothing leaves the machine.
    """

    name = "explain"
    examples = (
        ("A kernel log and a training log", "oomtrace explain --kernel-log dmesg.txt --train-log train.log"),
        ("Whatever was copied together", "oomtrace explain pasted.txt"),
        ("From a pipe", "oomtrace explain -"),
        ("To share", "oomtrace explain --redact train.log dmesg.txt"),
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("files", metavar="FILE", nargs="*", help="a log of any kind; - for standard input")
        parser.add_argument(
            "--kernel-log", metavar="FILE", action="append", default=[], help="one of the kernel (dmesg, journalctl -k)"
        )
        parser.add_argument(
            "--train-log",
            metavar="FILE",
            action="append",
            default=[],
            help="one of the job; what looks like the kernel's in it is not taken for that",
        )
        parser.add_argument("--clipboard", action="store_true", help="read what was copied")
        shown = parser.add_mutually_exclusive_group()
        shown.add_argument("--json", action="store_true", help="print the verdict as one JSON document")
        shown.add_argument("--brief", action="store_true", help="a few lines: cause, who, what to do")
        shown.add_argument(
            "--format", choices=("page", "editor"), default="page", help="editor: file:line:col: severity: message"
        )
        parser.add_argument(
            "--redact", action="store_true", help="replace hosts, users, paths, addresses and ids, to share it"
        )

    def run(self, args: argparse.Namespace) -> int:
        from tracer.cli.console import look_of, write
        from tracer.cli.texts import chunks
        from tracer.logs.texts import TextReader, numbered
        from tracer.verdict.textual.judge import explain

        passages, texts = [], []
        for place, given in enumerate(_given(args)):
            reader = TextReader(place, given.name, given.kind)
            for chunk in chunks(given):
                passages += reader.feed(chunk)
            passages += reader.end()
            texts.append(reader.text)
        ordered = numbered(passages)
        verdict = explain(ordered, texts)
        if args.redact:
            from tracer.verdict.textual.redact import redacted

            verdict = redacted(verdict, ordered, texts)
        if args.json:
            from tracer.views import document

            write(sys.stdout, document.render_document(verdict))
            return 0
        from tracer.views import explained

        look = look_of(sys.stdout, os.environ)
        if args.format == "editor":
            text = explained.render_editor(verdict)
        elif args.brief:
            text = explained.render_brief(verdict, ascii_only=look.ascii_only)
        else:
            text = explained.render(verdict, width=look.width, color=look.color, ascii_only=look.ascii_only)
        write(sys.stdout, text)
        return 0


def _given(args: argparse.Namespace) -> "Iterator[texts.Given]":
    from tracer.cli import texts

    paths = (*args.kernel_log, *args.train_log, *args.files)
    if not paths and not args.clipboard:
        raise UsageError(
            "which log? give files, - for standard input, or --clipboard", next_command="oomtrace explain -"
        )
    if paths.count(_STDIN) > 1:
        raise UsageError("standard input can be read once")
    for path in args.kernel_log:
        yield texts.Given(path, "kernel", _name(path))
    for path in args.train_log:
        yield texts.Given(path, "training", _name(path))
    for path in args.files:
        yield texts.Given(path, "mixed", _name(path))
    if args.clipboard:
        yield texts.Given("", "mixed", "clipboard", texts.from_clipboard())


def _name(path: str) -> str:
    return "standard input" if path == _STDIN else path

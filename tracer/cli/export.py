# SPDX-License-Identifier: Apache-2.0
"""`oomtrace export`: a recording in the form that another tool reads. Needs no root and no bcc."""

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from tracer.cli.console import command_line
from tracer.cli.outfile import new_file, standard_output
from tracer.errors import PackageMissing, UsageError
from tracer.job.identity import find_caller
from tracer.recording import read_recording

if TYPE_CHECKING:
    from tracer.cli.judging import Judged


@dataclass(frozen=True)
class Format:
    """One thing that a recording can be made into.

    Its writer is called once, with the judged recording and where to write bytes. It imports its view, and what that
    needs, when it is called and not before.
    """

    what: str
    write: Callable[["Judged", BinaryIO], None]
    binary: bool = False
    """Not for a terminal."""


def _html(judged: "Judged", out: BinaryIO) -> None:
    from tracer.verdict.dossier.compile import compile_dossier
    from tracer.views import webpage

    out.write(webpage.render(compile_dossier(judged.case, judged.report)).encode())


def _json(judged: "Judged", out: BinaryIO) -> None:
    from tracer.views import document

    out.write(document.render(judged.report).encode())


def _perfetto(judged: "Judged", out: BinaryIO) -> None:
    try:
        from tracer.views import perfetto
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"perfetto", "google"}:
            raise
        install = shlex.join((sys.executable, "-m", "pip", "install", "--upgrade", "perfetto"))
        raise PackageMissing("perfetto", "a trace for Perfetto", next_command=install) from error
    perfetto.write(judged.tracks, judged.rows(all_of_them=False), out)


def _csv(judged: "Judged", out: BinaryIO) -> None:
    from tracer.views import table

    utc, incident_ns = judged.case.story.utc, judged.tracks.at_ns
    table.write(judged.rows(all_of_them=True), out, utc=utc, incident_ns=incident_ns)


def _markdown(judged: "Judged", out: BinaryIO) -> None:
    from tracer.verdict.dossier.kernel_report import kernel_report
    from tracer.views import markdown

    said = kernel_report(judged.case.story, judged.tracks.at_ns)
    out.write(markdown.render(judged.report, said.lines).encode())


FORMATS: Mapping[str, Format] = {
    "html": Format("one page for people, which needs nothing but a browser", _html, binary=True),
    "perfetto": Format("a trace for ui.perfetto.dev and trace_processor", _perfetto, binary=True),
    "json": Format("the verdict as one JSON document", _json),
    "csv": Format("the samples as a table, one row for each sample and process, cgroup, ...", _csv),
    "markdown": Format("the report, for an issue tracker", _markdown),
}


class ExportCommand:
    """Make a recording into what another tool reads.

    Whatever the form, it says what `report` says: it is judged by the same rules. Nothing that is there is written
    over. Needs no root.
    """

    name = "export"
    examples = (
        ("A page for somebody who was not there", "oomtrace export run.oomtrace --to html --output run.html"),
        ("To look at it in ui.perfetto.dev", "oomtrace export run.oomtrace --to perfetto --output run.pftrace"),
        ("For an issue tracker", "oomtrace export run.oomtrace --to markdown"),
        ("Every sample, for a spreadsheet or pandas", "oomtrace export run.oomtrace --to csv --output run.csv"),
        ("The verdict for a program", "oomtrace export run.oomtrace --to json --output verdict.json"),
    )  # fmt: skip

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("recording", metavar="FILE", help="the recording")
        formats = "; ".join(f"{name}: {each.what}" for name, each in FORMATS.items())
        parser.add_argument("--to", metavar="FORMAT", choices=tuple(FORMATS), required=True, help=formats)
        parser.add_argument(
            "--output", metavar="FILE", default="-", help="a new file for it; `-`: standard output (default)"
        )

    def run(self, args: argparse.Namespace) -> int:
        form = FORMATS[args.to]
        if args.output == "-" and form.binary and sys.stdout is not None and sys.stdout.isatty():
            raise UsageError(
                f"{args.to} is not for a terminal",
                next_command=command_line(("oomtrace", "export", args.recording, "--to", args.to, "--output", "FILE")),
            )
        caller = find_caller(os.environ)
        with read_recording(args.recording) as recording:
            target = standard_output() if args.output == "-" else new_file(args.output, caller)
            with target as out:
                from tracer.cli.judging import Judged

                form.write(Judged(recording), out)
        return 0

# SPDX-License-Identifier: Apache-2.0
"""`oomtrace report`: a recording, judged and shown. Needs no root and no bcc."""

import argparse
import os
import sys

from tracer.cli.console import look_of, write
from tracer.recording import read_recording


class ReportCommand:
    """Show what a recording says.

    Reads a recording that `run` or `attach` made, on any machine, and judges it by the rules of this
    version. Needs no root.
    """

    name = "report"
    examples = (
        ("Show the verdict of a run", "oomtrace report oomtrace-20261130-204958-31872.oomtrace"),
        ("The same for a program", "oomtrace report --json run.oomtrace"),
        ("Which known signs of a host OOM kill it shows", "oomtrace report --confirm run.oomtrace"),
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("recording", metavar="FILE", help="the recording")
        parser.add_argument("--json", action="store_true", help="print the verdict as one JSON document")
        parser.add_argument(
            "--confirm",
            action="store_true",
            help="add the checklist of a host OOM kill: its known signs, each present, absent or not seen, and the "
            "commands that reproduce it and show that a change helped",
        )

    def run(self, args: argparse.Namespace) -> int:
        from tracer.cli import judging

        with read_recording(args.recording) as recording:
            report = judging.report_on(recording)
        if args.json:
            write(sys.stdout, judging.as_json(report))
        else:
            write(sys.stdout, judging.as_text(report, look_of(sys.stdout, os.environ), confirm=args.confirm))
        return 0

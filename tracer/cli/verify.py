# SPDX-License-Identifier: Apache-2.0
"""`oomtrace verify`: is a recording whole? Needs no root and no bcc."""

import argparse
import os
import sys

from tracer.cli.console import look_of, write
from tracer.recording import inspect_recording

DAMAGED = 1


class VerifyCommand:
    """Say whether a recording is whole, and where it is not.

    Reads all of it, and says of each place that is damaged where it is in the file, how many events are missing there
    and between which times. Ends with 0 if all that was written is there, with 1 if not, with 3 if there is no event
    that could be read. One that is still being written is not damaged, and is said to be unfinished.
    """

    name = "verify"
    examples = (
        ("After a full disk, or a copy of which you are not sure", "oomtrace verify run.oomtrace"),
        ("The same for a script; exit 0 if it is whole, 1 if not", "oomtrace verify --json run.oomtrace"),
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("recording", metavar="FILE", help="the recording")
        parser.add_argument("--json", action="store_true", help="print what was found as one JSON document")

    def run(self, args: argparse.Namespace) -> int:
        from tracer.cli import verifying

        with inspect_recording(args.recording) as recording:
            found = verifying.verified(recording)
        if args.json:
            write(sys.stdout, verifying.as_json(found))
        else:
            write(sys.stdout, verifying.as_text(found, look_of(sys.stdout, os.environ)))
        return DAMAGED if found.state == "damaged" else 0

# SPDX-License-Identifier: Apache-2.0
"""`oomtrace compare`: did the change take the growth of memory away? Needs no root."""

import argparse
import os
import sys

from tracer.cli.console import look_of, write
from tracer.recording import read_recording

NOT_FIXED = 1


class CompareCommand:
    """Say whether a change took the growth of memory away, from a recording before it and one after.

    Lays the two over each other by epochs or steps, or else by time, and compares how fast what cannot
    be given back grows, and how much that is at most. Ends with 0 if it is fixed, with 1 if it is not or
    cannot be told: then it says how much longer AFTER has to run. A raised limit takes no growth away.
    Needs no root.
    """

    name = "compare"
    examples = (
        ("Did the change help?", "oomtrace compare before.oomtrace after.oomtrace"),
        ("Make the second one without waiting for a kill",
         "sudo oomtrace run --until epochs=1 --record after.oomtrace -- ./train.sh"),
        ("In CI, be content with less growth than before",
         "oomtrace compare --accept reduced --json before.oomtrace after.oomtrace"),
    )  # fmt: skip

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("before", metavar="BEFORE", help="the recording that shows the growth")
        parser.add_argument("after", metavar="AFTER", help="the recording that was made with the change")
        parser.add_argument("--json", action="store_true", help="print the comparison as one JSON document")
        parser.add_argument(
            "--accept",
            choices=("fixed", "reduced"),
            default="fixed",
            help="what ends with 0: fixed alone (the default), or less growth as well",
        )

    def run(self, args: argparse.Namespace) -> int:
        from tracer.cli import comparing

        with read_recording(args.before) as before, read_recording(args.after) as after:
            found = comparing.compared(before, after)
        if args.json:
            write(sys.stdout, comparing.as_json(found))
        else:
            write(sys.stdout, comparing.as_text(found, look_of(sys.stdout, os.environ)))
        accepted = {"fixed", args.accept}
        return 0 if found.outcome in accepted else NOT_FIXED

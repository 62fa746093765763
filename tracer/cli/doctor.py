# SPDX-License-Identifier: Apache-2.0
"""`oomtrace doctor`: can a kill be proved here, and what is missing? Safe for any user; changes nothing."""

import argparse
import os
import sys

from tracer.cli.console import look_of, write

NOT_PROVABLE = 1


class DoctorCommand:
    """Say whether a kill could be proved on this machine, and what is missing.

    Looks at what the machine and this user allow, really loads the BPF programs for a moment, and says
    what the verdict on a kill would be. Changes nothing and leaves nothing attached; any user may ask.
    Ends with 0 if a kill would be proved here, with 1 if not.
    """

    name = "doctor"
    examples = (
        ("Whether a kill can be proved here", "sudo oomtrace doctor"),
        ("What could be seen without root", "oomtrace doctor"),
        ("The same for a script; exit 0 if it can, 1 if not", "sudo oomtrace doctor --json"),
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print what was found as one JSON document")

    def run(self, args: argparse.Namespace) -> int:
        from tracer.doctor.diagnose import diagnose
        from tracer.views import document, terminal

        diagnosis = diagnose(os.environ)
        if args.json:
            write(sys.stdout, document.render_document(diagnosis))
        else:
            look = look_of(sys.stdout, os.environ)
            text = terminal.render_diagnosis(diagnosis, width=look.width, color=look.color, ascii_only=look.ascii_only)
            write(sys.stdout, text)
        return 0 if diagnosis.complete else NOT_PROVABLE

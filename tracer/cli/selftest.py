# SPDX-License-Identifier: Apache-2.0
"""`oomtrace selftest`: one tiny real kill and one control, compared with what the kernel counted."""

import argparse
import os
import signal
import sys

from tracer.cli.console import look_of, write
from tracer.errors import PermissionDenied
from tracer.rights import as_root

DISAGREES = 1


class SelftestCommand:
    """Make one tiny real kill, and one control, and compare the verdicts with the kernel's counters.

    A small program grows in a memory cgroup of its own until the kernel kills it, while oomtrace
    watches; then it runs again with less. Needs root and some 30 MiB for a few seconds; touches
    nothing but its own cgroup, which is removed. Ends with 0 if everything agrees, with 1 if not.
    """

    name = "selftest"
    examples = (
        ("One real kill, one control, compared with the kernel's counters", "sudo oomtrace selftest"),
        ("Keep the recording of the kill, and look at it", "sudo oomtrace selftest --record kill.oomtrace"),
    )

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print the comparisons as one JSON document")
        parser.add_argument("--record", metavar="FILE", help="keep the recording of the kill (default: none is kept)")

    def run(self, args: argparse.Namespace) -> int:
        from tracer.repro.selftest import Interrupted, selftest
        from tracer.views import document, terminal

        if os.geteuid() != 0:
            raise PermissionDenied("cannot make a cgroup and watch the kernel", need=f"root: {as_root('selftest')}")
        try:
            result = selftest(os.environ, record=args.record)
        except Interrupted as stopped:
            return 128 + signal.Signals(stopped.signal)
        if args.json:
            write(sys.stdout, document.render_document(result))
        else:
            look = look_of(sys.stdout, os.environ)
            text = terminal.render_selftest(result, width=look.width, color=look.color, ascii_only=look.ascii_only)
            write(sys.stdout, text)
        return 0 if result.agrees else DISAGREES

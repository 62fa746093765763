# SPDX-License-Identifier: Apache-2.0
"""A tracer in small, for tests on a terminal: a job under job control, with no kernel and no recording."""

import os
import select
import signal
import sys

from tracer.job.control import JobControl
from tracer.job.identity import Caller
from tracer.job.launch import hold
from tracer.job.signals import SignalInbox, end_by_interrupt


def main(argv: list[str]) -> int:
    """Runs `argv` as the job, with notes about signals on standard error; its status."""
    caller = Caller(uid=os.getuid(), gid=os.getgid(), groups=tuple(os.getgroups()), environ=dict(os.environ))
    with SignalInbox() as inbox:
        job = hold(tuple(argv), caller)
        notes: list[str] = []
        control = JobControl(job, inbox, notes.append)
        control.start()
        while not control.look():
            select.select([inbox], [], [], 0.05)
            control.forward()
        control.end()
        job.close()
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    print("small tracer: end", file=sys.stderr)
    code = os.waitstatus_to_exitcode(job.wait())
    if code == -signal.SIGINT:
        end_by_interrupt()
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

# SPDX-License-Identifier: Apache-2.0
"""A job whose output is copied, without all the rest: `small_tee.py LOG SAYS COMMAND...`.

What was told of the output goes into SAYS as JSON lines: first the copier's pid, then each read, then how it ended.
"""

import json
import os
import sys
import time

from tracer.job.identity import find_caller
from tracer.job.launch import hold
from tracer.job.tee import LogFile, Tee


def main():
    log_path, says_path, *argv = sys.argv[1:]
    caller = find_caller({name: value for name, value in os.environ.items() if name != "SUDO_UID"})
    log = LogFile.create(log_path, caller) if log_path != "-" else LogFile(-1, None)
    tee = Tee.start(log, caller)
    with open(says_path, "w") as says:

        def say(**what):
            says.write(json.dumps(what) + "\n")
            says.flush()

        job = hold(tuple(argv), caller, output=tee.for_the_job)
        tee.let_go()
        say(copier=tee.pid, streams=[channel.stream for channel in tee.channels], notes=tee.notes, job=job.pid)
        job.release()
        status = job.wait()
        for channel in tee.channels:
            channel.ask()
        until = time.monotonic() + float(os.environ.get("PATIENCE", "30"))
        while not all(one.dry or one.ended for one in tee.channels) and time.monotonic() < until:
            for channel in tee.channels:
                for read in channel.read():
                    say(stream=channel.stream, at=read.at_ns, data=read.data.decode("latin-1"), what=read.what,
                        missing=read.missing, unseen=read.unseen, refused=read.refused, error=read.error)  # fmt: skip
            time.sleep(0.002)
        say(status=status, ended=[one.ended for one in tee.channels], dry=[one.dry for one in tee.channels])
        tee.close()
    return os.waitstatus_to_exitcode(status) & 0xFF


if __name__ == "__main__":
    os._exit(main())

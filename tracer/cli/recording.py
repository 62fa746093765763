# SPDX-License-Identifier: Apache-2.0
"""What `run` and `attach` share from the first line of the recording to the report at the end.

Judging and views are imported when the report is made and not before.
"""

import contextlib
import os
import shlex
import sys
import time
from collections.abc import Iterator
from typing import TextIO

from tracer.cli.console import look_of, try_to_say, write
from tracer.errors import InputError, PermissionDenied
from tracer.events import Header
from tracer.job.identity import Caller
from tracer.recording import RecordingWriter


def default_name() -> str:
    """Of a recording that nobody named."""
    return f"oomtrace-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.oomtrace"


@contextlib.contextmanager
def recording(target: str | None, header: Header, caller: Caller) -> Iterator[RecordingWriter]:
    """The recording, which is the caller's: `-` keeps none, `None` is a new file in this folder where that can be.

    Raises:
        OomtraceError: it cannot be made.
    """
    writer = _begun(target, header, caller)
    try:
        with writer:
            yield writer
    finally:
        _tell_of_trouble(writer)


def report_at_the_end(writer: RecordingWriter, caller: Caller, file: TextIO | None, exit_code: int) -> None:
    """Write the report, to standard error where no file is asked for.

    The job has ended, and its status must come through, whatever happens here.
    """
    try:
        _write_report(writer, caller, file)
    except (BrokenPipeError, KeyboardInterrupt):
        return
    except Exception as error:  # noqa: BLE001 - see above
        again = None if writer.path is None else f"oomtrace report {shlex.quote(writer.path)}"
        try_to_say(
            f"the report could not be made: {type(error).__name__}: {error} (exit {exit_code})", next_command=again
        )


def _begun(target: str | None, header: Header, caller: Caller) -> RecordingWriter:
    if target == "-":
        return RecordingWriter.anonymous(header)
    try:
        return RecordingWriter.create(
            target or default_name(), header, uid=caller.uid, gid=caller.gid, groups=caller.groups
        )
    except (PermissionDenied, InputError) as error:
        if target is not None:
            raise
        elsewhere = f"--record FILE, in a folder that user {caller.uid} can write in"
        try_to_say(f"no recording is kept: {error}; for one in another place: {elsewhere}")
        return RecordingWriter.anonymous(header)


def _tell_of_trouble(writer: RecordingWriter) -> None:
    """The file is closed, and what did not reach it is lost."""
    trouble = writer.trouble
    if trouble is not None and writer.path is not None:
        lost = f"; {trouble.lost} event(s) are missing in it" if trouble.lost else ""
        try_to_say(f"the recording {writer.path} could not be written as it should: {trouble.why}{lost}")


def _write_report(writer: RecordingWriter, caller: Caller, file: TextIO | None) -> None:
    from tracer.cli import judging

    with writer.read_back() as recorded:
        report = judging.report_on(recorded)
    stream = file or sys.stderr
    if stream is sys.stderr:
        write(stream, "\n")  # apart from the job's own output, which ends wherever it likes
    # The caller's own wishes: sudo keeps NO_COLOR and COLUMNS from us.
    write(stream, judging.as_text(report, look_of(stream, caller.environ)))

# SPDX-License-Identifier: Apache-2.0
"""`oomtrace stop`: end a recorder that `attach --detach` left in the background, and wait for its recording."""

import argparse
import contextlib
import os
import shlex
import signal
import time

from tracer.cli.console import shown
from tracer.errors import InputError, OomtraceError, PermissionDenied, UsageError
from tracer.job import pidfile
from tracer.job.launch import open_pidfd
from tracer.job.pidfile import Recorder

PATIENCE_S = 30.0
"""A recorder reads on for a moment, writes its report and waits for the disk."""
PAUSE_S = 0.05


class StopCommand:
    """End a recorder in the background; the job that it watches runs on.

    Without an argument the only one that runs. Waits until the recording is whole, and says where it is.
    """

    name = "stop"
    examples = (("End the only recorder that runs", "sudo oomtrace stop"),)

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        parser.usage = "oomtrace stop [PID|FILE] [--list]"
        parser.add_argument("which", nargs="?", metavar="PID|FILE", help="the recorder's pid, or its pid file")
        parser.add_argument("--list", action="store_true", help="only say which recorders run")

    def run(self, args: argparse.Namespace) -> int:
        folder = pidfile.folder_of(os.geteuid(), os.environ)
        if args.list:
            found = pidfile.running(folder)
            for _, recorder in found:
                print(_line(recorder))
            if not found:
                print(f"no recorder runs{_hint()}")
            return 0
        path, recorder = _which(args.which, folder)
        _end(path, recorder)
        if recorder.report is not None:
            print(f"stopped; the report is {shown(recorder.report)}")
        if recorder.recording is not None:
            print(f"stopped; the recording is {shown(recorder.recording)}")
            print(f"see it with: oomtrace report {shown(shlex.quote(recorder.recording))}")
        return 0


def _which(which: str | None, folder: str) -> tuple[str, Recorder]:
    if which is not None and not (which.isascii() and which.isdecimal()):
        recorder = pidfile.find(which)
        if recorder is None:
            raise InputError("its recorder does not run any more", path=which)
        return which, recorder
    found = pidfile.running(folder)
    if which is not None:
        for path, recorder in found:
            if recorder.pid == int(which):
                return path, recorder
        raise InputError(f"no recorder with pid {which} runs{_hint()}; those that do: oomtrace stop --list")
    if not found:
        raise InputError(f"no recorder runs{_hint()}")
    if len(found) > 1:
        pids = ", ".join(str(recorder.pid) for _, recorder in found)
        raise UsageError(
            f"{len(found)} recorders run; say which: oomtrace stop PID ({pids})", next_command="oomtrace stop --list"
        )
    return found[0]


def _end(path: str, recorder: Recorder) -> None:
    # Between the look at its lock and the signal it could end: a pidfd is of this very process.
    pidfd = open_pidfd(recorder.pid)
    try:
        if pidfile.find(path) != recorder:
            return  # it has just ended by itself
        if pidfd is not None:
            signal.pidfd_send_signal(pidfd, signal.SIGTERM)
        else:
            os.kill(recorder.pid, signal.SIGTERM)
    except ProcessLookupError:
        return
    except InputError:
        return  # it ended, and took its file with it
    except PermissionError as error:
        raise PermissionDenied(
            f"cannot end process {recorder.pid}: {error.strerror}", need="its owner or root"
        ) from error
    finally:
        if pidfd is not None:
            os.close(pidfd)
    deadline = time.monotonic() + PATIENCE_S
    while _runs(path, recorder):
        if time.monotonic() > deadline:
            raise OomtraceError(f"process {recorder.pid} was told to stop and is still busy; look again in a while")
        time.sleep(PAUSE_S)


def _runs(path: str, recorder: Recorder) -> bool:
    with contextlib.suppress(InputError, UsageError):
        return pidfile.find(path) == recorder
    return False


def _line(recorder: Recorder) -> str:
    where = "no recording" if recorder.recording is None else shown(recorder.recording)
    return f"{recorder.pid}  {shown(recorder.target)}, since {recorder.since}, {where}"


def _hint() -> str:
    others = os.geteuid() != 0 and os.path.isdir(pidfile.ROOTS_FOLDER)
    return " as this user (of root: sudo oomtrace stop --list)" if others else ""

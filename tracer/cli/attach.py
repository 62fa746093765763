# SPDX-License-Identifier: Apache-2.0
"""`oomtrace attach`: a job that runs already, watched from now on. Nothing that it does reaches the job."""

import argparse
import contextlib
import json
import os
import sys
import time

from tracer.cli import targets
from tracer.cli.codes import INTERRUPTED, exit_code_of
from tracer.cli.console import command_line, shown, try_to_say
from tracer.cli.recording import default_name, recording, report_at_the_end
from tracer.cli.watching import (
    Files,
    add_output_options,
    add_watching_options,
    hierarchy_here,
    known_of_group_kill,
    opened_files,
    say_if_kernel_is_not_watched,
)
from tracer.errors import KernelUnavailable, OomtraceError, UsageError
from tracer.job import pidfile
from tracer.job.cgroup import Hierarchy
from tracer.job.detach import Background, go_on_in_background
from tracer.job.identity import Caller, find_caller
from tracer.job.rlimits import raise_rlimits
from tracer.pipeline import AttachedPipeline, Attachment, Ending, Target
from tracer.pipeline.attach import joinable
from tracer.pipeline.clocks import header_now
from tracer.pipeline.machine import open_sources
from tracer.recording import RecordingWriter
from tracer.rights import as_root


class AttachCommand:
    """Watch a job that runs already, from now on.

    Finds all processes below a process, or in a cgroup, and watches them until the last one has ended (a cgroup:
    until it is removed), until Ctrl-C, or with --detach until `oomtrace stop`. The job is never touched: it does not
    end with the watching.

    A container, a Slurm job and a unit are found by the paths of their memory cgroups; no runtime is asked.
    """

    name = "attach"
    examples = (
        ("Watch a job that runs already, from now on", "sudo oomtrace attach --pid 4711"),
        ("Watch a container, and all that is started in it", "sudo oomtrace attach --container 3f2a91b0c1d2"),
        ("Watch one step of a Slurm job", "sudo oomtrace attach --slurm-job 51723.0"),
        ("Watch a service, in the background", "sudo oomtrace attach --unit train.service --detach"),
        ("Go on in the background, and end that later", "sudo oomtrace attach --pid 4711 --detach"),
    )  # fmt: skip

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        parser.usage = (
            "oomtrace attach (--pid PID ... | --container ID | --slurm-job ID[.STEP] |\n"
            "                        --unit NAME | --cgroup PATH) [options]"
        )
        parser.add_argument(
            "--pid", metavar="PID", action="append", default=[], help="a process, and all below it; may be repeated"
        )
        parser.add_argument(
            "--cgroup",
            metavar="PATH",
            help="all processes in a memory cgroup, as /proc/PID/cgroup shows it or as a folder in /sys/fs/cgroup",
        )
        parser.add_argument(
            "--container", metavar="ID", help="all processes in a container, by its id or the first digits of that"
        )
        parser.add_argument(
            "--slurm-job", metavar="ID[.STEP]", help="all processes of a Slurm job on this node, or of one step"
        )
        parser.add_argument("--unit", metavar="NAME", help="all processes of a systemd unit or slice")
        add_output_options(parser)
        parser.add_argument("--detach", action="store_true", help="go on in the background; end it with: oomtrace stop")
        parser.add_argument("--pid-file", metavar="FILE", help="say there who records, for as long as that goes on")
        add_watching_options(parser, require_bpf="fail where the kernel cannot be watched")

    def run(self, args: argparse.Namespace) -> int:
        if args.detach and args.record == "-" and args.report is None:
            raise UsageError("--detach without a recording needs --report FILE: else nothing is left of it")
        target = targets.find_target(
            targets.Asked(
                pids=args.pid,
                cgroup=args.cgroup,
                container=args.container,
                slurm_job=args.slurm_job,
                unit=args.unit,
            )
        )
        caller = find_caller(os.environ)
        raise_rlimits()
        if args.detach and args.record is None:
            # Of several in the background each has a file of its own, or none is started.
            args.record = default_name()
        if not args.detach:
            return _attach(target, args, caller, None)
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()  # else both processes write what waits in it
        pid, word = go_on_in_background(lambda background: _guarded(target, args, caller, background))
        if word is None:
            return pid
        return _tell(pid, json.loads(word), args)


def _tell(pid: int, word: dict[str, object], args: argparse.Namespace) -> int:
    try_to_say(f"attached to {word['target']}: {_processes(word['processes'])} under watch, by process {pid}")
    if args.record != "-":
        try_to_say(f"the recording is {shown(os.path.abspath(args.record))}")
    try_to_say(f"end it with: {'sudo ' if os.geteuid() == 0 and 'SUDO_UID' in os.environ else ''}oomtrace stop {pid}")
    return 0


def _guarded(target: Target, args: argparse.Namespace, caller: Caller, background: Background) -> int:
    """In the background: whatever goes wrong before it is ready is said at the terminal, as `main` would."""
    try:
        return _attach(target, args, caller, background)
    except OomtraceError as error:
        try_to_say(str(error), next_command=error.next_command)
        return exit_code_of(error)
    except KeyboardInterrupt:
        return INTERRUPTED


def _attach(target: Target, args: argparse.Namespace, caller: Caller, background: Background | None) -> int:
    with opened_files(args, caller) as files:
        return _Watch(target, args, caller, files).run(background)


class _Watch:
    """One watch, from the recording's first line to the report."""

    def __init__(self, target: Target, args: argparse.Namespace, caller: Caller, files: Files) -> None:
        self._target = target
        self._args = args
        self._caller = caller
        self._files = files
        self._what = targets.describe(target)
        self._record: str | None = args.record
        if args.detach and args.record != "-":
            self._record = os.path.abspath(args.record)
        self._notes: list[str] = []

    def run(self, background: Background | None) -> int:
        hierarchy = hierarchy_here()
        header = header_now(cgroup_version=None if hierarchy is None else hierarchy.version)
        self._note_what_is_known(hierarchy)
        with contextlib.ExitStack() as stack:
            # The pid files go last: who waits for them to go finds the recording whole.
            for path, owner in self._pid_files(background):
                stack.enter_context(pidfile.PidFile.create(path, self._who(), owner))
            writer = stack.enter_context(recording(self._record, header, self._caller))
            # Until it watches, a failure leaves no file behind.
            undo = stack.enter_context(contextlib.ExitStack())
            undo.callback(writer.discard)
            sources = joinable(stack.enter_context(open_sources(need_kernel=self._args.require_bpf)))
            if sources.kernel is None and self._args.require_bpf:
                raise KernelUnavailable(f"the kernel cannot be watched: {sources.why_no_kernel}")
            if say_if_kernel_is_not_watched(sources) and os.geteuid() != 0:
                try_to_say(f"for a proof: {as_root(command_line(self._args.words))}")
            plan = Attachment(
                target=self._target,
                notes=tuple(self._notes),
                not_ours=(os.getppid(),) if background is not None else (),
                ready=lambda count: self._ready(count, background),
                shuns_oom_killer=True,
            )
            undo.pop_all()
            pipeline = AttachedPipeline(plan, sources, writer)
            ending = pipeline.run()
            if background is None:
                self._say_why_it_ended(ending, pipeline.alive)
            stack.callback(self._report, writer, background)
        return 0

    def _note_what_is_known(self, hierarchy: Hierarchy | None) -> None:
        if targets.has_us_in_it(self._target):
            text = "oomtrace itself is among what it watches, and is left out"
            try_to_say(text)
            self._notes.append(text)
        self._notes += known_of_group_kill(hierarchy)

    def _pid_files(self, background: Background | None) -> list[tuple[str, Caller | None]]:
        files: list[tuple[str, Caller | None]] = []
        if background is not None:
            folder = pidfile.folder_of(os.geteuid(), os.environ)
            pidfile.make_folder(folder)
            pidfile.running(folder)  # removes what others left behind
            files.append((os.path.join(folder, f"{os.getpid()}.json"), None))
        if self._args.pid_file is not None:
            files.append((os.path.abspath(self._args.pid_file), self._caller))
        return files

    def _who(self) -> pidfile.Recorder:
        report = self._args.report
        return pidfile.Recorder(
            pid=os.getpid(),
            target=self._what,
            recording=None if self._record in ("-", None) else os.path.abspath(self._record),
            report=None if report is None else os.path.abspath(report),
            since=time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
        )

    def _ready(self, count: int, background: Background | None) -> None:
        self._files.say_ready(os.getpid())
        if background is not None:
            background.ready(json.dumps({"target": self._what, "processes": count}))
            return
        waits = " (it waits for the first)" if not count and self._target.cgroup is not None else ""
        try_to_say(f"attached to {self._what}: {_processes(count)} under watch{waits}")
        try_to_say("Ctrl-C ends the watching, never the job")

    def _say_why_it_ended(self, ending: Ending, alive: int) -> None:
        still = "" if not alive else "; 1 process of it still runs" if alive == 1 else f"; {alive} of it still run"
        try_to_say(f"{self._what}: {ending.value}{still}")

    def _report(self, writer: RecordingWriter, background: Background | None) -> None:
        if background is None or self._files.report is not None:
            report_at_the_end(writer, self._caller, self._files.report, 0)


def _processes(count: object) -> str:
    return "1 process" if count == 1 else f"{count} processes"

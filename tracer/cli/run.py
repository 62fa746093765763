# SPDX-License-Identifier: Apache-2.0
"""`oomtrace run`: a job under watch, and what became of it. Judging and views are loaded when the job has ended."""

import argparse
import atexit
import contextlib
import os
import secrets
import signal
import time
from dataclasses import replace

from tracer.cli.console import command_line, try_to_say
from tracer.cli.leftovers import left_in
from tracer.cli.parser import astray
from tracer.cli.recording import recording, report_at_the_end
from tracer.cli.sizes import parse_limit
from tracer.cli.until import add_until_options, parse_until
from tracer.cli.watching import (
    Files,
    add_output_options,
    add_watching_options,
    hierarchy_here,
    known_of_group_kill,
    opened_files,
    say_if_kernel_is_not_watched,
)
from tracer.errors import CgroupUnavailable, OomtraceError, PermissionDenied, UsageError
from tracer.events import Note
from tracer.job.cgroup import Hierarchy, JobCgroup, Limits
from tracer.job.identity import Caller, closed_to, find_caller, find_user
from tracer.job.launch import StartFailure
from tracer.job.limits import make_cgroup, never_hit
from tracer.job.rlimits import raise_rlimits
from tracer.job.signals import end_by_interrupt
from tracer.job.tee import LogFile, Tee
from tracer.job.wrapped import recognise
from tracer.masking import mask_arguments
from tracer.pipeline import Pipeline, Plan, Sources
from tracer.pipeline.clocks import header_now
from tracer.pipeline.machine import open_sources
from tracer.pipeline.until import Until
from tracer.rights import as_root
from tracer.units import MIB, format_bytes

MIN_MEMORY_BYTES = MIB
"""In less no program starts."""
AT_THE_END_S, AFTER_THE_REPORT_S = 0.2, 6.0
"""So long is waited for what is left of the job, so that its cgroup can be removed."""


def is_root() -> bool:
    """Whether the job can be started as whoever called."""
    return os.geteuid() == 0


class RunCommand:
    """Run a job under watch, and say what became of it.

    The job keeps its own output, terminal and exit status, and runs as the user who called sudo. The
    report goes to standard error when the job has ended. Without root it does what it may: a kill is
    then likely at most, by the kernel's log and the counts of the job's cgroup.
    """

    name = "run"
    examples = (
        ("Watch a job on all GPUs of this machine", "sudo oomtrace run -- torchrun --nproc-per-node 8 train.py"),
        ("Find out whether it fits into 64 GiB", "sudo oomtrace run --memory-max 64G -- python train.py"),
        ("Keep report and recording where you want them",
         "sudo oomtrace run --report why.txt --record run.oomtrace -- ./train.sh"),
        ("Keep the job's output as well, and see it beside what the kernel did",
         "sudo oomtrace run --log train.log -- python train.py"),
        ("See in one epoch where its memory is going, without waiting for a kill",
         "sudo oomtrace run --until epochs=1 --for 2h -- python train.py"),
    )  # fmt: skip

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        parser.usage = "oomtrace run [options] [--] COMMAND [ARGUMENT ...]"
        job = parser.add_argument_group("limits and owner of the job")
        job.add_argument(
            "--memory-max",
            metavar="SIZE",
            help="run the job in a memory cgroup of its own with this limit (64G, 512M, max)",
        )
        job.add_argument("--swap-max", metavar="SIZE", help="limit its swap as well (0: none)")
        job.add_argument(
            "--user", metavar="NAME", help="run the job as this user (default: whoever called sudo, else as we are)"
        )
        written = parser.add_argument_group("what is written")
        add_output_options(written)
        written.add_argument(
            "--log",
            metavar="FILE",
            help="copy the job's own output into a new file as well; its lines that matter stand in the report",
        )
        add_until_options(parser.add_argument_group("a job that need not go to its end"))
        add_watching_options(
            parser.add_argument_group("watching"), require_bpf="do not start the job where the kernel cannot be watched"
        )
        parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND", help="the job, with its arguments")

    def run(self, args: argparse.Namespace) -> int:
        argv = tuple(args.command[1:] if args.command[:1] == ["--"] else args.command)
        if not argv:
            raise UsageError("no command to run", next_command="oomtrace run -- python train.py")
        limits = Limits(
            memory_bytes=None if args.memory_max is None else _sensible(parse_limit(args.memory_max)),
            swap_bytes=None if args.swap_max is None else parse_limit(args.swap_max),
            own=args.memory_max is not None or args.swap_max is not None,
        )
        until = parse_until(args.until, args.lasting)
        lost = astray(args.words, argv, args.program.children.choices[self.name])
        if lost is not None:
            try_to_say(lost)
        caller = find_caller(os.environ) if is_root() else _ourselves()
        if args.user is not None:
            caller = find_user(args.user, caller, os.environ)
        with opened_files(args, caller) as files:
            return _Run(argv, args, caller, files).run(limits, until)


class _Run:
    """One run, from the recording's first line to the report."""

    def __init__(self, argv: tuple[str, ...], args: argparse.Namespace, caller: Caller, files: Files) -> None:
        self._argv = argv
        self._args = args
        self._caller = caller
        self._files = files
        wrapped = recognise(argv)
        elsewhere = () if wrapped is None else wrapped.lines
        known = tuple(text for text in (caller.caveat, closed_to(caller)) if text is not None)
        self._said = (*known, *elsewhere)
        self._notes: list[str] = [*known, *(("; ".join(elsewhere),) if elsewhere else ())]

    def run(self, limits: Limits, until: Until | None = None) -> int:
        # The caller's own, where they are known, come before what we were started with.
        self._caller = replace(self._caller, rlimits={**raise_rlimits(), **self._caller.rlimits})
        hierarchy = hierarchy_here(needed=limits != Limits())
        header = header_now(cgroup_version=None if hierarchy is None else hierarchy.version)
        with contextlib.ExitStack() as stack:
            writer = stack.enter_context(recording(self._args.record, header, self._caller))
            kept = stack.enter_context(contextlib.ExitStack())
            # Until the job runs, a failure leaves no file behind.
            undo = stack.enter_context(contextlib.ExitStack())
            undo.callback(writer.discard)
            log = self._log(kept, undo, until)
            sources = self._opened_sources(stack)
            cgroup = self._cgroup(hierarchy, limits)
            try:
                plan = replace(self._plan(cgroup, hierarchy, sources), until=until, say=try_to_say)
                outcome = Pipeline(self._with_output(plan, log), sources, writer).run()
            except OSError as error:  # not even the few descriptors and the process that it takes
                raise OomtraceError(f"the job was not started: {error.strerror}") from error
            finally:
                left = None if cgroup is None else left_in(cgroup, AT_THE_END_S)
            if outcome.failure is not None:
                self._explain(outcome.failure)
                return outcome.exit_code
            undo.pop_all()
            if outcome.log_trouble is not None and self._args.log is not None:
                try_to_say(f"the log {self._args.log} is not whole: {outcome.log_trouble}")
            if left is not None:
                writer.append(Note(ts_ns=time.monotonic_ns(), source="job", text=left))
                stack.callback(_remove_late, cgroup)
            if not writer.in_place():
                text = "the recording was removed, or replaced by another file, while the job ran"
                writer.append(Note(ts_ns=time.monotonic_ns(), source="tracer", text=text))
                try_to_say(text)
            if not outcome.as_asked and os.WIFSIGNALED(outcome.status) and os.WTERMSIG(outcome.status) == signal.SIGINT:
                atexit.register(end_by_interrupt)
            stack.callback(report_at_the_end, writer, self._caller, self._files.report, outcome.exit_code)
        return outcome.exit_code

    def _explain(self, failure: StartFailure) -> None:
        from tracer.cli.suggestions import not_a_job

        # Masked: `TOKEN=... train.py`, as in a shell, is a command of that name here.
        [command] = mask_arguments(self._argv[:1])
        try_to_say(f"{command}: {failure.why(self._argv[0])}", next_command=not_a_job(self._argv))

    def _log(
        self, kept: contextlib.ExitStack, undo: contextlib.ExitStack, until: Until | None = None
    ) -> LogFile | None:
        """The file for the job's output. Where its epochs or steps are to end it, it is looked through without one."""
        if self._args.log is None and (until is None or not until.needs_marks):
            return None
        if self._args.log is None:
            log = LogFile(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), None)
        else:
            log = LogFile.create(self._args.log, self._caller)
        kept.callback(os.close, log.fd)
        undo.callback(log.discard)
        return log

    def _with_output(self, plan: Plan, log: LogFile | None) -> Plan:
        if log is None:
            return plan
        tee = Tee.start(log, self._caller)
        for text in tee.notes:
            try_to_say(text)
        return replace(plan, tee=tee, notes=(*plan.notes, *tee.notes))

    def _opened_sources(self, stack: contextlib.ExitStack) -> Sources:
        try:
            return stack.enter_context(open_sources(need_kernel=self._args.require_bpf))
        except PermissionDenied as error:
            if is_root():
                raise
            raise PermissionDenied(error.what, need=f"{error.need}: {self._again}") from error

    @property
    def _again(self) -> str:
        """The same with all rights."""
        return as_root(command_line(self._args.words))

    def _cgroup(self, hierarchy: Hierarchy | None, limits: Limits) -> JobCgroup | None:
        if limits == Limits() or hierarchy is None:
            return None
        vain = never_hit(limits)
        if vain is not None:
            try_to_say(vain)
        try:
            cgroup = make_cgroup(hierarchy, secrets.token_hex(4), limits, environ=self._caller.environ)
        except (CgroupUnavailable, PermissionDenied) as error:
            if is_root():
                raise
            why = error.what if isinstance(error, PermissionDenied) else str(error)
            raise PermissionDenied(f"no limit can be set: {why}", need=f"root: {self._again}") from error
        self._notes += cgroup.notes if vain is None else (vain, *cgroup.notes)
        return cgroup

    def _plan(self, cgroup: JobCgroup | None, hierarchy: Hierarchy | None, sources: Sources) -> Plan:
        if say_if_kernel_is_not_watched(sources):
            if not is_root():
                try_to_say(f"a kill is likely at most, by {_left_of(sources)}; for a proof: {self._again}")
        elif sources.why_no_symbols is not None:
            try_to_say(f"stacks of the kernel will have no names: {sources.why_no_symbols}")
        if cgroup is None:
            self._notes += known_of_group_kill(hierarchy)
        for text in self._said:
            try_to_say(text)
        return Plan(
            argv=self._argv,
            recorded_argv=mask_arguments(self._argv),
            caller=self._caller,
            cgroup=cgroup,
            notes=tuple(self._notes),
            ready=self._files.say_ready,
            shuns_oom_killer=True,
        )


def _ourselves() -> Caller:
    """Without root nobody else's identity can be given to the job, whoever stands behind a sudo."""
    quiet = {name: value for name, value in os.environ.items() if name != "SUDO_UID"}
    return replace(find_caller(quiet), environ=dict(os.environ))


def _left_of(sources: Sources) -> str:
    parts = ["the kernel's log"] if sources.log is not None else []
    parts += [f"counts of cgroup v{sources.cgroups.version}"] if sources.cgroups.version is not None else []
    return " and ".join([*parts, "what /proc shows"])


def _remove_late(cgroup: JobCgroup | None) -> None:
    # Workers that lost their parent to a kill notice that after seconds. What is left even then, the next run removes.
    if cgroup is not None:
        with contextlib.suppress(KeyboardInterrupt):  # the job's status must come through
            left_in(cgroup, AFTER_THE_REPORT_S)


def _sensible(size_bytes: int | None) -> int | None:
    if size_bytes is not None and size_bytes < MIN_MEMORY_BYTES:
        raise UsageError(f"a memory limit of {format_bytes(size_bytes)} lets nothing run")
    return size_bytes

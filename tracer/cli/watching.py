# SPDX-License-Identifier: Apache-2.0
"""What `run` and `attach` share until the watching begins: options, files of the caller, what is known before."""

import argparse
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TextIO

from tracer.cli.console import try_to_say
from tracer.errors import CgroupUnavailable, InputError, PermissionDenied
from tracer.job.cgroup import Hierarchy, find_hierarchy, shares_group_kill
from tracer.job.identity import Caller
from tracer.pipeline import Sources
from tracer.rights import acting_as


@dataclass(frozen=True)
class Files:
    """What the caller wants written; `None`: not asked for."""

    report: TextIO | None
    ready: TextIO | None

    def say_ready(self, pid: int) -> None:
        """A line for whoever waits for one: it is there whole or not at all."""
        if self.ready is not None:
            self.ready.write(f"{pid}\n")  # buffered, so whole
            self.ready.flush()


def add_output_options(parser: argparse._ActionsContainer) -> None:
    """Where recording and report go."""
    parser.add_argument(
        "--record",
        metavar="FILE",
        help="the recording; `-` keeps none (default: oomtrace-DATE-PID.oomtrace in this folder)",
    )
    parser.add_argument("--report", metavar="FILE", help="write the report there, not to standard error")


def add_watching_options(parser: argparse._ActionsContainer, *, require_bpf: str) -> None:
    """Without which nothing begins, and who is told that it has begun.

    Args:
        require_bpf: what that does, in the help.
    """
    parser.add_argument("--require-bpf", action="store_true", help=require_bpf)
    parser.add_argument("--ready-file", metavar="FILE", help=argparse.SUPPRESS)


@contextlib.contextmanager
def opened_files(args: argparse.Namespace, caller: Caller) -> Iterator[Files]:
    """The files that were asked for.

    Now and not at the end: a bad path must not cost a run of three days its report. And as the caller.

    Raises:
        PermissionDenied: the caller may not write one.
        InputError: one cannot be written for another reason.
    """
    with _opened(args.report, caller) as report, _opened(args.ready_file, caller) as ready:
        yield Files(report, ready)


def hierarchy_here(*, needed: bool = False) -> Hierarchy | None:
    """The memory hierarchy; `None`: there is none, and it is not needed.

    Raises:
        CgroupUnavailable: it is needed.
    """
    try:
        return find_hierarchy()
    except CgroupUnavailable:
        if needed:
            raise
        return None


def known_of_group_kill(hierarchy: Hierarchy | None) -> tuple[str, ...]:
    """What belongs among the caveats where a kill in the job would be one of the tracer as well."""
    group = None if hierarchy is None else shares_group_kill(hierarchy)
    if group is None:
        return ()
    return (f"a kill in {group} ends the tracer as well (memory.oom.group): the recording may have no end",)


def say_if_kernel_is_not_watched(sources: Sources) -> bool:
    """Say so, and why; whether it is not."""
    if sources.kernel is None:
        try_to_say(f"the kernel cannot be watched, so there will be no proof: {sources.why_no_kernel}")
    return sources.kernel is None


@contextlib.contextmanager
def _opened(path: str | None, caller: Caller) -> Iterator[TextIO | None]:
    if path is None:
        yield None
        return
    try:
        with acting_as(caller.uid, caller.gid, caller.groups):
            file = open(path, "w", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115 - closed below
    except PermissionError as error:
        raise PermissionDenied(f"cannot write {path}: {error.strerror}") from error
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be written: {getattr(error, 'strerror', error)}", path=path) from error
    try:
        yield file
    finally:
        # What could not be written was told where that was tried, and the job's status must come through.
        with contextlib.suppress(OSError, ValueError):
            file.close()

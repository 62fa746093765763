# SPDX-License-Identifier: Apache-2.0
"""A DataLoader says how a worker ended (torch/utils/data, torch/csrc/DataLoader.cpp), and what shared memory lacked.

Only the first worker that was found dead is named, by its pid in the rank's own namespace.
"""

import re

from tracer.logs.training.shape import (
    PID,
    SMALL,
    Found,
    Rule,
    ended_by,
    found,
    integer,
    numbers,
    pids,
    rule,
    says,
    signal_of,
)

_PIDS = rf"\(pid(?:\(s\))? (?P<pids>{PID}(?:, {PID}){{0,15}})\)"
_FAULTS = {"bus error": 7, "segmentation fault": 11, "floating-point exception": 8}


def _killed(match: re.Match[str], _: str) -> Found:
    name = match["name"]
    return found("worker_killed", pids=pids(match["pids"]) or None, signal=signal_of(name), what=name.strip())


def _exited(match: re.Match[str], _: str) -> Found:
    return found("worker_exited", pids=pids(match["pids"]) or None, **ended_by(match["code"]))


def _raised(match: re.Match[str], _: str) -> Found:
    return found("worker_raised", what=match["what"], worker=integer(match["worker"]))


def _fault(match: re.Match[str], _: str) -> Found:
    return found("worker_fault", signal=_FAULTS[match["what"].lower()], what=match["what"])


def _pin_thread(match: re.Match[str], _: str) -> Found:
    return found("pin_thread", what=match["what"], numbers=numbers(device=integer(match["device"])))


def _timed_out(match: re.Match[str], _: str) -> Found:
    return found("loader_timeout", numbers=numbers(seconds=integer(match["s"])))


def _shm(match: re.Match[str], _: str) -> Found:
    parts = match.groupdict()
    asked = numbers(requested_bytes=integer(parts.get("bytes")), errno=integer(parts.get("errno")))
    return found("shm", pids=pids(parts.get("pid")) or None, what=parts.get("file"), numbers=asked)


_FILE = rf"<(?P<file>/?torch_(?P<pid>{PID})(?:_[0-9]{{1,12}}){{0,2}})>"
_ERRNO = r"(?:: [A-Za-z ]{1,60} \((?P<errno>\d{1,3})\))?"

RULES: tuple[Rule, ...] = (
    rule(
        "is killed by signal: ",
        rf"DataLoader worker(?: {_PIDS})? is killed by signal: (?P<name>[A-Za-z][A-Za-z ]{{1,40}})",
        _killed,
    ),
    rule(
        "exited unexpectedly",
        rf"DataLoader worker {_PIDS} exited unexpectedly(?: with exit code (?P<code>-?\d{{1,3}}))?",
        _exited,
    ),
    rule(
        "in dataloader worker process",
        rf"Caught (?P<what>[\w.]{{1,80}}) in DataLoader worker process (?P<worker>{SMALL})",
        _raised,
    ),
    rule(
        "encountered in worker",
        r"ERROR: Unexpected (?P<what>bus error|segmentation fault|floating-point exception) "
        r"encountered in worker",
        _fault,
    ),
    rule(
        "pin memory thread",
        rf"(?:Caught (?P<what>[\w.]{{1,80}}) in pin memory thread for device (?P<device>{SMALL})"
        r"|^(?:RuntimeError: )?Pin memory thread exited unexpectedly)",
        _pin_thread,
    ),
    rule("dataloader timed out after", r"DataLoader timed out after (?P<s>\d{1,9}) seconds", _timed_out),
    rule("unable to write to file <", rf"unable to write to file {_FILE}{_ERRNO}", _shm),
    rule("shared memory(shm) for file", rf"unable to allocate shared memory ?\(shm\) for file {_FILE}{_ERRNO}", _shm),
    rule(
        "unable to open shared memory",
        rf"unable to open shared memory object {_FILE} in read[-/]write mode{_ERRNO}",
        _shm,
    ),
    rule(
        "communication with the workers",
        r"Too many open files\. Communication with the workers is no longer possible",
        says("shm", what="Too many open files"),
    ),
    rule(
        "items of ancdata",
        r"^(?:RuntimeError: )?received \d{1,4} items of ancdata",
        says("shm", what="Too many open files"),
    ),
    rule(
        "failed to extend /dev/shm/",
        r"failed to extend (?P<file>/dev/shm/[\w.-]{1,60}) to (?P<bytes>\d{1,15}) bytes"
        r"(?:, error: [A-Za-z ]{1,60} \((?P<errno>\d{1,3})\))?",
        _shm,
    ),
    rule(
        "posix_fallocate failed",
        r"Call to posix_fallocate failed ?: No space left on device",
        says("shm", what="posix_fallocate"),
    ),
    rule(
        "creating shared memory segment",
        r"Error while creating shared memory segment (?P<file>/dev/shm/[\w.-]{1,60})"
        r"(?: \(size (?P<bytes>\d{1,15}),?)?",
        _shm,
    ),
    rule(
        "thallocator",
        r"unable to (?:mmap memory: you tried to mmap|write to file|open)[^\n]{0,200}THAllocator",
        says("shm", what="THAllocator"),
    ),
)

# SPDX-License-Identifier: Apache-2.0
"""The commands that show whether a change helped: the job watched again, as far as it went before, and compared."""

import math
import shlex

import msgspec

from tracer.events import CgroupSample
from tracer.units import GIB, MIB, NS_PER_S, has_limit
from tracer.verdict.incident import Case
from tracer.verdict.model import Incident, Remedy

AGAIN = "again"
"""Stands for these commands until the recording's name is known."""
BEFORE, AFTER = "BEFORE.oomtrace", "after.oomtrace"
STEPS_MORE = 1.2
TIMES_AS_LONG = 1.5
LEAST_MINUTES = 1
_COMMAND = "COMMAND"
_MOST_CHARS = 400
_MASKED = "***"
"""A part of it that was not recorded: so it cannot be typed."""


def run_again(case: Case, record: str, *options: str) -> str:
    """Watches the job once more, under the same limit where that was ours."""
    limit = _own_limit(case)
    words = ("sudo", "oomtrace", "run", *options, *(("--memory-max", limit) if limit else ()), "--record", record, "--")
    return f"{' '.join(words)} {_job(case)}"


def run_and_compare(case: Case, end_ns: int, recording: str | None) -> str:
    """The run with a change, which need not end in a kill, and its comparison with the one before.

    Args:
        case: the facts of that one.
        end_ns: what ended it.
        recording: where it lies.
    """
    before = BEFORE if recording is None else shlex.quote(recording)
    return f"{run_again(case, AFTER, *goal(case, end_ns))}; oomtrace compare {before} {AFTER}"


def goal(case: Case, end_ns: int) -> tuple[str, str]:
    """So far that growth which came in this run would be seen again."""
    epochs = [mark for mark in case.marks.epochs if mark.at_ns <= end_ns]
    steps = [mark for mark in case.marks.steps if mark.at_ns <= end_ns]
    if len(epochs) > 1:
        return "--until", f"epochs={math.ceil(epochs[-1].number - epochs[0].number) + 1}"
    if len(steps) > 1:
        return "--until", f"steps={math.ceil((steps[-1].number - steps[0].number) * STEPS_MORE) + 1}"
    if epochs:
        return "--until", "epochs=1"
    job = case.story.job
    lasted_s = (end_ns - job.ts_ns) / NS_PER_S if job is not None else 0.0
    return "--for", f"{max(LEAST_MINUTES, math.ceil(TIMES_AS_LONG * lasted_s / 60))}m"


def filled_in(incident: Incident, command: str) -> Incident:
    """With the commands where they were left open."""
    if not any(remedy.verify == AGAIN for remedy in incident.remedies):
        return incident
    return msgspec.structs.replace(incident, remedies=tuple(_with(remedy, command) for remedy in incident.remedies))


def _with(remedy: Remedy, command: str) -> Remedy:
    return msgspec.structs.replace(remedy, verify=command) if remedy.verify == AGAIN else remedy


def _job(case: Case) -> str:
    """As it can be typed; one of which a part was masked, or that is very long, cannot."""
    text = shlex.join(case.story.command or ())
    return _COMMAND if not text or _MASKED in text or len(text) > _MOST_CHARS else text


def _own_limit(case: Case) -> str | None:
    """`2G`, not rounded, where the job had a cgroup that was made for it."""
    job = case.story.job
    if job is None or not job.own_cgroup:
        return None
    samples = (s for s in case.story.of(CgroupSample) if s.cgroup_id == job.cgroup_id and has_limit(s.limit_bytes))
    limit = next((s.limit_bytes for s in samples), None)
    if limit is None:
        return None
    return next((f"{limit // unit}{name}" for unit, name in ((GIB, "G"), (MIB, "M")) if limit % unit == 0), str(limit))

# SPDX-License-Identifier: Apache-2.0
"""The commands that show whether a change helped: the job watched again until an epoch is over, and compared."""

import shlex
from collections.abc import Sequence

import msgspec

from tracer.events import CgroupSample
from tracer.units import GIB, MIB, has_limit
from tracer.verdict.incident import Case
from tracer.verdict.model import Incident, Remedy

AGAIN = "again"
"""Stands for these commands until the recording's name is known."""
BEFORE, AFTER = "BEFORE.oomtrace", "after.oomtrace"
_COMMAND = "COMMAND"
_MOST_CHARS = 400
_MASKED = "***"


def run_again(case: Case, record: str, *options: str) -> str:
    """Watches the job once more, under the same limit where that was ours."""
    limit = _own_limit(case)
    words = ("sudo", "oomtrace", "run", *options, *(("--memory-max", limit) if limit else ()), "--record", record, "--")
    return f"{' '.join(words)} {_job(case)}"


def until_an_epoch(case: Case, recording: str | None) -> str:
    """The run with a change, which need not end in a kill, and its comparison with the one before."""
    before = BEFORE if recording is None else shlex.quote(recording)
    return f"{run_again(case, AFTER, '--until', 'epochs=1')}; oomtrace compare {before} {AFTER}"


def filled_in(incident: Incident, command: str) -> Incident:
    """With the commands where they were left open."""
    if not any(remedy.verify == AGAIN for remedy in incident.remedies):
        return incident
    return msgspec.structs.replace(incident, remedies=tuple(_with(remedy, command) for remedy in incident.remedies))


def _with(remedy: Remedy, command: str) -> Remedy:
    return msgspec.structs.replace(remedy, verify=command) if remedy.verify == AGAIN else remedy


def _job(case: Case) -> str:
    """As it can be typed; one of which a part was masked, or that is very long, cannot."""
    argv: Sequence[str] = case.story.command or ()
    text = shlex.join(argv)
    return _COMMAND if not argv or _MASKED in text or len(text) > _MOST_CHARS else text


def _own_limit(case: Case) -> str | None:
    """`2G`, where the job had a cgroup that was made for it."""
    job = case.story.job
    if job is None or not job.own_cgroup:
        return None
    samples = (s for s in case.story.of(CgroupSample) if s.cgroup_id == job.cgroup_id and has_limit(s.limit_bytes))
    limit = next((s.limit_bytes for s in samples), None)
    if limit is None:
        return None
    return next((f"{limit // unit}{name}" for unit, name in ((GIB, "G"), (MIB, "M")) if limit % unit == 0), str(limit))

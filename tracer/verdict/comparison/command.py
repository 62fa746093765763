# SPDX-License-Identifier: Apache-2.0
"""The two commands that tell whether a change helped, with the numbers of this run put in."""

import math
import shlex
from typing import NamedTuple

from tracer.events import CgroupSample
from tracer.units import GIB, MIB, NS_PER_S, has_limit
from tracer.verdict.marks import marks_of
from tracer.verdict.story import Story

AFTER = "after.oomtrace"
STEPS_MORE = 1.2
TIMES_AS_LONG = 1.5
LEAST_MINUTES = 1
COMMAND_CHARS = 400
MASKED = "***"
"""A part of it that was not recorded: so it cannot be typed."""


class Verification(NamedTuple):
    """What to type."""

    run: str
    """The job with its change, as far as it has to go."""
    compare: str


def verification(story: Story, end_ns: int, recording: str | None = None) -> Verification:
    """For a run that ended at a moment.

    Args:
        story: the facts of it.
        end_ns: its kill, or the last that is known of it.
        recording: where that lies.
    """
    words = ["sudo", "oomtrace", "run"]
    limit = _own_limit(story)
    if limit is not None:
        words += ["--memory-max", _size(limit)]
    words += [*goal(story, end_ns), "--record", AFTER]
    command = shlex.join(story.command or ("COMMAND",))
    if len(command) > COMMAND_CHARS or MASKED in command:
        command = "COMMAND"
    before = shlex.quote(recording) if recording is not None else "BEFORE.oomtrace"
    return Verification(f"{' '.join(words)} -- {command}", f"oomtrace compare {before} {AFTER}")


def goal(story: Story, end_ns: int) -> list[str]:
    """So far that growth which came in this run would be seen again."""
    marks = marks_of(story)
    epochs = [mark for mark in marks.epochs if mark.at_ns <= end_ns]
    steps = [mark for mark in marks.steps if mark.at_ns <= end_ns]
    if len(epochs) > 1:
        return ["--until", f"epochs={math.ceil(epochs[-1].number - epochs[0].number) + 1}"]
    if len(steps) > 1:
        return ["--until", f"steps={math.ceil((steps[-1].number - steps[0].number) * STEPS_MORE) + 1}"]
    if epochs:
        return ["--until", "epochs=1"]
    began_ns = story.job.ts_ns if story.job is not None else end_ns
    minutes = max(LEAST_MINUTES, math.ceil(TIMES_AS_LONG * (end_ns - began_ns) / NS_PER_S / 60))
    return ["--for", f"{minutes}m"]


def _own_limit(story: Story) -> int | None:
    job = story.job
    if job is None or not job.own_cgroup:
        return None
    limits = [s.limit_bytes for s in story.of(CgroupSample) if s.path == job.cgroup and s.limit_bytes is not None]
    return limits[-1] if limits and has_limit(limits[-1]) else None


def _size(size_bytes: int) -> str:
    """As `--memory-max` reads it, and not rounded."""
    for unit, name in ((GIB, "G"), (MIB, "M")):
        if size_bytes % unit == 0:
            return f"{size_bytes // unit}{name}"
    return str(size_bytes)

# SPDX-License-Identifier: Apache-2.0
"""What the job itself said it was doing when memory ran out: how far it was, that it saved, that it stepped."""

import msgspec

from tracer.events import OutputWatched, TrainingLine
from tracer.events.training import SAVES, STEPS
from tracer.units import NS_PER_S
from tracer.verdict.marks import Marks
from tracer.verdict.story import Story

LATELY_NS = 60 * NS_PER_S
"""Before the kill: what was begun then may still go on. A large checkpoint takes so long."""


class Doing(msgspec.Struct, frozen=True, kw_only=True):
    """Up to the kill."""

    watched: bool = False
    """Its output was read at all."""
    last: TrainingLine | None = None
    """The last line that says how far it was, or what it did."""
    saving: TrainingLine | None = None
    """That a checkpoint is saved, where nothing that was said after tells that it went on."""
    stepping: TrainingLine | None = None
    """Likewise the step of an optimizer."""
    epochs: int = 0
    """So many were over."""
    steps: int = 0
    """So many were told of."""


def doing(story: Story, marks: Marks, at_ns: int) -> Doing:
    """By the lines before a moment."""
    lines = [line for line in story.of(TrainingLine) if line.ts_ns <= at_ns]
    watched = bool(story.of(OutputWatched)) or bool(lines)
    course = [line for line in lines if line.about in {"progress", "checkpoint", "optimizer_step"}]
    last = course[-1] if course else None
    epochs = [mark for mark in marks.epochs if mark.at_ns <= at_ns]
    steps = [mark for mark in marks.steps if mark.at_ns <= at_ns]
    lately = last is not None and at_ns - last.ts_ns <= LATELY_NS
    return Doing(
        watched=watched,
        last=last,
        saving=last if lately and last is not None and last.what == SAVES else None,
        stepping=last if lately and last is not None and last.what == STEPS else None,
        epochs=max(0, len(epochs) - 1),
        steps=round(steps[-1].number - steps[0].number) if steps else 0,
    )

# SPDX-License-Identifier: Apache-2.0
"""What the joins are tested with: a job that has run for a while, a mark, and the kills that are found."""

from typing import Any

from tests.unit.verdict.scenes import KILL_STACK, RANK, WORKERS, Scene
from tracer.events import OomMark
from tracer.units import NS_PER_S
from tracer.verdict.kills import Kill, Kills, find_kills
from tracer.verdict.story import Story

VICTIM, TRIGGER, OTHER = WORKERS[2], RANK, WORKERS[0]


def begun(**begin: Any) -> Scene:
    scene = Scene()
    if begin:
        scene.begin(**begin)
    else:
        scene.job()
    scene.pass_time(20 * NS_PER_S)
    return scene


def found(scene: Scene) -> Kills:
    return find_kills(Story(scene.events))


def only(scene: Scene) -> Kill:
    (kill,) = found(scene).kills
    return kill


def marked(scene: Scene, frames: tuple[str, ...] | None = KILL_STACK, pid: int = VICTIM, **more: Any) -> OomMark:
    """A mark with its stack, whose signal the test brings or does not."""
    mark = scene.mark(pid, TRIGGER, **more)
    if frames is not None:
        scene.stack(mark, frames)
    return mark

# SPDX-License-Identifier: Apache-2.0
"""What kills are tested with: a job that has run for a while, a mark, and what is found and said of it."""

from typing import Any

from tests.unit.verdict.scenes import KILL_STACK, RANK, WORKERS, Scene
from tracer.events import Losses, OomDecision, OomMark
from tracer.units import NS_PER_MS, NS_PER_S
from tracer.verdict.judge import judge
from tracer.verdict.kills import Kill, Kills, find_kills
from tracer.verdict.model import Incident
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


def decided(scene: Scene, **fields: Any) -> OomDecision:
    """The OOM killer's own word, just before its kill."""
    values: dict[str, Any] = {
        "ts_ns": scene.now_ns,
        "trigger_tid": TRIGGER,
        "memcg_id": 77,
        "order": 0,
        "constraint": 3,
        **fields,
    }
    event = scene.add(
        OomDecision(
            cpu=1, total_allowed_bytes=0, chosen_points=0, tgid=VICTIM, tid=VICTIM, trigger_tgid=TRIGGER, gfp_mask=0,
            **values,
        )
    )  # fmt: skip
    assert isinstance(event, OomDecision)
    return event


def shot(scene: Scene | None = None, *, status: int | None = 9, after_ns: int = NS_PER_MS, **signal: Any) -> Scene:
    """A kill with an exit so long after it, or none."""
    scene = scene or begun()
    scene.oom_signal(VICTIM, TRIGGER, **signal)
    scene.levels(marked(scene))
    scene.pass_time(after_ns)
    if status is not None:
        scene.exit(VICTIM, status, oom_marked=1)
    return scene


def incident(scene: Scene, **lost: Any) -> Incident:
    """The one of the OOM killer, whether or not it is what failed the job."""
    losses = Losses(ts_ns=scene.now_ns + 2 * NS_PER_S, **lost)
    found = judge(scene.finish(losses=losses)).verdict.incidents
    return next(one for one in found if one.cause.startswith("host_oom"))

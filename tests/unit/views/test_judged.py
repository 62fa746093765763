# SPDX-License-Identifier: Apache-2.0
"""Pages as the rules really make them: events in, the whole text out."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.verdict.cuda.cuda_scenes import host_kill_beside_a_gpu, out_of_device_memory
from tests.unit.verdict.scenes import LAUNCHER, RANK, WORKERS, Scene, start_of, worker_killed
from tracer.events import AnyEvent
from tracer.units import MIB, NS_PER_MS, NS_PER_S
from tracer.verdict.judge import judge
from tracer.views import terminal

DATA = Path(__file__).parents[2] / "data" / "views"


def two_ranks() -> list[AnyEvent]:
    """All workers of two ranks grow alike; one is killed, its rank raises, the launcher stops the other."""
    scene = Scene()
    scene.job()
    other, workers = 42210, (42231, 42232, 42233, 42234)
    scene.fork(other, LAUNCHER)
    scene.seen(other, LAUNCHER, "python3", {"RANK": "1", "LOCAL_RANK": "1", "TORCHELASTIC_RUN_ID": "x"})
    for pid in workers:
        scene.fork(pid, other)
        scene.seen(pid, other, "pt_data_worker", {"RANK": "1", "LOCAL_RANK": "1", "TORCHELASTIC_RUN_ID": "x"})
    for step in range(6):
        scene.pass_time(NS_PER_S)
        for pid in (*WORKERS, *workers):
            scene.sample(pid, 50 + 20 * step)
    scene.kill(workers[2], anon_rss_bytes=160 * MIB)
    scene.pass_time(3 * NS_PER_S)
    scene.exit(other, 1 << 8)
    by_launcher = {"sender_tgid": LAUNCHER, "sender_tid": LAUNCHER, "sender_start_ns": start_of(LAUNCHER)}
    for pid in (RANK, *WORKERS):
        scene.pass_time(NS_PER_MS)
        scene.signal(pid, 15, sender_comm="pt_elastic", **by_launcher)
        scene.exit(pid, 15)
    return scene.finish()


def killed_by_hand() -> list[AnyEvent]:
    scene = Scene()
    scene.job()
    scene.pass_time(NS_PER_S)
    scene.signal(RANK, 9, sender_tgid=7, sender_tid=7, sender_start_ns=1, sender_comm="slurmstepd", sender_uid=0)
    scene.exit(RANK, 9)
    return scene.finish()


def unwatched() -> list[AnyEvent]:
    scene = Scene()
    scene.begin(hooks=())
    scene.pass_time(NS_PER_S)
    scene.log_decision(LAUNCHER)
    scene.log_kill(LAUNCHER)
    return scene.finish(9)


def ended_well() -> list[AnyEvent]:
    scene = Scene()
    scene.job()
    for pid in (*WORKERS, RANK):
        scene.exit(pid, 0)
    return scene.finish(0)


def beside_a_gpu() -> list[AnyEvent]:
    return host_kill_beside_a_gpu().end()


def device_full() -> list[AnyEvent]:
    scene = out_of_device_memory()
    for pid in WORKERS:
        scene.exit(pid, 0, comm="pt_data_worker")
    return scene.finish()


@pytest.mark.parametrize(
    "scene", [worker_killed, two_ranks, killed_by_hand, unwatched, ended_well, beside_a_gpu, device_full]
)
def test_the_page_of_a_recording_is_as_it_should_be(scene: Callable[[], list[AnyEvent]]) -> None:
    expected = (DATA / f"judged_{scene.__name__}.txt").read_text(encoding="utf-8")

    assert expected == terminal.render(judge(scene()), width=80)

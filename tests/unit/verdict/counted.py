# SPDX-License-Identifier: Apache-2.0
"""Scenes in which the kernel's counters were read, and what came of comparing them."""

from tests.unit.verdict.scenes import LAUNCHER, RANK, WORKERS, Scene
from tracer.events import AnyEvent, Losses, VmstatSample
from tracer.units import NS_PER_MS, NS_PER_S
from tracer.verdict.incident import Case
from tracer.verdict.model import Counter, Reconciliation
from tracer.verdict.story import Story

FIRST, SECOND, THIRD, FOURTH = WORKERS
MEMBER_STACK = ("mark_oom_victim", "__oom_kill_process", "oom_kill_memcg_member", "mem_cgroup_scan_tasks")
ELSEWHERE = 4242


def begun(*, own_cgroup: bool = True, before: int = 0) -> Scene:
    """A job whose counters were read before it could be killed, the machine's long after other kills."""
    scene = Scene()
    scene.begin(own_cgroup=own_cgroup)
    for pid in (RANK, *WORKERS):
        scene.fork(pid, LAUNCHER)
    read(scene, job=before, machine=before + 900)
    scene.pass_time(NS_PER_S)
    return scene


def read(scene: Scene, *, job: int | None = None, machine: int | None = None) -> None:
    if job is not None:
        scene.cgroup_sample(77, "/run-7f3", oom_kill=job)
    if machine is not None:
        scene.add(VmstatSample(ts_ns=scene.now_ns, source="pressure", oom_kill=machine))


def ended(scene: Scene, *, job: int | None, machine: int | None, status: int = 1 << 8, **lost: int) -> list[AnyEvent]:
    scene.pass_time(NS_PER_S)
    read(scene, job=job, machine=None if machine is None else machine + 900)
    return scene.finish(status, losses=Losses(ts_ns=scene.now_ns + 2 * NS_PER_S, source="tracer", dropped=lost))


def reconciled(events: list[AnyEvent]) -> Reconciliation:
    found = Case(Story(events)).counters
    assert found is not None
    return found


def counter(events: list[AnyEvent], whose: str) -> Counter:
    [found] = [one for one in reconciled(events).counters if one.whose == whose]
    return found


def figures(events: list[AnyEvent], whose: str) -> tuple[int, int, int, int, int]:
    """Counted, seen, counted again, lost, unexplained."""
    found = counter(events, whose)
    return (found.counted, found.seen, found.counted_again, found.lost, found.unexplained)


def group_kill(scene: Scene, *, again: bool = True) -> None:
    """The first is killed, then every member, the first once more unless it is dead by then."""
    signal = scene.oom_signal(FIRST, FIRST)
    mark = scene.mark(FIRST, FIRST)
    scene.levels(mark)
    scene.stack(mark)
    for pid in WORKERS if again else WORKERS[1:]:
        scene.pass_time(100_000)
        if pid == FIRST:
            scene.oom_signal(pid, FIRST, result=1, ts_ns=scene.now_ns, start_ns=signal.start_ns)
            continue
        scene.oom_signal(pid, FIRST)
        mark = scene.mark(pid, FIRST)
        scene.levels(mark)
        scene.stack(mark, MEMBER_STACK)
    scene.pass_time(NS_PER_MS)
    for pid in WORKERS:
        scene.exit(pid, 9, oom_marked=1)


def kill_elsewhere(scene: Scene, *, all_levels: bool = True) -> None:
    scene.oom_signal(ELSEWHERE, ELSEWHERE, in_tree=0)
    mark = scene.mark(ELSEWHERE, ELSEWHERE, levels=1 if all_levels else 2)
    scene.level(mark, 0, name="other", cgroup_id=555, events_local_oom=1)
    scene.stack(mark)
    scene.pass_time(NS_PER_MS)

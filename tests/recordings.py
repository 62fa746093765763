# SPDX-License-Identifier: Apache-2.0
"""Events made by hand as a recording on disk."""

from collections.abc import Iterable
from pathlib import Path

from tests.unit.verdict.scenes import RANK, WORKERS, Scene, worker_killed
from tracer.events import AnyEvent, GpuSample, ReclaimSample, TrainingLine
from tracer.recording import RecordingWriter
from tracer.units import MIB, NS_PER_S


def written(path: Path, events: Iterable[AnyEvent]) -> Path:
    """The events as they would have been recorded."""
    header, *rest = events
    with RecordingWriter.create(path, header) as writer:
        for event in rest:
            writer.append(event)
    return path


def everything() -> list[AnyEvent]:
    """A kill with samples of every sort, reclaim, a line of the job's log and collateral."""
    scene = Scene()
    scene.job()
    for step in range(6):
        scene.pass_time(NS_PER_S)
        for pid in (RANK, *WORKERS):
            scene.sample(pid, 50 + (60 * step if pid == WORKERS[2] else 0))
        scene.cgroup_sample(
            77, "/oomtrace/run-7f3", usage_bytes=(200 + 62 * step) * MIB, limit_bytes=512 * MIB, anon_bytes=MIB
        )
        scene.pressure((900 - step) * MIB)
        scene.add(
            ReclaimSample(
                ts_ns=scene.now_ns, cgroup_id=77, memcg_runs=step * 3, memcg_stall_ns=step * 1000, direct_runs=0,
                direct_stall_ns=0,
            )
        )  # fmt: skip
        scene.add(
            GpuSample(
                ts_ns=scene.now_ns, source="nvml", uuid="GPU-1", index=0, total_bytes=80 << 30, used_bytes=step << 30
            )
        )
        scene.add(
            TrainingLine(ts_ns=scene.now_ns, source="job", about="progress", text=f"epoch {step}", stream="stdout")
        )
    scene.kill()
    scene.log_decision(WORKERS[2])
    scene.log_kill(WORKERS[2], text="Memory cgroup out of memory: Killed process 41233 (pt_data_worker)")
    scene.pass_time(NS_PER_S)
    scene.exit(RANK, 1 << 8)
    return scene.finish()


def many_processes(count: int) -> list[AnyEvent]:
    """As many beside the usual ones, each with a sample."""
    scene = Scene()
    scene.job()
    for pid in range(100_000, 100_000 + count):
        scene.fork(pid, RANK)
        scene.sample(pid, 10)
    scene.grow()
    scene.kill()
    return scene.finish()


def several_kills() -> list[AnyEvent]:
    """Two workers, a minute apart."""
    scene = Scene()
    scene.job()
    scene.grow()
    scene.kill(WORKERS[2])
    scene.pass_time(60 * NS_PER_S)
    scene.grow(WORKERS[1])
    scene.kill(WORKERS[1])
    return scene.finish()


def nothing_killed() -> list[AnyEvent]:
    """A job that ran well."""
    scene = Scene()
    scene.job()
    scene.grow(to_mib=60)
    for pid in (*WORKERS, RANK):
        scene.exit(pid, 0)
    return scene.finish(0)


def with_name(comm: str) -> list[AnyEvent]:
    """The usual case, in which the killed process and its cgroup call themselves as they like."""
    events = []
    for event in worker_killed():
        changed = event
        for name in ("comm", "trigger_comm", "name"):
            if getattr(changed, name, None) in {"pt_data_worker", "python3", "run-7f3"}:
                changed = _replaced(changed, name, comm)
        events.append(changed)
    return events


def _replaced(event: AnyEvent, name: str, value: str) -> AnyEvent:
    import msgspec

    return msgspec.structs.replace(event, **{name: value})

# SPDX-License-Identifier: Apache-2.0
"""Jobs that grow, made by hand: what they hold over time, what they say of their progress, how they end."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.unit.verdict.scenes import LAUNCHER, RANK, T0, Scene, start_of
from tracer.events import CgroupSample, Disarmed, JobEnded, Losses, ProcessExeced, TrainingLine
from tracer.units import MIB, NS_PER_S, TICK_NS

LIMIT = 1000 * MIB


@dataclass
class Growing(Scene):
    """`at_s` are seconds since the job began."""

    def at(self, at_s: float) -> None:
        self.now_ns = T0 + round(at_s * NS_PER_S)

    def alone(self) -> None:
        """Launcher and rank 0, without workers."""
        self.begin()
        self.fork(RANK, LAUNCHER)
        self.add(
            ProcessExeced(ts_ns=self.now_ns, cpu=0, start_ns=start_of(RANK), tgid=RANK, old_tid=RANK, comm="python3")
        )
        self.seen(RANK, LAUNCHER, "python3", {"RANK": "0", "LOCAL_RANK": "0", "TORCHELASTIC_RUN_ID": "x"})

    def say(self, at_s: float, *, stream: str = "stdout", rank: int | None = None, **numbers: float | None) -> None:
        """A line of progress."""
        self.at(at_s)
        told = {name: value for name, value in numbers.items() if value is not None}
        line = TrainingLine(ts_ns=self.now_ns, source="text", about="progress", text="x", stream=stream, rank=rank,
                            numbers=told)  # fmt: skip
        self.add(line)

    def worker(self, pid: int, began_s: float, ended_s: float | None = None) -> None:
        """A DataLoader worker of rank 0."""
        self.at(began_s)
        self.fork(pid, RANK)
        self.seen(pid, RANK, "pt_data_worker", {"RANK": "0", "LOCAL_RANK": "0", "TORCHELASTIC_RUN_ID": "x"})
        if ended_s is not None:
            self.at(ended_s)
            self.exit(pid, 0)

    def holds(self, at_s: float, anon_bytes: float, *, limit_bytes: int = LIMIT, cache_bytes: int = 0) -> None:
        """A look at the job's cgroup."""
        self.at(at_s)
        anon = max(0, round(anon_bytes))
        self.add(
            CgroupSample(ts_ns=self.now_ns, source="cgroup", path="/oomtrace/run-7f3", cgroup_id=77, shmem_bytes=0,
                         usage_bytes=anon + cache_bytes, limit_bytes=limit_bytes, anon_bytes=anon, kernel_bytes=0,
                         file_bytes=cache_bytes, failcnt=0)
        )  # fmt: skip

    def ends(self, at_s: float, status: int = 0) -> None:
        """The job's end, and the recording's."""
        self.at(at_s)
        start_ns = start_of(LAUNCHER) // TICK_NS * TICK_NS
        self.add(JobEnded(ts_ns=self.now_ns, source="job", tgid=LAUNCHER, start_ns=start_ns, status=status))
        self.add(Losses(ts_ns=self.now_ns, source="tracer"))
        self.add(Disarmed(ts_ns=self.now_ns, source="tracer"))


def run(
    held: Callable[[float], float],
    *,
    seconds: float,
    epoch_s: float | None = None,
    steps_per_epoch: int = 100,
    limit_bytes: int = LIMIT,
    every_s: float = 1.0,
    start_s: float = 2.0,
) -> Growing:
    """A job whose training begins after `start_s`, and holds `held(seconds of training)`; killed at its limit.

    Args:
        epoch_s: how long an epoch takes; `None`: nothing is said of progress.
    """
    scene = Growing()
    scene.alone()
    begun, at_s = 0.0, 0.1
    while at_s < start_s:
        scene.holds(at_s, held(0) * at_s / start_s, limit_bytes=limit_bytes)
        at_s += every_s
    while begun <= seconds:
        now_s = start_s + begun
        if epoch_s is not None:
            epoch, rest = divmod(begun, epoch_s)
            scene.say(now_s, epoch=int(epoch) + 1, step=int(rest / epoch_s * steps_per_epoch))
        if held(begun) >= limit_bytes:
            scene.holds(now_s, limit_bytes, limit_bytes=limit_bytes)
            scene.kill(RANK, comm="python3")
            scene.ends(now_s + 0.1, 9)
            return scene
        scene.holds(now_s + 0.001, held(begun), limit_bytes=limit_bytes)
        begun += every_s
    scene.ends(start_s + seconds + 0.5)
    return scene

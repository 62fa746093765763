# SPDX-License-Identifier: Apache-2.0
"""Recordings made by hand: a job that trains, and is refused memory."""

from typing import Any

from tests.unit.verdict.scenes import LAUNCHER, RANK, Scene, start_of
from tracer.events import (
    OutputWatched,
    PressureSample,
    ProcessLimits,
    ProcessLooked,
    ProcessSample,
    TmpfsFill,
    TmpfsSample,
    TrainingLine,
)
from tracer.units import GIB, MIB, NO_LIMIT_BYTES, NS_PER_S
from tracer.verdict.judge import judge
from tracer.verdict.model import Incident, Report

SHM = "/dev/shm"
NO_SPACE = (
    "RuntimeError: unable to allocate shared memory(shm) for file </torch_41231_7_0>: No space left on device (28)"
)
UNLIMITED = ProcessLimits(address_bytes=NO_LIMIT_BYTES, data_bytes=NO_LIMIT_BYTES)


class Refusing(Scene):
    """A job that trains, and is refused memory."""

    def trains(self) -> "Refusing":
        self.job()
        self.pass_time(10 * NS_PER_S)
        return self

    def says(self, about: str, text: str = "", **more: Any) -> None:
        self.add(TrainingLine(ts_ns=self.now_ns, source="text", about=about, text=text, stream="stderr", **more))

    def memory_error(self, **more: Any) -> None:
        self.says("host_alloc", "MemoryError", what="MemoryError", **more)

    def no_space(self, **more: Any) -> None:
        self.says("shm", NO_SPACE, what="/torch_41231_7_0", numbers={"errno": 28}, **more)

    def limited(self, pid: int, limits: ProcessLimits | None) -> None:
        self.add(ProcessLooked(ts_ns=self.now_ns, source="proc", start_ns=start_of(pid), tgid=pid, limits=limits))

    def mapped(self, pid: int, size_bytes: int) -> None:
        values: dict[str, Any] = {"start_ns": start_of(pid), "tgid": pid, "peak_mapped_bytes": size_bytes}
        self.add(ProcessSample(ts_ns=self.now_ns, source="proc", **values))

    def shm(self, free_mib: int, size_mib: int = 64, mount_point: str = SHM) -> None:
        fill = TmpfsFill(mount_point=mount_point, size_bytes=size_mib * MIB, free_bytes=free_mib * MIB)
        self.add(TmpfsSample(ts_ns=self.now_ns, source="proc", tgid=LAUNCHER, mounts=(fill,)))

    def machine(self, **more: Any) -> None:
        values = {"mem_total_bytes": 64 * GIB, "mem_available_bytes": 50 * GIB, "swap_total_bytes": 0, **more}
        self.add(PressureSample(ts_ns=self.now_ns, source="pressure", **values))

    def read(self) -> None:
        self.add(OutputWatched(ts_ns=self.now_ns, source="tracer"))

    def fails(self, status: int = 1 << 8, after_ns: int = NS_PER_S) -> Report:
        self.pass_time(after_ns)
        self.exit(RANK, status)
        return judge(self.finish())


def training() -> Refusing:
    return Refusing().trains()


def causes(report: Report) -> list[str]:
    return [one.cause for one in report.verdict.incidents]


def link(incident: Incident, number: int) -> tuple[str, str]:
    [found] = [one for one in incident.proof if one.link == number]
    return found.status, found.statement

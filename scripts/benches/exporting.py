# SPDX-License-Identifier: Apache-2.0
"""What it takes to judge and export a recording with very many samples: time and peak memory of each form."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.unit.verdict.scenes import LAUNCHER, RANK, WORKERS, Scene, start_of
from tracer.cli.export import FORMATS
from tracer.events import CgroupSample, Event, PressureSample, ProcessSample
from tracer.recording import RecordingWriter
from tracer.units import MIB, NS_PER_MS, TICK_NS

STEP_NS = 100 * NS_PER_MS
_MIB = 1024 * 1024
Row = Callable[[str, str, str], None]


def measure(work: Path, samples: int, row: Row) -> None:
    """Print a line for `report` and for each form of `export`."""
    began = time.monotonic()
    recording = _recorded(work / "many.oomtrace", samples)
    size = recording.stat().st_size / _MIB
    print(f"\na recording with {samples} samples ({size:.0f} MiB, written in {time.monotonic() - began:.0f} s)")
    row("report", *_run(["report", str(recording)]))
    for form in FORMATS:
        made = work / f"made.{form}"
        spent, peak = _run(["export", str(recording), "--to", form, "--output", str(made)])
        row(f"export --to {form}", spent, f"{peak}; {made.stat().st_size / _MIB:.1f} MiB written")
        made.unlink()


def _run(words: list[str]) -> tuple[str, str]:
    """CPU time, and the peak of memory with wall time."""
    began = time.monotonic()
    child = subprocess.Popen([sys.executable, "-m", "tracer", *words], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    wall = time.monotonic() - began
    if child.returncode:
        raise SystemExit(f"oomtrace {' '.join(words)}: exit {child.returncode}")
    return f"{used.ru_utime + used.ru_stime:.1f} s", f"peak {used.ru_maxrss / 1024:.0f} MiB, {wall:.1f} s by the clock"


def _recorded(path: Path, samples: int) -> Path:
    """A launcher, a rank and four workers, looked at ten times a second, and a kill at the end."""
    scene = Scene()
    scene.job()
    with RecordingWriter.create(path, scene.items[0]) as writer:  # type: ignore[arg-type]
        for event in scene.items[1:]:
            writer.append(event)
        written, done = len(scene.items), 0
        while done < samples:
            scene.pass_time(STEP_NS)
            for event in _look(scene.now_ns, done):
                writer.append(event)
                done += 1
        scene.kill()
        for event in [*scene.items[written:], *_rest(scene)]:
            writer.append(event)
    return path


def _rest(scene: Scene) -> list[Event]:
    known = len(scene.items)
    scene.finish()
    return scene.items[known:]


def _look(now_ns: int, done: int) -> list[Event]:
    found: list[Event] = [
        ProcessSample(
            ts_ns=now_ns, source="proc", tgid=pid, start_ns=start_of(pid) // TICK_NS * TICK_NS, comm="python3",
            rss_anon_bytes=50 * MIB + done * 64, rss_file_bytes=5 * MIB, rss_shmem_bytes=0, swap_bytes=0, state="S",
        )
        for pid in (LAUNCHER, RANK, *WORKERS)
    ]  # fmt: skip
    usage = 300 * MIB + done * 200
    found.append(
        CgroupSample(
            ts_ns=now_ns, source="cgroup", path="/oomtrace/run-7f3", cgroup_id=77, usage_bytes=usage,
            limit_bytes=512 * MIB, anon_bytes=usage - 20 * MIB, shmem_bytes=0, oom_kill=0,
        )
    )  # fmt: skip
    found.append(PressureSample(ts_ns=now_ns, source="pressure", mem_available_bytes=1 << 33, psi_some_avg10=1.5))
    return found

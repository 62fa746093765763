# SPDX-License-Identifier: Apache-2.0
"""What sampling costs: of a core, far from a limit and near one; and the job itself, in pairs with and without."""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from tracer.events import AnyEvent, CgroupSample, JobStarted, ProcessSample
from tracer.recording import read_recording
from tracer.units import TICK_NS

FAMILY = Path(__file__).with_name("family.py")
SETTLE_S = 8.0
"""What it costs to look at a new job is over by then, but for one look after 30 s."""
FULL = 0.93
"""Of the limit, for a run near it."""
PAIR_S = 14.0

Watched = Callable[..., AbstractContextManager["subprocess.Popen[bytes]"]]
Row = Callable[..., None]


class Cost(NamedTuple):
    """Of the tracer, between two moments."""

    spent_ns: int
    from_ns: int
    until_ns: int


def measure(work: Path, watched: Watched, row: Row, wanted: tuple[int, int, float, int]) -> None:
    """Print all.

    Args:
        wanted: processes, MiB of each, seconds of a run, pairs of runs.
    """
    processes, mib, seconds, pairs = wanted
    print(f"\n{processes} processes with {mib} MiB each, {seconds:.0f} s")
    far = work / "far.oomtrace"
    # With a limit that is far, for a cgroup of its own.
    cost = _cost(watched, far, wanted, f"{64 + 4 * mib}M" if mib > 512 else f"{1024 + 4 * mib}M")
    _tell(row, "at the default rate", far, cost, processes)
    used = max(sample.usage_bytes or 0 for sample in _of(read_recording(far), _job(far)))
    near = work / "near.oomtrace"
    cost = _cost(watched, near, wanted, str(round(used / FULL)))
    _tell(row, "near the limit", near, cost, processes)
    ratios = [_pair(work / f"pair{number}.oomtrace", watched, wanted, turn=number % 2) for number in range(pairs)]
    if ratios:
        spread = f"{min(ratios):.3f} to {max(ratios):.3f}, {pairs} pairs"
        row("work done, watched to not watched", f"{statistics.median(ratios):.3f} x", spread)


def _cost(watched: Watched, recording: Path, wanted: tuple[int, int, float, int], limit: str) -> Cost:
    """CPU time of all threads of the tracer, once the job is there."""
    processes, mib, seconds, _ = wanted
    settle_s = min(SETTLE_S, seconds)
    command = (sys.executable, "-I", "-S", str(FAMILY), str(processes), str(mib), str(settle_s + seconds + 2))
    with watched(recording, *command, limit=limit) as tracer:
        time.sleep(settle_s)
        before_ns, from_ns = _spent_ns(tracer.pid), time.monotonic_ns()
        time.sleep(seconds)
        cost = Cost(_spent_ns(tracer.pid) - before_ns, from_ns, time.monotonic_ns())
        if tracer.wait():
            raise SystemExit(f"bench: the job did not end by itself below its limit of {limit}")
    return cost


def _spent_ns(pid: int) -> int:
    """Of all its threads, those that have ended among them; in ticks."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_NS


def _tell(row: Row, what: str, recording: Path, cost: Cost, processes: int) -> None:
    """The cost, with how often what was recorded meanwhile."""
    events = [event for event in read_recording(recording) if cost.from_ns <= event.ts_ns < cost.until_ns]
    span_s = (cost.until_ns - cost.from_ns) / 1e9
    samples = sum(isinstance(event, ProcessSample) for event in events) / processes / span_s
    looks = len(_of(events, _job(recording))) / span_s
    text = f"of a core; the cgroup {looks:.1f} times a second, each process {samples:.1f} times"
    row(f"the tracer {what}", f"{100 * cost.spent_ns / (span_s * 1e9):.2f} %", text)


def _job(recording: Path) -> str | None:
    """Its cgroup."""
    return next(event.cgroup for event in read_recording(recording) if isinstance(event, JobStarted))


def _of(events: Iterable[AnyEvent], path: str | None) -> list[CgroupSample]:
    return [event for event in events if isinstance(event, CgroupSample) and event.path == path]


def _pair(recording: Path, watched: Watched, wanted: tuple[int, int, float, int], *, turn: int) -> float:
    """What was done under watch, to what was done without; either goes first in turn."""
    command = (sys.executable, "-I", "-S", str(FAMILY), str(wanted[0]), str(wanted[1]), str(PAIR_S))
    done = dict.fromkeys((0, 1), 0)
    for with_tracer in (turn, 1 - turn):
        if with_tracer:
            with watched(recording, *command, output=subprocess.PIPE) as tracer:
                text, _ = tracer.communicate()
        else:
            text = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
        done[with_tracer] = int(text)
    return done[1] / done[0]

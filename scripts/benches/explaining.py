# SPDX-License-Identifier: Apache-2.0
"""How fast `oomtrace explain` reads: long logs with rare hits, in turn with `grep -E` for the same words."""

import os
import random
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

WORDS = (
    "illed|illin|emory|EMORY|OOM|oom|ut of mem|NVRM: Xid|otal_vm|xit|ignal|SIG|xpect|raceb|/shm|alloc|ALLOC|nable|NCCL"
    "|nccl|peer|gloo|ilure|CANCE|ermin|ocal_|y ope|died|egfau|ancda|traps| code|sendB|recvV|dezvo|aught|brupt"
)
"""What a person would have to look for, to find what is looked for here."""
AIM_MIB = 200
AIM_RATIO = 5
_PLAIN = (
    "layer", "batch", "loader", "plain", "value", "index", "shard", "queue", "split", "mean", "delta", "graph",
    "tensor", "scale", "width", "height", "range", "write", "read", "flush", "buffer", "start", "begin", "ready",
    "done", "after", "before", "under", "their", "which", "while", "could", "would", "other", "first", "second",
    "third",
)  # fmt: skip
_KILL = "[{:12.6f}] Out of memory: Killed process {} (python3) total-vm:9kB, anon-rss:8kB, file-rss:0kB\n"
_MIB = 1 << 20


class Spent(NamedTuple):
    """By one program."""

    cpu_s: float
    peak_kib: int


def measure(
    work: Path, row: Callable[[str, str, str], None], *, size_mib: int, pairs: int, command: Sequence[str]
) -> None:
    """Print the part of the table; `command` is what explains a file."""
    for name, lines in (("lines alike but for numbers", _alike), ("no two lines alike", _unlike)):
        path = work / "explained.log"
        size = _write(path, lines(), size_mib * _MIB)
        explained, searched = [], []
        for _ in range(pairs):
            explained.append(_spent([*command, str(path)]))
            searched.append(_spent(["grep", "-E", "-c", WORDS, str(path)]))
        ours, theirs = (statistics.median(one.cpu_s for one in runs) for runs in (explained, searched))
        print(f"\noomtrace explain, {size // _MIB} MiB with rare hits, {name}; CPU time")
        row("a second", f"{size / _MIB / ours:.0f} MiB", f"aim >= {AIM_MIB}; grep -E: {size / _MIB / theirs:.0f} MiB")
        ratios = [a.cpu_s / b.cpu_s for a, b in zip(explained, searched, strict=True)]
        row(
            "ratio to grep -E",
            f"{statistics.median(ratios):.2f} x",
            f"{min(ratios):.2f} to {max(ratios):.2f}; aim <= {AIM_RATIO}",
        )
        row("peak memory", f"{max(one.peak_kib for one in explained) / 1024:.1f} MiB", "whatever the size")
        path.unlink()
    path = work / "short.log"
    _write(path, _alike(), _MIB)
    cold = [_spent([*command, str(path)]).cpu_s for _ in range(2 * pairs + 1)]
    began = time.monotonic()
    subprocess.run([*command, str(path)], check=True, stdout=subprocess.DEVNULL)
    wall = time.monotonic() - began
    print("\noomtrace explain, 1 MiB, from a cold start")
    row("CPU time", f"{statistics.median(cold) * 1000:.0f} ms", f"once by the clock: {wall * 1000:.0f} ms; aim < 150")


def _write(path: Path, lines: Iterator[str], size: int) -> int:
    """A kill each 32 MiB among the lines; they repeat after 8 MiB, with other numbers."""
    written = kills = 0
    with path.open("w", encoding="ascii") as file:
        for line in lines:
            written += file.write(line)
            if written >> 25 > kills:
                kills += 1
                written += file.write(_KILL.format(written / 1000, kills))
            if written >= size:
                return written
    raise AssertionError


def _alike() -> Iterator[str]:
    number = 0
    while True:
        number += 1
        seconds = number % 60
        loss = number * 7919 % 10000
        yield f"2026-11-30 17:25:{seconds:02d},{number % 1000:03d} - INFO - step {number} loss 0.{loss:04d} lr 3e-4\n"
        if number % 3 == 0:
            yield f"[{number / 100:12.6f}] eth0: link is up at 10000 Mbps, full duplex, rx {number}\n"
        if number % 5 == 0:
            yield f"Nov 30 17:25:{seconds:02d} node-17 sshd[{number % 30000}]: session opened for user u{number % 99}\n"


def _unlike() -> Iterator[str]:
    choose = random.Random(5).choices  # noqa: S311 - no secret
    while True:
        yield f"{' '.join(choose(_PLAIN, k=14))}\n"


def _spent(command: Sequence[str]) -> Spent:
    # A pipe: grep reads no further than to the first hit where its output goes to /dev/null.
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as child:
        assert child.stdout is not None
        child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"bench: {command[0]} failed")
    return Spent(usage.ru_utime + usage.ru_stime, usage.ru_maxrss)

# SPDX-License-Identifier: Apache-2.0
"""`oomtrace attach` as a person starts it, and what a workload itself says of its processes."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.architecture.checkout import ROOT
from tests.kernel.running import Run, said
from tests.waiting import SLOWER, wait_for
from tracer.events import ProcessId


@dataclass(frozen=True)
class Born:
    """A process as the workload itself logged it."""

    id: ProcessId
    parent: ProcessId
    not_before_ns: int


class Truth:
    """What the workload says about its own processes."""

    def __init__(self, log: Path) -> None:
        self.born: dict[ProcessId, Born] = {}
        self.ends_ns: dict[ProcessId, int] = {}
        for line in log.read_text().splitlines():
            kind, *words = line.split()
            numbers = [int(word) for word in words]
            identity = ProcessId(*numbers[:2])
            if kind == "B":
                self.born[identity] = Born(identity, ProcessId(*numbers[2:4]), numbers[4])
            else:
                self.ends_ns[identity] = numbers[2]

    def alive(self, identity: ProcessId, at_ns: int) -> bool:
        """Whether it certainly lived still."""
        return self.ends_ns.get(identity, 1 << 63) >= at_ns


class Attaching:
    """`oomtrace attach` as a person starts it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path, self.ready = folder, folder / "run.oomtrace", folder / "ready"
        self.environ = {name: value for name, value in os.environ.items() if not name.startswith("SUDO_")}
        self.environ |= {"PYTHONPATH": str(ROOT), "COLUMNS": "80"}
        self.started: list[subprocess.Popen] = []

    def command(self, *words: object) -> list[str]:
        return [sys.executable, "-m", "tracer", *map(str, words)]

    def start(self, *words: object, under: Sequence[str] = ()) -> subprocess.Popen:
        """In the foreground, and under watch when this returns.

        Args:
            under: what begins the command line.
        """
        options = ("--record", self.path, "--ready-file", self.ready)
        process = subprocess.Popen(
            [*under, *self.command("attach", *words, *options)],
            cwd=self.folder, env=self.environ, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.started.append(process)
        wait_for(lambda: said(self.ready) or process.poll() is not None, "it to watch")
        return process

    def run(self, *words: object, **more) -> subprocess.CompletedProcess:
        """Any command, to its end."""
        return subprocess.run(
            self.command(*words), cwd=self.folder, env=self.environ, text=True, capture_output=True,
            timeout=60 * SLOWER, check=False, **more,
        )  # fmt: skip

    def finish(self, process: subprocess.Popen) -> Run:
        out, err = process.communicate(timeout=60 * SLOWER)
        return self.judged(process.returncode, out, err)

    def judged(self, code: int = 0, out: str = "", err: str = "") -> Run:
        report = self.run("report", "--json", self.path)
        assert report.returncode == 0, report.stderr
        return Run(code, out, err, self.path, json.loads(report.stdout))


@pytest.fixture
def attach(can_trace, tmp_path):
    """Attaches; what still watches afterwards is ended."""
    attaching = Attaching(tmp_path)
    yield attaching
    for process in attaching.started:
        if process.poll() is None:
            process.kill()
            process.communicate()

# SPDX-License-Identifier: Apache-2.0
"""`oomtrace run` as a person starts it, with its output, its recording and its verdict."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.architecture.checkout import ROOT
from tests.waiting import SLOWER
from tracer.recording import read_recording


@dataclass
class Run:
    """One finished run."""

    code: int
    out: str
    err: str
    path: Path
    verdict: dict = field(default_factory=dict)

    @property
    def primary(self):
        return self.verdict["incidents"][self.verdict["primary"]]

    @property
    def links(self):
        return {link["link"]: link["status"] for link in self.primary["proof"]}

    def events(self, kind):
        return [event for event in read_recording(self.path) if isinstance(event, kind)]


def said(ready: Path) -> bool:
    """Whether the file given as --ready-file says that the job runs."""
    return ready.exists() and ready.read_text().endswith("\n")


def begun(path: Path) -> bool:
    """Whether a recording can be read: there is a file a moment before there is anything in it."""
    return path.exists() and path.stat().st_size > 0


@pytest.fixture
def oomtrace(can_trace, tmp_path):
    """Runs a job under watch; afterwards no cgroup of a run is left, unless a test says that one may be."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("SUDO_")}
    environ |= {"PYTHONPATH": str(ROOT), "COLUMNS": "80"}
    path = tmp_path / "run.oomtrace"

    def start(*job, options=(), within=(), more_environ=None, **kwargs):
        command = [*within, sys.executable, "-m", "tracer", "run", "--record", path, *options, "--", *map(str, job)]
        kwargs = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL} | kwargs
        return subprocess.Popen(command, cwd=tmp_path, env=environ | (more_environ or {}), text=True, **kwargs)

    def finish(process, *, patience_s=60 * SLOWER):
        out, err = process.communicate(timeout=patience_s)
        command = [sys.executable, "-m", "tracer", "report", "--json", str(path)]
        report = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60 * SLOWER, check=True)
        return Run(process.returncode, out, err, path, json.loads(report.stdout))

    def run(*job, **kwargs):
        return finish(start(*job, **kwargs))

    run.start, run.finish = start, finish
    return run

# SPDX-License-Identifier: Apache-2.0
"""The figures are made by real kills: the bench runs, small, and its count of kills is the kernel's."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.checkout import ROOT
from tests.waiting import SLOWER

pytestmark = pytest.mark.kernel


def test_the_bench_sees_every_kill_that_the_kernel_counted():
    if Path(sys.prefix) != ROOT / ".venv":
        pytest.skip("scripts/bench uses this checkout's .venv, and these tests run from another one")
    command = ["scripts/bench", "--starts", "1", "--singles", "3", "--storm", "23"]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100 * SLOWER, check=False)
    values = {line[:42].strip(): line[42:].split() for line in shown.stdout.splitlines() if line.startswith("  ")}

    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert values["kernel counted (oom_kill of the cgroup)"] == ["23"]
    assert values["seen + dropped"] == ["23", "+", "0", "equal"]
    assert values["bcc, LLVM, rich, jinja2 mapped"] == ["none"]

# SPDX-License-Identifier: Apache-2.0
"""The figures are made by real kills: the bench runs, small, and its count of kills is the kernel's."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.checkout import ROOT
from tests.waiting import SLOWER

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(300 * SLOWER)]


def run_bench(*arguments: str) -> str:
    if Path(sys.prefix) != ROOT / ".venv":
        pytest.skip("scripts/bench uses this checkout's .venv, and these tests run from another one")
    command = ["scripts/bench", *arguments]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240 * SLOWER, check=False)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    return shown.stdout


def test_the_bench_sees_every_kill_that_the_kernel_counted():
    shown = run_bench("--starts", "1", "--singles", "3", "--storm", "23", "--peer-kills", "3")
    values = {line[:42].strip(): line[42:].split() for line in shown.splitlines() if line.startswith("  ")}

    assert values["kernel counted (oom_kill of the cgroup)"] == ["23"]
    assert values["seen + dropped"] == ["23", "+", "0", "equal"]
    assert values["bcc, LLVM, rich, jinja2 mapped"] == ["none"]


def test_a_kill_is_proved_whether_or_not_other_tools_run_here_and_these_speak_for_themselves():
    shown = run_bench("--peers", "--peer-kills", "2")
    rows = [[cell.strip() for cell in line.split("|")[1:]] for line in shown.splitlines() if line.startswith("| ")]
    (_, ours, *_), *others = rows[1:]

    assert ours.replace("\\", "") == "2, 0 lost (host_oom_cgroup: proved)"
    assert {name for name, *_ in others} == {"bpftrace oomkill.bt", "libbpf-tools oomkill", "bcc oomkill"}
    assert all(said for _, said, *_ in others)


def test_the_bench_says_what_sampling_costs_far_from_a_limit_and_near_one():
    shown = run_bench("--sampling", "--processes", "4", "--each", "8", "--seconds", "2", "--pairs", "1")

    assert "the tracer at the default rate" in shown
    assert "the tracer near the limit" in shown
    assert "work done, watched to not watched" in shown

# SPDX-License-Identifier: Apache-2.0
"""`scripts/gpu-check` from its first line to its last, on a libcuda without a GPU: what it takes for granted holds."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.checkout import ROOT
from tests.stubs.cuda import build_library
from tests.waiting import SLOWER

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(300 * SLOWER)]


def check(*arguments: str, folder: Path) -> subprocess.CompletedProcess:
    command = [sys.executable, "scripts/gpu-check", *arguments]
    environ = os.environ | {"LD_LIBRARY_PATH": str(folder)}
    return subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=240 * SLOWER, check=False
    )


def test_without_a_gpu_it_says_so(tmp_path):
    (tmp_path / "libcuda.so.1").write_bytes(b"no library at all")
    done = check(folder=tmp_path)

    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr.startswith("gpu-check: no NVIDIA GPU to check here: no libcuda.so.1")


def test_all_that_it_checks_is_so(can_trace, tmp_path):
    if not (ROOT / ".venv" / "bin" / "python").exists():
        pytest.skip("scripts/gpu-check uses this checkout's .venv")
    build_library(tmp_path)
    done = check("--pin-gib", "0.01", "--torch-python", "/nonexistent/python", folder=tmp_path)
    rows = {line.split("|")[1].strip(): line.split("|")[2:] for line in done.stdout.splitlines() if line[:1] == "|"}

    assert done.returncode == 0, done.stdout + done.stderr
    assert [cell.strip() for cell in rows["driver"][:3]] == ["1", "cuda_oom (proved)", "yes"]
    assert [rows["driver-retry"][place].strip() for place in (0, 2)] == ["0", "yes"]
    assert {name for name, cells in rows.items() if cells[0].strip() == "-"} == {
        "torch-default", "torch-expandable-segments", "torch-malloc-async", "torch-fraction", "torch-retry",
    }  # fmt: skip
    assert rows["cuMemAllocAsync, 11020, flags 2"][0].strip() == "cuMemAllocAsync_ptsz"
    assert "- the same under oomtrace: " in done.stdout

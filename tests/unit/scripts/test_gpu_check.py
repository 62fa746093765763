# SPDX-License-Identifier: Apache-2.0
"""`scripts/gpu-check` where there is no GPU, and the parts of it that need none."""

import ctypes
import subprocess
import sys

import pytest

from scripts.gpu import accounting, acts
from tests.architecture.checkout import ROOT


def test_without_a_gpu_it_says_so_in_one_line(tmp_path):
    (tmp_path / "libcuda.so.1").write_bytes(b"no library")
    command = [sys.executable, "-S", ROOT / "scripts" / "gpu-check"]
    done = subprocess.run(
        command, env={"LD_LIBRARY_PATH": str(tmp_path)}, capture_output=True, text=True, timeout=60, check=False
    )
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        assert (done.returncode, done.stdout) == (5, "")
        assert done.stderr.startswith("gpu-check: no NVIDIA GPU to check here: no libcuda.so.1")
        assert done.stderr.count("\n") == 1
    else:
        pytest.skip("does not apply here: this machine has the library")


def test_memory_of_this_process_is_where_it_is_looked_for():
    before = accounting.look()
    kept = bytes([1]) * (64 << 20)
    after = accounting.look()

    assert after["process RssAnon"] - before["process RssAnon"] >= len(kept) * 9 // 10
    assert after["process, mapped from /dev/nvidia*"] == 0
    assert all(value >= 0 for value in after.values())


def test_what_is_mapped_from_the_drivers_devices_is_summed(monkeypatch):
    smaps = """\
7f0000000000-7f0000400000 rw-s 00000000 00:06 430    /dev/nvidiactl
Size:               4096 kB
Rss:                4096 kB
7f0000400000-7f0000800000 rw-p 00000000 00:00 0
Rss:                 100 kB
7f0000800000-7f0000c00000 rw-s 00000000 00:06 431    /dev/nvidia0
Rss:                   4 kB
"""
    monkeypatch.setattr(accounting, "_text", lambda path: smaps if path.endswith("smaps") else "")

    assert accounting._mapped() == 4100 << 10


def test_each_act_has_what_must_come_of_it():
    assert set(acts.TORCH) < set(acts.EXPECTED)

# SPDX-License-Identifier: Apache-2.0
"""The demonstration, as a person starts it: a real kill that is proved, and a control without one."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.architecture.checkout import ROOT
from tests.waiting import SLOWER

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(300 * SLOWER)]


@pytest.fixture(scope="module")
def shown():
    if Path(sys.prefix) != ROOT / ".venv":
        pytest.skip("scripts/demo uses this checkout's .venv, and these tests run from another one")
    # It keeps its recordings, for a person to see.
    with tempfile.TemporaryDirectory(prefix="oomt-") as folder:
        return subprocess.run(
            ["scripts/demo"], cwd=ROOT, env={**os.environ, "TMPDIR": folder},
            capture_output=True, text=True, timeout=240 * SLOWER, check=False,
        )  # fmt: skip


def test_the_demo_proves_the_kill_and_only_the_kill(shown):
    kill, control = shown.stdout.splitlines()[-2:]

    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert kill.split() == ["ok", "kill", "host_oom_cgroup", "proved", "1,2,3,4", "dataloader_worker", "2"]
    assert control.split() == ["ok", "control", "exited", "proved"]


def test_the_kernels_own_count_is_that_of_the_jobs_cgroup_and_of_nothing_else(shown):
    counts = [line.split() for line in shown.stdout.splitlines() if " before " in line and " after " in line]

    assert counts == [["kill", "before", "0", "after", "1"], ["control", "before", "0", "after", "0"]]


def test_the_demo_fits_eighty_columns(shown):
    # A notice of the command, such as whom the job runs as, is one line however long.
    laid_out = [line for line in shown.stdout.splitlines() if not line.startswith("oomtrace: ")]

    assert [line for line in laid_out if len(line) > 80] == []

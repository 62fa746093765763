# SPDX-License-Identifier: Apache-2.0
"""scripts/mechanisms: real programs are killed under their limits, their fixed twins live, and all of it is kept."""

import json
import subprocess
import sys

import pytest

from tests.architecture.checkout import ROOT
from tests.kernel.conftest import can_trace  # noqa: F401 - a fixture
from tests.torch.conftest import TORCHRUN
from tests.waiting import SLOWER
from tracer.events import TrainingLine
from tracer.recording import read_recording

KINDS = ("main_process_growth", "shm_held")
RUNS_S = 240 * SLOWER
MARKS = (
    "before\n<!-- made by scripts/mechanisms --write-table: do not edit -->\nold\n"
    "<!-- end of what scripts/mechanisms made -->\nafter\n"
)

pytestmark = pytest.mark.timeout(2 * RUNS_S)


@pytest.fixture(scope="module")
def mechanisms(tmp_path_factory):
    """Runs the script with a folder of its own; what it printed."""
    if not TORCHRUN.exists():
        pytest.skip("there is no PyTorch for jobs here: scripts/test --torch makes one")
    folder = tmp_path_factory.mktemp("mechanisms")

    def run(*options):
        command = [sys.executable, ROOT / "scripts" / "mechanisms", "--runs", "1", "--keep", folder / "runs", *options]
        return subprocess.run(command, capture_output=True, text=True, timeout=RUNS_S, check=False)

    run.folder = folder
    return run


@pytest.fixture(scope="module")
def first(mechanisms):
    return mechanisms("--only", ",".join(KINDS))


def test_programs_are_killed_for_want_of_memory_and_their_twins_are_not(can_trace, first):  # noqa: F811 - a fixture
    assert first.returncode == 0, first.stdout + first.stderr
    for kind in KINDS:
        assert f"pass            {kind}-killed-1" in first.stdout
        assert f"pass            {kind}-fixed-1" in first.stdout


def test_the_steps_of_a_run_are_in_its_recording(can_trace, first, mechanisms):  # noqa: F811 - a fixture
    events = list(read_recording(mechanisms.folder / "runs" / "shm_held-killed-1.oomtrace"))
    steps = [one.numbers.get("step") for one in events if isinstance(one, TrainingLine) and one.about == "progress"]

    assert steps[0] == 0
    assert steps[-1] > 0


def test_what_was_run_is_not_run_again_but_judged(can_trace, first, mechanisms):  # noqa: F811 - a fixture
    before = {path: path.stat().st_mtime_ns for path in (mechanisms.folder / "runs").iterdir()}
    (document := mechanisms.folder / "table.md").write_text(MARKS)
    again = mechanisms("--only", ",".join(KINDS), "--write-table", document)

    assert {path: path.stat().st_mtime_ns for path in (mechanisms.folder / "runs").iterdir()} == before
    assert again.stdout == first.stdout
    text = document.read_text()
    assert text.startswith("before\n<!-- made by scripts/mechanisms")
    assert text.endswith("made -->\nafter\n")
    assert "old" not in text
    assert "| `shm_held` |" in text


def test_a_run_of_another_outcome_is_told_by_the_exit_status(can_trace, first, mechanisms):  # noqa: F811 - a fixture
    path = mechanisms.folder / "runs" / "shm_held-killed-1.json"
    document = json.loads(path.read_text())
    (copy := mechanisms.folder / "other").mkdir()
    (copy / path.name).write_text(json.dumps(document | {"counters": {"seen": 1, "lost": 0, "kernel": 7}}))
    (copy / "shm_held-killed-1.oomtrace").symlink_to(path.with_suffix(".oomtrace"))
    told = mechanisms("--only", "shm_held", "--killed", "--again", "--keep", copy)

    assert told.returncode == 1
    assert "fail            shm_held-killed-1" in told.stdout

# SPDX-License-Identifier: Apache-2.0
"""scripts/guest/inside/drive.py: what runs in the guest leaves files from which the host can tell how it ended."""

import json

import pytest

from scripts.guest.inside import drive
from scripts.guest.results import BROKEN, PASS, parse


@pytest.fixture
def play(tmp_path, monkeypatch):
    """One scenario, given as Python, run as in the guest."""
    monkeypatch.setattr(drive, "WORK", tmp_path / "work")

    def run(program, timeout_s=60):
        scenario = {"name": "leaf", "command": ["-c", program, "{record}"], "timeout_s": timeout_s}
        drive.run(scenario, tmp_path / "leaf")
        return tmp_path / "leaf"

    return run


def test_what_a_scenario_says_and_records_comes_out(play):
    folder = play("import sys; open(sys.argv[1], 'w').write('facts'); print('{\"outcome\": \"pass\"}')")

    assert (folder / "recording.oomtrace").read_text() == "facts"
    assert parse(folder, died="")[:2] == (PASS, None)


def test_a_scenario_that_is_stuck_is_ended_after_it_could_clean_up(play):
    program = (
        "import signal, sys, time\n"
        "def undo(*_): print('undone', flush=True); sys.exit(1)\n"
        "signal.signal(signal.SIGTERM, undo)\n"
        "time.sleep(1000)"
    )
    folder = play(program, timeout_s=3)

    assert json.loads((folder / "ended.json").read_text())["timed_out"]
    assert (folder / "stdout").read_text() == "undone\n"
    assert parse(folder, died="")[0] == BROKEN


def test_one_scenario_leaves_nothing_to_the_next(play):
    play("import sys; open(sys.argv[1], 'w').write('facts')")
    folder = play("import os, sys; assert not os.path.exists(sys.argv[1])")

    assert json.loads((folder / "ended.json").read_text())["exit"] == 0


def test_a_scenario_can_be_killed_for_memory_though_the_driver_cannot(play):
    folder = play("print(open('/proc/self/oom_score_adj').read())")

    assert (folder / "stdout").read_text().strip() == "0"


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """A small kernel with one tracepoint and type information."""
    (tmp_path / "events" / "oom" / "mark_victim").mkdir(parents=True)
    (tmp_path / "events" / "oom" / "mark_victim" / "format").write_text("name: mark_victim")
    (tmp_path / "vmlinux").write_text("types")
    monkeypatch.setattr(drive, "EVENTS", tmp_path / "events")
    monkeypatch.setattr(drive, "BTF", tmp_path / "vmlinux")
    return tmp_path


def test_layouts_are_what_the_kernel_has_of_them(kernel):
    drive.copy_layouts(kernel / "layouts")

    assert {path.name for path in (kernel / "layouts").rglob("*")} == {"formats", "oom-mark_victim.txt", "vmlinux.btf"}


def test_layouts_are_copied_whole_or_not_at_all(kernel):
    (kernel / "vmlinux").unlink()
    with pytest.raises(FileNotFoundError):
        drive.copy_layouts(kernel / "layouts")

    assert not (kernel / "layouts").exists()


MOUNTS = """\
tmpfs /sys/fs/cgroup tmpfs rw,nosuid 0 0
cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0
"""
V1 = "cgroup /sys/fs/cgroup/memory cgroup rw,nosuid,memory 0 0\n"
V2 = "cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n"


@pytest.mark.parametrize(
    ("cgroup", "mounts", "there"),
    [("v1", V1, True), ("v1", V2, False), ("v1", "", False), ("v2", V2, True), ("v2", V1, False)],
)
def test_a_scenario_for_a_hierarchy_that_the_kernel_lacks_does_not_apply(cgroup, mounts, there):
    assert (drive.without(cgroup, MOUNTS + mounts) is None) == there

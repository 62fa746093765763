# SPDX-License-Identifier: Apache-2.0
"""A recorder in the background is known by a lock that ends with it, and nobody else is taken for it."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.architecture.checkout import ROOT
from tracer.errors import InputError, PermissionDenied, UsageError
from tracer.job import pidfile
from tracer.job.pidfile import PidFile, Recorder, find, folder_of, make_folder, running

HOLDER = """
import sys
from tracer.job.pidfile import PidFile, Recorder
import os
with PidFile.create(sys.argv[1], Recorder(os.getpid(), "process 7 (x)", "/r", None, "now")):
    print("locked", flush=True)
    sys.stdin.read()
"""


def me(**changes):
    return replace(
        Recorder(os.getpid(), "process 7 (x)", "/tmp/r.oomtrace", None, "2026-01-01 00:00:00 UTC"), **changes
    )


@pytest.fixture
def holder(tmp_path):
    """Another process with a pid file."""
    path = str(tmp_path / "other.json")
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, path], env={"PYTHONPATH": str(ROOT)}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout.readline() == "locked\n"
    yield process, path
    process.kill()
    process.communicate()


def test_it_is_there_while_its_process_runs_and_gone_after(tmp_path):
    path = str(tmp_path / "a.json")
    with PidFile.create(path, me()):
        assert find(path) == me()
        assert os.stat(path).st_mode & 0o777 == 0o600
        assert os.listdir(tmp_path) == ["a.json"]
    assert os.listdir(tmp_path) == []


def test_a_file_whose_process_was_killed_is_stale(holder):
    process, path = holder
    assert find(path).pid == process.pid
    process.kill()
    process.wait()

    assert find(path) is None


def test_a_file_that_somebody_else_has_locked_is_not_its_recorders(holder):
    _, path = holder
    with open(path, "r+") as file:
        fields = json.load(file) | {"pid": os.getpid()}
        file.seek(0)
        file.write(json.dumps(fields) + " " * 40)

    assert find(path) is None


@pytest.mark.parametrize(
    "text",
    ["", "4711\n", "[]", "{}", '{"schema": "oomtrace.recorder/1", "pid": 1}', '{"schema": 3}', "\udcff", "x" * 100_000],
)
def test_any_other_file_is_no_pid_file(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_text(text, errors="surrogateescape")

    with pytest.raises(UsageError):
        find(str(path))
    with pytest.raises(UsageError):
        PidFile.create(str(path), me())
    assert path.read_text(errors="surrogateescape") == text


def test_a_fifo_a_folder_and_a_link_do_not_hang_or_mislead(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("/etc/passwd")

    for name, error in (("fifo", UsageError), ("folder", UsageError), ("link", InputError), ("none", InputError)):
        with pytest.raises(error):
            find(str(tmp_path / name))


def test_a_stale_file_is_replaced_and_one_of_a_running_recorder_is_not(holder):
    process, path = holder
    with pytest.raises(UsageError, match="a recorder runs with this pid file"):
        PidFile.create(path, me())
    process.kill()
    process.wait()
    with PidFile.create(path, me()):
        assert find(path) == me()


def test_the_list_has_those_that_run_and_loses_those_that_do_not(tmp_path, holder):
    process, path = holder
    tmp_path.chmod(0o700)
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "bad.json").write_text("x")
    mine = str(tmp_path / "mine.json")
    with PidFile.create(mine, me()):
        assert [found for found, _ in running(str(tmp_path))] == [mine, path]
        process.kill()
        process.wait()
        assert [found for found, _ in running(str(tmp_path))] == [mine]
        assert not os.path.exists(path)
    assert sorted(os.listdir(tmp_path)) == ["bad.json", "notes.txt"]


def test_a_list_that_others_can_write_to_is_not_trusted(tmp_path):
    folder = tmp_path / "open"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    (tmp_path / "link").symlink_to(tmp_path)
    with PidFile.create(str(folder / "a.json"), me()):
        assert running(str(folder)) == []
    for path in (folder, tmp_path / "link"):
        with pytest.raises(PermissionDenied):
            make_folder(str(path))


def test_the_list_is_made_for_its_owner_alone(tmp_path):
    make_folder(str(tmp_path / "a" / "oomtrace"))
    make_folder(str(tmp_path / "a" / "oomtrace"))

    assert os.stat(tmp_path / "a" / "oomtrace").st_mode & 0o777 == 0o700
    assert running(str(tmp_path / "nowhere")) == []


def test_each_user_has_a_list(tmp_path):
    assert folder_of(0, {"XDG_RUNTIME_DIR": str(tmp_path)}) == "/run/oomtrace"
    assert folder_of(1234, {"XDG_RUNTIME_DIR": str(tmp_path)}) == str(tmp_path / "oomtrace")
    assert folder_of(1234, {"XDG_RUNTIME_DIR": "relative"}) == "/tmp/oomtrace-1234"
    assert folder_of(1234, {}) == "/tmp/oomtrace-1234"


def test_a_lock_is_found_by_the_inode_whatever_the_device(tmp_path):
    path = str(tmp_path / "a.json")
    locks = tmp_path / "locks"
    with PidFile.create(path, me()), open(path) as file:
        inode = os.stat(path).st_ino
        locks.write_text(
            f"1: POSIX  ADVISORY  WRITE 5 00:1b:{inode} 0 EOF\n2: FLOCK  ADVISORY  WRITE 77 ff:ff:{inode} 0 EOF\n"
            f"3: FLOCK  ADVISORY  WRITE 78 00:1b:{inode} 0 EOF\n"
        )
        assert pidfile._holders(file.fileno(), str(locks)) == {77, 78}
        locks.write_text("1: FLOCK  ADVISORY  WRITE 77 00:1b:1 0 EOF\n")
        assert pidfile._holders(file.fileno(), str(locks)) == set()


def test_who_locks_another_file_of_the_same_number_is_neither_taken_for_the_recorder_nor_in_its_way(
    tmp_path, holder, monkeypatch
):
    process, path = holder
    ours = str(tmp_path / "ours.json")
    with PidFile.create(ours, me()):
        # As if both files had one number, on two devices.
        monkeypatch.setattr(pidfile, "_holders", lambda fd: {process.pid, os.getpid()})
        assert find(ours) == me()
        assert find(path).pid == process.pid
        forged = tmp_path / "forged.json"
        forged.write_text(Path(path).read_text())
        assert find(str(forged)) is None

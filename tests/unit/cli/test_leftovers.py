# SPDX-License-Identifier: Apache-2.0
"""What is said about processes that the job left behind; /proc is a small tree of files."""

import pytest

from tracer.cli.leftovers import NAMED, left_in, names_of
from tracer.errors import CgroupUnavailable
from tracer.job.cgroupfs import PlainCgroup


@pytest.fixture
def process(tmp_path):
    def add(pid, cmdline=b"", comm=b""):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "cmdline").write_bytes(cmdline)
        (tmp_path / str(pid) / "comm").write_bytes(comm + b"\n")
        return pid

    add.names = lambda *pids: names_of(pids, proc_root=str(tmp_path))
    return add


@pytest.mark.parametrize(
    "cmdline, comm, name",
    [
        (b"/usr/bin/sleep\x0060\x00", b"sleep", "7 (sleep 60)"),
        (b"", b"kworker/0:1", "7 (kworker/0:1)"),
        (b"", b"", "7"),
        (b"\x00\x00", b"odd", "7 (odd)"),
        (b"/\x00", b"x", "7 (/)"),
        (b"train\x00--api-key\x00hunter2\x00", b"train", "7 (train --api-key ***)"),
        (b"caf\xe9\x00", b"x", r"7 (caf\xe9)"),
        (b"x" * 100, b"x", "7 (" + "x" * 57 + "...)"),
    ],
)
def test_a_process_is_named_by_its_command_without_secrets(process, cmdline, comm, name):
    assert process.names(process(7, cmdline, comm)) == name


def test_a_process_that_is_gone_is_still_a_number(process):
    assert process.names(4711) == "4711"


def test_a_crowd_is_counted(process):
    pids = [process(pid, comm=b"c") for pid in range(1, NAMED + 4)]

    assert process.names(*pids).endswith(f"{NAMED} (c) and 3 more")
    assert process.names(*pids[:NAMED]).endswith(f"{NAMED} (c)")


def test_an_empty_cgroup_is_removed_without_a_word(tmp_path):
    (tmp_path / "x").mkdir()

    assert left_in(PlainCgroup("/x", str(tmp_path / "x")), 0) is None


def test_what_is_left_is_told_with_its_cgroup_whose_name_may_be_any_bytes(tmp_path):
    (tmp_path / "cgroup.procs").write_text("999999999\n")
    text = left_in(PlainCgroup("/caf\udce9/x", str(tmp_path)), 0)

    assert text == r"processes of the job still ran in /caf\xe9/x after its end: 999999999"


def test_a_cgroup_that_cannot_be_removed_is_told_and_no_error(monkeypatch):
    class Stuck:
        def remove(self, *, patience_s):
            raise CgroupUnavailable("cannot remove /x: Device or resource busy")

    assert left_in(Stuck(), 0) == "cannot remove /x: Device or resource busy"

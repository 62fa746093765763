# SPDX-License-Identifier: Apache-2.0
"""In which namespaces we live, told by a /proc of our own making."""

import pytest

from tracer.kernel.handover import FIRST_PID_NAMESPACE
from tracer.sources import namespaces
from tracer.sources.namespaces import INITIAL, Namespaces, read_namespaces


@pytest.fixture
def proc(tmp_path):
    """A /proc: `made(NSpid, time offsets, time namespaces)`."""

    def made(shown="5", offsets=None, times=("a", "a")):
        (tmp_path / "self" / "ns").mkdir(parents=True)
        (tmp_path / "self" / "ns" / "pid").touch()
        (tmp_path / "self" / "status").write_text(f"Name:\tx\nTgid:\t5\nNSpid:\t{shown}\n")
        for name, to in zip(("time", "time_for_children"), times, strict=True):
            if to is not None:
                (tmp_path / "self" / "ns" / name).symlink_to(to)
        if offsets is not None:
            (tmp_path / "self" / "timens_offsets").write_text(offsets)
        return str(tmp_path)

    return made


OFFSETS = "monotonic         500         7\nboottime        -1000         0\n"


def test_another_pid_namespace_than_the_first_is_our_own(proc, monkeypatch):
    root = proc()
    assert read_namespaces(root) == Namespaces(own_pids=True)

    monkeypatch.setattr(namespaces, "FIRST_PID_NAMESPACE", namespaces.os.stat(f"{root}/self/ns/pid").st_ino)
    assert read_namespaces(root) == INITIAL


@pytest.mark.parametrize("shown, above", [("5", 0), ("20700\t5", 1), ("20700 300 5", 2), ("", None)])
def test_the_proc_of_a_namespace_above_ours_shows_more_than_one_pid_of_us(proc, shown, above):
    assert read_namespaces(proc(shown)).proc_above == above


def test_a_proc_that_does_not_show_us_says_so(tmp_path):
    assert read_namespaces(str(tmp_path)) == Namespaces(own_pids=None, proc_above=None)


def test_what_a_time_namespace_adds_is_read(proc):
    here = read_namespaces(proc(offsets=OFFSETS))

    assert (here.monotonic_shift_ns, here.boottime_shift_ns) == (500_000_000_007, -1_000_000_000_000)
    assert here.own_clocks


@pytest.mark.parametrize("times", [("a", "b"), (None, None), ("a", None)])
def test_offsets_of_another_time_namespace_than_ours_are_not_taken_for_ours(proc, times):
    assert not read_namespaces(proc(offsets=OFFSETS, times=times)).own_clocks


@pytest.mark.parametrize("offsets", ["", "monotonic x 0\n", "monotonic 5\n", "\n\n", "boottime 1 y\nmonotonic 1 0\n"])
def test_offsets_that_are_not_understood_are_none(proc, offsets):
    assert not read_namespaces(proc(offsets=offsets)).own_clocks


def test_here_it_is_what_the_kernel_says():
    number = int(namespaces.os.readlink("/proc/self/ns/pid").removeprefix("pid:[").removesuffix("]"))

    assert read_namespaces().own_pids is (number != FIRST_PID_NAMESPACE)

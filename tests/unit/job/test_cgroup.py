# SPDX-License-Identifier: Apache-2.0
"""The job's cgroup, in small trees of files that stand for cgroupfs."""

import fcntl
import os

import pytest

from tracer.errors import CgroupUnavailable
from tracer.job import cgroup as module
from tracer.job.cgroup import (
    Hierarchy,
    JobCgroup,
    Limits,
    find_hierarchy,
    make_cgroup,
    remove_left_behind,
    shares_group_kill,
)

GIB = 1 << 30


@pytest.fixture
def roots(tmp_path):
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "cg").mkdir()
    return tmp_path / "proc", tmp_path / "cg"


def found(roots, paths, mountinfo=""):
    proc, cg = roots
    (proc / "self" / "cgroup").write_text(paths)
    (proc / "self" / "mountinfo").write_text(mountinfo)
    return find_hierarchy(proc_root=str(proc), cgroup_root=str(cg))


def v1(roots, path="/user/s1"):
    memory = roots[1] / "memory"
    memory.mkdir()
    (memory / "memory.limit_in_bytes").write_text("1")
    (memory / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
    return found(roots, f"9:memory:{path}\n0::/\n")


def v2(roots, path="/user/s1", *, here="", above="", own=None):
    """Folders whose subtree_control holds `here` and `above`."""
    cg = roots[1]
    own_folder = cg / path.lstrip("/")
    own_folder.mkdir(parents=True)
    for folder, control in ((cg, above), (own_folder.parent, above), (own_folder, here)):
        (folder / "cgroup.controllers").write_text("cpu memory\n")
        (folder / "cgroup.subtree_control").write_text(control)
    for name, value in (own or {}).items():
        (own_folder / name).write_text(value)
    return found(roots, f"0::{path}\n")


def refuse_writing(file):
    """Stands for EBUSY: a folder cannot be opened for writing either, whoever asks."""
    file.unlink()
    file.mkdir()


def test_on_v1_the_cgroup_stands_below_our_own_with_both_limits(roots):
    made = make_cgroup(v1(roots), "t1", Limits(memory_bytes=GIB, swap_bytes=0))

    folder = roots[1] / "memory" / "user" / "s1" / "oomtrace-run-t1"
    assert made == JobCgroup("/user/s1/oomtrace-run-t1", str(folder))
    assert (folder / "memory.limit_in_bytes").read_text() == str(GIB)
    assert (folder / "memory.memsw.limit_in_bytes").read_text() == str(GIB)


def test_on_v1_swap_alone_cannot_be_limited_and_nothing_is_left_behind(roots):
    hierarchy = v1(roots)

    with pytest.raises(CgroupUnavailable, match="needs a memory limit"):
        make_cgroup(hierarchy, "t1", Limits(swap_bytes=0))
    assert not (roots[1] / "memory" / "user" / "s1" / "oomtrace-run-t1").exists()


def test_at_the_top_of_v1_the_path_has_no_double_slash(roots):
    assert make_cgroup(v1(roots, "/"), "t", Limits(memory_bytes=GIB)).path == "/oomtrace-run-t"


def test_a_container_without_a_cgroup_namespace_is_understood(roots):
    memory = roots[1] / "memory"
    memory.mkdir()
    (memory / "memory.limit_in_bytes").write_text("1")
    hierarchy = found(roots, "4:memory:/docker/abc\n", f"30 20 0:26 /docker/abc {memory} ro - cgroup c rw,memory\n")

    assert make_cgroup(hierarchy, "t", Limits(memory_bytes=GIB)).directory == str(memory / "oomtrace-run-t")


def test_on_v2_the_cgroup_stands_below_our_own_where_children_may_have_memory(roots):
    made = make_cgroup(v2(roots, here="memory"), "t1", Limits(memory_bytes=GIB, swap_bytes=GIB))

    folder = roots[1] / "user" / "s1" / "oomtrace-run-t1"
    assert made.directory == str(folder)
    assert (folder / "memory.max").read_text() == str(GIB)
    assert (folder / "memory.swap.max").read_text() == str(GIB)
    assert not (folder / "memory.oom.group").exists()


def test_on_v2_a_sibling_will_do_where_our_own_level_limits_nothing(roots):
    hierarchy = v2(roots, above="memory", own={"memory.max": "max\n", "memory.high": "max\n"})
    refuse_writing(roots[1] / "user" / "s1" / "cgroup.subtree_control")

    assert make_cgroup(hierarchy, "t1", Limits(memory_bytes=GIB)).path == "/user/oomtrace-run-t1"


def test_on_v2_a_sibling_must_not_escape_our_own_limit(roots):
    hierarchy = v2(roots, above="memory", own={"memory.max": "1073741824\n"})
    refuse_writing(roots[1] / "user" / "s1" / "cgroup.subtree_control")

    with pytest.raises(CgroupUnavailable, match=r"memory\.max would not hold"):
        make_cgroup(hierarchy, "t1", Limits(memory_bytes=GIB))


def test_a_cgroup_outside_of_our_namespace_is_refused(roots):
    hierarchy = Hierarchy(2, str(roots[1]), "/../other", "/")

    with pytest.raises(CgroupUnavailable, match="namespace"):
        make_cgroup(hierarchy, "t1", Limits(memory_bytes=GIB))


def test_no_memory_controller_is_said(roots):
    with pytest.raises(CgroupUnavailable, match="no memory controller"):
        found(roots, "0::/\n")


def test_a_group_kill_round_us_is_found_however_far_up(roots):
    hierarchy = v2(roots, "/pod/c1")
    (roots[1] / "pod" / "memory.oom.group").write_text("1\n")

    assert shares_group_kill(hierarchy) == "/pod"


def test_what_still_runs_in_it_is_named_and_not_ended(tmp_path):
    (tmp_path / "below").mkdir()
    (tmp_path / "cgroup.procs").write_text("12\n7\n")
    (tmp_path / "below" / "cgroup.procs").write_text("99\n")

    assert JobCgroup("/x", str(tmp_path)).remove(patience_s=0) == (7, 12, 99)


def test_an_empty_one_is_removed_and_removing_it_again_is_no_error(tmp_path):
    cgroup = JobCgroup("/x", str(tmp_path / "x"))
    (tmp_path / "x").mkdir()

    assert cgroup.remove() == ()
    assert cgroup.remove() == ()
    assert not (tmp_path / "x").exists()


def test_one_that_becomes_empty_in_time_is_removed(tmp_path, monkeypatch):
    (tmp_path / "x" / "stands for a process").mkdir(parents=True)
    monkeypatch.setattr(module.time, "sleep", lambda _: (tmp_path / "x" / "stands for a process").rmdir())

    assert JobCgroup("/x", str(tmp_path / "x")).remove(patience_s=30) == ()


def test_what_earlier_runs_left_is_removed_and_nothing_else(tmp_path):
    for name in (
        "oomtrace-run-empty",
        "oomtrace-run-used/a process",
        "oomtrace-test-1",
        "someone",
        "oomtrace-run-held",
    ):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "oomtrace-run-link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "oomtrace-run-file").write_text("")
    held = os.open(tmp_path / "oomtrace-run-held", os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    before = set(os.listdir(tmp_path))

    remove_left_behind(str(tmp_path))
    os.close(held)

    assert before - set(os.listdir(tmp_path)) == {"oomtrace-run-empty"}
    remove_left_behind(str(tmp_path))
    assert "oomtrace-run-held" not in os.listdir(tmp_path), "a lock ends with who held it"
    remove_left_behind(str(tmp_path / "no such folder"))


@pytest.mark.parametrize("version", [v1, v2])
def test_a_new_one_is_made_where_left_ones_are_removed(roots, version):
    hierarchy = version(roots, **({} if version is v1 else {"here": "memory"}))
    left = hierarchy.directory("/user/s1/oomtrace-run-left")
    os.mkdir(left)

    made = make_cgroup(hierarchy, "t1", Limits())

    assert os.path.dirname(made.directory) == os.path.dirname(left)
    assert not os.path.exists(left)


def test_a_run_that_has_just_made_its_cgroup_does_not_lose_it_to_another(roots):
    hierarchy = v1(roots)
    first = make_cgroup(hierarchy, "t1", Limits())
    second = make_cgroup(hierarchy, "t2", Limits())

    assert os.path.isdir(first.directory)
    assert (first.remove(), second.remove()) == ((), ())
    assert not os.path.exists(first.directory)


@pytest.mark.parametrize("when", ["before it is opened", "once it is open"])
def test_one_that_another_run_removed_before_it_was_claimed_is_made_again(roots, monkeypatch, when):
    hierarchy, real, others = v1(roots), os.open, ["one"]

    def slowly(path, *rest):
        opened = real(path, *rest) if when == "once it is open" else None
        if others and str(path).endswith("oomtrace-run-t1"):
            others.clear()
            os.rmdir(path)
        return real(path, *rest) if opened is None else opened

    monkeypatch.setattr(module.os, "open", slowly)
    made = make_cgroup(hierarchy, "t1", Limits())

    assert not others
    assert os.path.isdir(made.directory)
    assert made.claim is not None


def test_a_neighbour_who_never_lets_go_of_the_lock_stops_nobody(roots, monkeypatch):
    def refuse(*_):
        raise BlockingIOError

    monkeypatch.setattr(module.fcntl, "flock", refuse)
    monkeypatch.setattr(module.time, "sleep", lambda _: None)

    made = make_cgroup(v1(roots), "t1", Limits())

    assert os.path.isdir(made.directory)
    assert made.claim is None


def test_a_mount_from_above_our_own_namespace_is_refused_unless_another_lies_over_it(roots):
    v1(roots)
    line = f"35 31 0:32 {{}} {roots[1]}/memory rw - cgroup cgroup rw,memory\n"
    above, own = line.format("/../.."), line.format("/")

    with pytest.raises(CgroupUnavailable, match="namespace"):
        make_cgroup(found(roots, "9:memory:/\n", above), "t1", Limits(memory_bytes=GIB))
    assert found(roots, "9:memory:/\n", above + own).mount_root == "/"

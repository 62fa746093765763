# SPDX-License-Identifier: Apache-2.0
"""The job's cgroup, in small trees of files that stand for cgroupfs."""

import pytest

from tracer.errors import CgroupUnavailable
from tracer.job.cgroup import Hierarchy, JobCgroup, Limits, find_hierarchy, make_cgroup, shares_group_kill

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

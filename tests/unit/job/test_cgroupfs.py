# SPDX-License-Identifier: Apache-2.0
"""A cgroup made by hand, in small trees of files that stand for cgroupfs."""

import errno
import fcntl
import os

import pytest

from tests.unit.job.trees import GIB, found, refuse_writing, roots, v1, v2  # noqa: F401 - a fixture is among them
from tracer.errors import CgroupUnavailable, PermissionDenied
from tracer.job import cgroupfs as module
from tracer.job.cgroup import Hierarchy, Limits
from tracer.job.cgroupfs import PlainCgroup, make_plain_cgroup, remove_left_behind

# ruff: noqa: F811


def test_on_v1_the_cgroup_stands_below_our_own_with_both_limits(roots):
    made = make_plain_cgroup(v1(roots), "t1", Limits(memory_bytes=GIB, swap_bytes=0))

    folder = roots[1] / "memory" / "user" / "s1" / "oomtrace-run-t1"
    assert made == PlainCgroup("/user/s1/oomtrace-run-t1", str(folder))
    assert (folder / "memory.limit_in_bytes").read_text() == str(GIB)
    assert (folder / "memory.memsw.limit_in_bytes").read_text() == str(GIB)


def test_at_the_top_of_v1_the_path_has_no_double_slash(roots):
    assert make_plain_cgroup(v1(roots, "/"), "t", Limits(memory_bytes=GIB)).path == "/oomtrace-run-t"


def test_a_container_without_a_cgroup_namespace_is_understood(roots):
    memory = roots[1] / "memory"
    memory.mkdir()
    (memory / "memory.limit_in_bytes").write_text("1")
    hierarchy = found(roots, "4:memory:/docker/abc\n", f"30 20 0:26 /docker/abc {memory} ro - cgroup c rw,memory\n")

    assert make_plain_cgroup(hierarchy, "t", Limits(memory_bytes=GIB)).directory == str(memory / "oomtrace-run-t")


def test_on_v2_the_cgroup_stands_below_our_own_where_children_may_have_memory(roots):
    made = make_plain_cgroup(v2(roots, here="memory"), "t1", Limits(memory_bytes=GIB, swap_bytes=GIB))

    folder = roots[1] / "user" / "s1" / "oomtrace-run-t1"
    assert made.directory == str(folder)
    assert (folder / "memory.max").read_text() == str(GIB)
    assert (folder / "memory.swap.max").read_text() == str(GIB)
    assert not (folder / "memory.oom.group").exists()


def test_on_v2_a_sibling_will_do_where_our_own_level_limits_nothing(roots):
    hierarchy = v2(roots, above="memory", own={"memory.max": "max\n", "memory.high": "max\n"})
    refuse_writing(roots[1] / "user" / "s1" / "cgroup.subtree_control")

    assert make_plain_cgroup(hierarchy, "t1", Limits(memory_bytes=GIB)).path == "/user/oomtrace-run-t1"


def test_on_v2_a_sibling_must_not_escape_our_own_limit(roots):
    hierarchy = v2(roots, above="memory", own={"memory.max": "1073741824\n"})
    refuse_writing(roots[1] / "user" / "s1" / "cgroup.subtree_control")

    with pytest.raises(CgroupUnavailable, match=r"memory\.max would not hold"):
        make_plain_cgroup(hierarchy, "t1", Limits(memory_bytes=GIB))


def test_a_cgroup_outside_of_our_namespace_is_refused(roots):
    hierarchy = Hierarchy(2, str(roots[1]), "/../other", "/")

    with pytest.raises(CgroupUnavailable, match="namespace"):
        make_plain_cgroup(hierarchy, "t1", Limits(memory_bytes=GIB))


def test_what_still_runs_in_it_is_named_and_not_ended(tmp_path):
    (tmp_path / "below").mkdir()
    (tmp_path / "cgroup.procs").write_text("12\n7\n")
    (tmp_path / "below" / "cgroup.procs").write_text("99\n")

    (tmp_path / "below" / "empty").mkdir()

    assert PlainCgroup("/x", str(tmp_path)).remove(patience_s=0) == (7, 12, 99)
    assert (tmp_path / "below" / "empty").is_dir(), "a job that runs may still count on what it made"


def test_an_empty_one_is_removed_and_removing_it_again_is_no_error(tmp_path):
    cgroup = PlainCgroup("/x", str(tmp_path / "x"))
    (tmp_path / "x").mkdir()

    assert cgroup.remove() == ()
    assert cgroup.remove() == ()
    assert not (tmp_path / "x").exists()


def test_what_the_job_made_below_it_is_removed_with_it(tmp_path):
    (tmp_path / "x" / "of the job" / "deeper").mkdir(parents=True)

    assert PlainCgroup("/x", str(tmp_path / "x")).remove() == ()
    assert not (tmp_path / "x").exists()


def test_one_that_becomes_empty_in_time_is_removed(tmp_path, monkeypatch):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "cgroup.procs").write_text("12\n")
    monkeypatch.setattr(module.time, "sleep", lambda _: (tmp_path / "x" / "cgroup.procs").unlink())

    assert PlainCgroup("/x", str(tmp_path / "x")).remove(patience_s=30) == ()


def test_one_that_is_empty_and_yet_stays_is_an_error(tmp_path):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "stands for what the kernel still holds").write_text("")

    with pytest.raises(CgroupUnavailable, match="cannot remove /x"):
        PlainCgroup("/x", str(tmp_path / "x")).remove(patience_s=0)


def test_what_earlier_runs_left_is_removed_and_nothing_else(tmp_path):
    for name in ("oomtrace-run-empty", "oomtrace-run-used", "oomtrace-test-1", "someone", "oomtrace-run-held"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "oomtrace-run-used" / "cgroup.procs").write_text("12\n")
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


def test_the_controller_that_we_handed_down_is_taken_back(roots):
    hierarchy = v2(roots)
    control = roots[1] / "user" / "s1" / "cgroup.subtree_control"

    made = make_plain_cgroup(hierarchy, "t1", Limits(memory_bytes=GIB))
    assert control.read_text() == "+memory"
    clear(made)
    made.remove()

    assert control.read_text() == "-memory"


def test_the_controller_stays_where_another_child_may_use_it(roots):
    hierarchy = v2(roots)
    made = make_plain_cgroup(hierarchy, "t1", Limits(memory_bytes=GIB))
    (roots[1] / "user" / "s1" / "somebody else's").mkdir()
    clear(made)
    made.remove()

    assert (roots[1] / "user" / "s1" / "cgroup.subtree_control").read_text() == "+memory"


def test_the_controller_stays_where_it_was_there_before_us(roots):
    made = make_plain_cgroup(v2(roots, here="memory"), "t1", Limits(memory_bytes=GIB))
    clear(made)
    made.remove()

    assert (roots[1] / "user" / "s1" / "cgroup.subtree_control").read_text() == "memory"


def test_a_cgroup_that_could_not_be_made_leaves_the_controller_as_it_was(roots, monkeypatch):
    hierarchy = v2(roots)
    refuse_mkdir(monkeypatch, errno.EIO)

    with pytest.raises(CgroupUnavailable, match="cannot make"):
        make_plain_cgroup(hierarchy, "t1", Limits(memory_bytes=GIB))
    assert (roots[1] / "user" / "s1" / "cgroup.subtree_control").read_text() == "-memory"


def test_a_lock_that_is_never_let_go_does_not_stop_a_run(roots, monkeypatch):
    monkeypatch.setattr(module, "_LOCK_PATIENCE_S", 0)
    hierarchy = v2(roots)
    held = os.open(roots[1] / "user" / "s1", os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    made = make_plain_cgroup(hierarchy, "t1", Limits(memory_bytes=GIB))
    clear(made)
    made.remove()
    os.close(held)

    # Another run may be about to count on it.
    assert (roots[1] / "user" / "s1" / "cgroup.subtree_control").read_text() == "+memory"


@pytest.mark.parametrize(
    "number, kind, says",
    [
        (errno.EROFS, CgroupUnavailable, "docker run --memory"),
        (errno.EACCES, PermissionDenied, "needs root"),
        (errno.EPERM, PermissionDenied, "leave out --memory-max"),
        (errno.ENOSPC, CgroupUnavailable, "No space left"),
    ],
)
def test_a_refusal_says_what_to_do(roots, monkeypatch, number, kind, says):
    hierarchy = v1(roots)
    refuse_mkdir(monkeypatch, number)

    with pytest.raises(kind, match=says):
        make_plain_cgroup(hierarchy, "t1", Limits(memory_bytes=GIB))


def test_a_limit_that_the_kernel_refuses_leaves_nothing_behind(roots, monkeypatch):
    def refuse(file, value):
        raise CgroupUnavailable(f"cannot write {value}")

    monkeypatch.setattr(module, "write", refuse)
    with pytest.raises(CgroupUnavailable, match="cannot write"):
        make_plain_cgroup(v1(roots), "t1", Limits(memory_bytes=GIB))
    assert os.listdir(roots[1] / "memory" / "user" / "s1") == []


def clear(cgroup):
    """Files of a real cgroup are no obstacle to its removal."""
    for name in os.listdir(cgroup.directory):
        os.unlink(f"{cgroup.directory}/{name}")


def refuse_mkdir(monkeypatch, number):
    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(module.os, "mkdir", refuse)


@pytest.mark.parametrize("version", [v1, v2])
def test_a_new_one_is_made_where_left_ones_are_removed(roots, version):
    hierarchy = version(roots, **({} if version is v1 else {"here": "memory"}))
    left = hierarchy.directory("/user/s1/oomtrace-run-left")
    os.mkdir(left)

    made = make_plain_cgroup(hierarchy, "t1", Limits())

    assert os.path.dirname(made.directory) == os.path.dirname(left)
    assert not os.path.exists(left)


def test_a_run_that_has_just_made_its_cgroup_does_not_lose_it_to_another(roots):
    hierarchy = v1(roots)
    first = make_plain_cgroup(hierarchy, "t1", Limits())
    second = make_plain_cgroup(hierarchy, "t2", Limits())

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
    made = make_plain_cgroup(hierarchy, "t1", Limits())

    assert not others
    assert os.path.isdir(made.directory)
    assert made.claim is not None


def test_a_neighbour_who_never_lets_go_of_the_lock_stops_nobody(roots, monkeypatch):
    def refuse(*_):
        raise BlockingIOError

    monkeypatch.setattr(module.fcntl, "flock", refuse)
    monkeypatch.setattr(module.time, "sleep", lambda _: None)

    made = make_plain_cgroup(v1(roots), "t1", Limits())

    assert os.path.isdir(made.directory)
    assert made.claim is None


def test_a_mount_from_above_our_own_namespace_is_refused_unless_another_lies_over_it(roots):
    v1(roots)
    line = f"35 31 0:32 {{}} {roots[1]}/memory rw - cgroup cgroup rw,memory\n"
    above, own = line.format("/../.."), line.format("/")

    with pytest.raises(CgroupUnavailable, match="namespace"):
        make_plain_cgroup(found(roots, "9:memory:/\n", above), "t1", Limits(memory_bytes=GIB))
    assert found(roots, "9:memory:/\n", above + own).mount_root == "/"

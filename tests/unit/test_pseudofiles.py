# SPDX-License-Identifier: Apache-2.0
"""Pseudo-files taken apart: whatever is in them, or instead of them, is no error."""

import os

import pytest
from hypothesis import given, strategies as st

from tracer.pseudofiles import CgroupPaths, Mount, processes_below, read_bytes, read_cgroup_paths, read_mounts


@pytest.fixture
def proc(tmp_path):
    (tmp_path / "self").mkdir()
    return tmp_path


def test_a_read_is_bounded_and_a_fifo_does_not_block(tmp_path):
    (tmp_path / "large").write_bytes(b"x" * 1000)
    os.mkfifo(tmp_path / "fifo")

    assert read_bytes(str(tmp_path / "large"), 10) == b"x" * 10
    assert read_bytes(str(tmp_path / "fifo")) == b""
    assert read_bytes(str(tmp_path)) is None
    assert read_bytes("\0") is None


@pytest.mark.parametrize(
    "text, expected",
    [
        (b"0::/a\n", CgroupPaths(None, "/a")),
        (b"9:memory:/a:b\n0::/\n", CgroupPaths("/a:b", "/")),
        (b"3:cpu,memory:/..\n1:name=systemd:/x\n", CgroupPaths("/..", None)),
        (b"3:memoryless:/x\n2::/y\n0:memory\n0::\n", CgroupPaths()),
        (b"0::/\xff\n", CgroupPaths(None, "/\udcff")),
    ],
)
def test_the_paths_of_both_kinds_of_hierarchies_are_told_apart(proc, text, expected):
    (proc / "self" / "cgroup").write_bytes(text)

    assert read_cgroup_paths(str(proc), "self") == expected


def test_mounts_are_read_in_their_order_and_with_any_character_in_a_path(proc):
    (proc / "self" / "mountinfo").write_bytes(
        b"25 1 0:21 / /a\\040b rw,nosuid shared:7 master:1 - cgroup cg\\040x rw,memory\n"
        b"26 1 0:22 /docker/1 /c ro - cgroup2 none rw\n"
        b"27 1 0:23 / /cut rw\n"
    )

    assert list(read_mounts(str(proc))) == [
        Mount("/", "/a b", frozenset({"rw", "nosuid", "memory"}), "cgroup"),
        Mount("/docker/1", "/c", frozenset({"ro", "rw"}), "cgroup2"),
    ]


@given(content=st.binary(max_size=300) | st.from_regex(rb"([0-9]{1,3}[: -]|[a-z/\\]{1,9}[:, -]|\n){1,40}"))
def test_no_content_makes_a_reader_fail(tmp_path_factory, content):
    proc = tmp_path_factory.mktemp("proc")
    (proc / "self").mkdir()
    for name in ("cgroup", "mountinfo"):
        (proc / "self" / name).write_bytes(content)
    (proc / "cgroup.procs").write_bytes(content)

    found = read_cgroup_paths(str(proc), "self")
    assert all(path is None or path.startswith("/") for path in (found.memory_v1, found.v2))
    assert all(isinstance(mount, Mount) for mount in read_mounts(str(proc)))
    assert 0 not in processes_below(str(proc))


def test_processes_of_all_levels_are_found_and_those_without_a_number_here_are_not(tmp_path):
    (tmp_path / "a" / "threaded").mkdir(parents=True)
    (tmp_path / "cgroup.procs").write_text("0\n12\n0\n")
    (tmp_path / "a" / "cgroup.procs").write_text("3\n12\n")
    (tmp_path / "a" / "threaded" / "cgroup.procs").mkdir()  # cannot be read

    assert processes_below(str(tmp_path)) == (3, 12)
    assert processes_below(str(tmp_path / "none")) == ()

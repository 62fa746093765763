# SPDX-License-Identifier: Apache-2.0
"""Small trees of files that stand for /proc and for cgroupfs."""

import pytest

from tracer.job.cgroup import find_hierarchy

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

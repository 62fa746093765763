# SPDX-License-Identifier: Apache-2.0
"""A file that a command writes is there whole or not at all, and never in place of another."""

import errno
import os
import tempfile
from pathlib import Path

import pytest

from tracer.cli.outfile import new_file
from tracer.errors import InputError, NameTaken, PermissionDenied
from tracer.job.identity import Caller

OURSELVES = Caller(uid=os.getuid(), gid=os.getgid(), groups=tuple(os.getgroups()), environ={}, oom_score_adj=0)


def test_until_it_is_whole_its_name_is_free(tmp_path):
    with new_file(str(tmp_path / "x"), OURSELVES) as file:
        file.write(b"half")
        file.flush()
        assert not (tmp_path / "x").exists()

    assert (tmp_path / "x").read_bytes() == b"half"
    assert os.listdir(tmp_path) == ["x"]


def test_whatever_goes_wrong_nothing_is_left(tmp_path):
    with pytest.raises(ZeroDivisionError), new_file(str(tmp_path / "x"), OURSELVES):
        raise ZeroDivisionError

    assert os.listdir(tmp_path) == []


def test_a_file_that_came_meanwhile_is_left_alone(tmp_path):
    with pytest.raises(NameTaken), new_file(str(tmp_path / "x"), OURSELVES):
        (tmp_path / "x").write_text("another's")

    assert (tmp_path / "x").read_text() == "another's"
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize("taken", [True, False])
def test_without_hard_links_it_is_the_same(tmp_path, monkeypatch, taken):
    def none(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "no")

    monkeypatch.setattr(os, "link", none)
    if taken:
        with pytest.raises(NameTaken), new_file(str(tmp_path / "x"), OURSELVES):
            (tmp_path / "x").write_text("another's")
    else:
        with new_file(str(tmp_path / "x"), OURSELVES) as file:
            file.write(b"ours")

    assert (tmp_path / "x").read_text() == ("another's" if taken else "ours")
    assert os.listdir(tmp_path) == ["x"]


def test_a_full_disk_is_told_with_the_file(tmp_path, monkeypatch):
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fdatasync", full)
    with (
        pytest.raises(InputError, match="cannot be written: No space left on device"),
        new_file(str(tmp_path / "x"), OURSELVES),
    ):
        pass

    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["", "no/x", "a\0b", "n" * 300], ids=["nothing", "no folder", "NUL", "too long"])
def test_a_name_that_cannot_be_is_told(tmp_path, name):
    with pytest.raises((InputError, NameTaken)), new_file(f"{tmp_path}/{name}", OURSELVES):
        pass


@pytest.mark.skipif(os.getuid() != 0, reason="only root acts for others")
def test_root_writes_where_its_caller_may_and_as_its_caller():
    nobody = Caller(uid=65534, gid=65534, groups=(), environ={}, oom_score_adj=0)
    with tempfile.TemporaryDirectory() as base:
        theirs = Path(base) / "theirs"
        theirs.mkdir()
        os.chmod(base, 0o755)
        os.chown(theirs, 65534, 65534)

        with pytest.raises(PermissionDenied), new_file(f"{base}/x", nobody):
            pass
        with new_file(f"{theirs}/x", nobody) as file:
            file.write(b"x")

        assert (theirs / "x").stat().st_uid == 65534

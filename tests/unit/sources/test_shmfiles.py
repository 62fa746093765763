# SPDX-License-Identifier: Apache-2.0
"""Files that are shared memory: who made them, who has them open, and which nobody has."""

import os
import subprocess
import sys

import pytest
from hypothesis import given, strategies as st

from tracer.events import ShmFiles
from tracer.sources import shmfiles
from tracer.sources.shmfiles import MAX_GROUPS, ShmFilesSource

HOLDS = "import sys; kept = [open(name, 'rb') for name in sys.argv[1:]]; print('ready', flush=True); sys.stdin.read()"
PAGE = os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def shm(tmp_path, monkeypatch):
    """A folder that stands for /dev/shm."""
    folder = tmp_path / "shm"
    folder.mkdir()
    monkeypatch.setattr(shmfiles, "SHM", str(folder))
    monkeypatch.setattr(shmfiles, "_BELOW", f"{folder}/")
    return folder


@pytest.fixture
def hold():
    """Starts processes that have files open."""
    started = []

    def run(*paths):
        child = subprocess.Popen(
            [sys.executable, "-c", HOLDS, *map(str, paths)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        started.append(child)
        assert child.stdout.readline() == b"ready\n"
        return child.pid

    yield run
    for child in started:
        child.kill()
        child.communicate()


def made(folder, name, pages=4):
    path = folder / name
    path.write_bytes(b"x" * pages * PAGE)
    os.sync()
    return path


def blocks(path):
    return path.stat().st_blocks * 512


def test_batches_are_told_by_who_made_them_and_in_whom_they_are_open(shm, hold):
    one, two, other = (made(shm, name) for name in ("torch_41_9_0", "torch_41_9_1", "torch_42_9_0"))
    sizes = [blocks(path) for path in (one, two, other)]
    worker, trainer = hold(one, two), hold(one, other)
    for path in (one, two, other):
        path.unlink()
    sample = ShmFilesSource(clock=lambda: 5).sample([worker, trainer])

    assert (sample.tgid, sample.ts_ns, sample.complete) == (worker, 5, True)
    assert set(sample.groups) == {
        ShmFiles(kind="torch", creator=41, holders=tuple(sorted((worker, trainer))), files=1, size_bytes=sizes[0]),
        ShmFiles(kind="torch", creator=41, holders=(worker,), files=1, size_bytes=sizes[1]),
        ShmFiles(kind="torch", creator=42, holders=(trainer,), files=1, size_bytes=sizes[2]),
    }


def test_a_file_that_is_open_twice_counts_once(shm, hold):
    path = made(shm, "torch_41_9_0")
    pid = hold(path, path)

    [group] = ShmFilesSource().sample([pid]).groups
    assert (group.files, group.size_bytes, group.named) == (1, blocks(path), True)


def test_what_nobody_has_open_is_listed_by_its_name_also_in_folders(shm, hold):
    (shm / "data").mkdir()
    paths = [made(shm, name) for name in ("torch_41_9_0", "psm_ab12", "sem.mp-x", "data/shard-000")]
    (shm / "link").symlink_to(shm / "data")
    sample = ShmFilesSource().sample([hold()])

    assert {(group.kind, group.holders, group.named, group.files) for group in sample.groups} == {
        (kind, (), True, 1) for kind in ("torch", "python", "semaphore", "other")
    }
    assert sum(group.size_bytes for group in sample.groups) == sum(map(blocks, paths))


def test_what_is_open_elsewhere_is_not_looked_at(shm, hold, tmp_path):
    assert ShmFilesSource().sample([hold(made(tmp_path, "torch_41_9_0"))]).groups == ()


def test_a_job_that_is_gone_has_none(shm):
    assert ShmFilesSource().sample([]) is None
    assert ShmFilesSource().sample([1 << 22]) is None


@pytest.mark.parametrize("bound", ["MAX_FDS", "MAX_NAMES", "MAX_NS"])
def test_a_look_is_bounded_and_says_so(shm, hold, monkeypatch, bound):
    made(shm, "torch_41_9_0")
    pid = hold()
    monkeypatch.setattr(shmfiles, bound, -1 if bound == "MAX_NS" else 0)

    assert ShmFilesSource().sample([pid]).complete is False


def test_many_kinds_of_files_are_summed_up(shm, hold):
    paths = [made(shm, f"torch_{pid}_9_0", 1) for pid in range(MAX_GROUPS + 3)]
    sample = ShmFilesSource().sample([hold()])

    assert (len(sample.groups), sample.others) == (MAX_GROUPS, 3)
    assert sample.others_bytes + sum(group.size_bytes for group in sample.groups) == sum(map(blocks, paths))


@given(st.text())
def test_any_name_is_of_some_kind(name):
    kind, creator = shmfiles._maker(name)

    assert (creator is not None) == (kind == "torch")


@pytest.mark.parametrize(
    ("name", "kind", "creator"),
    [("torch_25841_2901_0", "torch", 25841), ("torch_x", "other", None), ("psm_1", "python", None),
     ("torch_99999999999_1", "other", None), ("sem.mp-x", "semaphore", None), ("", "other", None)],
)  # fmt: skip
def test_names_of_pytorch_say_who_made_the_file(name, kind, creator):
    assert shmfiles._maker(name) == (kind, creator)


def test_a_name_that_ends_like_that_of_a_deleted_file_is_there(shm, hold):
    pid = hold(made(shm, "torch_41_9_0 (deleted)"))
    [group] = ShmFilesSource().sample([pid]).groups

    assert (group.kind, group.creator, group.named) == ("torch", 41, True)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_a_name_of_pytorch_on_somebody_elses_file_blames_nobody(shm, hold):
    """Anybody may write into /dev/shm."""
    pid = hold()
    os.chown(made(shm, f"torch_{pid}_9_0"), 65534, 65534)
    [group] = ShmFilesSource().sample([pid]).groups

    assert (group.kind, group.creator, group.holders) == ("other", None, ())

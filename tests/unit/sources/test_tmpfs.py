# SPDX-License-Identifier: Apache-2.0
import os
from collections import namedtuple

import pytest

from tracer.sources import tmpfs
from tracer.sources.tmpfs import MAX_MOUNTS, TmpfsSource

Room = namedtuple("Room", "f_blocks f_bavail f_frsize f_flag", defaults=[0])  # noqa: PYI024 - as os.statvfs gives it
LINE = "36 35 0:{n} / {at} rw - {kind} {kind} rw"


@pytest.fixture
def proc(tmp_path, monkeypatch):
    """A process 7 with mounts, and what statvfs says of each."""
    rooms = {}
    folder = tmp_path / "7"
    (folder / "ns").mkdir(parents=True)
    (folder / "ns" / "mnt").symlink_to("mnt:[1]")

    def statvfs(path):
        if path not in rooms:
            raise FileNotFoundError(path)
        return Room(*rooms[path])

    def mount(*lines):
        text = "\n".join(LINE.format(n=n, kind=kind, at=at) for n, (kind, at, _) in enumerate(lines))
        (folder / "mountinfo").write_text(text + "\n")
        rooms.update({f"{tmp_path}/7/root{at}": room for _, at, room in lines if room})

    monkeypatch.setattr(os, "statvfs", statvfs)
    mount.source = TmpfsSource(str(tmp_path), clock=lambda: 5)
    mount.rooms = rooms
    return mount


def fills(sample):
    return [(fill.mount_point, fill.size_bytes, fill.free_bytes) for fill in sample.mounts]


def test_the_room_in_every_tmpfs_with_a_size(proc):
    proc(("tmpfs", "/dev/shm", (16, 1, 4096)), ("ext4", "/", (9, 9, 1)), ("tmpfs", "/unbounded", (0, 0, 4096)),
         ("tmpfs", "/gone", None), ("tmpfs", "/written/by/nobody", (4, 0, 4096, os.ST_RDONLY | os.ST_NODEV)),
         ("tmpfs", "/run", (4, 4, 4096, os.ST_NODEV)))  # fmt: skip
    sample = proc.source.all(7, 8)

    assert (sample.tgid, sample.signalled_tgid, sample.ts_ns) == (7, 8, 5)
    assert fills(sample) == [("/dev/shm", 65536, 4096), ("/run", 16384, 16384)]


def test_dev_shm_is_asked_for_again_and_the_mounts_are_not(proc, monkeypatch):
    proc(("ext4", "/dev/shm", None), ("tmpfs", "/dev/shm", (16, 1, 4096)))
    first = proc.source.shm(7)
    monkeypatch.setattr(tmpfs, "read_mounts", None)
    proc.rooms[next(iter(proc.rooms))] = (16, 0, 4096)

    assert (fills(first), fills(proc.source.shm(7))) == ([("/dev/shm", 65536, 4096)], [("/dev/shm", 65536, 0)])


@pytest.mark.parametrize("kind", ["ext4", "fuse"])
def test_a_dev_shm_that_is_no_tmpfs_is_not_looked_at(proc, kind):
    proc(("tmpfs", "/dev/shm", (16, 1, 4096)), (kind, "/dev/shm", None))

    assert proc.source.shm(7) is None


def test_a_process_that_is_gone_has_none(proc):
    assert (proc.source.shm(6), proc.source.all(6, 6), proc.source.all(7, 7)) == (None, None, None)


def test_many_mounts_are_too_many(proc):
    proc(*(("tmpfs", f"/m{n}", (1, 1, 1)) for n in range(MAX_MOUNTS + 5)))

    assert len(proc.source.all(7, 7).mounts) == MAX_MOUNTS

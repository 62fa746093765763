# SPDX-License-Identifier: Apache-2.0
"""Error files read with somebody's rights, whatever their path is."""

import json
import os
import shutil
import tempfile
import time
from pathlib import Path

import pytest

from tests.waiting import SLOWER
from tracer.sources import error_file
from tracer.sources.error_file import UserReader, read_error_file, reader_for
from tracer.sources.procfs import read_stat

OURS = UserReader(os.getuid(), os.getgid(), tuple(os.getgroups()))


@pytest.fixture
def written(tmp_path):
    def write(at_s, message="ValueError: x"):
        path = tmp_path / "error.json"
        extra = {"timestamp": str(int(at_s)), "py_callstack": "..."}
        path.write_text(json.dumps({"message": {"message": message, "extraInfo": extra}}))
        return str(path)

    return write


def test_it_has_the_time_at_which_it_was_written(written):
    path = written(time.time())
    os.utime(path, ns=(time.time_ns(), time.time_ns() - 500_000_000))
    now_ns = time.monotonic_ns()
    told, at_ns = read_error_file(path, OURS)

    assert told.message == "ValueError: x"
    assert abs(now_ns - 500_000_000 - at_ns) < 100_000_000


@pytest.mark.parametrize("off_s", [-3600, 3600])
def test_a_time_that_cannot_be_is_not_believed(written, off_s):
    path = written(time.time() + off_s)
    _, at_ns = read_error_file(path, OURS)

    assert 0 <= time.monotonic_ns() - at_ns < 5_000_000_000


@pytest.mark.parametrize("path", ["", "error.json", "/no/such/file", "/", "/proc/self/mem", "-n"])
def test_what_is_no_such_file_gives_nothing(path):
    assert read_error_file(path, OURS) is None


def test_what_never_ends_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(error_file, "PATIENCE_S", 0.1)
    os.mkfifo(tmp_path / "fifo")

    assert OURS.read(str(tmp_path / "fifo")) is None
    assert len(OURS.read("/dev/zero") or b"") <= error_file.MAX_BYTES + 1
    assert read_error_file("/dev/zero", OURS) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.timeout(30 * SLOWER)
def test_what_is_no_file_is_not_waited_for_since_other_ranks_files_come_behind_it(tmp_path, monkeypatch):
    monkeypatch.setattr(error_file, "PATIENCE_S", 3600)
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to(tmp_path / "fifo")
    (tmp_path / "endless").symlink_to("/dev/zero")

    assert [None] * 3 == [OURS.read(str(tmp_path / name)) for name in ("fifo", "link", "endless")]


@pytest.mark.parametrize("name", ["a $(touch b) \"';`*", "-rf", "  ", "\n"])
def test_no_name_of_a_file_means_anything_else(tmp_path, name):
    (tmp_path / name).write_bytes(b"{}")

    assert b"{}" == OURS.read(str(tmp_path / name))
    assert [name] == os.listdir(tmp_path)


def test_root_reads_it_with_the_callers_rights_alone():
    nobody = UserReader(65534, 65534, (65534,))
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        folder.chmod(0o755)
        secret, theirs, of_a_group = folder / "secret", folder / "theirs", folder / "group"
        for path, mode in ((secret, 0o600), (theirs, 0o600), (of_a_group, 0o640)):
            path.write_text('{"message": "x"}')
            path.chmod(mode)
        os.chown(theirs, 65534, -1)

        assert nobody.read(str(secret)) is None
        assert nobody.read(str(of_a_group)) is None, "root's groups are not theirs"
        assert nobody.read(str(theirs)) == b'{"message": "x"}'
        assert os.geteuid() == 0
    finally:
        shutil.rmtree(folder)


UID, GID = 1234, 1235


@pytest.fixture
def proc(tmp_path):
    """A small /proc with us and a process 10 that started at tick 500."""

    def make(*, uids=(UID, 0, 0, 0), mount="mnt:[1]", root="/", tick=500, groups="1235 7 "):
        for pid, mnt, top in (("self", "mnt:[1]", "/"), ("10", mount, root)):
            folder = tmp_path / "proc" / pid
            (folder / "ns").mkdir(parents=True)
            os.symlink(mnt, folder / "ns" / "mnt")
            os.symlink(top, folder / "root")
        numbers = "\t".join(map(str, uids))
        gids = "\t".join([str(GID)] * 4)
        (folder / "status").write_text(f"Name:\tx\nUid:\t{numbers}\nGid:\t{gids}\nGroups:\t{groups}\n")
        rest = ["S", "1", "10", "10", *["0"] * 15, str(tick), *["0"] * 31]
        (folder / "stat").write_text(f"10 (x) {' '.join(rest)}")
        return str(tmp_path / "proc")

    return make


START_NS = 500 * 10_000_000


def test_a_process_is_read_for_with_the_rights_of_its_user_and_not_of_a_set_uid_program(proc, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    assert reader_for(10, START_NS + 5, proc()) == UserReader(UID, GID, (1235, 7))


@pytest.mark.parametrize(
    "about",
    [{"mount": "mnt:[2]"}, {"root": "/srv/jail"}, {"tick": 501}, {"uids": ("x",)}, {"uids": ()}, {"groups": "a"}],
    ids=str,
)
def test_files_of_a_container_and_of_whoever_has_the_pid_later_are_not_read(proc, monkeypatch, about):
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    assert reader_for(10, START_NS, proc(**about)) is None


@pytest.mark.parametrize("own, allowed", [(0, True), (UID, True), (UID + 1, False)])
def test_nobody_but_root_reads_for_another(proc, monkeypatch, own, allowed):
    monkeypatch.setattr(os, "geteuid", lambda: own)

    assert allowed == (reader_for(10, START_NS, proc()) is not None)


def test_of_a_process_that_is_gone_there_are_no_rights(tmp_path):
    assert reader_for(10, START_NS, str(tmp_path)) is None


def test_we_read_for_ourselves():
    stat = read_stat("/proc", os.getpid())
    found = reader_for(os.getpid(), stat.start_ns)

    assert (found.uid, found.gid, set(found.groups)) == (os.getuid(), os.getgid(), set(os.getgroups()))

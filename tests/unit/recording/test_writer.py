# SPDX-License-Identifier: Apache-2.0
import errno
import os
import resource
import stat

import pytest

from tracer.errors import InputError, PermissionDenied, UsageError
from tracer.events import Header, Note, ProcessSample
from tracer.recording import MAX_LINE_BYTES, RecordingWriter, read_recording, writer as module

HEADER = Header(ts_ns=1, source="tracer", version="0.0", realtime_ns=2, boottime_ns=3)
NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="acts as another user")


def note(text: str = "x") -> Note:
    return Note(ts_ns=5, source="tracer", text=text)


def texts(reader) -> list[str]:
    return [event.text for event in reader if isinstance(event, Note)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.oomtrace"


class SmallDisk:
    """os.write that takes so many bytes in all, then says that the disk is full: short first, as a real one."""

    def __init__(self, monkeypatch, room: int, error: int = errno.ENOSPC) -> None:
        self.room, self.error, self._write = room, error, os.write
        monkeypatch.setattr(module.os, "write", self)

    def __call__(self, fd, data) -> int:
        if self.room == 0:
            raise OSError(self.error, os.strerror(self.error))
        taken = self._write(fd, bytes(data[: self.room]))
        self.room -= taken
        return taken


def test_the_header_comes_first_and_events_are_numbered(path):
    with RecordingWriter.create(path, HEADER) as writer:
        stamped = [writer.append(note(text)) for text in "abc"]
    with read_recording(path) as reader:
        events = list(reader)

    assert [event.seq for event in stamped] == [1, 2, 3]
    assert events == [HEADER, *stamped]
    assert writer.events == 4
    assert reader.damage.statements() == ()


def test_what_was_flushed_is_in_the_file_without_a_close(path):
    writer = RecordingWriter.create(path, HEADER)
    writer.append(note("flushed"))
    assert writer.flush()
    writer.append(note("waiting"))

    assert texts(read_recording(path)) == ["flushed"]
    assert texts(writer.read_back()) == ["flushed", "waiting"]
    writer.close()


def test_a_full_buffer_is_written_unasked(path):
    writer = RecordingWriter.create(path, HEADER)
    for _ in range(20):
        writer.append(note("y" * (module.FLUSH_BYTES // 10)))

    assert len(texts(read_recording(path))) >= 10
    writer.close()


def test_short_writes_are_continued(path, monkeypatch):
    writer = RecordingWriter.create(path, HEADER)
    whole_write = os.write
    monkeypatch.setattr(module.os, "write", lambda fd, data: whole_write(fd, bytes(data[:7])))
    writer.append(note("a"))

    assert writer.flush()
    assert texts(read_recording(path)) == ["a"]
    writer.close()


@pytest.mark.parametrize("room", [0, 1, 60, 150, 1000])
def test_a_full_disk_keeps_whole_lines_and_loses_nothing_once_there_is_room(path, monkeypatch, room):
    writer = RecordingWriter.create(path, HEADER)
    disk = SmallDisk(monkeypatch, room)
    for text in "abcdefghij":
        writer.append(note(text * 20))

    assert not writer.flush() or room == 1000
    assert path.read_bytes().endswith(b"\n")
    assert read_recording(path).damage.torn is None
    assert texts(writer.read_back()) == [text * 20 for text in "abcdefghij"]

    disk.room = 1 << 20
    assert writer.flush()
    writer.close()
    assert texts(read_recording(path)) == [text * 20 for text in "abcdefghij"]
    if room < 1000:
        assert writer.trouble is not None
        assert writer.trouble.why == "No space left on device"
        assert writer.trouble.lost == 0


def test_while_the_disk_is_full_samples_are_let_go_and_facts_are_held(path, monkeypatch):
    writer = RecordingWriter.create(path, HEADER)
    disk = SmallDisk(monkeypatch, 0)
    writer.append(note("fact 1"))
    writer.flush()
    for _ in range(100):
        writer.append(ProcessSample(ts_ns=1, source="proc", start_ns=1, tgid=1))
    writer.append(note("fact 2"))
    disk.room = 1 << 20
    writer.flush()
    writer.close()
    with read_recording(path) as reader:
        assert texts(reader) == ["fact 1", "fact 2"]

    assert writer.trouble is not None
    assert writer.trouble.lost == 100
    assert (reader.damage.gaps, reader.damage.missing) == (1, 100)


def test_what_is_held_on_a_full_disk_is_bounded(path, monkeypatch):
    monkeypatch.setattr(module, "HELD_BYTES", 10_000)
    writer = RecordingWriter.create(path, HEADER)
    SmallDisk(monkeypatch, 0)
    writer.append(note())
    writer.flush()
    for _ in range(1000):
        writer.append(note("z" * 100))

    assert writer.size_bytes < 20_000
    assert writer.trouble is not None
    assert writer.trouble.lost > 800
    writer.close()
    assert writer.trouble.lost == 1001
    assert list(read_recording(path)) == [HEADER]


def test_where_a_half_line_cannot_be_cut_off_its_other_half_follows(path, monkeypatch):
    writer = RecordingWriter.create(path, HEADER)
    disk = SmallDisk(monkeypatch, 30, errno.EIO)

    def refuse(*_):
        raise OSError(errno.EIO, "no")

    monkeypatch.setattr(module.os, "ftruncate", refuse)
    writer.append(note("a"))
    writer.append(note("b"))
    assert not writer.flush()
    assert texts(writer.read_back()) == ["a", "b"]
    disk.room = 1 << 20
    writer.close()

    assert texts(read_recording(path)) == ["a", "b"]


def test_a_file_size_limit_is_a_full_disk_too(path):
    # The real thing: the kernel cuts the write short, then says EFBIG (Python ignores SIGXFSZ).
    writer = RecordingWriter.create(path, HEADER)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 150, hard))
    try:
        for text in "abcdef":
            writer.append(note(text))
        assert not writer.flush()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert path.read_bytes().endswith(b"\n")
    assert texts(read_recording(path)) == ["a"]
    writer.close()
    assert texts(read_recording(path)) == list("abcdef")


def test_an_event_that_fits_into_no_line_is_counted_and_leaves_a_gap(path):
    with RecordingWriter.create(path, HEADER) as writer:
        writer.append(note("x" * MAX_LINE_BYTES))
        writer.append(note("after"))
    with read_recording(path) as reader:
        assert texts(reader) == ["after"]

    assert reader.damage.missing == 1
    assert writer.trouble is not None
    assert writer.trouble.lost == 1


def test_sync_reaches_the_disk_and_a_file_system_without_it_is_no_trouble(path, monkeypatch):
    writer = RecordingWriter.create(path, HEADER)
    synced = []
    monkeypatch.setattr(module.os, "fdatasync", synced.append)
    writer.sync()
    assert len(synced) == 1

    def answer(number):
        def fail(_):
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(module.os, "fdatasync", fail)
        writer.sync()
        return writer.trouble

    assert answer(errno.EINVAL) is None
    assert answer(errno.EIO).why == "Input/output error"
    writer.close()


def test_only_the_owner_may_read_it_whatever_the_umask(path):
    before = os.umask(0o777)
    try:
        writer = RecordingWriter.create(path, HEADER)
    finally:
        os.umask(before)
    writer.close()

    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("what", ["file", "folder", "fifo", "link", "dangling"])
def test_nothing_that_exists_is_ever_overwritten(tmp_path, path, what):
    target = tmp_path / "target"
    if what == "file":
        path.write_text("precious")
    elif what == "folder":
        path.mkdir()
    elif what == "fifo":
        os.mkfifo(path)
    else:
        if what == "link":
            target.write_text("precious")
        path.symlink_to(target)

    with pytest.raises(UsageError, match="exists already"):
        RecordingWriter.create(path, HEADER)
    assert what == "dangling" or not target.exists() or target.read_text() == "precious"
    assert what != "dangling" or not target.exists()


@pytest.mark.parametrize("name", ["no/such/folder/x", "x" * 300, "nul\0inside"])
def test_a_place_that_is_none_is_said_in_one_line(tmp_path, name):
    with pytest.raises(InputError) as raised:
        RecordingWriter.create(str(tmp_path / name), HEADER)

    assert "\n" not in str(raised.value)


@needs_root
def test_root_cannot_be_led_to_write_where_the_caller_could_not(tmp_path, path):
    tmp_path.chmod(0o700)

    with pytest.raises(PermissionDenied):
        RecordingWriter.create(path, HEADER, uid=NOBODY, gid=NOBODY)
    assert not path.exists()
    assert os.geteuid() == 0
    assert os.getegid() == 0


@needs_root
def test_the_file_belongs_to_the_caller(tmp_path, path):
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(0o755)
    tmp_path.chmod(0o777)
    groups = os.getgroups()
    with RecordingWriter.create(path, HEADER, uid=NOBODY, gid=NOBODY) as writer:
        writer.append(note())
    found = path.stat()

    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (NOBODY, NOBODY, 0o600)
    assert os.getgroups() == groups


@needs_root
def test_groups_of_the_caller_count_and_those_of_root_do_not(tmp_path, path):
    for folder in tmp_path.parents[:3]:
        folder.chmod(0o755)
    os.chown(tmp_path, 0, 4242)
    tmp_path.chmod(0o770)

    with pytest.raises(PermissionDenied):
        RecordingWriter.create(path, HEADER, uid=NOBODY, gid=NOBODY)
    RecordingWriter.create(path, HEADER, uid=NOBODY, gid=NOBODY, groups=[NOBODY, 4242]).close()
    os.chown(tmp_path, 0, 0)
    with pytest.raises(PermissionDenied):
        RecordingWriter.create(tmp_path / "second", HEADER, uid=NOBODY, gid=NOBODY)


def test_a_run_without_a_recording_is_read_back_and_leaves_no_file():
    with RecordingWriter.anonymous(HEADER) as writer:
        stamped = writer.append(note("kept nowhere"))
        with writer.read_back() as reader:
            assert list(reader) == [HEADER, stamped]
        assert writer.path is None
        assert os.readlink(f"/proc/self/fd/{writer._fd}").endswith("(deleted)")


def test_a_run_without_any_place_for_files_is_kept_in_memory(monkeypatch):
    opened = os.open

    def refuse(path, *rest):
        if str(path).startswith(("/var/tmp", "/tmp")):
            raise OSError(errno.EROFS, "read-only")
        return opened(path, *rest)

    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(module.os, "open", refuse)
    with RecordingWriter.anonymous(HEADER) as writer, writer.read_back() as reader:
        assert list(reader) == [HEADER]


def test_where_the_file_system_has_no_unnamed_files_a_named_one_is_unlinked(tmp_path, monkeypatch):
    opened = os.open

    def refuse(path, flags, *rest):
        if flags & os.O_TMPFILE == os.O_TMPFILE or str(path).startswith("/var/tmp"):
            raise OSError(errno.EOPNOTSUPP, "not here")
        return opened(path, flags, *rest)

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(module.os, "open", refuse)
    with RecordingWriter.anonymous(HEADER) as writer, writer.read_back() as reader:
        assert list(reader) == [HEADER]
        assert list(tmp_path.iterdir()) == []


def test_closing_twice_is_harmless(path):
    writer = RecordingWriter.create(path, HEADER)
    writer.close()
    writer.close()

    assert list(read_recording(path)) == [HEADER]


def test_a_recording_that_is_not_worth_keeping_is_removed(path):
    with RecordingWriter.create(path, HEADER) as writer:
        writer.discard()

    assert not path.exists()


@pytest.mark.parametrize("what", ["another file", "a link", "nothing", "a folder"])
def test_what_took_its_place_meanwhile_is_left_alone(tmp_path, path, what):
    with RecordingWriter.create(path, HEADER) as writer:
        moved = path.rename(tmp_path / "moved")
        if what == "another file":
            path.write_text("precious")
        elif what == "a link":
            path.symlink_to(moved)
        elif what == "a folder":
            path.mkdir()
        before = sorted(tmp_path.iterdir())
        writer.discard()

    assert sorted(tmp_path.iterdir()) == before


@needs_root
def test_root_cannot_be_led_to_remove_what_the_caller_could_not(tmp_path, path):
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(0o755)
    tmp_path.chmod(0o777)
    with RecordingWriter.create(path, HEADER, uid=NOBODY, gid=NOBODY) as writer:
        tmp_path.chmod(0o755)
        writer.discard()

        assert path.exists()
        tmp_path.chmod(0o777)
        writer.discard()

    assert not path.exists()
    assert os.geteuid() == 0


def test_a_run_that_keeps_no_recording_has_nothing_to_discard():
    with RecordingWriter.anonymous(HEADER) as writer:
        writer.discard()
        assert list(writer.read_back()) == [HEADER]


def test_whether_it_still_lies_where_it_was_made_is_known(path):
    with RecordingWriter.create(path, HEADER) as writer:
        assert writer.in_place()
        path.rename(path.with_name("elsewhere"))
        assert not writer.in_place()
        path.write_text("other")
        assert not writer.in_place()
    with RecordingWriter.anonymous(HEADER) as unnamed:
        assert unnamed.in_place()

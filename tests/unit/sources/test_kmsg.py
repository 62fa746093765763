# SPDX-License-Identifier: Apache-2.0
import errno
import os
import socket

import pytest

from tracer.events import LogGap, LoggedInvocation, LoggedKill
from tracer.sources import kmsg as module
from tracer.sources.kmsg import KernelLogSource, KernelLogUnreadable
from tracer.sources.logclock import LogClock

KILL = "Killed process {} (python3) total-vm:9kB, anon-rss:8kB, file-rss:7kB, shmem-rss:6kB"


class Log:
    """A kernel log whose records come one a read, as from /dev/kmsg."""

    def __init__(self, tmp_path) -> None:
        self.writer, self.reader = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.reader.setblocking(False)
        self.now_ns = 10_000_000_000
        clock = LogClock(str(tmp_path), proc_root=str(tmp_path))
        self.source = KernelLogSource(os.dup(self.reader.fileno()), clock, lambda: self.now_ns)

    def write(self, seq: int, text: str, *, priority: int = 3, usec: int = 9_999_000) -> None:
        self.writer.send(f"{priority},{seq},{usec},-;{text}\n".encode())

    def read(self) -> list:
        return self.source.read()


@pytest.fixture
def log(tmp_path):
    log = Log(tmp_path)
    yield log
    log.source.close()
    log.writer.close()
    log.reader.close()


def test_a_record_of_the_kernel_is_a_trusted_event_in_monotonic_time(log):
    log.write(5, "Memory cgroup out of memory: " + KILL.format(77))
    (event,) = log.read()

    assert isinstance(event, LoggedKill)
    assert (event.pid, event.trusted, event.source, event.log_seq, event.log_usec) == (77, True, "kmsg", 5, 9_999_000)
    assert event.ts_ns == 10_000_000_000
    assert log.read() == []


@pytest.mark.parametrize("facility", [1, 3, 23, 256])
def test_what_user_space_wrote_is_no_event_whatever_it_says(log, facility):
    log.write(5, "Memory cgroup out of memory: " + KILL.format(77), priority=facility << 3 | 3)

    assert log.read() == []
    assert log.source.foreign == 1


def test_a_genuine_kill_between_forged_ones_is_told_apart(log):
    for seq in range(10):
        log.write(seq, KILL.format(seq), priority=3 if seq == 4 else 11)

    assert [event.pid for event in log.read()] == [4]
    assert log.source.foreign == 9


def test_lines_that_are_not_of_a_report_are_passed_over(log):
    log.write(1, "usb 1-1: new device", priority=6)
    log.write(2, "x invoked oom-killer: gfp_mask=0x0, order=0")

    assert [type(event) for event in log.read()] == [LoggedInvocation]


def test_missing_numbers_are_a_gap_before_the_record(log):
    log.write(5, "x", priority=6)
    log.write(9, KILL.format(77))
    gap, kill = log.read()

    assert isinstance(gap, LogGap)
    assert (gap.lost, gap.log_seq) == (3, 9)
    assert isinstance(kill, LoggedKill)
    assert log.source.lost == 3


def test_a_gap_before_a_forged_record_is_a_gap_too(log):
    log.write(5, "x", priority=6)
    log.write(7, "y", priority=14)

    assert [type(event) for event in log.read()] == [LogGap]


class Failing:
    """os.read that fails so and so, then reads."""

    def __init__(self, monkeypatch, *numbers: int) -> None:
        self.numbers, self.truth = list(numbers), os.read
        monkeypatch.setattr(module.os, "read", self)

    def __call__(self, fd, size):
        if self.numbers:
            number = self.numbers.pop(0)
            raise OSError(number, os.strerror(number))
        return self.truth(fd, size)


def test_an_overrun_is_a_gap_with_its_size(log, monkeypatch):
    log.write(5, "x", priority=6)
    log.read()
    log.write(25, KILL.format(77))
    Failing(monkeypatch, errno.EPIPE)
    gap, kill = log.read()

    assert gap.lost == 19
    assert kill.pid == 77


def test_an_overrun_before_the_first_record_is_a_gap_of_unknown_size(log, monkeypatch):
    log.write(25, KILL.format(77))
    Failing(monkeypatch, errno.EPIPE)
    gap, _ = log.read()

    assert gap.lost == 1


def test_a_record_that_was_too_long_is_a_gap(log, monkeypatch):
    log.write(5, "x", priority=6)
    log.read()
    log.write(7, KILL.format(77))
    Failing(monkeypatch, errno.EINVAL)
    gap, _ = log.read()

    assert gap.lost == 1
    assert log.source.unparsed == 1


def test_a_log_that_always_fails_does_not_hold_the_loop(log, monkeypatch):
    Failing(monkeypatch, *[errno.EIO] * (module.RECORDS_A_READ + 5))

    assert log.read() == []
    assert log.source.unparsed == module.RECORDS_A_READ


def test_garbage_is_counted(log):
    for raw in (b"no record", b";", b"1,2,3;", b"a,b,c,-;x", b"9" * 30 + b",1,1,-;x"):
        log.writer.send(raw)

    assert log.read() == []
    assert log.source.unparsed == 5


def test_the_last_record_of_a_batch_times_those_before_it(log):
    log.write(1, KILL.format(77), usec=9_000_000)
    log.write(2, KILL.format(78), usec=9_999_000)

    assert [event.ts_ns for event in log.read()] == [9_001_000_000, 10_000_000_000]


def test_a_pair_moves_all_that_follows(log):
    log.write(1, KILL.format(77), usec=9_900_000)
    (kill,) = log.read()
    assert kill.ts_ns == 10_000_000_000

    assert log.source.calibrate(9_950_000_000, 9_900_000)
    assert log.source.offset_ns == 50_000_000
    log.now_ns += 5_000_000_000
    log.write(2, KILL.format(78), usec=10_000_000)
    (kill,) = log.read()
    assert kill.ts_ns == 10_050_000_000


def test_why_there_is_no_log_is_typed_and_becomes_a_status(tmp_path):
    missing = KernelLogSource.open(str(tmp_path / "none"))
    (tmp_path / "file").write_text("x")

    assert isinstance(missing, KernelLogUnreadable)
    assert missing.why == f"{tmp_path}/none: No such file or directory"
    status = missing.status(5)
    assert (status.hook, status.attached, status.why_not) == ("kmsg", False, missing.why)
    for path in ("/dev/null", str(tmp_path / "file"), str(tmp_path)):
        other = KernelLogSource.open(path)
        assert isinstance(other, KernelLogUnreadable), path
        assert other.why.startswith(path)


def test_a_log_that_may_not_be_read_says_what_is_needed(monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(module.os, "open", refuse)
    unreadable = KernelLogSource.open()

    assert isinstance(unreadable, KernelLogUnreadable)
    assert "CAP_SYSLOG" in unreadable.why

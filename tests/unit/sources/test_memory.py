# SPDX-License-Identifier: Apache-2.0
"""What a process holds, read over descriptors that are kept: of that very process, and so many at most."""

import mmap
import os
import subprocess
import sys

import pytest
from hypothesis import given, strategies as st

from tests.strategies import hostile_comms
from tracer.sources import memory
from tracer.sources.memory import ENDED, MOVED_PAGES, UNUSED_NS, MemorySource
from tracer.sources.procfs import read_stat
from tracer.units import TICK_NS

STAT = b"7 (%s) %s 3 7 5 0 -1 4194560 11 2 3 4 5 6 7 8 20 0 %d 0 123456 999 88 18446744073709551615 %s%d\n"
HELD = (
    b"VmPeak:\t 12 kB\nVmSize:\t 9 kB\nVmLck:\t 1 kB\nVmPin:\t 2 kB\nVmHWM:\t 9 kB\nVmRSS:\t 9 kB\nRssAnon:\t 100 kB\n"
    b"RssFile:\t 3 kB\nRssShmem:\t 4 kB\nVmData:\t 9 kB\nVmStk:\t 9 kB\nVmExe:\t 5 kB\nVmLib:\t 6 kB\nVmPTE:\t 7 kB\n"
    b"VmSwap:\t 8 kB\nHugetlbPages:\t 0 kB\nCoreDumping:\t0\nTHP_enabled:\t1\nThreads:\t1\n"
)
STATUS = b"Name:\t%s\nUmask:\t0022\nState:\tS (sleeping)\n" + HELD


def stat_line(comm=b"python3", state=b"S", threads=1, status=0):
    return STAT % (comm, state, threads, b"0 " * 26, status)


class Proc:
    """A process 7 in a folder, and time that is moved by hand."""

    def __init__(self, folder, **options):
        self.folder, self.now_ns = folder, 0
        self.source = MemorySource(str(folder), clock=lambda: self.now_ns, **options)

    def put(self, pid=7, *, statm=b"100 50 20 1 0 30 0\n", status=STATUS % b"a", stat=None):
        place = self.folder / str(pid)
        place.mkdir(exist_ok=True)
        for name, content in (("statm", statm), ("status", status), ("stat", stat or stat_line())):
            (place / name).write_bytes(content)

    def sample(self, pid=7):
        return self.source.sample(pid, 123456 * TICK_NS + 5)

    def moved(self, pid=7):
        return self.source.moved(pid, 123456 * TICK_NS + 5)


@pytest.fixture
def proc(tmp_path):
    proc = Proc(tmp_path)
    yield proc
    proc.source.close()


def test_all_is_read_in_bytes(proc):
    proc.put()
    sample = proc.sample()

    assert (sample.tgid, sample.start_ns, sample.comm, sample.state) == (7, 123456 * TICK_NS, "python3", "S")
    kib = (sample.rss_anon_bytes, sample.rss_file_bytes, sample.rss_shmem_bytes, sample.swap_bytes, sample.code_bytes,
           sample.locked_bytes, sample.pinned_bytes, sample.page_table_bytes, sample.peak_mapped_bytes)  # fmt: skip
    assert [size // 1024 for size in kib] == [100, 3, 4, 8, 11, 1, 2, 7, 12]
    assert (sample.minflt, sample.threads, sample.exit_status) == (11, 1, None)


@given(comm=hostile_comms)
def test_no_name_can_pose_as_a_size(comm):
    raw = comm.encode("latin-1")
    status = STATUS % raw.replace(b"\\", b"\\\\").replace(b"\n", b"\\n")
    sample = memory._parsed(status, stat_line(raw), 7, 1)

    assert (sample.rss_anon_bytes, sample.threads) == (100 * 1024, 1)


@given(status=st.binary(max_size=300), stat=st.binary(max_size=200))
def test_no_content_makes_a_reader_fail(status, stat):
    memory._parsed(status, stat, 7, 1)
    memory._parsed(STATUS % b"x" + status, stat_line() + stat, 7, 1)


@given(cut=st.integers(0, len(STATUS)), drop=st.integers(0, 18), number=st.sampled_from((b"-5", b"1_0", b"9" * 30)))
def test_what_is_torn_or_missing_or_huge_is_unknown_and_never_another_number(cut, drop, number):
    lines = STATUS.splitlines(keepends=True)
    texts = (STATUS[:cut], b"".join(lines[:drop] + lines[drop + 1 :]), STATUS.replace(b" 100 kB", b" %s kB" % number))
    for text in texts:
        sample = memory._parsed(text, stat_line(), 7, 1)
        assert sample.rss_anon_bytes in (None, 100 * 1024)
        assert sample.swap_bytes in (None, 8 * 1024)
        assert sample.page_table_bytes in (None, 7 * 1024)


@pytest.mark.parametrize("stat", [b"", b"7 (x", b"7 (x) S 1 2", b")", b"7 (x) S" + b" a" * 60])
def test_a_stat_line_that_is_cut_is_no_process(proc, stat):
    proc.put(stat=stat or b"\n")

    assert proc.sample() is None
    assert proc.source.kept == 0


@pytest.mark.parametrize(
    ("state", "threads", "status", "expected"),
    [
        (b"Z", 1, 9, 9),
        (b"Z", 1, 256, 256),
        (b"Z", 1, 0, None),  # or it may not be seen
        (b"Z", 2, 9, None),  # the leader alone has ended
        (b"S", 1, 9, None),
    ],
)
def test_how_a_dead_process_ended_is_read_until_somebody_waits_for_it(proc, state, threads, status, expected):
    proc.put(status=b"Name:\tx\nState:\tZ (zombie)\n", stat=stat_line(b"x", state, threads, status))
    sample = proc.sample()

    assert (sample.exit_status, sample.rss_anon_bytes, sample.locked_bytes) == (expected, None, None)


def test_one_that_holds_what_it_held_costs_one_short_read(proc):
    proc.put()
    proc.sample()
    before = proc.source.reads

    assert not proc.moved()
    assert proc.source.reads == before + 1


@pytest.mark.parametrize(
    ("statm", "moved"),
    [
        (b"100 %d 20 1 0 30 0\n" % (50 + MOVED_PAGES), MOVED_PAGES),
        (b"100 50 %d 1 0 30 0\n" % (20 - MOVED_PAGES), MOVED_PAGES),
        (b"100 950 21 1 0 30 0\n", 900),
        (b"999 %d 20 1 0 30 0\n" % (50 + MOVED_PAGES - 1), 0),
        (b"0 0 0 0 0 0 0\n", ENDED),  # how it ended does not show here
        (b"torn", ENDED),
        (b"", ENDED),
    ],
)
def test_what_moved_by_more_than_a_little_is_to_be_sampled(proc, statm, moved):
    proc.put()
    proc.sample()
    proc.put(statm=statm)

    assert proc.moved() == moved


def test_what_crept_since_the_last_sample_adds_up(proc):
    proc.put()
    proc.sample()
    for pages in range(51, 50 + MOVED_PAGES):
        proc.put(statm=b"100 %d 20 1 0 30 0\n" % pages)
        assert not proc.moved()
    proc.put(statm=b"100 %d 20 1 0 30 0\n" % (50 + MOVED_PAGES))

    assert proc.moved()
    proc.sample()
    assert not proc.moved()


def test_of_one_that_was_never_sampled_it_is_not_known(proc):
    proc.put()

    assert proc.moved() == 1


def test_so_many_descriptors_are_kept_at_most_and_the_others_are_read_all_the_same(tmp_path):
    proc = Proc(tmp_path, max_kept=2)
    for pid in range(7, 12):
        proc.put(pid)
    before = len(os.listdir("/proc/self/fd"))

    assert all(proc.sample(pid) is not None for pid in range(7, 12))
    assert (proc.source.kept, len(os.listdir("/proc/self/fd")) - before) == (2, 2 * len(memory.FILES))
    assert [proc.moved(pid) for pid in (7, 8, 9)] == [0, 0, 1]

    proc.source.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_nobody_asks_for_any_more_is_let_go(proc):
    proc.put(7)
    proc.put(8)
    proc.sample(7)
    proc.now_ns = UNUSED_NS - 1
    proc.sample(8)
    assert proc.source.kept == 2

    proc.now_ns = UNUSED_NS
    proc.sample(8)

    assert proc.source.kept == 1


def test_a_quarter_of_the_descriptors_that_may_be_open_is_the_most(monkeypatch):
    for soft, kept in ((1024, 85), (4, 0), (10**6, memory.MAX_KEPT), (memory.resource.RLIM_INFINITY, memory.MAX_KEPT)):
        monkeypatch.setattr(memory.resource, "getrlimit", lambda _, soft=soft: (soft, soft))
        assert memory._room() == kept


def test_descriptors_go_with_the_process_and_are_never_another_ones():
    source = MemorySource()
    program = "import sys; print('ready', flush=True); sys.stdin.read()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", program], **pipes) as child:
        assert child.stdout.readline() == b"ready\n"
        start_ns = _start_ns(child.pid)
        assert source.sample(child.pid, start_ns).rss_anon_bytes > 1 << 20
        assert source.kept == 1

    assert source.moved(child.pid, start_ns)
    assert source.sample(child.pid, start_ns) is None
    assert source.kept == 0


def test_real_growth_moves_and_locked_pages_are_told():
    source, start_ns = MemorySource(), _start_ns(os.getpid())
    before = source.sample(os.getpid(), start_ns)
    with mmap.mmap(-1, 8 << 20) as area:
        area.write(b"x" * (8 << 20))
        assert source.moved(os.getpid(), start_ns)
        after = source.sample(os.getpid(), start_ns)
    source.close()

    grown = [getattr(after, name) - getattr(before, name) for name in ("rss_anon_bytes", "rss_shmem_bytes", "minflt")]
    assert grown[0] + grown[1] >= 8 << 20
    assert grown[2] > 0
    assert (after.threads or 0) >= 1
    assert after.locked_bytes is not None


def _start_ns(pid):
    return read_stat("/proc", pid).start_ns

# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given, strategies as st

from tracer.sources.logclock import BELIEVABLE_NS, LogClock

DEBUG = """\
Sched Debug Version: v0.11, 6.12.0
ktime                                   : 760071.570978
sched_clk                               : 760098.307499
cpu_clk                                 : {cpu_clk}
jiffies                                 : 4295082251
"""


@pytest.fixture
def debugfs(tmp_path):
    (tmp_path / "sched").mkdir()
    (tmp_path / "sched" / "debug").write_text(DEBUG.format(cpu_clk="760070.629935"))
    return tmp_path


@pytest.fixture
def clock(tmp_path):
    return LogClock(str(tmp_path / "none"), proc_root=str(tmp_path))


def test_the_scheduler_knows_both_clocks(debugfs):
    clock = LogClock(str(debugfs))

    assert (clock.offset_ns, clock.known_by) == (941_043, "sched_debug")
    assert clock.monotonic_ns(1_000_000) == 1_000_941_043


def test_in_a_time_namespace_its_clock_is_made_ours(debugfs):
    assert LogClock(str(debugfs), monotonic_shift_ns=500).offset_ns == 941_543


def test_older_kernels_have_that_file_in_proc(tmp_path):
    (tmp_path / "sched_debug").write_text(DEBUG.format(cpu_clk="760000.000000"))

    assert LogClock(str(tmp_path / "none"), proc_root=str(tmp_path)).offset_ns == 71_570_978


def test_drift_is_followed(debugfs):
    clock = LogClock(str(debugfs))
    (debugfs / "sched" / "debug").write_text(DEBUG.format(cpu_clk="760072.570978"))

    assert clock.refresh()
    assert clock.offset_ns == -1_000_000


@pytest.mark.parametrize("content", ["", "ktime : x\ncpu_clk : y\n", "ktime : 1.000000\n"])
def test_another_file_there_is_not_believed(debugfs, content):
    (debugfs / "sched" / "debug").write_text(content)

    assert LogClock(str(debugfs), proc_root=str(debugfs)).offset_ns is None


def test_before_anything_is_known_a_stamp_stands_for_itself(clock):
    assert clock.monotonic_ns(5) == 5000


def test_no_record_is_read_before_it_was_written(clock):
    clock.arrived(2_000_000_000, 1_900_000)
    assert (clock.offset_ns, clock.known_by) == (100_000_000, "arrival")

    clock.arrived(2_500_000_000, 2_499_000)
    assert clock.offset_ns == 1_000_000

    clock.arrived(2_600_000_000, 2_500_000)
    assert clock.offset_ns == pytest.approx(1_000_000, abs=50_000), "a late read teaches nothing"


def test_a_pair_is_better_than_an_arrival_and_is_kept(clock):
    clock.arrived(2_000_000_000, 1_900_000)
    assert clock.pair(1_950_000_000, 1_949_500)
    clock.arrived(3_000_000_000, 2_900_000)

    assert (clock.offset_ns, clock.known_by) == (500_000, "pair")


def test_a_pair_that_cannot_be_one_is_refused(clock):
    clock.arrived(2_000_000_000, 1_900_000)

    assert not clock.pair(2_000_000_000 + 2 * BELIEVABLE_NS, 1_900_000)
    assert clock.offset_ns == 100_000_000


def test_what_an_arrival_disproves_is_given_up(clock):
    clock.pair(2_000_000_000, 1_000_000)
    clock.arrived(2_100_000_000, 2_000_000)

    assert (clock.offset_ns, clock.known_by) == (100_000_000, "arrival")


@given(
    true_ns=st.integers(-(10**12), 10**12),
    waits=st.lists(st.tuples(st.integers(1, 10**6), st.integers(0, 10**9)), min_size=1, max_size=30),
)
def test_translated_arrivals_lie_between_the_truth_and_the_read(true_ns, waits):
    clock = LogClock("/nonexistent", proc_root="/nonexistent")
    printk_us, best = 10**9, None
    for pause_us, wait_ns in waits:
        printk_us += pause_us
        written_ns = printk_us * 1000 + true_ns
        read_ns = written_ns + wait_ns
        best = wait_ns if best is None else min(best, wait_ns)
        clock.arrived(read_ns, printk_us)

        assert written_ns <= max(written_ns, clock.monotonic_ns(printk_us)) <= max(read_ns, 0)
        assert clock.offset_ns >= true_ns

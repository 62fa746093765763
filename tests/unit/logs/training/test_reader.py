# SPDX-License-Identifier: Apache-2.0
"""A log as it comes: in pieces, with carriage returns, torn, endless, in bytes that are no text."""

import itertools
import time

import pytest
from hypothesis import given, strategies as st

from tests.waiting import SLOWER
from tracer.logs.training import KINDS, TEXT_CHARS, TrainingReader
from tracer.logs.training.reader import RULES
from tracer.logs.training.shape import LINE_BYTES, MAX_PID

WORKER = "RuntimeError: DataLoader worker (pid 512) is killed by signal: Killed. "
REPORT = """
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-11-30_17:25:59
  host      : gpu-02
  rank      : 2 (local_rank: 0)
  exitcode  : -15 (pid: 8031)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 8031
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-30_17:25:59
  host      : gpu-02
  rank      : 3 (local_rank: 1)
  exitcode  : -9 (pid: 8032)  (SIGKILL)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 8032
============================================================
"""
TRACEBACK = """Traceback (most recent call last):
  File "train.py", line 9, in <module>
    main()
    ~~~~^^
  File "train.py", line 5, in main
    raise ValueError("no such split")
{}
"""


def read(text, reader=None, ts_ns=7):
    reader = reader or TrainingReader("stdout")
    return reader.feed(text if isinstance(text, bytes) else text.encode(), ts_ns) + reader.end()


def kinds(events):
    return [event.about for event in events]


def test_a_report_gives_each_failure_with_its_rank_and_says_which_came_first():
    later, first = read(REPORT)

    assert (later.pids, later.rank, later.local_rank, later.signal, later.root_cause) == ((8031,), 2, 0, 15, False)
    assert (first.pids, first.rank, first.local_rank, first.signal, first.root_cause) == ((8032,), 3, 1, 9, True)


def test_a_report_without_its_exit_codes_still_tells_the_signal():
    [event] = read("  traceback : Signal 9 (SIGKILL) received by PID 8040\n")

    assert (event.about, event.pids, event.signal) == ("failure_report", (8040,), 9)


@pytest.mark.parametrize(
    "last, what",
    [("ValueError: no such split", "ValueError"), ("KeyboardInterrupt", "KeyboardInterrupt"),
     ("torch.distributed.DistBackendError: lost", "torch.distributed.DistBackendError"),
     ("my_lib.errors.BadThingFailure", "my_lib.errors.BadThingFailure"), ("SystemExit: 3", "SystemExit")],
)  # fmt: skip
def test_of_a_traceback_the_last_line_is_told(last, what):
    [event] = read(TRACEBACK.format(last))

    assert (event.about, event.what, event.text) == ("exception", what, last)


def test_without_a_traceback_such_a_line_is_nothing():
    assert read("ValueError: no such split\n") == []


def test_the_last_line_of_a_traceback_is_told_as_what_it_says():
    assert kinds(read(TRACEBACK.format(WORKER))) == ["worker_killed"]


def test_chained_exceptions_are_told_one_by_one():
    between = "\nThe above exception was the direct cause of the following exception:\n\n"
    text = TRACEBACK.format("KeyError: 'x'") + between + TRACEBACK.format("RuntimeError: all is lost")

    assert [event.what for event in read(text)] == ["KeyError", "RuntimeError"]


def test_tracebacks_of_two_ranks_that_are_interleaved_are_told_apart():
    lines = [
        f"[rank{rank}]: {line}"
        for pair in zip(*(TRACEBACK.format(f"{name}Error: x").splitlines() for name in ("Key", "Value")), strict=True)
        for rank, line in enumerate(pair)
    ]  # fmt: skip

    assert [(event.rank, event.what) for event in read("\n".join(lines) + "\n")] == [(0, "KeyError"), (1, "ValueError")]


def test_a_traceback_that_never_ends_is_given_up():
    noise = "".join(f"quite another line {number}\n" for number in range(5))

    assert read("Traceback (most recent call last):\n" + noise + "ValueError: far away\n") == []


def test_a_line_has_the_time_of_the_piece_that_brought_its_last_byte():
    reader = TrainingReader("stderr")

    assert reader.feed(b"RuntimeError: DataLoader worker (pid 5) is kil", 10) == []
    assert reader.feed(b"led by signal: Killed.", 20) == []
    [event] = reader.feed(b"\nnext", 30)

    assert (event.ts_ns, event.pids, event.stream) == (20, (5,), "stderr")


def test_a_progress_bar_is_read_between_carriage_returns():
    reader = TrainingReader("stderr")
    bars = b"".join(b"\r%3d%%|#####     | %d/10 [00:01<00:01]" % (number * 10, number) for number in range(1, 4))

    assert [event.numbers["step"] for event in reader.feed(bars, 10)] == [1, 2]
    [last] = reader.feed(b"\r", 99)
    assert (last.numbers["step"], last.ts_ns) == (3, 10)


def test_a_last_line_without_an_end_is_told_at_the_end():
    reader = TrainingReader("stdout")

    assert reader.feed(WORKER.encode(), 3) == []
    assert kinds(reader.end()) == ["worker_killed"]
    assert reader.end() == []


def test_what_stands_open_when_something_is_missing_is_no_line():
    reader = TrainingReader("stdout")
    reader.feed(b"RuntimeError: DataLoader worker (pid 5", 1)
    reader.gap()

    assert reader.feed(b"12) is killed by signal: Killed.\n", 2) == []


def test_a_line_that_another_one_broke_into_is_not_guessed_at():
    assert read("RuntimeError: DataLoader worker (pid 5\nstep by step\n12) is killed by signal: Killed.\n") == []


def test_two_lines_that_ran_into_one_are_still_one_that_is_known():
    assert kinds(read("saving checkpoRuntimeError: DataLoader worker (pid 5) is killed by signal: Killed. int\n")) == [
        "worker_killed"
    ]


def test_a_line_without_end_is_cut_and_its_memory_is_bounded():
    reader = TrainingReader("stdout")
    for _ in range(100):
        assert reader.feed(b"x" * 65536, 1) == []
    assert len(reader._pending) <= LINE_BYTES

    assert kinds(reader.feed(f"\n{WORKER}\n".encode(), 2)) == ["worker_killed"]


def test_a_long_line_is_kept_to_its_first_part():
    [event] = read(f"{WORKER}{'y' * 3000}\n")

    assert len(event.text) == TEXT_CHARS


def test_bytes_that_are_no_text_and_a_nul_do_no_harm():
    [event] = read(b"\xff\xfe\x80 " + WORKER.encode() + b"\xf0\x28\n\x00\n")
    [fault] = read(b"ERROR: Unexpected bus error encountered in worker.\n\x00[rank0]: x\n")

    assert (event.about, event.pids) == ("worker_killed", (512,))
    assert fault.about == "worker_fault"


@pytest.mark.parametrize("pid", ["0", "0512", str(MAX_PID + 1), "99999999999", "-5", "\u0664\u0662"])
def test_what_cannot_be_a_pid_is_none(pid):
    assert all(event.pids == () for event in read(WORKER.replace("512", pid)))


words = st.sampled_from([
    WORKER, REPORT, TRACEBACK.format("ValueError: x"), "Epoch 3/10 step 5", "\r", "\n", "\x1b[31m", "\x1b[",
    "[rank3]: ", "\x00", "Traceback (most recent call last):\n", "  indented\n", "(pid", " 12) ",
    "CUDA out of memory. Tried to allocate ", "1.5 GiB",
    "exitcode  : -9 (pid: 3)", "\u00e9\u4e8c", "%|", "10/100", "Killed\n",
])  # fmt: skip
logs = st.lists(st.one_of(words.map(str.encode), st.binary(max_size=30)), max_size=25).map(b"".join)


def plain(events):
    return [(event.about, event.text, event.pids, event.numbers) for event in events]


@given(log=logs, cuts=st.lists(st.integers(0, 2000), max_size=12))
def test_however_a_log_is_cut_into_pieces_it_says_the_same(log, cuts):
    whole, pieces = TrainingReader("both"), TrainingReader("both")
    places = sorted({0, len(log), *(cut for cut in cuts if cut < len(log))})
    events = []
    for time_ns, (start, end) in enumerate(itertools.pairwise(places)):
        events += pieces.feed(log[start:end], time_ns)

    assert plain(events + pieces.end()) == plain(whole.feed(log, 1) + whole.end())


@given(log=logs)
def test_whatever_comes_each_event_is_a_sane_one(log):
    for event in read(log):
        assert event.about in KINDS
        assert 0 < len(event.text) <= TEXT_CHARS
        assert all(0 < pid <= MAX_PID for pid in event.pids)
        assert event.signal is None or 0 < event.signal <= 64
        assert all(isinstance(value, int | float) and abs(value) < 1 << 80 for value in event.numbers.values())


FILLERS = [" ", "9", "a", "[", "(", ".", ",", "/", "1 ", "[rank1]: ", "\x1b[", "%|", "epoch ", "Epoch: [", "iter: ",
           "(pid ", "out of memory ", "\u00e9"]  # fmt: skip


@pytest.mark.parametrize("filler", FILLERS, ids=repr)
def test_no_line_takes_long_whatever_it_is_made_of(filler):
    lines = [(rule.needle + filler * LINE_BYTES)[: LINE_BYTES - 1] for rule in RULES]
    lines += [(filler * LINE_BYTES)[: LINE_BYTES // 2] + rule.needle + (filler * LINE_BYTES)[:2000] for rule in RULES]
    began = time.thread_time()
    read("\n".join(lines))

    # 150 lines of the longest kind; what grows with the square of a line would take minutes.
    assert time.thread_time() - began < 5 * SLOWER

# SPDX-License-Identifier: Apache-2.0
"""A text of any kind in chunks: passages have their places, memory is bounded, all else is passed over."""

import runpy
import tracemalloc
from pathlib import Path

import pytest

from tests.explained import cases
from tracer.events import LoggedKill, TrainingLine
from tracer.logs.near import NearLines
from tracer.logs.sieve import Sieve, tells
from tracer.logs.texts import MOST_OF_A_KIND, TextReader, numbered

KILL = "Killed process 42 (python3) total-vm:9kB, anon-rss:8kB, file-rss:0kB, shmem-rss:0kB"
HERE = Path(__file__).parent


def read(raw, kind="mixed", chunk=1 << 20):
    reader = TextReader(0, "x", kind)
    passages = []
    for at in range(0, len(raw), chunk):
        passages += reader.feed(raw[at : at + chunk])
    return numbered(passages + reader.end()), reader.text


def test_each_passage_has_its_line_and_column():
    raw = (
        b"a\n" * 5000
        + b"[rank3]: RuntimeError: DataLoader worker (pid 42) is killed by signal: Killed. \n"
        + b"b\n" * 3
    )
    raw += f"[ 12.000001] Out of memory: {KILL}\n".encode()
    passages, text = read(raw)

    assert [(passage.line, passage.column) for passage in passages] == [(5001, 1), (5005, 14)]
    assert isinstance(passages[0].event, TrainingLine)
    assert isinstance(passages[1].event, LoggedKill)
    assert text.lines == 5005


@pytest.mark.parametrize("chunk", [1, 13, 4096])
def test_where_chunks_end_changes_nothing(chunk):
    raw = b"".join(raw for case in cases()[:20] for _, _, raw in case.texts())

    assert read(raw, chunk=chunk) == read(raw)


def test_a_carriage_return_a_nul_and_bytes_that_are_no_text_are_no_trouble():
    raw = b"10%|#\r90%|####\rKilled\r\n\0\xff\xfe\x00 \x1b[31m" + b"x" * 100_000 + b"\nKilled\n"
    passages, text = read(raw)

    assert [passage.line for passage in passages] == [1, 3]
    assert text.lines == 3


def test_the_last_step_before_a_failure_is_kept_and_no_other():
    raw = b"".join(b"Epoch %d: 1/10\n" % epoch for epoch in range(1000)) + b"Killed\n"
    passages, _ = read(raw)

    assert [(p.event.about, p.line) for p in passages if isinstance(p.event, TrainingLine)] == [
        ("progress", 1000), ("shell_killed", 1001),
    ]  # fmt: skip


def test_a_storm_of_one_kind_is_thinned_and_that_is_counted():
    passages, text = read(b"Killed\n" * 5000)

    assert len(passages) == MOST_OF_A_KIND + 50
    assert text.left_out == 5000 - len(passages)
    assert passages[-1].line == 5000


def test_memory_does_not_grow_with_the_text():
    block = b"step 12 loss 0.31 memory 12 GiB code 7\n" * 100 + b"plain line without anything of note\n" * 9000
    reader = TextReader(0, "x", "mixed")
    for _ in range(2):
        reader.feed(block)
    tracemalloc.start()
    for _ in range(6):
        reader.feed(block)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 6 << 20


def test_a_line_without_an_end_is_cut():
    passages, text = read(b"Killed " * 1_000_000)

    assert passages == []
    assert text.lines == 1


MIB = 1 << 20


@pytest.mark.parametrize(
    "block, blocks, lines",
    [
        (b"x" * MIB, 64, 1),
        (b"Killed " * (MIB // 7), 64, 1),
        (b"\n" * (MIB // 4), 8, 2 * MIB),
        (b"\0" * MIB, 32, 1),
        ((b"\0" * 99 + b"\n") * (MIB // 100), 16, 16 * (MIB // 100)),
        ((b"y" * (MIB - 1) + b"\n"), 16, 16),
        (b"max memory allocated 12 GiB, bloom, NCCL INFO, code 0\n" * 5000, 16, 80_000),
    ],
    ids=["one line", "one line of needles", "empty lines", "NULs", "lines of NULs", "long lines", "words of training"],
)
def test_what_is_odd_or_long_is_passed_over_in_bounded_memory(block, blocks, lines):
    reader = TextReader(0, "x", "mixed")
    tracemalloc.start()
    for _ in range(blocks):
        assert reader.feed(block) == []
    assert reader.end() == []
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert reader.text.lines == lines
    assert peak < 8 * MIB


def test_every_rule_has_a_fragment_that_is_looked_for_first():
    """A line that a rule would take, and that no needle is in, would be passed over."""
    shapes = runpy.run_path(str(HERE / "training" / "test_shapes.py"))["LINES"]
    lines = runpy.run_path(str(HERE / "reports" / "test_reports.py"))["LINES"]
    unseen = [
        text
        for text, about, *_ in (*shapes, *lines)
        if about not in {"device_retry", "progress", "checkpoint", "optimizer_step"} and not tells(text.encode())
    ]

    assert unseen == []


@pytest.mark.parametrize("lines_at_once", [1, 7, 1000])
def test_lines_before_a_failure_are_given_once_each_and_in_order(lines_at_once):
    near, sieve = NearLines(), Sieve()
    lines = [b"line %d\n" % n for n in range(100)] + [b"Killed\n"] + [b"more\n"] * 10
    blocks = [b"".join(lines[at : at + lines_at_once]) for at in range(0, len(lines), lines_at_once)]
    given = [group for block in blocks for group in near.feed(block, sieve.sift(block))]
    numbered_lines = [(first + at, line) for first, lines, _ in given for at, line in enumerate(lines)]

    assert [number for number, _ in numbered_lines] == [*range(71, 102), 102, 103, 104]
    assert numbered_lines[0] == (71, b"line 70")
    assert [(group.number, group.lines) for group in given if group.tells] == [(101, (b"Killed",))]
    assert near.number == 111


@pytest.mark.parametrize("between", [0, 3, 28, 35, 45])
@pytest.mark.parametrize("chunk", [50, 1 << 20])
def test_the_last_time_before_a_failure_is_its_own_unless_it_is_far(between, chunk):
    raw = b"2026-11-30 17:25:01 - INFO - loading\n" + b"plain\n" * between + b"Killed\n"
    raw += b"plain\n2026-11-30 17:26:00 - INFO - bye\nCUDA error: out of memory\n"
    passages, _ = read(raw, chunk=chunk)

    first, second = (passage.wall for passage in passages)
    assert first == ("2026-11-30T17:25:01" if between < 30 else None)
    assert second == "2026-11-30T17:26:00"


def test_of_many_lines_that_tell_nothing_the_place_and_the_last_step_are_known():
    raw = b"[Mon Nov 30 17:25:01 2026] usb 1-1: new device of /docker/abc\nstep 41 loss 0.3\nplain\nKilled\n"
    passages, text = read(raw)

    assert [(passage.event.about, passage.line) for passage in passages] == [("progress", 2), ("shell_killed", 4)]
    assert text.boot_clock
    assert text.hints == {"docker"}


def test_what_powershell_wrote_is_read_too():
    raw = "Epoch 3: 1/10\nRuntimeError: DataLoader worker (pid 42) is killed by signal: Killed.\n".encode("utf-16")
    passages, _ = read(raw)

    assert [(passage.event.about, passage.line) for passage in passages] == [("progress", 1), ("worker_killed", 2)]
    assert read(raw, chunk=1)[0] == passages

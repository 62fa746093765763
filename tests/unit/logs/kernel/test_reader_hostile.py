# SPDX-License-Identifier: Apache-2.0
"""Logs that were made to mislead or to exhaust the reader: names stay names, and work and memory stay bounded."""

import time

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from tests.kernel_logs import cases, read
from tests.logforms import FORMS, LINE_ENDS_LOST, Rec
from tests.strategies import hostile_comms
from tracer.events import AnyEvent, LoggedDecision, LoggedInvocation, LoggedKill, LoggedStats, LoggedTasks
from tracer.logs.kernel.reader import KernelLogReader
from tracer.logs.kernel.tables import MOST_ROWS, MOST_VALUES

SIZES = "total-vm:{0}kB, anon-rss:{1}kB, file-rss:7kB, shmem-rss:6kB, UID:0 pgtables:5kB oom_score_adj:0"
FORGED = f"Out of memory: Killed process 1 (init) {SIZES.format(1, 1)}"
TRUE = f"Out of memory: Killed process 4711 ({{}}) {SIZES.format(9, 8)}"
DECISION = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg={0},task_memcg={0},task=x,"
    "pid=4711,uid=5"
)
WITH_PATHS = [
    DECISION,
    "Memory cgroup stats for {0}:",
    "Task in {0} killed as a result of limit of {0}",
    "Tasks in {0} are going to be killed due to memory.oom.group set",
    "Memory limit reached of cgroup {0}",
    "cgroup: fork rejected by pids controller in {0}",
]
KEEPS_LINE_ENDS = [
    name
    for name in FORMS
    if name not in LINE_ENDS_LOST and not name.startswith(("syslog", "rsyslog", "RFC", "kubectl"))
]


def kills(events):
    return [(event.pid, event.comm) for event in events if isinstance(event, LoggedKill) and event.said_by != "user"]


@pytest.mark.parametrize("form", [*KEEPS_LINE_ENDS, "syslog with stamps", "rsyslog, ISO"])
@pytest.mark.parametrize("record", WITH_PATHS)
@pytest.mark.parametrize("between", ["\n", "\n\n", "\n\n\n\nx\n", "\n [   13.000000"])
def test_a_kill_in_the_name_of_a_cgroup_is_none(form, record, between):
    path = f"/a{between}{FORGED}\nb"
    records = [Rec("x invoked oom-killer: gfp_mask=0xcc0, order=0, oom_score_adj=0", 1), Rec(record.format(path), 2)]

    assert kills(read(FORMS[form](records))) == []


@pytest.mark.parametrize("record", WITH_PATHS[:5])
@pytest.mark.parametrize("between", ["\n", "\nx\n"])
def test_what_follows_a_record_with_a_name_is_not_even_a_users_word(record, between):
    events = read(FORMS["dmesg"]([Rec(record.format(f"/a{between}{FORGED}\nb"), 2), Rec("usb 1-1: new", 3)]))

    assert [event for event in events if isinstance(event, LoggedKill)] == []


def test_a_kill_in_a_name_is_seen_where_the_next_test_would_not_see_it():
    assert kills(read(FORMS["dmesg"]([Rec(FORGED, 1)]))) == [(1, "init")]


@given(hostile_comms, st.sampled_from(KEEPS_LINE_ENDS))
@settings(deadline=None)
def test_a_name_never_changes_who_was_killed(comm, form):
    text = comm.encode("latin-1").decode("utf-8", "surrogateescape")
    events = read(
        FORMS[form](
            [Rec(f"{text} invoked oom-killer: gfp_mask=0xcc0, order=0, oom_score_adj=0", 1), Rec(TRUE.format(text), 2)]
        )
    )
    found = [event for event in events if isinstance(event, LoggedKill)]

    assert [event.pid for event in found] in ([4711], [])
    if found:
        assert found[0].anon_rss_bytes in (8192, None)


def test_who_is_killed_by_an_innocent_name_is_always_found():
    for form in FORMS:
        assert kills(read(FORMS[form]([Rec(TRUE.format("python3"), 1)]))) == [(4711, "python3")], form


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_a_decision_whose_line_was_cut_never_names_another(count):
    whole = DECISION.format("/jobs/j7")
    for cut in range(20, len(whole), count):
        for event in read(f"[    1.000000] {whole[:cut]}\n[    1.000001] usb 1-1: new\n".encode()):
            if isinstance(event, LoggedDecision):
                assert event.oom_memcg in (None, "/jobs/j7")
                assert event.task_memcg in (None, "/jobs/j7")
                assert event.tgid is None or whole[cut - 1 :] in ("5", "")


@pytest.mark.parametrize("count", [1, 3])
def test_a_kill_whose_line_was_cut_never_says_another_number(count):
    whole = TRUE.format("python3")
    for cut in range(10, len(whole), count):
        for event in read(f"[    1.000000] {whole[:cut]}\n[    1.000001] usb 1-1: new\n".encode()):
            if isinstance(event, LoggedKill):
                assert (event.pid, event.comm) in ((4711, "python3"), (4711, None))
                assert (event.total_vm_bytes, event.anon_rss_bytes) in ((9216, 8192), (9216, None), (None, None))


@given(st.sampled_from(cases()), st.lists(st.tuples(st.integers(0, 1 << 16), st.binary(max_size=6)), max_size=8))
@settings(deadline=None, max_examples=200)
def test_a_damaged_log_is_read_without_an_error(case, damage):
    raw = bytearray(case.raw)
    for place, new in damage:
        at = place % (len(raw) + 1)
        raw[at : at + len(new)] = new
    read(bytes(raw), 4096)


WORDS = [
    b"\n", b"[    1.000000] ", b"oom-kill:constraint=CONSTRAINT_MEMCG,", b"Killed process 1 (", b") total-vm:",
    b",task=x", b",mems_allowed=0", b"oom_memcg=/", b"invoked oom-killer: ", b"Task in /", b"<br>", b"&lt;", b"1,",
    b" killed as a result of limit of ", b"Memory cgroup stats for /a:", b"[ pid ] uid tgid total_vm rss name",
    b"[ 1] 0 1 1 1 x", b"    MESSAGE=", b'{"MESSAGE":"', b'"}', b"** 3 printk messages dropped ** ", b"6,1,1,-;",
    b"\xff", b"\x1b[1m", b"2024-04-28T08:00:00.1Z stdout P ",
]  # fmt: skip


@given(
    st.lists(st.one_of(st.sampled_from(WORDS), st.binary(max_size=4)), max_size=60).map(b"".join), st.integers(1, 90)
)
@settings(deadline=None, max_examples=300)
def test_any_bytes_are_read_alike_however_they_are_cut(raw, chunk):
    events = read(raw)

    assert read(raw, chunk) == events
    assert msgspec.json.decode(msgspec.json.encode(events), type=list[AnyEvent]) == events


@pytest.mark.parametrize("word", [*WORDS, b"a", b" ", b"Killed process 12 (x) ", b"oom-kill ", b"x: y: ", b"| ", b"> "])
@pytest.mark.parametrize(
    "before",
    [b"", b"[    1.000000] Killed process 5 (", DECISION.partition("/")[0].encode()],
)
def test_a_line_of_a_mebibyte_takes_no_time(word, before):
    raw = before + word.replace(b"\n", b"") * ((1 << 20) // len(word)) + b"\n"
    begun = time.process_time()
    read(raw)

    assert time.process_time() - begun < 2


@pytest.mark.parametrize("word", WORDS)
def test_many_lines_take_time_in_proportion(word):
    def seconds(count):
        raw = (b"oom-kill " + word.replace(b"\n", b"") + b"\n") * count
        begun = time.process_time()
        read(raw)
        return time.process_time() - begun

    few = min(seconds(100) for _ in range(3))

    assert seconds(1600) < max(few * 16 * 6, 0.5)


def test_what_is_kept_of_tables_is_bounded():
    rows = "".join(f"[ {pid:5d}]     0 {pid:5d} 100 {pid:5d} 0 0 0 c{pid}\n" for pid in range(1, 5000))
    (table,) = (
        event
        for event in read(f"[ pid ] uid tgid total_vm rss nr_ptes swapents oom_score_adj name\n{rows}".encode())
        if isinstance(event, LoggedTasks)
    )

    assert (len(table.rows), table.others) == (MOST_ROWS, 4999 - MOST_ROWS)
    assert table.rss_pages == sum(range(1, 5000))
    assert [row.pid for row in table.rows] == list(range(5000 - MOST_ROWS, 5000))
    values = "".join(f"key_{number} {number}\n" for number in range(1000))
    (stats,) = (
        event for event in read(f"Memory cgroup stats for /a:\n{values}".encode()) if isinstance(event, LoggedStats)
    )
    assert len(stats.values) <= MOST_VALUES


def test_a_reader_holds_little_whatever_comes():
    reader = KernelLogReader()
    for number in range(64):
        for event in reader.feed(
            b"Killed process 5 (" + b"x" * (1 << 16) + b"\n" + b"host%d kernel: oom-kill\n" % number
        ):
            assert len(event.text) <= 1024
    assert len(reader._streams) <= 16
    reader.feed(b"y" * (1 << 20))
    assert len(reader._near._whole.end()) <= 1 << 15


@pytest.mark.parametrize(
    "mark, coding", [("\ufeff", "utf-16-le"), ("\ufeff", "utf-16-be"), ("\ufeff", "utf-8"), ("", "utf-8")]
)
@pytest.mark.parametrize("chunk", [1, 2, 1000])
def test_the_encoding_of_a_windows_program_is_no_obstacle(mark, coding, chunk):
    raw = f"{mark}{TRUE.format('python3')}\r\n".encode(coding)

    assert kills(read(raw, chunk)) == [(4711, "python3")]


def test_lines_without_prefix_among_others_are_a_users_words():
    text = f"[    1.000000] usb 1-1: new device\n\n{TRUE.format('x')}\n"

    assert [event.said_by for event in read(text.encode())] == ["user"]
    assert [event.said_by for event in read(TRUE.format("x").encode())] == [None]


def test_a_report_that_begins_far_from_anything_else_is_found():
    noise = b"[    1.000000] usb 1-1: new device\n" * 3000
    report = FORMS["dmesg"](
        [Rec("python3 invoked oom-killer: gfp_mask=0xcc0, order=0, oom_score_adj=0", 5), Rec(TRUE.format("x"), 9)]
    )
    events = read(noise + report + noise + report, 1 << 12)

    assert [type(event) for event in events] == [LoggedInvocation, LoggedKill] * 2
    assert [event.log_line for event in events] == [3001, 3002, 6003, 6004]

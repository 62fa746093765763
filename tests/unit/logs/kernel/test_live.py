# SPDX-License-Identifier: Apache-2.0
"""Records of a live log: the tables of a report, which `parse_record` passes over."""

import pytest

from tests.recorded_mechanisms import recorded
from tracer.events import LoggedDecision, LoggedKill, LoggedStats, LoggedTasks
from tracer.logs.kernel.devkmsg import parse_kmsg
from tracer.logs.kernel.live import PATIENCE, LiveRecords
from tracer.logs.kernel.shape import Stamp
from tracer.logs.kernel.tables import MOST_ROWS

HEAD = "[  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes swapents oom_score_adj name"
DECISION = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/a,task_memcg=/a,"
    "task=python,pid=7,uid=0"
)


def row(pid: int, anon_pages: int = 100, comm: str = "python") -> str:
    return f"[{pid:>7}]     0 {pid:>5}   278995   {anon_pages + 5}   {anon_pages}  5  0  1404928  0  0 {comm}"


def push(records: LiveRecords, *texts: str) -> list:
    return [e for seq, text in enumerate(texts) for e in records.push(text, Stamp(9, 7, seq, True, "kmsg"))]


@pytest.mark.parametrize("run", [r for r in recorded() if r.report()], ids=str)
def test_every_report_of_a_real_kill_has_its_table_and_its_values(run):
    records, found = LiveRecords(), []
    for line in run.report().splitlines():
        record = parse_kmsg(line.encode())
        stamp = Stamp(1, record.usec, record.seq, True, "kmsg")
        found += records.push(record.text, stamp)

    tables = [e for e in found if isinstance(e, LoggedTasks)]
    kills = [e for e in found if isinstance(e, LoggedKill)]
    assert len(tables) == len([e for e in found if isinstance(e, LoggedDecision)]) > 0
    assert len([e for e in found if isinstance(e, LoggedStats)]) == len(tables)
    assert all(e.trusted and e.source == "kmsg" for e in found)
    assert kills[0].pid in {each.tgid for each in tables[0].rows}


def test_a_table_is_known_when_the_decision_comes():
    records = LiveRecords()

    assert push(records, HEAD, row(7), row(8)) == []
    table, decision = push(records, DECISION)
    assert [each.pid for each in table.rows] == [7, 8]
    assert table.rows[0].rss_anon_pages == 100
    assert isinstance(decision, LoggedDecision)


def test_records_of_others_between_two_rows_do_not_end_a_table():
    table, _ = push(LiveRecords(), HEAD, row(7), "usb 1-1: new device", row(8), DECISION)

    assert len(table.rows) == 2


def test_a_table_that_is_never_ended_is_given_up_after_some_records():
    found = push(LiveRecords(), HEAD, row(7), *["usb 1-1: new device"] * PATIENCE)

    assert [type(each) for each in found] == [LoggedTasks]


def test_a_table_with_missing_records_is_forgotten():
    records = LiveRecords()
    push(records, HEAD, row(7))
    records.lost()

    assert [type(each) for each in push(records, row(8), DECISION)] == [LoggedDecision]


def test_a_long_table_is_bounded_and_says_how_many_rows_it_left_out():
    table, _ = push(LiveRecords(), HEAD, *(row(pid, pid) for pid in range(1, 3 * MOST_ROWS + 1)), DECISION)

    assert (len(table.rows), table.others) == (MOST_ROWS, 2 * MOST_ROWS)
    assert max(each.pid for each in table.rows) == 3 * MOST_ROWS


def test_values_in_one_record_of_many_lines_are_read():
    found = push(LiveRecords(), "Memory cgroup stats for /a:\\x0aanon 4096\\x0afile 0\\x0akernel 8192", DECISION)

    assert found[0].values == {"anon": 4096, "file": 0, "kernel": 8192}
    assert found[0].memcg == "/a"


def test_rows_without_a_head_are_nothing():
    assert push(LiveRecords(), row(7), row(8)) == []

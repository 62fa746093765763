# SPDX-License-Identifier: Apache-2.0
"""What else was read of a process: since the picture begins, of the program that it is, or not at all."""

import pytest

from tests.unit.verdict.scenes import RANK, Scene, start_of
from tracer.events import ProcessExeced, ProcessSample, process_id
from tracer.units import NS_PER_S
from tracer.verdict.mechanisms.vitals import Vitals, vitals
from tracer.verdict.story import Story


class Life:
    """A rank that was looked at."""

    def __init__(self):
        self.scene = Scene()
        self.scene.job()

    def look(self, locked, tables, threads, pinned=0):
        self.scene.pass_time(NS_PER_S)
        sample = ProcessSample(
            ts_ns=self.scene.now_ns, tgid=RANK, start_ns=start_of(RANK), rss_anon_bytes=1, locked_bytes=locked,
            pinned_bytes=pinned, page_table_bytes=tables, threads=threads,
        )  # fmt: skip
        self.scene.add(sample)
        return self.scene.now_ns

    def vitals(self, from_ns, at_ns=None):
        member = Story(self.scene.events).tree.members[process_id(RANK, start_of(RANK))]
        return vitals(member, from_ns, self.scene.now_ns if at_ns is None else at_ns)


def test_growth_is_since_the_last_look_before_the_picture_begins():
    life = Life()
    life.look(1, 10, 1)
    from_ns = life.look(5, 20, 2)
    life.look(9, 50, 7, pinned=3)

    assert life.vitals(from_ns) == Vitals(
        locked_bytes=12, locked_grown_bytes=7, page_tables_grown_bytes=30, threads_grown=5
    )


def test_of_one_that_came_later_all_is_growth():
    life = Life()
    first_ns = life.look(5, 20, 2)

    assert life.vitals(first_ns - 1).locked_grown_bytes == 5
    assert life.vitals(first_ns - 1, first_ns - 1) is None


def test_what_an_earlier_program_had_is_nothing_that_this_one_has():
    life = Life()
    from_ns = life.look(500, 20, 2)
    life.scene.pass_time(1)
    life.scene.add(
        ProcessExeced(ts_ns=life.scene.now_ns, cpu=0, start_ns=start_of(RANK), tgid=RANK, old_tid=RANK, comm="x")
    )
    life.look(7, 20, 2)

    assert life.vitals(from_ns).locked_grown_bytes == 7


@pytest.mark.parametrize("tables", [None])
def test_older_recordings_have_none(tables):
    life = Life()
    life.look(None, tables, None)

    assert life.vitals(0) is None

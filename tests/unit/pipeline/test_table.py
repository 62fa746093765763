# SPDX-License-Identifier: Apache-2.0
"""Who stands below whom in one look at /proc, and who only seems to."""

from tracer.pipeline.table import Sight, all_below, id_of, stands_below, tops_of
from tracer.sources.procfs import Row
from tracer.units import TICK_NS


def row(pid, parent, start=None, *, ended=False):
    return Row(pid, parent, (pid if start is None else start) * TICK_NS, "x", ended)


def table(*rows):
    return {row.tgid: row for row in rows}


TREE = table(row(1, 0), row(10, 1), row(20, 10), row(21, 10), row(30, 20), row(40, 1))


def is_ours(*pids):
    return {id_of(TREE[pid]) for pid in pids}.__contains__


def test_all_below_are_found_with_their_parents_first():
    found = all_below(is_ours(10), TREE)

    assert {sight.row.tgid for sight in found} == {20, 21, 30}
    assert Sight(TREE[30], TREE[20]) in found
    places = [sight.row.tgid for sight in found]
    assert places.index(20) < places.index(30)


def test_what_is_known_is_not_found_again_but_what_is_below_it_is():
    assert [sight.row.tgid for sight in all_below(is_ours(10, 20, 21), TREE)] == [30]


def test_children_of_a_pid_that_is_another_process_by_now_are_not_found():
    later = TREE | table(row(10, 1, start=15))

    assert all_below(is_ours(10), later) == []


def test_a_child_older_than_its_parent_and_one_that_has_ended_are_not_found():
    odd = TREE | table(row(21, 10, start=9), row(30, 20, ended=True))

    assert [sight.row.tgid for sight in all_below(is_ours(10), odd)] == [20]


def test_nobody_stands_below_himself_or_in_a_circle():
    circle = table(row(10, 20), row(20, 10))

    assert not stands_below(10, {id_of(TREE[10])}, TREE)
    assert stands_below(30, {id_of(TREE[10])}, TREE)
    assert not stands_below(10, {id_of(TREE[40])}, circle)
    assert not stands_below(99, {id_of(TREE[10])}, TREE)


def test_the_tops_are_those_below_no_other_and_the_oldest_comes_first():
    new = [TREE[pid] for pid in (40, 30, 20)]

    assert [top.tgid for top in tops_of(new, set(), TREE)] == [20, 40]
    assert [top.tgid for top in tops_of(new, {id_of(TREE[10])}, TREE)] == [40]

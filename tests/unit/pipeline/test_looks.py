# SPDX-License-Identifier: Apache-2.0
"""When a process is looked at more closely, how often, and when no more."""

from tests.unit.pipeline.stand_ins import START_NS
from tracer.events import process_id
from tracer.pipeline.looks import AFTER_FORK_NS, AFTER_NS, FORK_PAUSE_NS, MAX_BY_FORK, Looks
from tracer.pipeline.members import Member
from tracer.units import NS_PER_MS

ONE = Member(11, START_NS)
LAST_NS = max(AFTER_NS)


def times(looks: Looks, until_ns: int = 2 * LAST_NS) -> list[int]:
    found = []
    while (due_ns := looks.due_ns()) is not None and due_ns <= until_ns:
        found += [due_ns] * len(looks.due(due_ns))
    return found


def test_a_process_is_looked_at_several_times_after_its_first_sight():
    looks = Looks()
    assert looks.due_ns() is None
    looks.begin(ONE, 100)

    assert [100 + after_ns for after_ns in AFTER_NS] == times(looks)
    assert looks.due_ns() is None


def test_as_another_program_it_is_looked_at_anew():
    looks = Looks()
    looks.begin(ONE, 0)
    looks.begin(ONE, 10)

    assert [10 + after_ns for after_ns in AFTER_NS] == times(looks)


def test_one_that_has_ended_is_left_alone():
    looks = Looks()
    looks.begin(ONE, 0)
    looks.forget(ONE.id)
    looks.forked(ONE.id, 0)

    assert [] == times(looks)


def test_who_forks_is_looked_at_soon_but_not_all_the_while():
    looks = Looks()
    looks.begin(ONE, 0)
    times(looks)
    began_ns = 2 * LAST_NS
    for step in range(100_000):
        looks.forked(ONE.id, began_ns + step * NS_PER_MS)
    found = times(looks, 1 << 62)

    assert began_ns + AFTER_FORK_NS[0] == found[0]
    assert MAX_BY_FORK * len(AFTER_FORK_NS) == len(found)
    assert began_ns + (MAX_BY_FORK - 1) * FORK_PAUSE_NS + AFTER_FORK_NS[1] == found[-1]


def test_a_stranger_that_forks_is_not_looked_at():
    looks = Looks()
    looks.forked(process_id(5, 0), 0)

    assert looks.due_ns() is None

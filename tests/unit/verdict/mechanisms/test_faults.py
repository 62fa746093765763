# SPDX-License-Identifier: Apache-2.0
"""Which side wrote to shared pages: by counts of faults, and not at all where they do not carry so far."""

import msgspec
import pytest

from tests.unit.verdict.mechanisms.jobs import BY_NAME, first_kill, of
from tests.unit.verdict.scenes import RANK, WORKERS, Scene, start_of
from tracer.events import ProcessSample
from tracer.units import MIB, NS_PER_S
from tracer.verdict.incident import Case
from tracer.verdict.mechanisms import faults
from tracer.verdict.mechanisms.faults import Faults, since_fork
from tracer.verdict.mechanisms.holdings import Holding
from tracer.verdict.story import Story

PAGE = 4096


def counted(heirs: int, least: int, most: int) -> Faults:
    return Faults(heirs_bytes=heirs * MIB, main_least_bytes=least * MIB, main_most_bytes=most * MIB)


@pytest.mark.parametrize(
    ("heirs", "least", "most", "side"),
    [
        (100, 0, 10, ("heirs", True)),
        (50, 0, 49, ("heirs", True)),
        (49, 60, 70, ("main", True)),
        (49, 49, 70, None),  # neither may have been enough, by what is known
        (49, 0, 0, None),
        (100, 50, 100, ("heirs", False)),
        (100, 50, 101, None),  # both may have: which one is not told
        (100, 300, 400, None),
    ],
)
def test_a_side_is_told_only_where_its_faults_are_enough(heirs, least, most, side):
    assert counted(heirs, least, most).side(100 * MIB) == side


class Family:
    """A rank and its workers, with counts of faults."""

    def __init__(self):
        self.scene = Scene()
        self.scene.job()
        self.forked_ns = self.scene.now_ns

    def look(self, pid, minflt, after_ns):
        self.scene.now_ns = self.forked_ns + after_ns
        sample = ProcessSample(
            ts_ns=self.scene.now_ns, source="proc", tgid=pid, start_ns=start_of(pid), minflt=minflt, rss_anon_bytes=MIB
        )
        self.scene.add(sample)

    def faults(self, inherited=50 * MIB):
        story = Story(self.scene.events)
        people = [
            Holding(
                id=member.id, who="x", role=None, rank=None, anon_bytes=MIB, shmem_bytes=0, before_bytes=0,
                inherited_bytes=inherited if member.id.tgid in WORKERS else 0, forked_ns=None,
            )
            for member in story.tree.members.values()
        ]  # fmt: skip
        return since_fork(story, people, self.scene.now_ns, PAGE)


def test_a_child_begins_with_no_faults_and_its_parent_with_those_it_had():
    family = Family()
    family.look(RANK, 1000, -NS_PER_S)
    family.look(RANK, 1300, NS_PER_S)
    for pid in WORKERS:
        family.look(pid, 10, 2 * NS_PER_S)
    family.look(RANK, 1500, 3 * NS_PER_S)

    found = family.faults()

    assert found == Faults(heirs_bytes=40 * PAGE, main_least_bytes=200 * PAGE, main_most_bytes=500 * PAGE)


def test_what_is_not_known_of_one_is_not_told_of_any():
    family = Family()
    for pid in WORKERS:
        family.look(pid, 10, 2 * NS_PER_S)
    assert family.faults() is None  # of who forked them

    family.look(RANK, 1000, 3 * NS_PER_S)
    assert family.faults() is not None
    assert family.faults(inherited=0) is None

    family = Family()
    family.look(RANK, 1000, 3 * NS_PER_S)
    assert family.faults() is None


def test_recordings_without_counts_say_nothing():
    case = Case(
        Story(
            [
                msgspec.structs.replace(event, minflt=None) if isinstance(event, ProcessSample) else event
                for event in BY_NAME["cow_refcount"].events()
            ]
        )
    )

    assert since_fork(case.story, of("cow_refcount").people, first_kill(case).at_ns, PAGE) is None
    assert faults.ENOUGH < 1

# SPDX-License-Identifier: Apache-2.0
"""The arithmetic over what a kill left, against figures of the kernel's own reports of real kills."""

import msgspec
import pytest

from tests.unit.verdict.mechanisms.jobs import BY_NAME, KILLED, evidence, of, with_table, without, without_table
from tracer.events import LoggedStats, LoggedTasks, ProcessForked
from tracer.units import MIB, NS_PER_S
from tracer.verdict.mechanisms.evidence import rate
from tracer.verdict.mechanisms.rules import cow_refcount, neighbour


def near(value, mib, slack=2):
    return abs(value / MIB - mib) <= slack


def test_what_was_copied_of_a_fork_is_exact_with_the_kernels_table():
    found = of("cow_refcount")

    assert found.exact
    assert near(found.inherited_bytes, 3 * 424.2)
    assert near(found.copied_bytes, 418)


def test_without_the_table_it_is_nearly_the_same():
    assert near(of("cow_refcount", table=False).copied_bytes, 418, slack=15)


@pytest.mark.parametrize("run", [r for r in KILLED if r.name != "cow_refcount-killed"], ids=str)
def test_where_no_fork_was_defeated_little_is_copied(run):
    found = evidence(with_table(run))

    assert found.copied_bytes < 0.15 * found.now.anon_bytes


@pytest.mark.parametrize("run", KILLED, ids=str)
def test_parts_of_the_limit_are_all_that_is_used(run):
    now = evidence(with_table(run)).now

    parts = (now.anon_bytes, now.shmem_bytes, now.cache_bytes, now.kernel_bytes)
    assert abs(now.usage_bytes - sum(parts)) <= MIB


def test_copies_are_only_possible_where_others_may_live_below_the_limit_and_no_table_tells():
    found = of("cow_refcount", table=False)
    unsure = cow_refcount.judge(msgspec.structs.replace(found, alone=False))

    assert (unsure.strength, unsure.also) == ("possible", ("neighbour",))
    assert unsure.against


def test_without_forks_there_is_nothing_to_copy():
    found = evidence(without(with_table(BY_NAME["cow_refcount"]), ProcessForked))

    assert cow_refcount.judge(found) is None


def test_the_table_names_those_that_are_none_of_the_jobs():
    found = of("neighbour")

    assert near(found.outside_bytes, 757.9 - 420.1)
    assert [name.partition(" ")[0] for name in found.outside_names] == ["neighbour"]
    assert neighbour.judge(found).strength == "likely"


def test_who_has_a_cgroup_of_its_own_has_no_neighbour():
    assert neighbour.judge(msgspec.structs.replace(of("neighbour"), alone=True)) is None


@pytest.mark.parametrize("run", [r for r in KILLED if r.name != "neighbour-killed"], ids=str)
@pytest.mark.parametrize("table", [True, False])
def test_nobody_outside_is_made_up(run, table):
    found = evidence(with_table(run) if table else without_table(run))

    assert found.outside_bytes < 0.1 * found.now.usage_bytes


def test_a_table_of_which_rows_were_left_out_is_not_summed_up():
    events = [
        msgspec.structs.replace(event, others=1) if isinstance(event, LoggedTasks) else event
        for event in with_table(BY_NAME["cow_refcount"])
    ]

    assert not evidence(events).exact


def test_a_table_that_anyone_may_have_written_is_no_evidence():
    events = [
        msgspec.structs.replace(event, trusted=False) if isinstance(event, LoggedTasks | LoggedStats) else event
        for event in with_table(BY_NAME["cow_refcount"])
    ]

    assert not evidence(events).exact


def course(*values):
    return [(second * NS_PER_S, value * MIB) for second, value in enumerate(values)]


def test_the_rate_at_the_end_is_the_slope_and_needs_three_looks():
    assert rate(course(0, 10, 20, 30), 3 * NS_PER_S, 0) == pytest.approx(10 * MIB)
    assert rate(course(0, 10), 1 * NS_PER_S, 0) is None

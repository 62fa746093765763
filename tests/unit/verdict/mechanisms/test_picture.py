# SPDX-License-Identifier: Apache-2.0
"""The table of who held what."""

import msgspec
import pytest

from tests.unit.verdict.mechanisms.jobs import KILLED, evidence, of, with_table, without_table
from tracer.units import MIB
from tracer.verdict.mechanisms.picture import MOST_ROWS, draw


@pytest.mark.parametrize("run", KILLED, ids=str)
@pytest.mark.parametrize("table", [True, False])
def test_parts_add_up_to_the_limit_with_what_is_not_explained_as_a_line(run, table):
    picture = draw(evidence(with_table(run) if table else without_table(run)))

    assert sum(part.size_bytes for part in picture.parts) == picture.limit_bytes
    assert [part.kind for part in picture.parts][-2:] == ["unexplained", "unused"]


@pytest.mark.parametrize("run", KILLED, ids=str)
def test_by_the_kernels_report_hardly_anything_is_left_unexplained(run):
    picture = draw(evidence(with_table(run)))
    (left,) = [part for part in picture.parts if part.kind == "unexplained"]

    assert picture.by == "kernel_log"
    assert abs(left.size_bytes) <= MIB


@pytest.mark.parametrize("run", KILLED, ids=str)
def test_by_samples_little_is_left_unexplained(run):
    picture = draw(evidence(without_table(run)))
    (left,) = [part for part in picture.parts if part.kind == "unexplained"]

    assert picture.by == "samples"
    assert abs(left.size_bytes) <= 0.08 * picture.limit_bytes


def test_pages_of_a_fork_are_counted_once_and_their_copies_are_a_line():
    found = of("cow_refcount")
    picture = draw(found)
    lines = {part.what: round(part.size_bytes / MIB) for part in picture.parts}

    assert lines[found.of_role("job")[0].who] == 424
    assert lines["copies of pages that forks had shared"] == 418
    assert lines["worker 0, own pages"] <= 1


def test_how_much_time_had_been_left_at_the_last_look_is_told():
    picture = draw(of("kernel_memory"))

    assert 0 < picture.time_left_ns < 2e9
    assert picture.last_sample_ns < 1e9
    assert "were left at that rate" in picture.statement


def test_without_growth_at_the_end_no_time_is_told():
    found = msgspec.structs.replace(of("kernel_memory"), rate_bytes_per_s=0.0)

    assert draw(found).time_left_ns is None


def test_many_processes_are_few_lines():
    found = of("main_process_growth")
    many = tuple(
        msgspec.structs.replace(found.people[0], who=f"python {pid}", id=found.people[0].id._replace(tgid=pid))
        for pid in range(1, 101)
    )
    parts = draw(msgspec.structs.replace(found, people=many)).parts

    assert sum(part.kind == "process" for part in parts) == MOST_ROWS + 1
    assert sum(len(part.pids) for part in parts) == 100

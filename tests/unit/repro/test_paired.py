# SPDX-License-Identifier: Apache-2.0
"""Recordings of unfixed programs and of their twins are put together, judged, and counted."""

import lzma

import pytest

from tests.recorded_mechanisms import DATA
from tracer.repro import paired
from tracer.repro.catalogue.mechanisms import SCENARIOS


@pytest.fixture
def keep(tmp_path):
    """Two runs of one program, and the twin of the first."""
    for name, kind in (("killed-1", "killed"), ("killed-2", "killed"), ("fixed-1", "fixed")):
        packed = DATA / f"kernel_memory-{kind}.oomtrace.xz"
        (tmp_path / f"kernel_memory-{name}.oomtrace").write_bytes(lzma.decompress(packed.read_bytes()))
    return tmp_path


def test_each_run_goes_with_its_twin_and_with_the_next_run(keep):
    found = [(p.program, p.kind, p.before.stem, p.after.stem) for p in paired.pairs(keep, SCENARIOS)]

    assert found == [
        ("kernel_memory", "fixed", "kernel_memory-killed-1", "kernel_memory-fixed-1"),
        ("kernel_memory", "again", "kernel_memory-killed-1", "kernel_memory-killed-2"),
        ("kernel_memory", "again", "kernel_memory-killed-2", "kernel_memory-killed-1"),
    ]


def test_what_is_said_of_them_is_counted_in_a_table(keep):
    found = [paired.judged(pair) for pair in paired.pairs(keep, SCENARIOS)]

    assert all(one.right for one in found)
    assert not any(one.wrong for one in found)
    assert "| kernel_memory | fixed 1 | unchanged 2 | growth, step |" in paired.table(found)
    assert paired.line(found[0]).startswith("fixed ")


def test_a_leak_that_is_called_fixed_is_wrong_and_one_that_is_open_is_not(keep):
    fixed, again, _ = paired.pairs(keep, SCENARIOS)
    said_fixed, said_unchanged = (paired.judged(pair).comparison for pair in (fixed, again))

    assert paired.Compared(again, said_fixed).wrong
    assert paired.Compared(fixed, said_unchanged).wrong
    assert not paired.Compared(fixed, said_unchanged).right

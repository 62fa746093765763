# SPDX-License-Identifier: Apache-2.0
"""What memory of the kernel is made of, by v2's counters and a machine's, and as far as processes tell on v1."""

import msgspec

from tests.unit.verdict.mechanisms.jobs import of
from tracer.events import CgroupSample, PressureSample
from tracer.units import MIB
from tracer.verdict.mechanisms.kernel_parts import PAGE_TABLES, REST, STACKS, growth, of_cgroup, of_machine
from tracer.verdict.mechanisms.rules import kernel_memory
from tracer.verdict.mechanisms.vitals import STACK_BYTES, Vitals

replace = msgspec.structs.replace


def sample(**mib):
    return CgroupSample(ts_ns=1, path="/x", **{f"{name}_bytes": size * MIB for name, size in mib.items()})


def people(*vitals):
    return tuple(replace(of("kernel_memory").people[0], vitals=one) for one in vitals)


def test_v1_has_no_parts():
    assert of_cgroup(sample(kernel=100)) == ()


def test_slab_is_split_where_it_can_be():
    parts = of_cgroup(sample(slab=10, slab_reclaimable=7, page_tables=3, sock=1))

    assert dict(parts) == {
        "slab of dentries and inodes": 7 * MIB, "other slab": 3 * MIB, PAGE_TABLES: 3 * MIB,
        "buffers of network sockets": MIB,
    }  # fmt: skip
    assert of_cgroup(sample(slab=10)) == (("slab", 10 * MIB),)


def test_a_machine_has_those_of_meminfo():
    assert of_machine(PressureSample(ts_ns=1, slab_bytes=5, page_tables_bytes=6)) == (("slab", 5), (PAGE_TABLES, 6))


def test_what_makes_up_most_is_named_and_what_is_left_has_a_name():
    before, now = of_cgroup(sample(slab=10, page_tables=5)), of_cgroup(sample(slab=12, page_tables=105))
    found = growth(now, before, 110 * MIB, ())

    assert found.whole
    assert found.parts == ((PAGE_TABLES, 100 * MIB), (REST, 8 * MIB), ("slab", 2 * MIB))
    assert found.top == (PAGE_TABLES, 100 * MIB)


def test_nothing_is_named_that_is_less_than_half():
    parts = of_cgroup(sample(slab=40, page_tables=30))
    found = growth(parts, of_cgroup(sample(slab=0, page_tables=0)), 100 * MIB, ())

    assert found.top is None
    assert growth(parts, parts, 0, ()).top is None


def test_without_parts_processes_tell_two_of_them():
    known = Vitals(page_tables_grown_bytes=60 * MIB, threads_grown=64)
    found = growth((), (), 100 * MIB, people(known, Vitals(page_tables_grown_bytes=1), None))

    assert found.parts == ((PAGE_TABLES, 60 * MIB + 1), (STACKS, 64 * STACK_BYTES))
    assert (found.whole, found.top) == (False, (PAGE_TABLES, 60 * MIB + 1))
    assert growth((), (), 100 * MIB, people(None)).parts == ()


def test_the_rule_names_the_part_that_grew():
    found = of("kernel_memory")
    grown = found.kernel_grown_bytes
    told = growth((("slab", grown),), (("slab", 0),), grown, ())
    named = kernel_memory.judge(replace(found, kernel=told))

    assert named.statement.endswith(": slab")
    assert named.against == ()
    assert any("slab" in text for text in named.because)


def test_the_rule_does_not_name_what_did_not_grow():
    found = of("kernel_memory")
    few = growth((), (), found.kernel_grown_bytes, people(Vitals(page_tables_grown_bytes=4096)))
    named = kernel_memory.judge(replace(found, kernel=few))

    assert "page tables" in named.against[0]
    assert named.statement.endswith("pipes, sockets, open files, page tables")
    assert kernel_memory.judge(replace(found, kernel=None)).against == ("which kind of kernel memory was not recorded",)

# SPDX-License-Identifier: Apache-2.0
"""Where fields lie, from type information that is made up here."""

import struct

import pytest
from hypothesis import given, strategies as st

from tests.unit.kernel.btf_builder import BtfBuilder
from tracer.kernel.btf import Btf, BtfError


@pytest.fixture
def build():
    return BtfBuilder()


def test_a_field_is_found_through_anonymous_parts_and_typedefs(build):
    number = build.typedef("atomic_t", build.structure("", 4, [("counter", build.integer("s32"), 0)]))
    inner = build.structure("", 16, [("first", build.integer("u64"), 0), ("second", number, 8)])
    build.structure("outer", 32, [("head", build.integer("u64"), 0), ("", inner, 8)])

    member = Btf(build.build()).member("outer", "second")

    assert member == (16, 4, None)


def test_a_path_adds_up_offsets(build):
    fields = [("usage", build.integer("s64"), 0), ("max", build.integer("u64"), 16)]
    counter = build.structure("page_counter", 24, fields)
    build.structure("mem_cgroup", 100, [("memory", counter, 40)])

    assert Btf(build.build()).member("mem_cgroup", "memory.max") == (56, 8, None)


def test_an_array_says_its_size_and_its_elements(build):
    build.structure("task", 40, [("comm", build.array(build.integer("char"), 16), 8)])
    build.structure("pid", 16, [("numbers", build.array(build.integer("u64"), 0), 16)])
    btf = Btf(build.build())

    assert btf.member("task", "comm") == (8, 16, 16)
    assert btf.member("pid", "numbers") == (16, 0, 0)


def test_a_pointer_is_eight_bytes_and_no_way_into_what_it_points_to(build):
    build.structure("task", 8, [("mm", build.pointer(), 0)])
    btf = Btf(build.build())

    assert btf.member("task", "mm") == (0, 8, None)
    assert btf.member("task", "mm.total_vm") is None


def test_what_is_not_there_is_none(build):
    build.structure("task", 8, [("mm", build.pointer(), 0)])
    btf = Btf(build.build())

    assert btf.member("task", "gone") is None
    assert btf.member("gone", "mm") is None
    assert btf.struct_size("gone") is None
    assert btf.enumerator("GONE") is None
    assert btf.tracepoint_args("gone") is None


def test_a_bit_field_is_not_taken_for_a_field(build):
    number = build.integer("u32")
    # With the kind flag the offset's upper byte is a bit field's width.
    build.structure("flags", 8, [("one_bit", number, (1 << 24) // 8), ("plain", number, 4)], flag=True)
    btf = Btf(build.build())

    assert btf.member("flags", "one_bit") is None
    assert btf.member("flags", "plain") == (4, 4, None)


def test_a_number_that_equals_a_name_is_no_enumerator(build):
    name = build.named("MM_ANONPAGES")
    # The name's own number, as the offset of a field, in front of the enum.
    build.structure("decoy", name, [("field", build.integer("u32"), name // 8)])
    build.enumeration("", {"MM_FILEPAGES": 0, "MM_ANONPAGES": 7})

    assert Btf(build.build()).enumerator("MM_ANONPAGES") == 7


def test_arguments_of_a_tracepoint_are_counted_without_its_private_data(build):
    build.tracepoint("sched_process_exit", 2)

    assert Btf(build.build()).tracepoint_args("sched_process_exit") == 2


@given(st.binary(max_size=200))
def test_garbage_is_refused(data):
    with pytest.raises(BtfError):
        Btf(data if data[:2] != b"\x9f\xeb" else b"")


def test_a_type_beyond_the_end_is_an_error_and_not_a_loop(build):
    build.structure("task", 8, [("mm", 99, 0)])

    with pytest.raises(BtfError, match="99"):
        Btf(build.build()).member("task", "mm")


def test_a_machine_without_type_information_is_said_so(tmp_path):
    with pytest.raises(BtfError, match="No such file"):
        Btf.load(str(tmp_path / "vmlinux"))


@given(st.lists(st.integers(0, 64), min_size=1, max_size=20))
def test_every_field_is_found_at_its_offset(gaps):
    build = BtfBuilder()
    offsets = [sum(gaps[: index + 1]) + 4 * index for index in range(len(gaps))]
    members = [(f"field_{index}", build.integer("u32"), offset) for index, offset in enumerate(offsets)]
    build.structure("any", offsets[-1] + 4, members)
    btf = Btf(build.build())

    assert [btf.member("any", name).offset for name, _, _ in members] == offsets


def test_the_header_is_as_the_kernel_documents_it(build):
    build.integer("u32")

    assert struct.unpack_from("=HBBI", build.build()) == (0xEB9F, 1, 0, 24)

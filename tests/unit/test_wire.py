# SPDX-License-Identifier: Apache-2.0
"""One declaration, two languages: layouts, their errors, and round trips of every record."""

import struct

import msgspec
import pytest
from hypothesis import given, strategies as st

from tests.unit.record_strategies import events
from tracer.events import LAYOUTS, Event, Kind
from tracer.wire import HEAD, MAX_RECORD_BYTES, CgroupName, Comm, Layout, LayoutError, c_enum, s32, u32, u64

by_kind = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=lambda layout: layout.c_name)


class Named(Event, frozen=True, kw_only=True):
    cpu: int
    number: u64
    signed: s32
    absent: u32 | None
    comm: Comm
    note: str = "not on the wire"


LAYOUT = Layout(Named, 7)


@by_kind
@given(data=st.data())
def test_what_is_encoded_is_decoded(layout, data):
    event = data.draw(events(layout))

    assert layout.decode(layout.encode(event)) == event


@by_kind
@given(data=st.data())
def test_a_record_of_another_length_is_an_error_and_not_a_guess(layout, data):
    records = st.binary(min_size=HEAD.size, max_size=MAX_RECORD_BYTES)
    record = data.draw(records.filter(lambda r: len(r) != layout.size_bytes))

    with pytest.raises(struct.error):
        layout.decode(record)


@by_kind
@given(data=st.data())
def test_any_bytes_of_the_right_length_decode_to_what_json_can_carry(layout, data):
    event = layout.decode(data.draw(st.binary(min_size=layout.size_bytes, max_size=layout.size_bytes)))

    assert msgspec.json.decode(msgspec.json.encode(event), type=layout.event) == event


def test_every_kind_has_a_layout_and_fits():
    assert set(LAYOUTS) == set(Kind)
    assert [layout.c_name for layout in LAYOUTS.values() if layout.size_bytes > MAX_RECORD_BYTES] == []


def test_a_record_begins_with_time_kind_and_cpu():
    record = LAYOUT.encode(Named(ts_ns=1, cpu=3, number=0, signed=0, absent=0, comm=""))

    assert HEAD.unpack_from(record) == (1, 7, 3)
    assert len(record) == LAYOUT.size_bytes == 48


def test_fields_without_a_marker_do_not_touch_the_wire():
    assert [field.name for field in LAYOUT.fields] == ["number", "signed", "absent", "comm"]


def test_all_bits_set_is_no_value_where_that_may_be():
    event = Named(ts_ns=0, cpu=0, number=2**64 - 1, signed=-1, absent=None, comm="")
    record = LAYOUT.encode(event)

    assert record[28:32] == b"\xff\xff\xff\xff"
    assert LAYOUT.decode(record) == event


@pytest.mark.parametrize(
    "raw, text",
    [
        (b"python3\0leftover", "python3"),
        (b"sixteen bytes!!!", "sixteen bytes!!!"),
        (b"caf\xc3\xa9\0", "café"),
        (b"caf\xe9\0", "caf\\xe9"),
        (b"a\nb\x1b[31m\0", "a\nb\x1b[31m"),
    ],
    ids=["nul", "full", "utf8", "latin1", "control"],
)
def test_a_name_is_any_bytes_and_never_an_error(raw, text):
    record = LAYOUT.encode(Named(ts_ns=0, cpu=0, number=0, signed=0, absent=0, comm=""))

    assert LAYOUT.decode(record[:32] + raw.ljust(16, b"\0")).comm == text


def test_a_gap_is_an_error():
    class Gap(Event, frozen=True, kw_only=True):
        cpu: int
        small: u32
        large: u64

    with pytest.raises(LayoutError, match=r"Gap\.large: would need padding at 20"):
        Layout(Gap, 1)


def test_a_size_that_is_no_multiple_of_eight_is_an_error():
    class Odd(Event, frozen=True, kw_only=True):
        cpu: int
        small: u32

    with pytest.raises(LayoutError, match="Odd: 20 bytes"):
        Layout(Odd, 1)


def test_a_record_that_llvm_could_not_clear_is_an_error():
    names = {f"name_{index}": CgroupName for index in range(8)}
    wide = msgspec.defstruct("Wide", [("cpu", int), *names.items()], bases=(Event,), frozen=True, kw_only=True)

    with pytest.raises(LayoutError, match="1040 bytes"):
        Layout(wide, 1)


def test_the_struct_in_c_has_every_field_and_asserts_every_offset():
    assert LAYOUT.c_struct() == (
        "struct named {\n\tu64 ts_ns;\n\tu32 kind;\n\tu32 cpu;\n\tu64 number;\n\ts32 signed;\n\tu32 absent;\n"
        "\tchar comm[16];\n};\n"
        '_Static_assert(sizeof(struct named) == 48, "size");\n'
        '_Static_assert(__builtin_offsetof(struct named, number) == 16, "number");\n'
        '_Static_assert(__builtin_offsetof(struct named, signed) == 24, "signed");\n'
        '_Static_assert(__builtin_offsetof(struct named, absent) == 28, "absent");\n'
        '_Static_assert(__builtin_offsetof(struct named, comm) == 32, "comm");\n'
    )


def test_an_enum_in_c_names_every_member():
    assert c_enum("kind", list(Kind)[:2]) == "enum kind {\n\tKIND_OOM_MARK = 1,\n\tKIND_OOM_LEVEL = 2,\n};\n"

# SPDX-License-Identifier: Apache-2.0
"""Damaged type information is answered or refused: never with a loop without end, never with another exception."""

from random import Random

import pytest
from hypothesis import given, settings, strategies as st

from tests.captured import DATA, kernels, unpacked
from tests.unit.kernel.btf_builder import BtfBuilder
from tracer.kernel import btf, headers
from tracer.kernel.btf import Btf, BtfError

EXTRACTS = [unpacked(DATA / kernel / "vmlinux.btf.xz") for kernel in kernels()]


def asked(data):
    """All that the programs ask for, or why that is refused."""
    try:
        return headers.kernel_h(Btf(bytes(data)), {"RING_PAGES": 64})
    except BtfError as error:
        return str(error)


@given(data=st.data(), which=st.sampled_from(range(len(EXTRACTS))))
@settings(max_examples=150, deadline=None)
def test_whatever_is_written_over_or_cut_off_it_ends(data, which):
    whole = bytearray(EXTRACTS[which])
    for _ in range(data.draw(st.integers(0, 8))):
        at = data.draw(st.integers(0, len(whole) - 4))
        whole[at : at + 4] = data.draw(st.binary(min_size=4, max_size=4) | st.just(bytes(4)))
    length = data.draw(st.just(len(whole)) | st.integers(0, len(whole)))

    assert asked(whole[:length])


@given(seed=st.integers(0, 1 << 32), which=st.sampled_from(range(len(EXTRACTS))))
@settings(max_examples=60, deadline=None)
def test_types_that_stand_for_others_at_random_end(seed, which):
    """Every word that may be a type's id is another's now and then: circles of every kind."""
    whole, random = bytearray(EXTRACTS[which]), Random(seed)
    for at in range(24, len(whole) - 4, 4):
        if random.random() < 0.02:
            whole[at : at + 4] = random.randrange(200).to_bytes(4, "little")

    assert asked(whole)


def damaged(name="outer"):
    """A builder whose struct has one field, of the type that is added next."""
    build = BtfBuilder()
    build.structure(name, 16, [("field", 2, 0)])
    return build


def test_a_typedef_of_itself_is_refused():
    build = damaged()
    build.typedef("loop", 2)

    with pytest.raises(BtfError, match="stands for itself"):
        Btf(build.build()).member("outer", "field")


def test_qualifiers_that_go_round_are_refused():
    build = damaged()
    build.add("", btf.CONST, 3)
    build.add("", btf.VOLATILE, 2)

    with pytest.raises(BtfError, match="stands for itself"):
        Btf(build.build()).member("outer", "field")


def test_an_array_of_itself_is_refused():
    build = damaged()
    build.array(2, 4)

    with pytest.raises(BtfError, match="an array without end"):
        Btf(build.build()).member("outer", "field")


def test_an_anonymous_part_that_is_the_whole_again_has_nothing_more():
    build = BtfBuilder()
    build.structure("outer", 16, [("", 1, 0), ("", 1, 8), ("field", build.pointer(), 8)])

    found = Btf(build.build())

    assert found.member("outer", "field") == (8, 8, None)
    assert found.member("outer", "gone") is None


def test_parts_within_parts_without_end_are_refused():
    build = BtfBuilder()
    build.named("wanted")
    for number in range(2 * btf.DEEPEST):
        build.structure("outer" if not number else "", 16, [("", number + 2, 0)])
    build.pointer()

    with pytest.raises(BtfError, match="a struct without end"):
        Btf(build.build()).member("outer", "wanted")


@pytest.mark.parametrize("left", [0, 4, 8, 9])
def test_types_that_end_within_one_are_refused(left):
    build = damaged()
    build.typedef("cut", 0)
    data = bytearray(build.build())
    whole = 12 + 12  # the struct and its field
    data[12:16] = (whole + left).to_bytes(4, "little")  # the length of all types

    with pytest.raises(BtfError, match="ends"):
        Btf(bytes(data)).member("outer", "field")

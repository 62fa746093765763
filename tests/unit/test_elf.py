# SPDX-License-Identifier: Apache-2.0
"""Functions that a library exports, of real libraries; and whatever a file may hold that only begins like one."""

import ctypes
import os
import struct
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from tracer.elf import exported_functions

pytestmark = pytest.mark.skipif(sys.byteorder != "little", reason="little-endian images only")


def mapped(name: str) -> Path:
    """A library that this process has mapped."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return Path(next(line.split()[-1] for line in lines if name in line))


def exported(path) -> dict[str, int]:
    fd = os.open(path, os.O_RDONLY)
    try:
        return exported_functions(fd)
    finally:
        os.close(fd)


def exported_of(content: bytes) -> dict[str, int]:
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.flush()
        return exported_functions(file.fileno())


@pytest.fixture(scope="module")
def libc():
    return mapped("libc.so").read_bytes()


def test_a_function_lies_where_its_code_is_in_the_file(libc):
    found = exported_of(libc)
    address = ctypes.cast(ctypes.CDLL(None).getpid, ctypes.c_void_p).value
    code = ctypes.string_at(address, 16)

    assert len(found) > 1000
    assert libc[found["getpid"] : found["getpid"] + 16] == code


def test_variables_and_what_is_only_used_are_no_functions_of_a_library():
    found = exported(mapped("libm.so") if "libm.so" in Path("/proc/self/maps").read_text() else mapped("libc.so"))

    assert found
    assert not {"environ", "stdout", "malloc"} & found.keys() or "malloc" in found  # libc's own is one


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"\x7fELF\x02\x01" + bytes(58), b"#!/bin/sh\n", bytes(4096)])
def test_what_is_no_library_exports_nothing(content):
    assert exported_of(content) == {}


def test_a_library_that_is_cut_short_exports_what_is_left_or_nothing(libc):
    whole = exported_of(libc)

    for size in (64, 1000, 4096, 100_000, len(libc) // 2):
        assert exported_of(libc[:size]).items() <= whole.items()


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 70_000), st.binary(min_size=1, max_size=8)), min_size=1, max_size=8))
def test_no_damage_does_more_than_hide_functions_or_move_them(changes):
    content = bytearray(mapped("libc.so").read_bytes())
    for at, piece in changes:
        content[at : at + len(piece)] = piece

    assert all(0 <= offset < 1 << 63 and name for name, offset in exported_of(bytes(content)).items())


@pytest.mark.parametrize("kind", [4, 5, 6, 10, 0x6FFF_FEF5])
@pytest.mark.parametrize("value", [0, 1, 0xFFFF_FFFF, 1 << 62, (1 << 64) - 1])
def test_a_table_that_is_said_to_lie_anywhere_is_followed_nowhere(libc, kind, value):
    content = bytearray(libc)
    phoff, size, count = struct.unpack_from("<32xQ14xHH", content)
    for at in range(phoff, phoff + size * count, size):
        segment, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", content, at)
        if segment == 2:
            for tag_at in range(offset, offset + length, 16):
                if struct.unpack_from("<Q", content, tag_at)[0] == kind:
                    struct.pack_into("<Q", content, tag_at + 8, value)

    assert len(exported_of(bytes(content))) <= len(exported_of(libc))

# SPDX-License-Identifier: Apache-2.0
"""Counters through a memory map; hash maps need a kernel: tests/kernel/test_session.py."""

import os
import struct

import pytest

from tracer.kernel.maps import Counters, HashMap


@pytest.fixture
def memory():
    fd = os.memfd_create("counters")
    os.ftruncate(fd, 4096)
    yield fd
    os.close(fd)


def test_a_counter_shows_what_was_added_since(memory):
    counters = Counters(memory, 3)
    before = counters[2]
    os.pwrite(memory, struct.pack("=Q", 7), 16)
    after = counters[2]
    counters.close()

    assert (before, after) == (0, 7)


def test_a_descriptor_that_is_no_map_is_an_error(memory):
    with pytest.raises(OSError, match=r"Invalid argument|not permitted|not implemented"):
        HashMap(memory, "=I", "=Q").update(1, (1,))

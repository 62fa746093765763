# SPDX-License-Identifier: Apache-2.0
"""What the answer of a system call is taken for; that they work is for tests/kernel to show."""

import errno
import os

import pytest

from tracer.kernel import bpfcalls


def refusing(monkeypatch, code: int) -> list[tuple[object, ...]]:
    asked = []

    def call(numbers, *arguments):
        asked.append((numbers, *arguments))
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(bpfcalls, "_call", call)
    return asked


def test_a_type_of_map_that_is_not_known_means_that_there_is_no_ring_buffer(monkeypatch):
    asked = refusing(monkeypatch, errno.EINVAL)

    assert not bpfcalls.has_ring_buffer(4096)
    assert asked[0][0] is bpfcalls.BPF_SYSCALL


@pytest.mark.parametrize("code", [errno.EPERM, errno.ENOMEM, errno.ENOSYS, errno.EMFILE])
def test_what_stands_in_the_way_of_every_map_says_nothing_of_ring_buffers(monkeypatch, code):
    refusing(monkeypatch, code)

    assert bpfcalls.has_ring_buffer(4096)


def test_the_ring_buffer_that_was_made_to_see_is_let_go(monkeypatch):
    made = os.open(os.devnull, os.O_RDONLY)
    monkeypatch.setattr(bpfcalls, "_call", lambda *_: made)

    assert bpfcalls.has_ring_buffer(4096)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(made)


def test_a_refusal_names_the_cpu_and_keeps_its_number(monkeypatch):
    refusing(monkeypatch, errno.EACCES)

    with pytest.raises(PermissionError, match=r"perf_event_open for CPU 3: Permission denied"):
        bpfcalls.open_bpf_output(3)

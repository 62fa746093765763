# SPDX-License-Identifier: Apache-2.0
"""Whether a probe on a return ends a program is tried on a child; where it would, that shows."""

import os
import signal

import pytest

from tracer.kernel import trial
from tracer.kernel.uprobes import Uprobes


def test_a_function_of_libc_lies_in_its_file():
    path, offset = trial.place_of("labs")

    assert b"libc" in path
    assert 0 < offset < os.stat(path).st_size


def counted(hits):
    """Puts what says that it was hit so often."""
    fd = os.memfd_create("hits")
    os.pwrite(fd, hits.to_bytes(8, "little"), 0)
    return lambda pid: fd


def test_a_child_that_ends_by_a_signal_is_told_and_one_that_goes_on_is_not():
    assert trial.tried(lambda: os.kill(os.getpid(), signal.SIGKILL), counted(0)) == "SIGKILL"
    assert trial.tried(lambda: None, counted(1)) is None


def test_a_probe_that_nobody_passes_has_tried_nothing():
    with pytest.raises(OSError, match="could not be tried"):
        trial.tried(lambda: None, counted(0))


def test_on_this_kernel_a_real_one_is_passed(can_trace):
    uprobes = Uprobes()

    assert trial.why_returns_hurt(uprobes.type, uprobes.returns) is None


def test_a_probe_that_cannot_be_put_leaves_no_child(can_trace):
    children = []

    def refused(pid):
        children.append(pid)
        raise PermissionError(1, "no")

    with pytest.raises(PermissionError):
        trial.tried(lambda: None, refused)
    assert children == [pid for pid in children if not os.path.exists(f"/proc/{pid}")]

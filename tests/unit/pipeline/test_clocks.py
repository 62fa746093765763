# SPDX-License-Identifier: Apache-2.0
"""What the tracer says about itself: above all whether its pids are those of the kernel's own records."""

import os

import pytest

from tracer.kernel.handover import FIRST_PID_NAMESPACE
from tracer.pipeline.clocks import header_now
from tracer.sources import namespaces


@pytest.fixture
def proc(tmp_path):
    """A /proc whose pid namespace has the number of a file that we made."""
    namespace = tmp_path / "self" / "ns" / "pid"
    namespace.parent.mkdir(parents=True)
    namespace.touch()
    return tmp_path


def of(proc_root):
    return header_now(cgroup_version=2, proc_root=str(proc_root)).own_pid_namespace


def test_another_pid_namespace_than_the_first_is_our_own(proc, monkeypatch):
    assert of(proc) is True

    monkeypatch.setattr(namespaces, "FIRST_PID_NAMESPACE", (proc / "self" / "ns" / "pid").stat().st_ino)
    assert of(proc) is False


def test_a_pid_namespace_that_cannot_be_looked_at_is_unknown(tmp_path):
    assert of(tmp_path) is None


def test_here_it_is_what_the_kernel_says():
    number = int(os.readlink("/proc/self/ns/pid").removeprefix("pid:[").removesuffix("]"))

    assert of("/proc") is (number != FIRST_PID_NAMESPACE)

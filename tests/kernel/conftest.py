# SPDX-License-Identifier: Apache-2.0
"""Fixtures for tests on the running kernel: all kills happen inside a memory cgroup that is removed again."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.kernel.attaching import attach  # noqa: F401 - a fixture
from tests.kernel.cuda import caller, programs, stub  # noqa: F401 - fixtures
from tests.kernel.people import person, sudoer  # noqa: F401 - fixtures
from tests.kernel.running import oomtrace  # noqa: F401 - a fixture
from tests.kernel.workload import Hog, KernelLog, MemoryCgroup, Watch
from tests.screen import shell  # noqa: F401 - a fixture
from tracer.kernel.session import PYTHON, open_session
from tracer.sources.live import events_h_digest


@pytest.fixture(scope="session")
def can_trace():
    """Skips where no BPF program could be loaded at all; that loading then works is for the tests to show."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    if not Path("/sys/kernel/btf/vmlinux").exists():
        pytest.skip("this kernel has no type information")
    if subprocess.run([PYTHON, "-I", "-c", "import bcc"], capture_output=True, check=False).returncode:
        pytest.skip(f"{PYTHON} has no bcc")


@pytest.fixture
def open_traced(can_trace):
    """Opens sessions that are closed at the end."""
    sessions = []

    def opened(**arguments):
        sessions.append(open_session(events_h_digest=events_h_digest(), **arguments))
        return sessions[-1]

    yield opened
    for session in sessions:
        session.close()


@pytest.fixture(scope="module")
def shared_session(can_trace):
    """One session for the tests of a module: they tell their events apart by pid."""
    with open_session(events_h_digest=events_h_digest()) as session:
        yield session


@pytest.fixture
def watch(shared_session):
    """What is seen from now on."""
    watching = Watch(shared_session)
    watching.read()
    watching.events.clear()
    return watching


@pytest.fixture
def memory_cgroup(can_trace):
    """A memory cgroup without a limit, of the version that this machine has."""
    cgroup = MemoryCgroup.make()
    yield cgroup
    cgroup.remove()


@pytest.fixture
def hog():
    """Starts processes that do as they are told; those that are left are ended."""
    hogs = []

    def start(cgroup=None, *prefix):
        hogs.append(Hog(*prefix))
        if cgroup is not None:
            cgroup.add(hogs[-1].pid)
        return hogs[-1]

    yield start
    for each in hogs:
        each.close()


@pytest.fixture
def kernel_log(can_trace):
    log = KernelLog()
    yield log
    log.close()

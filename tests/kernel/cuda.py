# SPDX-License-Identifier: Apache-2.0
"""What tests of probes on libcuda work with: a stub of it, programs that probe it, processes that call it."""

import os
import time

import pytest

from tests.kernel.workload import start_ns
from tests.stubs.cuda import Caller, build_caller, build_library
from tracer.kernel.cuda import open_cuda
from tracer.sources.live import events_h_digest, totals_in


@pytest.fixture(scope="module")
def stub(tmp_path_factory):
    """A libcuda, and a program that calls it."""
    folder = tmp_path_factory.mktemp("stub")
    return build_library(folder), build_caller(folder)


@pytest.fixture(scope="module")
def programs(shared_session, stub):
    with open_cuda(shared_session, events_h_digest=events_h_digest()) as opened:
        fd = os.open(stub[0], os.O_RDONLY)
        probed = opened.probe(fd)
        os.close(fd)
        assert probed.refused == {}
        yield opened


@pytest.fixture
def caller(programs, watch, stub):
    """Starts callers of the tree that have the library mapped; those that are left are ended."""
    callers = []

    def start(*, tracked=True, loaded=True):
        callers.append(Caller(stub[1]))
        if tracked:
            watch.session.track(callers[-1].pid, start_ns(callers[-1].pid))
        if loaded:
            callers[-1].load(stub[0])
        return callers[-1]

    yield start
    for each in callers:
        each.close()


def totals(programs, caller):
    """What the kernel keeps of a process that lives."""
    found = [totals_in(record, time.monotonic_ns()) for record in programs.totals()]
    [total] = [one for one in found if one.tgid == caller.pid]
    return total

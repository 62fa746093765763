# SPDX-License-Identifier: Apache-2.0
"""Real refusals: an address space at its limit, a tmpfs for shared memory without room; nobody is killed."""

import sys

import pytest

from tests.waiting import wait_for
from tracer.errors import OomtraceError
from tracer.events import ProcessLooked, ProcessSample, TmpfsSample
from tracer.recording import read_recording
from tracer.units import MIB

LOG = ("--log", "train.log")
LIMIT = 512 * MIB
# Held until it has been looked at: a process that fails at once may be gone before.
WAITS = """
import os, resource, select
def wait():
    while not os.path.exists("go"):
        select.select([], [], [], 0.05)
"""
AT_ITS_LIMIT = f"""{WAITS}
resource.setrlimit(resource.RLIMIT_AS, ({LIMIT}, {LIMIT}))
held = []
try:
    while True:
        held.append(bytearray(4 << 20))
except MemoryError:
    del held[-1]
wait()
"""
FULL = f"""{WAITS}
try:
    with open("/dev/shm/data", "wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 20))
except OSError as error:
    refused = error
wait()
"""
BUS = """
import os, sys
worker = os.fork()
if worker == 0:
    from multiprocessing import shared_memory
    block = shared_memory.SharedMemory(create=True, size=64 << 20)
    for at in range(0, block.size, 4096):
        block.buf[at] = 1
sys.exit(os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]) != 0)
"""
SMALL_SHM = 'mount -t tmpfs -o size=16m tmpfs /dev/shm && exec "$@"'


def holds(path, seen):
    """Whether such an event stands in the recording so far."""
    try:
        with read_recording(path) as recording:
            return any(map(seen, recording))
    except OomtraceError:  # it has hardly begun
        return False


@pytest.fixture
def held(oomtrace, tmp_path):
    """Runs a program, and lets it go on once what it holds stands in the recording."""

    def run(program, seen, *, options=LOG, within=()):
        (tmp_path / "job.py").write_text(program)
        process = oomtrace.start(*within, sys.executable, "-S", "job.py", options=options)
        path = tmp_path / "run.oomtrace"
        try:
            wait_for(lambda: process.poll() is not None or holds(path, seen), "the look at what the job holds")
        finally:
            (tmp_path / "go").touch()
            found = oomtrace.finish(process)
        return found

    return run


@pytest.fixture
def in_small_shm(can_trace):
    """What stands before a job that is to have a /dev/shm of its own."""
    return ("unshare", "-m", "--propagation", "private", "sh", "-c", SMALL_SHM, "sh")


def is_at_its_limit(event):
    return isinstance(event, ProcessSample) and (event.peak_mapped_bytes or 0) > 0.98 * LIMIT


def is_full(event):
    return isinstance(event, TmpfsSample) and any(
        f.mount_point == "/dev/shm" and not f.free_bytes for f in event.mounts
    )


def test_a_memory_error_at_the_limit_of_the_address_space(held):
    run = held(f"{AT_ITS_LIMIT}\nbytearray(100 << 20)", is_at_its_limit)

    assert (run.primary["cause"], run.primary["strength"], run.code) == ("host_allocation_failed", "likely", 1)
    assert run.links[2] == "present"
    assert run.primary["proof"][1]["statement"].startswith("its address space is limited to 512 MiB (RLIMIT_AS")
    assert any(look.limits.address_bytes == LIMIT for look in run.events(ProcessLooked) if look.limits is not None)
    assert "ulimit -v unlimited" in run.err
    assert "oomtrace compare" in run.err
    assert run.verdict["confirm"] is None


def test_without_its_words_an_end_at_the_limit_is_possible(held):
    run = held(f"{AT_ITS_LIMIT}\nraise SystemExit(1)", is_at_its_limit, options=())

    assert (run.primary["cause"], run.primary["strength"]) == ("host_allocation_failed", "possible")


def test_a_memory_error_that_was_survived_is_no_failure(held):
    run = held(AT_ITS_LIMIT, is_at_its_limit)

    assert (run.primary["cause"], run.primary["strength"], run.code) == ("exited", "proved", 0)


def test_a_file_that_did_not_fit_into_dev_shm(held, in_small_shm):
    run = held(f"{FULL}\nraise refused", is_full, within=in_small_shm)

    assert (run.primary["cause"], run.primary["strength"], run.code) == ("shm_exhausted", "possible", 1)
    assert run.links[2] == "present"
    assert "/dev/shm had 0 B of 16 MiB free" in run.primary["proof"][1]["statement"]


def test_a_full_dev_shm_is_not_why_a_job_fails_that_says_otherwise(held, in_small_shm):
    run = held(f"{FULL}\nraise ValueError('no such label')", is_full, within=in_small_shm)

    assert (run.primary["cause"], run.code) == ("exited", 1)


def test_a_block_of_shared_memory_that_did_not_fit_ends_in_sigbus(oomtrace, in_small_shm, tmp_path):
    (tmp_path / "job.py").write_text(BUS)
    run = oomtrace(*in_small_shm, sys.executable, "job.py")

    assert (run.primary["cause"], run.primary["strength"], run.code) == ("shm_exhausted", "likely", 1)
    assert "--shm-size" in run.primary["remedies"][0]["do"]

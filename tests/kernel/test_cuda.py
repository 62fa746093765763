# SPDX-License-Identifier: Apache-2.0
"""Calls of CUDA as probes see them: on a stub without a GPU, called as a static libcudart calls the real one."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.kernel.cuda import totals
from tests.kernel.workload import Watch, start_ns
from tests.stubs.cuda import DEVICE_BYTES, Caller, build_library
from tests.waiting import has_ended, wait_for
from tracer.elf import exported_functions as exported
from tracer.events import CudaCall, CudaSymbol, CudaTotals
from tracer.kernel import cuda as module, cudacalls
from tracer.kernel.cuda import open_cuda
from tracer.kernel.handover import PERF_BUFFER, Limits
from tracer.kernel.probes import Wanted
from tracer.sources.live import events_h_digest, totals_in

MIB = 1 << 20
TWO = ("cuMemAlloc_v2", "cuMemFree_v2")
THEN_EXEC = """
import ctypes, os, sys
cuda = ctypes.CDLL(sys.argv[1])
cuda.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_uint64(1000))
os.execv(sys.argv[2], sys.argv[2:])
"""


def test_each_function_has_its_number(programs, watch, stub):
    assert [(function.name, function.symbol) for function in cudacalls.FUNCTIONS] == [
        (symbol.name, symbol.value) for symbol in CudaSymbol
    ]


@pytest.mark.parametrize(
    "line, memory, wanted",
    [
        ("cuMemAlloc &0 1000", "device", 1000),
        ("cuMemAllocAsync &0 2000 0", "device", 2000),
        ("cuMemAllocFromPoolAsync &0 3000 0 0", "device", 3000),
        ("cuMemAllocPitch &0 &1 100 7 4", "device", 700),
        ("cuMemCreate &0 2097152 @1 0", "device", 2097152),
        ("cuMemCreate &0 2097152 @2 0", "pinned", 2097152),
        ("cuMemCreate &0 2097152 @3 0", "pinned", 2097152),
        ("cuMemAllocManaged &0 5000 1", "managed", 5000),
        ("cuMemHostAlloc &0 6000 0", "pinned", 6000),
        ("cuMemAllocHost &0 7000", "pinned", 7000),
        ("cuMemHostRegister 4096 8000 0", "registered", 8000),
        ("cuArrayCreate &0 0", "device", 0),
    ],
)
def test_a_call_is_counted_with_what_it_asks_for(programs, caller, line, memory, wanted):
    process = caller()
    assert process.call(line) == 0
    total = totals(programs, process)

    by_kind = {kind: getattr(total, f"{kind}_bytes") for kind in ("device", "managed", "pinned", "registered")}
    assert by_kind == {"device": 0, "managed": 0, "pinned": 0, "registered": 0} | {memory: wanted}
    assert (getattr(total, f"{memory}_calls"), getattr(total, f"{memory}_failed")) == (1, 0)
    assert total.start_ns // 10**7 == start_ns(process.pid) // 10**7
    assert 0 < total.first_ns == total.last_ns < time.monotonic_ns()
    assert (total.unknown_frees, total.untold, total.calls_untold) == (0, 0, 0)


@pytest.mark.parametrize(
    "allocate, release, memory",
    [
        ("cuMemAlloc &0 1000", "cuMemFree *0", "device"),
        ("cuMemAlloc &0 1000", "cuMemFreeAsync *0 0", "device"),
        ("cuMemAllocAsync &0 1000 0", "cuMemFree *0", "device"),
        ("cuMemAllocManaged &0 1000 1", "cuMemFree *0", "managed"),
        ("cuMemCreate &0 1000 @1 0", "cuMemRelease *0", "device"),
        ("cuMemHostAlloc &0 1000 0", "cuMemFreeHost *0", "pinned"),
        ("cuMemHostRegister 4096 1000 0", "cuMemHostUnregister 4096", "registered"),
    ],
)
def test_what_is_freed_leaves_the_balance_and_not_the_peak(programs, caller, allocate, release, memory):
    process = caller()
    assert (process.call(allocate), process.call(release)) == (0, 0)
    total = totals(programs, process)

    assert (getattr(total, f"{memory}_bytes"), getattr(total, f"{memory}_peak_bytes")) == (0, 1000)
    assert (total.unknown_frees, total.untold) == (0, 0)


def test_functions_of_old_have_sizes_and_addresses_of_32_bits(programs, caller):
    process = caller()
    process.do("exact cuMemAlloc &0 4294971392")  # 4 GiB and 4096: the upper half is none of the argument
    total = totals(programs, process)
    assert process.do("exact cuMemFree *0") == "0"

    assert total.device_bytes == 4096
    assert totals(programs, process).device_bytes == 0


def test_a_process_outside_of_the_tree_sends_nothing(programs, caller, watch):
    process = caller(tracked=False)
    process.call(f"cuMemAlloc &0 {2 * DEVICE_BYTES}")
    process.call(f"cuMemHostAlloc &0 {300 * MIB} 0")
    assert process.finish() == 0

    assert watch.of(CudaCall, tgid=process.pid) + watch.of(CudaTotals, tgid=process.pid) == []
    assert [one for one in programs.totals() if totals_in(one, 0).tgid == process.pid] == []


def test_what_was_allocated_before_anyone_watched_is_freed_as_unknown(programs, caller, watch):
    process = caller(tracked=False)
    process.call("cuMemAlloc &0 1000")
    watch.session.track(process.pid, start_ns(process.pid))
    assert process.call("cuMemFree *0") == 0
    total = totals(programs, process)

    assert (total.unknown_frees, total.device_bytes, total.device_calls) == (1, 0, 0)


def test_a_free_that_fails_frees_nothing(programs, caller, watch, stub):
    process = Caller(stub[1], env={"STUB_CUDA_FAIL": "cuMemFree_v2:700:1"})
    try:
        watch.session.track(process.pid, start_ns(process.pid))
        process.load(stub[0])
        process.call("cuMemAlloc &0 1000")
        assert process.call("cuMemFree *0") == 700
        between = totals(programs, process)
        assert process.call("cuMemFree *0") == 0
        after = totals(programs, process)
    finally:
        process.close()

    assert (between.device_bytes, after.device_bytes) == (1000, 0)
    assert (after.unknown_frees, after.untold) == (0, 0)


def test_a_call_within_a_call_is_part_of_it(programs, caller):
    process = caller()
    assert process.call("cuArrayCreate &0 0") == 0  # the stub's allocates 4096 bytes by cuMemAlloc_v2
    total = totals(programs, process)

    assert (total.device_calls, total.device_bytes, total.untold) == (1, 0, 0)


def test_threads_that_call_at_once_are_all_counted(programs, caller):
    process = caller()
    process.do("threads 16 200 4096")
    total = totals(programs, process)

    assert (total.device_calls, total.device_failed, total.device_bytes) == (3200, 0, 0)
    assert 4096 <= total.device_peak_bytes <= 16 * 4096
    assert (total.unknown_frees, total.untold) == (0, 0)


def test_who_is_killed_within_a_call_leaves_nothing_behind(programs, caller, watch):
    process = caller()
    process.call("cuMemAlloc &0 1000")
    assert process.do("exact cuCtxCreate_v4") == "within"
    os.kill(process.pid, signal.SIGKILL)
    ended = watch.wait(CudaTotals, tgid=process.pid)
    wait_for(lambda: has_ended(process.pid), "its end")

    assert (ended.ended, ended.device_calls, ended.device_bytes, ended.other_calls) == (1, 1, 1000, 0)
    assert [one for one in programs.totals() if totals_in(one, 0).tgid == process.pid] == []


def test_its_totals_come_as_a_process_ends(programs, caller, watch):
    process = caller()
    process.call(f"cuMemAlloc &0 {MIB}")
    process.call(f"cuMemAllocManaged &1 {2 * MIB} 1")
    before = totals(programs, process)
    assert process.finish() == 0
    ended = watch.wait(CudaTotals, tgid=process.pid)

    assert ended.ended == 1
    assert (ended.device_bytes, ended.managed_bytes) == (MIB, 2 * MIB)
    assert (ended.first_ns, ended.last_ns, ended.start_ns) == (before.first_ns, before.last_ns, before.start_ns)


def test_what_was_never_freed_makes_room_again(programs, caller):
    process = caller()
    for _ in range(5):
        process.call("cuMemAlloc &0 1000")
    process.finish()
    programs.sweep()
    alive = caller()
    alive.call("cuMemAlloc &0 1000")

    assert programs.sweep() == 0
    alive.call("cuMemFree *0")
    assert totals(programs, alive).unknown_frees == 0


def test_with_ctypes_it_is_the_same(programs, watch, stub):
    process = Caller.in_python(stub[0])
    try:
        watch.session.track(process.pid, start_ns(process.pid))
        result, address = process.do("cuMemAlloc_v2 & 1234").split()
        total = totals(programs, process)
        assert result == "0"
        assert process.do(f"cuMemFree_v2 {address}").split()[0] == "0"
        assert (total.device_bytes, totals(programs, process).device_bytes) == (1234, 0)
    finally:
        process.close()


def test_another_inode_is_probed_for_itself(programs, watch, stub, tmp_path):
    other = build_library(tmp_path)
    process = Caller(stub[1])
    try:
        watch.session.track(process.pid, start_ns(process.pid))
        process.load(other)
        process.call("cuMemAlloc &0 1000")
        assert [one for one in programs.totals() if totals_in(one, 0).tgid == process.pid] == []
        with open(other, "rb") as file:
            other.unlink()
            assert programs.probe(file.fileno()).why_not is None
        process.call("cuMemAlloc &0 2000")
        assert totals(programs, process).device_bytes == 2000
    finally:
        process.close()


def test_no_library_is_told_so(programs):
    with open("/proc/self/cmdline", "rb") as file:
        assert programs.probe(file.fileno()).why_not == "it is no library that can be read"


def test_another_library_is_told_so(programs):
    libc = next(line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/libc.so.6" in line)
    with open(libc, "rb") as file:
        probed = programs.probe(file.fileno())

    assert (probed.why_not, probed.symbols) == ("it exports none of the functions that are watched", ())
    assert len(probed.missing) == len(cudacalls.FUNCTIONS)


def test_a_full_table_of_allocations_is_said(open_traced, stub):
    session = open_traced()
    with open_cuda(session, limits=Limits(cuda_holdings=64)) as programs, open(stub[0], "rb") as library:
        programs.probe(library.fileno())
        process = Caller(stub[1])
        try:
            session.track(process.pid, start_ns(process.pid))
            process.load(stub[0])
            for _ in range(200):
                process.call("cuMemAlloc &0 1000")
            total = totals(programs, process)
        finally:
            process.close()

    assert total.device_calls == 200
    assert total.untold > 0
    assert total.device_bytes == (200 - total.untold) * 1000


def test_by_perf_buffers_they_come_as_well(open_traced, stub):
    session = open_traced(transport=PERF_BUFFER)
    with open_cuda(session, events_h_digest=events_h_digest()) as programs, open(stub[0], "rb") as library:
        programs.probe(library.fileno())
        process = Caller(stub[1])
        try:
            session.track(process.pid, start_ns(process.pid))
            process.load(stub[0])
            process.call(f"cuMemAlloc &0 {2 * DEVICE_BYTES}")
            assert Watch(session).wait(CudaCall, tgid=process.pid).bytes == 2 * DEVICE_BYTES
        finally:
            process.close()


def test_what_exec_lets_go_of_is_in_no_balance(programs, watch, stub):
    process = Caller("sh", "-c", 'echo ready; read line; exec "$@"', "sh", sys.executable, "-c", THEN_EXEC, *stub)
    try:
        watch.session.track(process.pid, start_ns(process.pid))
        assert process.do("go") == "ready"
        total = totals(programs, process)
        process.load(stub[0])
        process.call("cuMemAlloc &0 500")
        after = totals(programs, process)
    finally:
        process.close()

    assert (total.device_calls, total.device_bytes, total.device_peak_bytes) == (1, 0, 1000)
    assert (after.device_calls, after.device_bytes, after.untold) == (2, 500, 0)


def test_where_the_kernel_has_no_link_for_many_functions_each_has_a_program(open_traced, stub, monkeypatch):
    # Half a second for each probe that goes: two functions are enough.
    monkeypatch.setattr(
        module, "exported_functions", lambda fd: {name: at for name, at in exported(fd).items() if name in TWO}
    )
    session = open_traced()
    each = Wanted(cuda=True, one_by_one=True)
    with open_cuda(session, events_h_digest=events_h_digest(), wanted=each) as programs, open(stub[0], "rb") as library:
        assert programs.probe(library.fileno()).symbols == TWO
        process = Caller(stub[1])
        try:
            session.track(process.pid, start_ns(process.pid))
            process.load(stub[0])
            process.call("cuMemAlloc &0 1000")
            process.call("cuMemAlloc &1 500")
            process.call("cuMemFree *0")
            total = totals(programs, process)
        finally:
            process.close()

    assert not programs.at_once
    assert (total.device_calls, total.device_bytes, total.untold, total.unknown_frees) == (2, 500, 0, 0)

# SPDX-License-Identifier: Apache-2.0
"""Which calls of CUDA are told of by themselves: failures, what survives them, growth of pinned memory."""

import time

from tests.kernel.cuda import totals
from tests.kernel.workload import start_ns
from tests.stubs.cuda import DEVICE_BYTES, INVALID_VALUE, OUT_OF_MEMORY, Caller
from tracer.events import CallWhy, CudaCall, CudaMemory, CudaSymbol, CudaTotals

MIB = 1 << 20


def calls(watch, caller):
    return watch.of(CudaCall, tgid=caller.pid)


def test_a_failed_call_is_told_with_all_that_is_known_at_that_moment(caller, watch):
    process = caller()
    process.call(f"cuMemAlloc &0 {3 * MIB}")
    process.call(f"cuMemHostAlloc &1 {5 * MIB} 0")
    assert process.call("cuMemGetInfo &2 &3") == 0
    before_ns = time.monotonic_ns()
    assert process.call(f"cuMemAlloc &4 {2 * DEVICE_BYTES}") == OUT_OF_MEMORY
    call = watch.wait(CudaCall, tgid=process.pid)

    assert (call.symbol, call.memory, call.result, call.why) == (
        CudaSymbol.cuMemAlloc_v2, CudaMemory.DEVICE, OUT_OF_MEMORY, CallWhy.FAILED,
    )  # fmt: skip
    assert (call.bytes, call.device_bytes, call.pinned_bytes) == (2 * DEVICE_BYTES, 3 * MIB, 5 * MIB)
    assert (call.info_free_bytes, call.info_total_bytes) == (DEVICE_BYTES - 3 * MIB, DEVICE_BYTES)
    assert before_ns < call.entered_ns < call.ts_ns < time.monotonic_ns()
    assert call.info_ns < before_ns
    assert (call.tid, call.comm, call.failed_bytes, call.failed_ns) == (process.pid, "caller", None, None)
    assert calls(watch, process) == [call]


def test_what_a_process_is_told_of_its_device_after_a_refusal_stands_in_its_totals(programs, caller, watch):
    process = caller()
    process.call(f"cuMemAlloc &0 {3 * MIB}")
    before = totals(programs, process)
    process.call(f"cuMemAlloc &1 {2 * DEVICE_BYTES}")
    asked_ns = time.monotonic_ns()
    process.call("cuMemGetInfo &2 &3")
    after = totals(programs, process)
    process.close()
    end = watch.wait(CudaTotals, tgid=process.pid)

    assert (before.info_ns, before.info_free_bytes, before.info_total_bytes) == (None, None, None)
    assert asked_ns < after.info_ns < time.monotonic_ns()
    assert (after.info_free_bytes, after.info_total_bytes) == (DEVICE_BYTES - 3 * MIB, DEVICE_BYTES)
    assert (end.info_ns, end.info_free_bytes) == (after.info_ns, after.info_free_bytes)


def test_another_result_than_want_of_memory_is_a_failure_too_and_waits_for_nothing(caller, watch, stub):
    process = caller()
    assert process.call("cuMemFree 12345") == INVALID_VALUE
    assert process.call(f"cuMemAlloc &0 {MIB}") == 0

    assert calls(watch, process) == []


def test_a_retry_that_succeeds_is_told_as_survived(caller, watch, stub):
    process = Caller(stub[1], env={"STUB_CUDA_FAIL": "cuMemAlloc_v2:2:2"})
    try:
        watch.session.track(process.pid, start_ns(process.pid))
        process.load(stub[0])
        assert [process.call(f"cuMemAlloc &0 {64 * MIB}") for _ in range(3)] == [2, 2, 0]
        process.call(f"cuMemAlloc &0 {64 * MIB}")
        first, second, survived = calls(watch, process)
    finally:
        process.close()

    assert [call.why for call in (first, second, survived)] == [CallWhy.FAILED, CallWhy.FAILED, CallWhy.SURVIVED]
    assert (survived.result, survived.failed_bytes, survived.failed_ns) == (0, 64 * MIB, second.ts_ns)
    assert survived.device_bytes == 64 * MIB


def test_who_gets_less_than_was_refused_or_something_else_has_survived_nothing(caller, watch):
    process = caller()
    process.call(f"cuMemAlloc &0 {20 << 30}")
    process.call(f"cuMemAlloc &1 {2 * MIB}")
    process.call(f"cuMemHostAlloc &2 {30 << 30} 0")
    whys = [(call.why, call.memory) for call in calls(watch, process)]

    assert whys == [(CallWhy.FAILED, CudaMemory.DEVICE), (CallWhy.PINNED, CudaMemory.PINNED)]


def test_of_several_that_failed_those_are_survived_that_wanted_no_more(caller, watch):
    process = caller()
    for size in (40, 30, 20):
        assert process.call(f"cuMemAlloc &0 {size << 30}") == OUT_OF_MEMORY
    process.do(f"exact stubTotal {100 << 30}")
    assert process.call(f"cuMemAlloc &0 {30 << 30}") == 0
    assert process.call(f"cuMemAlloc &0 {40 << 30}") == 0
    told = calls(watch, process)

    assert [(call.why, call.failed_bytes) for call in told[3:]] == [
        (CallWhy.SURVIVED, 30 << 30),
        (CallWhy.SURVIVED, 40 << 30),
    ]
    assert [call.failed_ns for call in told[3:]] == [told[1].ts_ns, told[0].ts_ns]


def test_pinned_growth_is_told_by_doubling_and_then_by_steps(caller, watch):
    process = caller()
    for _ in range(72):
        assert process.call(f"cuMemHostAlloc &0 {16 * MIB} 0") == 0
    told = [call.pinned_bytes // MIB for call in calls(watch, process)]

    assert told == [16, 32, 64, 128, 256, 512, 768, 1024]
    assert {call.why for call in calls(watch, process)} == {CallWhy.PINNED}


def test_so_many_failures_are_told_and_all_are_counted(programs, caller, watch):
    process = caller()
    process.do(f"threads 4 1000 {2 * DEVICE_BYTES}")
    total = totals(programs, process)
    told = len(calls(watch, process))

    assert total.device_failed == 4000
    assert 200 <= told < 4000
    assert total.calls_untold == 4000 - told

# SPDX-License-Identifier: Apache-2.0
"""Calls of CUDA that are made as nobody should: left without a return, with sizes that are none."""

from tests.kernel.cuda import totals
from tests.stubs.cuda import OUT_OF_MEMORY
from tracer.events import CallWhy, CudaCall, CudaTotals

MOST = 2**64 - 2
"""2**64 - 1 stands for no size."""


def test_calls_that_are_hidden_by_one_that_was_left_by_longjmp_are_not_passed_over(programs, caller):
    process = caller()
    process.tell("leap")
    assert [process.process.stdout.readline() for _ in range(2)] == ["within\n", "back\n"]
    process.do("repeat 100")
    total = totals(programs, process)

    assert total.untold > 0
    assert 150 < 2 * total.device_calls + total.untold <= 201


def test_few_calls_that_are_hidden_so_are_told_at_the_end(programs, caller, watch):
    process = caller()
    process.tell("leap")
    assert [process.process.stdout.readline() for _ in range(2)] == ["within\n", "back\n"]
    process.do("repeat 2")
    process.finish()
    ended = watch.wait(CudaTotals, tgid=process.pid)

    assert (ended.ended, ended.device_calls, ended.untold) == (1, 0, 4)


def test_who_asks_for_all_that_there_is_has_asked_for_a_size(caller, watch):
    process = caller()
    assert process.call(f"cuMemAlloc &0 {2**64 - 1}") == OUT_OF_MEMORY
    assert process.call(f"cuMemAllocPitch &0 &1 {2**40} {2**40} 4") == 0  # the stub's product is 0
    assert process.call("cuMemAlloc &0 1000") == 0
    first, *more = watch.of(CudaCall, tgid=process.pid)

    assert (first.bytes, first.why) == (MOST, CallWhy.FAILED)
    assert [one for one in more if one.why == CallWhy.SURVIVED and one.bytes != MOST] == []


def test_a_call_says_how_often_memory_was_asked_for(programs, caller, watch):
    process = caller()
    for line in ("cuMemAlloc &0 1000", "cuMemHostAlloc &1 1000 0", "cuMemFree *0", "cuStreamCreate &2 0"):
        assert process.call(line) == 0
    assert process.call(f"cuMemAlloc &0 {2**50}") == OUT_OF_MEMORY
    assert watch.wait(CudaCall, tgid=process.pid).asked == 3
    process.call("cuMemAlloc &0 1000")
    total = totals(programs, process)

    assert total.device_calls + total.pinned_calls == 4

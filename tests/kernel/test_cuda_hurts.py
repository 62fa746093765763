# SPDX-License-Identifier: Apache-2.0
"""What probes on libcuda must not do to programs, of the job and of others: end them, or change what they get."""

import pytest

from tests.kernel.cuda import totals
from tests.kernel.workload import start_ns
from tests.stubs.cuda import Caller, build_library
from tracer.elf import exported_functions as exported
from tracer.events import CudaSymbol
from tracer.kernel import cuda as module
from tracer.kernel.cuda import open_cuda
from tracer.kernel.probes import Wanted
from tracer.sources.live import events_h_digest

HOOKED = "42"
FEW = ("cuMemAlloc_v2", "cuMemFree_v2", "cuMemHostAlloc")


@pytest.mark.parametrize("one_by_one", [False, True])
def test_a_function_that_another_program_has_hooked_is_not_probed_and_that_program_lives(
    open_traced, stub, tmp_path, monkeypatch, one_by_one
):
    monkeypatch.setattr(
        module, "exported_functions", lambda fd: {name: at for name, at in exported(fd).items() if name in FEW}
    )
    library, other, watched = build_library(tmp_path), Caller(stub[1]), Caller(stub[1])
    try:
        other.load(library)
        assert other.do("hook cuMemAlloc_v2") == "hooked"
        session = open_traced()
        wanted = Wanted(cuda=True, one_by_one=one_by_one)
        with open_cuda(session, events_h_digest=events_h_digest(), wanted=wanted) as programs:
            with library.open("rb") as file:
                probed = programs.probe(file.fileno())
            assert other.do("call cuMemAlloc &0 1000") == HOOKED
            assert other.call("cuMemHostAlloc &0 1000 0") == 0
            session.track(watched.pid, start_ns(watched.pid))
            watched.load(library)
            watched.call("cuMemAlloc &0 1000")
            watched.call("cuMemHostAlloc &1 500 0")
            total = totals(programs, watched)
        assert other.do("call cuMemAlloc &0 1000") == HOOKED
    finally:
        other.close()
        watched.close()

    why = f"process {other.pid} has hooked it: it runs other code there than the file has"
    assert (probed.refused, probed.why_not) == ({"cuMemAlloc_v2": why}, None)
    assert CudaSymbol.cuMemAlloc_v2.name not in probed.symbols
    assert (total.device_calls, total.pinned_bytes) == (0, 500)


def test_who_hooks_a_function_that_is_probed_goes_on_too(programs, caller):
    process = caller()
    assert process.do("hook cuMemAlloc_v2") == "hooked"
    assert process.do("call cuMemAlloc &0 1000") == HOOKED
    assert process.call("cuMemHostAlloc &0 1000 0") == 0

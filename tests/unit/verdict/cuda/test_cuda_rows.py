# SPDX-License-Identifier: Apache-2.0
"""What CUDA did on the timeline: mapped, refused, got after all, pinned; and what a GPU or its driver reported."""

from tests.unit.verdict.cuda.cuda_scenes import LIBCUDA, CudaScene, ended, out_of_device_memory
from tests.unit.verdict.scenes import RANK
from tracer.events import CallWhy, CudaMemory, LoggedOther, LoggedXid
from tracer.units import GIB, NS_PER_S
from tracer.verdict.judge import judge
from tracer.verdict.model import Entry, Report


def rows(report: Report) -> list[str]:
    return [f"{entry.who}: {entry.text}" for entry in report.timeline if entry.kind == "gpu"]


def xid(scene: CudaScene, *, trusted: bool = True, pid: int | None = RANK) -> None:
    scene.add(
        LoggedXid(ts_ns=scene.now_ns, source="kmsg", trusted=trusted, xid=31, pci="0000:08:00", pid=pid, comm="python3")
    )


def decisive(report: Report) -> list[Entry]:
    return [entry for entry in report.timeline if entry.primary]


def test_a_refusal_is_what_the_verdict_rests_on() -> None:
    report = ended(out_of_device_memory())

    assert "rank 0: cuMemAlloc_v2 of 20 GiB failed, 3 times: 2 (out of memory)" in rows(report)
    assert ["gpu", "exit"] == [entry.kind for entry in decisive(report)]


def test_that_libcuda_was_mapped_and_when_its_calls_were_watched_is_told_once() -> None:
    scene = CudaScene()
    scene.job()
    scene.looked(RANK, (LIBCUDA,))
    scene.pass_time(NS_PER_S // 2)
    scene.probed()
    scene.looked(RANK, (LIBCUDA,))

    assert ["rank 0: libcuda.so.1 mapped; its calls watched 500 ms later"] == rows(ended(scene))


def test_pinned_memory_has_one_row_with_a_curve() -> None:
    scene = CudaScene()
    scene.watched_job()
    for _ in range(3):
        scene.pass_time(NS_PER_S)
        scene.call(RANK, GIB, CudaMemory.PINNED, why=CallWhy.PINNED)
    scene.totals(RANK)
    (row,) = [entry for entry in ended(scene).timeline if "pinned" in entry.text]

    assert "3 GiB of host memory pinned" == row.text
    assert row.series is not None
    assert 3 * GIB == row.series.values_bytes[-1]


def test_a_gpus_error_stands_with_the_process_that_the_driver_names() -> None:
    scene = CudaScene()
    scene.watched_job()
    xid(scene)
    xid(scene, pid=7)

    assert {"rank 0: Xid 31 of 0000:08:00", "GPU: Xid 31 of 0000:08:00"} <= set(rows(ended(scene)))


def test_an_error_that_anyone_may_have_written_is_not_told() -> None:
    scene = CudaScene()
    scene.job()
    xid(scene, trusted=False)

    assert [] == rows(ended(scene))


def test_the_drivers_own_want_of_memory_is_told_once() -> None:
    scene = CudaScene()
    scene.job()
    for _ in range(3):
        scene.add(LoggedOther(ts_ns=scene.now_ns, source="kmsg", trusted=True, about="nvrm_no_memory"))

    assert ["driver: NVIDIA's driver found no memory for itself, of the GPU or of the host, 3 times"] == rows(
        ended(scene)
    )


def test_many_refusals_are_no_flood() -> None:
    scene = CudaScene()
    scene.watched_job()
    for _ in range(40):
        scene.refused(RANK, GIB)
        scene.pass_time(3 * NS_PER_S)

    assert len(rows(judge(scene.finish()))) <= 13

# SPDX-License-Identifier: Apache-2.0
"""What `doctor` says of NVML: through the real pynvml, and of each thing that can be wrong."""

import pytest

from tests.stubs.nvml import StubNvml
from tests.unit.doctor.trees import places
from tracer.doctor import gpu
from tracer.doctor.gpu import ask, check
from tracer.events import GpuDevice, GpuStatus
from tracer.sources.gpu import NO_DRIVER


def status(why=None, devices=(), **more):
    return GpuStatus(ts_ns=1, source="nvml", available=bool(devices), why_not=why, devices=devices, **more)


@pytest.fixture
def asked(tmp_path, monkeypatch):
    def say(*lines, **values):
        stub = StubNvml(tmp_path)
        stub.says(*lines, **values)
        monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
        return next(iter(check(ask(places(tmp_path / "tree", {"/dev/nvidiactl": ""})))))

    return say


def test_devices_of_one_kind_are_counted(asked):
    row = asked(devices=8)

    assert (row.ok, row.weight, row.links, row.remedy) == ("yes", "note", (5,), None)
    assert row.found == "driver 595.45.04; 8 x NVIDIA Stub, 80 GiB"


def test_a_new_library_over_an_old_driver_is_told_with_what_to_do(asked):
    row = asked(init=18)

    assert row.ok == "no"
    assert "driver and library do not match" in row.found
    assert row.remedy.startswith("reboot")


def test_a_library_that_hangs_is_given_up(asked, monkeypatch):
    monkeypatch.setattr(gpu, "PATIENCE_NS", 1)
    monkeypatch.setattr("tracer.sources.gpu.PATIENCE_NS", 1)
    row = asked(hang="init")

    assert (row.ok, row.found) == ("no", "no answer from NVML within 0 s")
    assert "Xid" in row.remedy


def test_a_machine_without_the_driver_has_no_such_row(tmp_path):
    found = ask(places(tmp_path, {}))

    assert found.why_not == NO_DRIVER
    assert list(check(found)) == []


@pytest.mark.parametrize(
    "why, remedy",
    [("there is no libnvidia-ml.so.1", "--gpus all"), ("NVML shows no device here", "--gpus all"),
     ("the Python package nvidia-ml-py is not installed", "pip install"), ("Unknown Error", None)],
)  # fmt: skip
def test_each_trouble_has_its_remedy(why, remedy):
    [row] = check(status(why, driver_version="595.45.04"))

    assert (row.ok, row.found) == ("no", f"driver 595.45.04; {why}")
    assert row.remedy is None if remedy is None else remedy in row.remedy


def test_one_device_of_many_that_is_lost_is_named_beside_the_others():
    devices = tuple(GpuDevice(uuid=f"GPU-{index}", index=index, name=f"kind {index}") for index in range(6))
    [row] = check(status("GPU 6: the GPU is lost", devices))

    assert row.ok == "yes"
    assert row.found == "kind 0; kind 1; kind 2; kind 3; and 2 other kinds; GPU 6: the GPU is lost"

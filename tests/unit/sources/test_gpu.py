# SPDX-License-Identifier: Apache-2.0
"""NVML through the real pynvml and a stub of the library: whatever is wrong with it is said, and nobody waits."""

import os
import re
import selectors
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.architecture.checkout import ROOT
from tests.stubs.nvml import GPU_0, StubNvml
from tests.waiting import DEADLINE_S, has_ended, wait_for
from tracer.events import GpuProcess
from tracer.sources import gpu as gpu_module
from tracer.sources.gpu import PATIENCE_NS, GpuSource, GpuUnavailable, driver_version

GIB = 1 << 30


class Asked:
    """A source, and what it answered."""

    def __init__(self, source: GpuSource) -> None:
        self.source = source
        self.answers = []

    def wait(self, count: int = 1):
        """The newest of so many answers more."""
        wanted, deadline = len(self.answers) + count, time.monotonic() + DEADLINE_S
        with selectors.DefaultSelector() as selector:
            selector.register(self.source.fileno(), selectors.EVENT_READ)
            while len(self.answers) < wanted:
                assert time.monotonic() < deadline
                selector.select(0.1)
                self.answers += self.source.read()
        return self.answers[-1]

    def sample(self):
        self.source.sample()
        return self.wait()


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Starts the process that asks, with a stub that says so."""
    sources = []

    def begin(*lines, flags=(), **values):
        stub = StubNvml(tmp_path, *flags)
        stub.says(*lines, **values)
        monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
        source = GpuSource.open(signs=(str(stub.library),))
        assert isinstance(source, GpuSource), source
        sources.append(source)
        return stub, Asked(source)

    yield begin
    for source in sources:
        source.close(patience_s=DEADLINE_S)
        assert source.pid == 0


def test_devices_and_their_memory(start):
    stub, asked = start("process 41 1000", "process 42 18446744073709551615", devices=2)
    status = asked.wait().status
    stub.says("process 41 1000", "process 42 18446744073709551615", devices=2, used=3 * GIB)
    first, second = asked.sample().samples

    assert (status.available, status.why_not, status.driver_version) == (True, None, "595.45.04")
    assert [device.index for device in status.devices] == [0, 1]
    device = status.devices[0]
    assert (device.uuid, device.name, device.total_bytes) == (GPU_0, "NVIDIA Stub", 80 * GIB)
    assert (device.pci, device.minor, device.mig_of) == ("0000:0a:00.0", 0, None)
    assert (first.uuid, first.index, second.index, first.source) == (GPU_0, 0, 1, "nvml")
    assert (first.total_bytes, first.used_bytes, first.reserved_bytes) == (80 * GIB, 3 * GIB, GIB // 2)
    assert first.free_bytes == 80 * GIB - 3 * GIB - GIB // 2
    assert first.processes == (GpuProcess(pid=41, used_bytes=1000), GpuProcess(pid=42, used_bytes=None))
    assert status.ts_ns < first.ts_ns < second.ts_ns <= time.monotonic_ns()
    assert asked.answers[-1].took_ns > 0


def test_a_status_is_told_once(start):
    _, asked = start()
    asked.wait()

    assert asked.sample().status is None
    assert not asked.source.busy


@pytest.mark.parametrize("flags, values", [(("-DOLD",), {}), ((), {"v2": 3}), ((), {"v2": 25})])
def test_an_older_library_says_less(start, flags, values):
    _, asked = start("process 41 1000", flags=flags, **values)
    asked.wait()
    [sample] = asked.sample().samples

    assert (sample.reserved_bytes, sample.used_bytes) == (None, GIB + GIB // 2)
    assert [one.pid for one in sample.processes] == [41]


@pytest.mark.parametrize(
    "code, text",
    [(18, "do not match"), (9, "driver is not loaded"), (4, "not permitted"), (999, "Unknown"), (12345, "12345")],
)
def test_a_library_that_cannot_be_used_is_said(start, code, text):
    stub, asked = start(init=code)
    status = asked.wait().status

    assert (status.available, status.devices) == (False, ())
    assert text in status.why_not
    stub.says()
    assert asked.sample().status.available  # asked again it is there


def test_a_driver_without_a_device_is_no_gpu(start):
    _, asked = start(devices=0)
    status = asked.wait().status

    assert (status.available, status.why_not) == (False, "NVML shows no device here")
    assert asked.sample().samples == ()


def test_a_missing_library_is_said(tmp_path, monkeypatch):
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    if any(Path(folder, "libnvidia-ml.so.1").exists() for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib64")):
        pytest.skip("does not apply here: this machine has the library")
    source = GpuSource.open(signs=(str(tmp_path),))
    try:
        assert "there is no libnvidia-ml.so.1" in Asked(source).wait().status.why_not
    finally:
        source.close()


def test_instances_of_a_device_have_memory_of_their_own(start):
    _, asked = start(mig=2)
    status = asked.wait().status
    samples = asked.sample().samples

    whole, *instances = status.devices
    assert [one.mig_of for one in status.devices] == [None, whole.uuid, whole.uuid]
    assert all(one.uuid.startswith("MIG-") and one.name.endswith("MIG 1g.18gb") for one in instances)
    assert [sample.uuid for sample in samples] == [one.uuid for one in status.devices]


def test_without_the_right_to_see_processes_they_are_unknown_and_not_none(start):
    _, asked = start("process 41 1000", processes=4)
    asked.wait()
    [sample] = asked.sample().samples

    assert (sample.processes, sample.used_bytes) == (None, GIB)


def test_a_device_without_memory_of_its_own_is_there_and_says_why_nothing_is_known(start):
    _, asked = start("process 41 1000", memory=3)
    asked.wait()
    answer = asked.sample()

    assert (answer.samples[0].used_bytes, answer.samples[0].processes[0].pid) == (None, 41)
    assert answer.status.available
    assert re.search("GPU 0: .*[Nn]ot [Ss]upported", answer.status.why_not)


def test_a_device_that_is_lost_is_said_and_the_others_are_still_asked(start):
    stub, asked = start(devices=2)
    asked.wait()
    stub.says(devices=2, lost=0)
    answer = asked.sample()

    assert [sample.index for sample in answer.samples] == [1]
    assert (answer.status.available, answer.status.why_not) == (True, "GPU 0: the GPU is lost")
    assert [device.index for device in answer.status.devices] == [1]


def test_where_all_are_lost_nothing_is_available_until_they_are_back(start):
    stub, asked = start()
    asked.wait()
    stub.says(lost=0)
    gone = asked.sample()
    still = asked.sample()
    stub.says()
    back = asked.sample()

    assert (gone.samples, gone.status.available, gone.status.why_not) == ((), False, "GPU 0: the GPU is lost")
    assert (still.samples, still.status) == ((), None)
    assert (len(back.samples), back.status.available, back.status.why_not) == (1, True, None)


def test_a_first_call_that_hangs_is_said_once_and_its_late_answer_is_taken(start):
    stub, asked = start(hang="init")
    now_ns = time.monotonic_ns()

    assert asked.source.late(now_ns) is None
    late = asked.source.late(now_ns + PATIENCE_NS)
    assert (late.available, late.why_not) == (False, "no answer from NVML within 5 s")
    assert asked.source.late(now_ns + 2 * PATIENCE_NS) is None
    assert asked.source.overdue
    stub.says()
    assert asked.wait().status.available
    assert not asked.source.overdue


def test_after_a_call_that_hung_it_is_said_that_nvml_answers_again(start):
    stub, asked = start()
    asked.wait()
    stub.says(hang="memory")
    asked.source.sample()
    late = asked.source.late(time.monotonic_ns() + PATIENCE_NS)
    stub.says()
    answer = asked.wait()

    assert not late.available
    assert answer.status.available
    assert len(answer.samples) == 1
    assert asked.sample().status is None


def test_a_process_that_hangs_is_ended_and_nobody_waits(start):
    _, asked = start(hang="init")
    pid = asked.source.pid
    asked.source.close(patience_s=DEADLINE_S)

    assert has_ended(pid)


def test_it_ends_with_the_tracer_even_while_a_call_hangs(start, tmp_path):
    start(hang="init")
    program = """
import sys, time
from tracer.sources.gpu import GpuSource
print(GpuSource.open(signs=sys.argv[1:]).pid, flush=True)
time.sleep(60)
"""
    environ = {"PYTHONPATH": str(ROOT), "LD_LIBRARY_PATH": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", program, tmp_path], env=environ, stdout=subprocess.PIPE) as tracer:
        pid = int(tracer.stdout.readline())
        wait_for(lambda: "libnvidia-ml" in Path(f"/proc/{pid}/maps").read_text(), "the library, which hangs")
        tracer.kill()

    wait_for(lambda: has_ended(pid), "its end")


def test_a_library_that_crashes_takes_nothing_with_it(start):
    stub, asked = start()
    asked.wait()
    stub.says(crash=1)
    status = asked.sample().status

    assert (status.available, status.why_not) == (False, "the process that asks NVML ended: signal 11")
    assert asked.source.ended
    assert asked.source.read() == ()
    asked.source.sample()
    assert not asked.source.busy
    with selectors.DefaultSelector() as selector:
        selector.register(asked.source.fileno(), selectors.EVENT_READ)
        assert selector.select(0) == []  # nobody is woken for ever


def test_what_accounting_kept_of_processes_that_ended_is_read_where_it_is_on(start):
    stub, asked = start("accounted 41 5000", "accounted 42 6000")
    asked.wait()
    asked.source.peaks([42, 43])
    [peak] = asked.wait().peaks
    stub.says()
    asked.source.peaks([42])

    assert (peak.uuid, peak.pid, peak.peak_bytes, peak.running) == (GPU_0, 42, 6000, False)
    assert peak.started_realtime_ns == 1700000000 * 10**9
    assert asked.wait().peaks == ()


def test_nothing_in_it_changes_a_setting():
    assert not re.search(
        r"nvml\w*(?:Set|Clear|Reset|Create|Destroy|Register)", (ROOT / "tracer/sources/nvml.py").read_text()
    )


def test_without_a_driver_nothing_is_started(monkeypatch, tmp_path):
    monkeypatch.setattr(gpu_module, "_spawn", lambda *_: pytest.fail("started"))
    found = GpuSource.open(signs=(str(tmp_path / "nvidiactl"),))

    assert found == GpuUnavailable("no NVIDIA driver")
    assert not found.status(5).available


def test_without_the_package_that_is_said_with_the_drivers_version(monkeypatch, tmp_path):
    (tmp_path / "driver" / "nvidia").mkdir(parents=True)
    (tmp_path / "driver" / "nvidia" / "version").write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  595.45.04  Release Build\nGCC version: gcc 12.2.0\n"
    )
    monkeypatch.setattr(gpu_module.importlib.util, "find_spec", lambda _: None)
    status = GpuSource.open(signs=(str(tmp_path),), proc_root=str(tmp_path)).status(5)

    assert status.why_not == "the Python package nvidia-ml-py is not installed"
    assert status.driver_version == "595.45.04"


@pytest.mark.parametrize("text", ["", "NVRM version: x", "\xff\xfe 1", "no . here"])
def test_a_version_that_is_not_told_is_unknown(tmp_path, text):
    (tmp_path / "driver" / "nvidia").mkdir(parents=True)
    (tmp_path / "driver" / "nvidia" / "version").write_text(text)

    assert driver_version(str(tmp_path)) is None


def test_a_machine_that_cannot_start_a_process_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(gpu_module.sys, "executable", str(tmp_path / "none"))

    assert "could not be started: No such file" in GpuSource.open(signs=(str(tmp_path),)).why


@pytest.mark.parametrize(
    "line", [b"x\n", b"[]\n", b'{"samples": [{"uuid": 5}]}\n', b'{"status": {"available": 1}}\n', b"\xff\n"]
)
def test_an_answer_that_is_none_ends_it(line):
    answers, written = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    requests = os.open(os.devnull, os.O_WRONLY)
    source = GpuSource(0, requests, answers)
    os.write(written, b'{"took_ns": 1}\n' + line + b'{"took_ns": 2}\n')
    good, bad = source.read()
    os.close(written)
    source.close()

    assert (good.took_ns, bad.status.available) == (1, False)
    assert "an answer that is none" in bad.status.why_not

# SPDX-License-Identifier: Apache-2.0
"""`oomtrace run` on a machine whose NVML is a stub: the whole way from the library into the recording."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.stubs.nvml import GPU_0, StubNvml
from tests.waiting import DEADLINE_S, SLOWER, wait_for
from tracer.events import (
    GpuPeak,
    GpuProcess,
    GpuSample,
    GpuStatus,
    JobStarted,
    NumaNodes,
    PressureSample,
)
from tracer.recording import read_recording

GIB = 1 << 30
ONCE_IT_ANSWERED = """until grep -q '"kind":"GpuStatus"' run.oomtrace; do sleep 0.05; done"""
"""With its quotes, which are escaped where the job's own command line is recorded."""


class Watched:
    """Runs jobs under watch, on a machine with a GPU."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / "run.oomtrace"
        (folder / "stub").mkdir()
        self.stub = StubNvml(folder / "stub")

    def start(self, *job, options=()):
        command = self.stub.command("run", "--record", self.path, *options, "--", *job)
        kwargs = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return subprocess.Popen(command, cwd=self.folder, env=self.stub.environ, text=True, **kwargs)

    def finish(self, process, code=0):
        out, err = process.communicate(timeout=DEADLINE_S + 30 * SLOWER)
        assert process.returncode == code, err
        return out

    def run(self, *job, code=0, **kwargs):
        return self.finish(self.start(*job, **kwargs), code)

    def recorded(self, text):
        """Waits until that stands in the recording."""
        wait_for(lambda: self.path.exists() and text in self.path.read_bytes(), f"{text!r} in the recording")

    def events(self, kind):
        return [event for event in read_recording(self.path) if isinstance(event, kind)]

    def left_behind(self):
        """Processes that still ask the stub."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if bytes(self.stub.library) in Path(f"/proc/{pid}/maps").read_bytes():
                    found.append(pid)
            except OSError:
                continue
        return found


@pytest.fixture
def watched(tmp_path, can_trace):
    return Watched(tmp_path)


def test_what_the_library_says_is_in_the_recording(watched):
    out = watched.run("sh", "-c", f"{ONCE_IT_ANSWERED}; echo hello; exit 3", code=3)

    [status] = watched.events(GpuStatus)
    assert out == "hello\n"
    assert (status.available, status.driver_version, status.devices[0].uuid) == (True, "595.45.04", GPU_0)
    assert {(one.used_bytes, one.reserved_bytes) for one in watched.events(GpuSample)} == {(GIB, GIB // 2)}
    assert watched.left_behind() == []
    memory_of_the_machine_is_recorded(watched)


def memory_of_the_machine_is_recorded(watched):
    """What it is used for, and where it lies: by the kernel's own count the same by nodes and in total."""
    sample, nodes = watched.events(PressureSample)[0], watched.events(NumaNodes)
    kib = {line.split()[0]: int(line.split()[1]) for line in Path("/proc/meminfo").read_text().splitlines()}
    used = (sample.anon_bytes, sample.cached_bytes, sample.slab_bytes, sample.page_tables_bytes, sample.percpu_bytes)
    assert all(used)
    assert sum(used) < kib["MemTotal:"] << 10
    assert len(nodes) == Path("/sys/devices/system/node/node0").exists()
    for event in nodes:
        assert sum(node.mem_total_bytes for node in event.nodes) == kib["MemTotal:"] << 10
        assert sum(node.cpus for node in event.nodes) >= os.cpu_count()


def test_memory_of_the_device_is_recorded_as_it_changes(watched):
    process = watched.start("cat")
    watched.recorded(b'"used_bytes":%d' % GIB)
    watched.stub.says("process 4242 77", used=5 * GIB)
    watched.recorded(b'"used_bytes":%d' % (5 * GIB))
    watched.finish(process)

    first, second = watched.events(GpuSample)
    assert (first.used_bytes, first.processes) == (GIB, ())
    assert (second.used_bytes, second.processes) == (5 * GIB, (GpuProcess(pid=4242, used_bytes=77),))


def test_a_library_that_hangs_costs_the_job_nothing(watched):
    watched.stub.says(hang="init")
    watched.run("sh", "-c", "exit 3", code=3)

    [status] = watched.events(GpuStatus)
    assert not status.available
    assert status.why_not in {"NVML had not answered yet", "no answer from NVML within 5 s"}
    assert watched.left_behind() == []


def test_one_that_crashes_midway_costs_the_job_nothing(watched):
    process = watched.start("cat")
    watched.recorded(b'"used_bytes":')
    watched.stub.says(crash=1)
    watched.recorded(b"signal 11")
    watched.finish(process)

    assert [one.available for one in watched.events(GpuStatus)] == [True, False]


def test_what_the_driver_kept_of_a_process_that_ended_is_recorded(watched):
    watched.run("sh", "-c", f'{ONCE_IT_ANSWERED}; echo "accounted $$ 5000" > {watched.stub.library}.conf')

    [peak], [started] = watched.events(GpuPeak), watched.events(JobStarted)
    assert (peak.pid, peak.peak_bytes, peak.uuid) == (started.tgid, 5000, GPU_0)

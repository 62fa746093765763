# SPDX-License-Identifier: Apache-2.0
"""Who is looked at for code, which libraries are probed and when, and what becomes of it in the recording."""

import os
import threading
from dataclasses import replace

import pytest

from tests.unit.pipeline.bench import Book
from tests.unit.pipeline.stand_ins import START_NS, Processes, sources
from tests.waiting import DEADLINE_S, wait_for
from tracer.events import CodeLooked, CudaProbed, CudaTotals, GpuLibrary, ProcessSample, process_id
from tracer.kernel.cuda import Probed
from tracer.pipeline.cuda import NO_KERNEL, NOT_ALL_SEEN, CudaWatch
from tracer.pipeline.members import Member, Members
from tracer.sources.namespaces import Namespaces

PID = 77
FILE_ON = "08:01"


class Mapped(Processes):
    """Each process has mapped what a test says, in a file of the test's."""

    def __init__(self, path):
        super().__init__()
        self.path, self.libraries, self.code_bytes, self.looks, self.opened = path, [], 1000, 0, 0

    def maps(self, inode, vendor="nvidia", device=FILE_ON):
        self.libraries.append(
            GpuLibrary(name="libcuda.so.1", path="/x/libcuda.so.1", vendor=vendor, device=device, inode=inode)
        )

    def code(self, tgid, known_bytes):
        self.looks += 1
        if known_bytes == self.code_bytes or tgid in self.gone:
            return None
        return CodeLooked(
            ts_ns=1, source="proc", start_ns=START_NS, tgid=tgid, code_bytes=self.code_bytes,
            libraries=tuple(self.libraries),
        )  # fmt: skip

    def open_code(self, tgid, start_ns, library):
        self.opened += 1
        return os.open(self.path, os.O_RDONLY) if self.path.exists() else None


class Cuda:
    """A kernel that probes at once."""

    def __init__(self):
        self.probes, self.totals, self.swept, self.prepared = [], [], 0, 0

    def prepare_cuda(self):
        self.prepared += 1

    def probe_cuda(self, library):
        self.probes.append(os.fstat(library).st_ino)
        return Probed(symbols=("cuMemAlloc_v2",), missing=("cuMemAlloc",), refused={"cuMemFree": "no"})

    def cuda_totals(self, now_ns):
        return self.totals

    def forget_cuda(self):
        self.swept += 1


class AtOnce:
    """A helper that does at once what it is told, and hands it to whoever watches."""

    def __init__(self):
        self.results = []

    def submit(self, work):
        result = work()
        if result is not None:
            self.results.append(result)


@pytest.fixture
def scene(tmp_path):
    """A watch over one process, with what it is told and what it recorded."""
    made = []

    class Scene:
        def __init__(self, kernel, **more):
            self.file = tmp_path / "libcuda.so.550.1"
            self.file.write_bytes(b"x")
            self.processes, self.kernel, self.book, self.helper = Mapped(self.file), kernel, Book(), AtOnce()
            members = Members()
            self.member = members.add(PID, START_NS)
            everything = replace(sources(), kernel=kernel, processes=self.processes, **more)
            self.watch = CudaWatch(everything, self.book, self.helper, members)
            made.append(self.watch)

        def sample(self, code_bytes=None):
            if code_bytes is not None:
                self.processes.code_bytes = code_bytes
            sample = ProcessSample(
                ts_ns=1, source="proc", start_ns=START_NS, tgid=PID, code_bytes=self.processes.code_bytes
            )
            self.watch.sampled(self.member, sample)
            results, self.helper.results = self.helper.results, []
            for result in results:
                self.watch.take(result)
            wait_for(self.watch.idle_after_reading, "the probes")

        def of(self, kind):
            return [event for event in self.book.events if isinstance(event, kind)]

    yield lambda kernel=None, **more: Scene(kernel, **more)
    for watch in made:
        watch.close()


@pytest.fixture(autouse=True)
def _reads_until_idle(monkeypatch):
    def idle_after_reading(self):
        self.read()
        return self._prober.idle()

    monkeypatch.setattr(CudaWatch, "idle_after_reading", idle_after_reading, raising=False)


def test_a_process_is_looked_at_when_its_code_has_changed_and_not_else(scene):
    one = scene(Cuda())
    one.sample()
    one.sample()
    assert (one.processes.looks, len(one.of(CodeLooked))) == (1, 1)

    one.sample(2000)
    assert (one.processes.looks, len(one.of(CodeLooked))) == (2, 2)


def test_a_library_is_probed_once_through_the_process_that_has_it(scene):
    one = scene(Cuda())
    one.processes.maps(5)
    one.sample()
    one.sample(2000)
    [probed] = one.of(CudaProbed)

    assert one.kernel.probes == [one.file.stat().st_ino]
    assert (probed.inode, probed.device, probed.path, probed.version) == (5, FILE_ON, "/x/libcuda.so.1", "550.1")
    assert (probed.symbols, probed.missing, probed.refused) == (
        ("cuMemAlloc_v2",),
        ("cuMemAlloc",),
        {"cuMemFree": "no"},
    )
    assert probed.why_not is None


def test_one_file_under_two_numbers_is_probed_once_and_known_by_both(scene):
    one = scene(Cuda())
    one.processes.maps(5)
    one.sample()
    one.processes.maps(6, device="00:31")
    one.sample(2000)

    assert len(one.kernel.probes) == 1
    assert [(probed.inode, probed.symbols) for probed in one.of(CudaProbed)] == [
        (5, ("cuMemAlloc_v2",)),
        (6, ("cuMemAlloc_v2",)),
    ]


def test_other_vendors_are_recorded_and_not_probed(scene):
    one = scene(Cuda())
    one.processes.maps(5, vendor="amd")
    one.sample()

    assert [library.vendor for library in one.of(CodeLooked)[0].libraries] == ["amd"]
    assert one.of(CudaProbed) == one.kernel.probes == []


def test_a_file_that_cannot_be_opened_is_said(scene):
    one = scene(Cuda())
    one.file.unlink()
    one.processes.maps(5)
    one.sample()

    assert [probed.why_not for probed in one.of(CudaProbed)] == ["the file that is mapped cannot be opened"]


def test_without_bpf_it_is_said_that_nobody_sees_the_calls(scene):
    one = scene(None)
    one.processes.maps(5)
    one.sample()

    assert [probed.why_not for probed in one.of(CudaProbed)] == [NO_KERNEL]


@pytest.mark.parametrize("own_pids", [True, None])
def test_where_other_containers_cannot_be_seen_nothing_is_probed_that_they_may_have_hooked(scene, own_pids):
    one = scene(Cuda(), namespaces=Namespaces(own_pids=own_pids))
    one.processes.maps(5)
    one.sample()

    assert [probed.why_not for probed in one.of(CudaProbed)] == [NOT_ALL_SEEN]
    assert one.kernel.probes == []


def test_what_is_there_is_probed_before_anyone_maps_it(scene, tmp_path):
    path = tmp_path / "libcuda.so.1"
    path.write_bytes(b"x")
    one = scene(Cuda(), libcudas=lambda: [("/usr/lib/libcuda.so.1", os.open(path, os.O_RDONLY))])
    one.watch.begin()
    [probed] = one.of(CudaProbed)
    one.processes.maps(probed.inode, device=probed.device)
    one.sample()

    assert (probed.inode, probed.path) == (path.stat().st_ino, "/usr/lib/libcuda.so.1")
    assert len(one.kernel.probes) == 1


def test_a_library_that_cannot_be_probed_in_time_does_not_keep_the_job_from_running(scene, tmp_path, monkeypatch):
    monkeypatch.setattr("tracer.pipeline.cuda.BEFORE_NS", 20_000_000)
    path, released, kernel = tmp_path / "libcuda.so.1", threading.Event(), Cuda()
    path.write_bytes(b"x")
    at_once = kernel.probe_cuda
    monkeypatch.setattr(kernel, "probe_cuda", lambda fd: released.wait(DEADLINE_S) and at_once(fd))
    one = scene(kernel, libcudas=lambda: [("/usr/lib/libcuda.so.1", os.open(path, os.O_RDONLY))])
    one.watch.begin()
    before = one.of(CudaProbed)
    released.set()
    wait_for(one.watch.idle_after_reading, "the probes")

    assert before == []
    assert [probed.inode for probed in one.of(CudaProbed)] == [path.stat().st_ino]


def test_where_only_a_driver_is_there_the_programs_are_made_ready(scene):
    one = scene(Cuda(), has_nvidia_driver=lambda: True)
    one.watch.begin()
    wait_for(one.watch.idle_after_reading, "it")
    other = scene(Cuda())
    other.watch.begin()

    assert (one.kernel.prepared, other.kernel.prepared) == (1, 0)


def totals(**fields):
    return CudaTotals(**({name: 0 for name in CudaTotals.__struct_fields__ if name not in {"source", "seq"}} | fields))


def test_totals_are_read_once_something_is_probed_and_not_more_than_once_a_second(scene):
    one = scene(Cuda())
    one.kernel.totals = [totals(tgid=PID)]
    one.watch.tick(10**9)
    assert one.of(CudaTotals) == []

    one.processes.maps(5)
    one.sample()
    for now_ns in (2 * 10**9, 2 * 10**9 + 1, 3 * 10**9):
        one.watch.tick(now_ns)
    one.watch.tick(3 * 10**9 + 1, last=True)
    assert len(one.of(CudaTotals)) == 3


def test_what_a_process_had_not_freed_is_let_go_of_after_its_end(scene):
    one = scene(Cuda())
    one.watch.totalled(totals(tgid=PID, ended=1))
    wait_for(one.watch.idle_after_reading, "it")
    assert one.kernel.swept == 0

    one.watch.totalled(totals(tgid=PID, ended=1, pinned_bytes=1))
    one.watch.totalled(totals(tgid=PID, ended=1, pinned_bytes=1))
    wait_for(one.watch.idle_after_reading, "it")
    assert one.kernel.swept == 1


def test_another_program_in_the_same_process_is_looked_at_anew(scene):
    one = scene(Cuda())
    one.sample()
    one.watch.forget(process_id(PID, START_NS))
    one.sample()

    assert one.processes.looks == 2


def test_a_look_at_who_had_the_pid_before_is_not_taken(scene):
    one = scene(Cuda())
    one.member = Member(PID, 10 * START_NS)
    one.sample()

    assert one.of(CodeLooked) == []

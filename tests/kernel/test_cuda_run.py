# SPDX-License-Identifier: Apache-2.0
"""Runs of jobs that call CUDA: the library is found before they begin, or where they have mapped it."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.kernel.attaching import Attaching
from tests.kernel.left import bpf_ids, still_there
from tests.kernel.running import begun
from tests.stubs.cuda import DEVICE_BYTES, OUT_OF_MEMORY, Caller, build_caller, build_library
from tests.waiting import SLOWER, wait_for
from tracer.events import CodeLooked, CudaCall, CudaProbed, CudaTotals
from tracer.recording import read_recording

MIB = 1 << 20
# `oomtrace` where the kernel has no link for many functions, on few of them: half a second for each probe that goes.
ONE_BY_ONE = """
import sys
from tracer.kernel import cuda
from tracer.kernel.probes import Wanted
cuda.open_cuda.__kwdefaults__["wanted"] = Wanted(cuda=True, one_by_one=True)
exported = cuda.exported_functions
few = ("cuMemAlloc_v2", "cuMemFree_v2")
cuda.exported_functions = lambda fd: {name: at for name, at in exported(fd).items() if name in few}
from tracer.cli import main
sys.exit(main())
"""


@pytest.fixture
def attaching(can_trace, tmp_path):
    made = Attaching(tmp_path)
    yield made
    for process in made.started:
        if process.poll() is None:
            process.kill()
            process.communicate()


@pytest.fixture
def started(tmp_path):
    """Starts callers; those that are left are ended."""
    path = build_caller(tmp_path)
    callers = []

    def start(*prefix):
        callers.append(Caller(*prefix, path))
        return callers[-1]

    yield start
    for each in callers:
        each.close()


def recorded(path, kind, **fields):
    events = [event for event in read_recording(path) if isinstance(event, kind)]
    return [event for event in events if all(getattr(event, name) == value for name, value in fields.items())]


def probed(path, inode):
    """Waits until a library is probed; the record of it."""
    wait_for(lambda: recorded(path, CudaProbed, inode=inode), "probes")
    return recorded(path, CudaProbed, inode=inode)[0]


def test_a_library_that_is_there_is_probed_before_the_job_runs(oomtrace, tmp_path):
    folder = tmp_path / "lib"
    library, caller = build_library(folder), build_caller(tmp_path)
    script = f"printf 'load {library}\\ncall cuMemAlloc &0 5000\\ncall cuMemAlloc &1 {2 * DEVICE_BYTES}\\n' | {caller}"
    run = oomtrace("sh", "-c", script, more_environ={"LD_LIBRARY_PATH": str(folder)})
    [found] = recorded(run.path, CudaProbed)
    [call] = recorded(run.path, CudaCall)
    [totals] = recorded(run.path, CudaTotals, ended=1)
    job = next(event for event in read_recording(run.path) if type(event).__name__ == "JobStarted")

    assert (found.path, found.inode, found.why_not) == (str(library), library.stat().st_ino, None)
    assert found.ts_ns < job.ts_ns
    assert found.unknown == ("cuMemAllocManaged_v9",)
    assert {"cuMemAlloc_v2", "cuMemFree_v2", "cuMemHostAlloc"} <= set(found.symbols)
    assert (call.result, call.bytes, call.device_bytes) == (OUT_OF_MEMORY, 2 * DEVICE_BYTES, 5000)
    assert (totals.device_calls, totals.device_failed, totals.device_bytes) == (2, 1, 5000)


def test_who_maps_no_library_for_a_gpu_is_recorded_as_well(oomtrace):
    run = oomtrace("sleep", 1)
    looked = recorded(run.path, CodeLooked)

    assert looked
    assert {(one.libraries, one.complete) for one in looked} == {((), True)}
    assert recorded(run.path, CudaCall) == []


def test_libraries_that_are_mapped_later_are_probed_each_by_its_inode(attaching, started, tmp_path):
    one, other = build_library(tmp_path / "one"), build_library(tmp_path / "other")
    first = started()
    tracer = attaching.start("--pid", first.pid)
    first.load(one)
    found = probed(attaching.path, one.stat().st_ino)
    first.call("cuMemAlloc &0 1000")
    first.load(other)
    second = probed(attaching.path, other.stat().st_ino)
    first.call("cuMemAlloc &0 2000")
    first.finish()
    tracer.communicate(timeout=60 * SLOWER)
    [totals] = recorded(attaching.path, CudaTotals, ended=1)
    mappings = {library.inode for looked in recorded(attaching.path, CodeLooked) for library in looked.libraries}

    assert (found.why_not, second.why_not) == (None, None)
    assert (totals.device_calls, totals.device_bytes) == (2, 3000)
    assert mappings == {found.inode, second.inode}


def test_a_library_that_only_the_job_sees_is_probed_where_it_is(attaching, started, tmp_path):
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    ready = build_library(tmp_path / "outside")
    script = f'mount -t tmpfs none {hidden} && cp {ready} {hidden} && exec "$@"'
    try:
        process = started("unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh")
    except AssertionError:
        pytest.skip("no mount namespace can be made here")
    tracer = attaching.start("--pid", process.pid)
    process.load(hidden / ready.name)
    inode = os.stat(f"/proc/{process.pid}/root{hidden}/{ready.name}").st_ino
    found = probed(attaching.path, inode)
    process.call("cuMemAlloc &0 1000")
    process.finish()
    tracer.communicate(timeout=60 * SLOWER)
    [totals] = recorded(attaching.path, CudaTotals, ended=1)

    assert not (hidden / ready.name).exists()
    assert (found.path, found.why_not) == (str(hidden / ready.name), None)
    assert totals.device_bytes == 1000


def test_a_library_that_is_deleted_is_probed_where_it_is_mapped(attaching, started, tmp_path):
    library = build_library(tmp_path / "gone")
    inode = library.stat().st_ino
    process = started()
    process.load(library)
    shutil.rmtree(library.parent)
    tracer = attaching.start("--pid", process.pid)
    found = probed(attaching.path, inode)
    process.call("cuMemAlloc &0 1000")
    process.finish()
    tracer.communicate(timeout=60 * SLOWER)
    [totals] = recorded(attaching.path, CudaTotals, ended=1)

    assert (found.path, found.why_not) == (str(library), None)
    assert totals.device_bytes == 1000


def test_a_library_of_another_vendor_is_named_and_not_probed(attaching, started, tmp_path):
    library = build_library(tmp_path, "libamdhip64.so.6")
    process = started()
    tracer = attaching.start("--pid", process.pid)
    process.load(library)
    inode = library.stat().st_ino

    def seen():
        looks = recorded(attaching.path, CodeLooked)
        return [each for looked in looks for each in looked.libraries if each.inode == inode]

    wait_for(seen, "a look at it")
    process.call("cuMemAlloc &0 1000")
    process.finish()
    tracer.communicate(timeout=60 * SLOWER)

    assert (seen()[0].vendor, seen()[0].name) == ("amd", "libamdhip64.so.6")
    assert recorded(attaching.path, CudaProbed) + recorded(attaching.path, CudaTotals) == []


def test_a_file_that_only_has_the_name_is_told_so(attaching, tmp_path):
    python = shutil.which("python3")
    fake = tmp_path / "libcuda.so.1"
    fake.write_bytes(b"\x7fELF\x02\x01" + bytes(8000))
    code = (
        "import mmap, sys; file = open(sys.argv[1], 'r+b');"
        "m = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ | mmap.PROT_EXEC, flags=mmap.MAP_PRIVATE);"
        "print('ready', flush=True); sys.stdin.readline()"
    )
    with subprocess.Popen([python, "-c", code, fake], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        tracer = attaching.start("--pid", process.pid)
        found = probed(attaching.path, fake.stat().st_ino)
        process.stdin.close()
    tracer.communicate(timeout=60 * SLOWER)

    assert (found.why_not, found.symbols) == ("it is no library that can be read", ())


def test_where_probes_stand_one_by_one_the_end_waits_for_none_of_them_and_none_stays(attaching, tmp_path):
    folder = tmp_path / "lib"
    library, caller = build_library(folder), build_caller(tmp_path)
    script = f"printf 'load {library}\\ncall cuMemAlloc &0 5000\\n' | {caller}; read line; exit 3"
    command = [sys.executable, "-c", ONE_BY_ONE, "run", "--record", attaching.path, "--", "sh", "-c", script]
    tracer = subprocess.Popen(
        list(map(str, command)), cwd=tmp_path, env=attaching.environ | {"LD_LIBRARY_PATH": str(folder)}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    attaching.started.append(tracer)
    wait_for(lambda: begun(attaching.path) and recorded(attaching.path, CudaTotals, ended=1), "the calls")
    held = bpf_ids(tracer.pid)
    tracer.communicate("\n", timeout=60 * SLOWER)
    wait_for(lambda: not still_there(held), "the last probe and its program to go")
    [totals] = recorded(attaching.path, CudaTotals, ended=1)

    assert tracer.returncode == 3
    assert len([kind for kind, _ in held if kind == "prog"]) > 1
    assert (totals.device_calls, totals.device_bytes) == (1, 5000)

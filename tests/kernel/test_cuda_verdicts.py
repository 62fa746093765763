# SPDX-License-Identifier: Apache-2.0
"""Whole verdicts about CUDA: real runs and kills, real calls and probes; only the libraries are stubs.

Jobs wait until the recording says that their library is probed and was seen in their mappings: however slow the
machine is, what is called after that is watched.
"""

import re
import subprocess
import sys

import pytest

from tests.kernel.attaching import Attaching
from tests.stubs.cuda import DEVICE_BYTES, build_library
from tests.stubs.nvml import StubNvml
from tests.waiting import DEADLINE_S, wait_for
from tracer.events import CodeLooked, CudaProbed
from tracer.recording import read_recording

pytestmark = pytest.mark.kernel
MIB, GIB = 1 << 20, 1 << 30
LIMIT = ("--memory-max", "64M", "--swap-max", "0")
JOB = f"""
import ctypes, os, sys, time

def recorded(*words):
    # Until one event of the recording holds all of these.
    until = time.monotonic() + {DEADLINE_S}
    while not any(all(word in line for word in words) for line in open("run.oomtrace", "rb")):
        if time.monotonic() > until:
            os._exit(77)
        time.sleep(0.01)

def mapped(path):
    cuda = ctypes.CDLL(path)
    inode = b'"inode":%d' % os.stat(path).st_ino
    recorded(b'"CudaProbed"', inode)
    recorded(b'"CodeLooked"', b'"tgid":%d,' % os.getpid(), inode)
    return cuda

def take(size, name="cuMemAlloc_v2"):
    return getattr(cuda, name)(ctypes.byref(ctypes.c_uint64()), ctypes.c_uint64(size), 0)

def ask():
    return cuda.cuMemGetInfo_v2(ctypes.byref(ctypes.c_uint64()), ctypes.byref(ctypes.c_uint64()))

def eat():
    kept = []
    while True:
        kept.append(bytes([1]) * (1 << 20))

cuda = mapped(sys.argv[1])
"""
# As torch 2.9 says it where its own share of the device is used up: the driver is never asked.
FRACTION = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB "
    "of which 60.12 GiB is free. 7.91 GiB allowed; Process 4242 has 7.60 GiB memory in use."
)


@pytest.fixture
def library(tmp_path):
    return build_library(tmp_path / "lib")


@pytest.fixture
def play(oomtrace, library, tmp_path):
    """A job of these lines, with a libcuda that is found before it begins."""

    def run(lines, *, options=LIMIT, **environ):
        script = tmp_path / "train.py"
        script.write_text(JOB + lines)
        more = {"LD_LIBRARY_PATH": str(library.parent)} | environ
        return oomtrace(sys.executable, "-S", script, library, options=options, more_environ=more)

    return run


def judged(run):
    return run.primary["cause"], run.primary["strength"]


def link(run, number):
    [found] = [one for one in run.primary["proof"] if one["link"] == number]
    return found["status"], found["statement"]


def is_seen_or_told_late(run, processes):
    """Where it took longer than the rule allows until the probes stood, which a slow machine may do, that is said."""
    status, statement = link(run, 5)
    seen = f"{processes} with libcuda (was|were) watched from at most "
    if status == "present":
        assert re.search(seen, statement), statement
    else:
        assert re.search("may have called libcuda for .* before that was watched", statement), statement


def test_a_kill_of_a_job_that_uses_a_gpu_is_proved_and_seen_not_to_be_cudas(oomtrace, library, tmp_path):
    stub = StubNvml(library.parent)
    script = tmp_path / "train.py"
    answers = f"used {5 * GIB}\\nprocess %d {4 * GIB}\\n"
    script.write_text(f"""{JOB}
for _ in range(3): take({GIB})
with open("{stub.library}.new", "w") as file: file.write("{answers}" % os.getpid())
os.replace("{stub.library}.new", "{stub.library}.conf")
recorded(b'"GpuSample"', b'"used_bytes":{5 * GIB},')
eat()
""")
    job = (sys.executable, "-S", script, library)
    command = stub.command("run", "--record", tmp_path / "run.oomtrace", *LIMIT, "--", *job)
    pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    run = oomtrace.finish(subprocess.Popen(command, cwd=tmp_path, env=stub.environ, text=True, **pipes))

    assert (*judged(run), run.code) == ("host_oom_cgroup", "proved", 137)
    assert set(run.links.values()) == {"present"}
    status, statement = link(run, 5)
    assert status == "present"
    assert "0 of 3 device allocations failed, GPU 0 held 5 GiB of 80 GiB" in statement
    assert "no host memory pinned or managed by it; the one process with libcuda was watched for life" in statement
    assert "✓ 5 not CUDA" in run.err


@pytest.mark.parametrize("before, after", [("ask()", ""), ("", "ask()")])
def test_a_refusal_that_ends_the_job_is_out_of_gpu_memory(play, before, after):
    size = DEVICE_BYTES - GIB // 2
    run = play(f"take({GIB}); {before}\nresult = take({size})\n{after}\nsys.exit(1 if result == 2 else 3)")

    assert (*judged(run), run.code) == ("cuda_oom", "proved", 1)
    assert set(run.links.values()) == {"present"}
    free = "had 15 GiB of 16 GiB free (just then|.* (before|after)) [(]cuMemGetInfo[)], and 15.5 GiB were asked for"
    assert re.search(free, link(run, 2)[1])
    assert "Out of GPU memory: CUDA refused 15.5 GiB" in run.err


def test_refusals_that_were_survived_do_not_make_a_kill_cudas(play):
    run = play(f"print([take({GIB}) for _ in range(3)])\neat()", STUB_CUDA_FAIL="cuMemAlloc_v2:2:2")

    assert (run.out, *judged(run)) == ("[2, 2, 0]\n", "host_oom_cgroup", "proved")
    status, statement = link(run, 5)
    assert status == "present"
    assert statement.startswith("2 of 3 device allocations failed, and each was got later, device memory unknown")
    timeline = " ".join(run.err.split())
    assert "cuMemAlloc_v2 of 1 GiB failed, 2 times: 2 (out of memory)" in timeline
    assert re.search(r"got 1 GiB \S+ \S+ after it was refused: survived", timeline)


def test_a_refusal_that_was_not_survived_is_no_way_to_rule_cuda_out(play):
    run = play(f"print(take({2 * DEVICE_BYTES}))\neat()")

    assert (run.out, run.primary["cause"], link(run, 5)[0]) == ("2\n", "host_oom_cgroup", "absent")
    assert "cuMemAlloc_v2 refused" in link(run, 5)[1]


def test_pinned_memory_that_was_refused_is_the_hosts(play):
    run = play(f"sys.exit(take({6 * GIB}, 'cuMemHostAlloc') // 2)", STUB_CUDA_FAIL="cuMemHostAlloc:2:1")

    assert (*judged(run), run.code) == ("pinned_host_memory", "proved", 1)
    assert "cuMemHostAlloc of 6 GiB returned 2 (out of memory)" in link(run, 1)[1]
    assert "no GPU memory, whatever the error says" in run.primary["headline"]


def test_a_limit_of_the_frameworks_own_is_likely_and_told_why(play):
    run = play(f"take({GIB}); take({GIB}); ask()\nsys.exit({FRACTION!r})", options=("--log", "train.log"))

    assert (*judged(run), run.code) == ("cuda_oom", "likely", 1)
    status, statement = link(run, 1)
    assert status == "not_observed"
    assert "none of its 2 device allocations failed in the driver: a limit of the framework's own" in statement
    assert "by its own words 2 GiB asked for, 60.1 GiB" in link(run, 2)[1]


def test_a_library_that_is_mapped_after_attaching_is_seen_in_the_verdict(can_trace, memory_cgroup, hog, tmp_path):
    attaching, library = Attaching(tmp_path), build_library(tmp_path / "lib")
    inode = library.stat().st_ino
    memory_cgroup.limit(64 * MIB)
    process = hog(memory_cgroup)
    tracer = attaching.start("--pid", process.pid)

    def events(kind):
        return [event for event in read_recording(attaching.path) if isinstance(event, kind)]

    try:
        wait_for(lambda: events(CodeLooked), "a look at it")
        process.do(f"import ctypes; cuda = ctypes.CDLL('{library}')")
        wait_for(lambda: any(one.inode == inode for one in events(CudaProbed)), "the probes")
        process.do("cuda.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_uint64(4096))")
        process.tell(f"anon({80 * MIB})")
        run = attaching.finish(tracer)
    finally:
        tracer.kill()

    assert judged(run) == ("host_oom_cgroup", "proved")
    is_seen_or_told_late(run, "the one process")


def test_two_processes_with_a_library_each_are_both_watched(oomtrace, library, tmp_path):
    other = build_library(tmp_path / "other")
    (tmp_path / "train.py").write_text(f"""{JOB}
take({GIB})
open(sys.argv[2], "w").close()
while not (os.path.exists("one") and os.path.exists("two")): time.sleep(0.01)
eat() if sys.argv[2] == "one" else time.sleep({DEADLINE_S})
""")
    python = f"{sys.executable} -S train.py"
    script = f'{python} {library} one & one=$!; {python} {other} two & two=$!; wait "$one"; kill "$two"; wait; exit 9'
    run = oomtrace("sh", "-c", script, options=LIMIT, more_environ={"LD_LIBRARY_PATH": str(library.parent)})

    assert {one.inode for one in run.events(CudaProbed)} == {library.stat().st_ino, other.stat().st_ino}
    assert judged(run) == ("host_oom_cgroup", "proved")
    is_seen_or_told_late(run, "the 2 processes")


def test_a_library_that_a_containers_mounts_hide_is_seen_in_the_verdict(oomtrace, library, tmp_path):
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (tmp_path / "train.py").write_text(f"{JOB}\ntake({GIB})\neat()")
    python = f"{sys.executable} -S train.py {hidden}/{library.name}"
    script = f"mount -t tmpfs none {hidden} && cp {library} {hidden} && exec {python}"
    unshare = ("unshare", "--mount", "--propagation", "private")
    if subprocess.run([*unshare, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no mount namespace can be made here")
    run = oomtrace(*unshare, "sh", "-c", script, options=LIMIT)

    assert [one.path for one in run.events(CudaProbed) if one.symbols] == [f"{hidden}/{library.name}"]
    assert not list(hidden.iterdir())
    assert judged(run) == ("host_oom_cgroup", "proved")
    is_seen_or_told_late(run, "the one process")

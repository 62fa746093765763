# SPDX-License-Identifier: Apache-2.0
"""Whatever becomes of the tracer, the job's output and status are those of a run without it, and nothing is left."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.checkout import ROOT
from tests.kernel.left import bpf_ids, still_there
from tests.kernel.running import said
from tests.waiting import DEADLINE_S, SLOWER, state_of, wait_for
from tracer.events import Losses, ProcessForked

# Some children, some output, a status of its own; it waits where a test asks it to, and writes its own evidence.
JOB = """
n=0; while [ $n -lt 20 ]; do n=$((n + 1)); (exit $n) & done; wait
while [ -e hold ]; do sleep 0.02; done
echo end of $n; echo no error >&2; echo $n > evidence
exit 7
"""


@pytest.fixture
def plain(tmp_path_factory):
    """What the job does without oomtrace: output, status, evidence."""
    folder = tmp_path_factory.mktemp("plain")
    done = subprocess.run(["sh", "-c", JOB], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 7
    return done.stdout, done.returncode, (folder / "evidence").read_text()


@pytest.fixture
def under(can_trace, tmp_path):
    """Runs the job under oomtrace behind some shell words; output, status and evidence, and what oomtrace said."""

    started = []

    def run(prefix="", *, options="--record run.oomtrace", suffix="", wait=True, job=JOB):
        environ = {name: value for name, value in os.environ.items() if not name.startswith("SUDO_")}
        command = f'{prefix}\nexec {sys.executable} -m tracer run {options} -- sh -c "$0" {suffix}'
        process = subprocess.Popen(
            ["bash", "-c", command, job], cwd=tmp_path, env=environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "80"},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append(process)
        return finish(process) if wait else process

    def finish(process):
        out, err = process.communicate(timeout=60 * SLOWER)
        evidence = tmp_path / "evidence"
        return (out, process.returncode, evidence.read_text() if evidence.exists() else None), err

    run.finish = finish
    yield run
    # After a failure: a job that still waits ends by itself, and a tracer that was stopped goes on.
    with contextlib.suppress(FileNotFoundError):
        (tmp_path / "hold").unlink()
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.communicate(timeout=DEADLINE_S)


@pytest.fixture
def full_disk(tmp_path):
    """Mounts a file system of some pages."""
    mounted = []

    def mount(name, size_kib):
        path = tmp_path / name
        path.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size_kib}k", "oomtrace-test", path]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("no tmpfs can be mounted here")
        mounted.append(path)
        return path

    yield mount
    for path in mounted:
        subprocess.run(["umount", "-l", path], check=True)


def mounts():
    """All of them, but for those of these tests and of other users of this machine."""
    listed = subprocess.run(
        ["findmnt", "--list", "--noheadings", "--output", "TARGET,SOURCE,FSTYPE"],
        capture_output=True,
        text=True,
        check=True,
    )
    ours = ("oomtrace", "bpf", "tracefs", "debugfs")
    return {line for line in listed.stdout.splitlines() if any(each in line for each in ours) and "test" not in line}


def armed(tracer, tmp_path):
    wait_for(lambda: said(tmp_path / "ready") or tracer.poll() is not None, "the job to run")
    assert tracer.poll() is None
    return bpf_ids(tracer.pid)


def test_a_job_whose_tracer_is_killed_ends_as_it_would_have(under, plain, tmp_path):
    (tmp_path / "hold").touch()
    before = mounts()
    job = f"({JOB}) > out 2> err; echo $? > status"
    tracer = under(options="--memory-max 200M --record run.oomtrace --ready-file ready", wait=False, job=job)
    ids = armed(tracer, tmp_path)
    assert {kind for kind, _ in ids} >= {"map"}
    assert still_there(ids) == ids

    tracer.kill()
    tracer.wait(DEADLINE_S)
    (tmp_path / "hold").unlink()

    wait_for(lambda: said(tmp_path / "status"), "the job to end")
    tracer.communicate(timeout=DEADLINE_S)
    out, status, evidence = ((tmp_path / name).read_text() for name in ("out", "status", "evidence"))
    assert (out, int(status), evidence) == plain
    assert (tmp_path / "err").read_text() == "no error\n"
    wait_for(lambda: not still_there(ids), "everything to be detached")
    assert mounts() <= before
    (tmp_path / "evidence").unlink()
    again, _ = under(options="--memory-max 200M --record again.oomtrace")
    assert again == plain, "what was left stands in the way of the next run"


def test_a_tracer_that_is_killed_while_it_loads_leaves_nothing(under, tmp_path):
    tracer = under(wait=False)
    children = Path(f"/proc/{tracer.pid}/task/{tracer.pid}/children")
    loaders = []

    def compiling():
        with contextlib.suppress(OSError):
            loaders[:] = [int(pid) for pid in children.read_text().split()]
        return [folder for pid in loaders for folder in Path("/tmp").glob(f"oomtrace-{pid}-*")]

    wait_for(compiling, "the loader to compile")
    tracer.kill()
    tracer.communicate(timeout=DEADLINE_S)

    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in loaders), "the loader to be gone")
    assert [folder for pid in loaders for folder in Path("/tmp").glob(f"oomtrace-{pid}-*")] == []
    assert not (tmp_path / "evidence").exists()


def test_everything_is_detached_and_nothing_mounted_after_a_run(under, plain, tmp_path):
    (tmp_path / "hold").touch()
    before = mounts()
    tracer = under(options="--record run.oomtrace --ready-file ready", wait=False)
    ids = armed(tracer, tmp_path)
    (tmp_path / "hold").unlink()

    assert under.finish(tracer)[0] == plain
    wait_for(lambda: not still_there(ids), "the kernel to let go of the maps")  # it does so behind our back
    assert mounts() <= before


@pytest.mark.parametrize("free_kib", [0, 8])
def test_a_full_disk_costs_the_job_nothing_and_is_told_twice(under, plain, full_disk, free_kib):
    disk = full_disk("disk", 32)
    with (disk / "ballast").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        for _ in range(32 - free_kib if free_kib else 1000):
            file.write(bytes(1024))
    result, err = under(options="--record disk/run.oomtrace")

    assert result == plain
    assert "No space left on device" in err.partition("The job exited with status 7")[2]
    assert "oomtrace: the recording disk/run.oomtrace could not be written as it should" in err
    assert (disk / "run.oomtrace").exists()


def test_a_folder_that_is_removed_meanwhile_costs_the_job_nothing_and_is_told(under, plain, tmp_path):
    (tmp_path / "gone").mkdir()
    (tmp_path / "hold").touch()
    tracer = under(options="--record gone/run.oomtrace --ready-file ready", wait=False)
    armed(tracer, tmp_path)
    (tmp_path / "gone" / "run.oomtrace").unlink()
    (tmp_path / "gone").rmdir()
    (tmp_path / "hold").unlink()
    result, err = under.finish(tracer)

    assert result == plain
    assert err.count("the recording was removed, or replaced by another file") == 2
    assert "The job exited with status 7" in err


def test_a_recording_that_is_cut_meanwhile_costs_the_job_nothing_and_is_told(under, plain, tmp_path):
    (tmp_path / "hold").touch()
    tracer = under(options="--record run.oomtrace --ready-file ready", wait=False)
    armed(tracer, tmp_path)
    os.truncate(tmp_path / "run.oomtrace", 0)
    (tmp_path / "hold").unlink()
    result, err = under.finish(tracer)

    assert result == plain
    assert "the report could not be made: RecordingError" in err


@pytest.mark.parametrize(
    "prefix", ["ulimit -S -n 16", "ulimit -n 16", "ulimit -f 0", "ulimit -v 300000", "ulimit -u 1"]
)
def test_limits_of_the_caller_bind_the_job_and_cost_it_nothing(under, tmp_path, prefix):
    # What of the limits a shell can show, and no file: not even the job itself may write one with -f 0.
    job = "ulimit -n; ulimit -f; ulimit -v; ulimit -t; ulimit -u; echo end; exit 7"
    command = ["bash", "-c", f'{prefix}\nexec sh -c "$0"', job]
    alone = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    (out, code, _), err = under(prefix, job=job)

    assert (out, code) == (alone.stdout, alone.returncode)
    assert "The job exited with status 7" in err


@pytest.mark.parametrize(
    "suffix", ["2>&-", "2>/dev/full", "2> >(exec true)", "<&-", "<&- 2>&-"],
    ids=["stderr closed", "stderr full", "stderr without a reader", "stdin closed", "both closed"],
)  # fmt: skip
def test_standard_streams_that_take_nothing_cost_the_job_nothing(under, plain, suffix):
    job = JOB.replace("echo no error >&2; ", "")

    assert under(suffix=suffix, job=job)[0] == plain


@pytest.mark.parametrize("option", ["--report", "--ready-file"])
def test_a_file_that_takes_nothing_costs_the_job_nothing(under, plain, option):
    result, err = under(options=f"--record run.oomtrace {option} /dev/full")

    assert result == plain
    assert "No space left on device" in err


def test_a_reader_that_comes_late_gets_the_report_and_the_status_is_kept(under, plain, tmp_path):
    # Filled to the brim by whoever had it before: the report has to wait until there is room.
    reading, writing = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writing, bytes(65536))
    os.set_blocking(writing, True)
    os.set_inheritable(writing, True)
    job = JOB.replace("echo no error >&2; ", "")
    command = [sys.executable, "-m", "tracer", "run", "--record", "run.oomtrace", "--", "sh", "-c", job]
    environ = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=writing, text=True
    ) as tracer:
        os.close(writing)
        wait_for((tmp_path / "evidence").exists, "the job to end")
        with os.fdopen(reading, "rb") as pipe:
            said = pipe.read()
        out = tracer.stdout.read()

    assert (out, tracer.returncode, (tmp_path / "evidence").read_text()) == plain
    assert b"The job exited with status 7" in said


def stand_still_until_the_job_has_ended(tracer, folder):
    armed(tracer, folder)
    tracer.send_signal(signal.SIGSTOP)
    wait_for(lambda: state_of(tracer.pid) == "T", "the tracer to stop")
    (folder / "hold").unlink()
    wait_for(lambda: said(folder / "evidence"), "the job to end")
    tracer.send_signal(signal.SIGCONT)


def test_a_tracer_that_is_stopped_for_a_while_holds_nothing_up(under, plain, tmp_path, oomtrace):
    (tmp_path / "hold").touch()
    tracer = under(options="--record run.oomtrace --ready-file ready", wait=False)
    stand_still_until_the_job_has_ended(tracer, tmp_path)

    result, err = under.finish(tracer)
    assert result == plain
    assert "proved" in err


TINY_RING = """
import functools, sys
from tracer.kernel.handover import Limits
from tracer.pipeline import machine
machine.open_session = functools.partial(machine.open_session, limits=Limits(ring_bytes=4096))
from tracer.cli import main
sys.exit(main())
"""


def test_what_finds_no_room_is_counted_and_told_and_the_job_is_not_slowed(can_trace, oomtrace, plain, tmp_path):
    (tmp_path / "hold").touch()
    # The children are forked while the tracer stands still: all of them at once, into one page.
    job = "while [ -e hold ]; do sleep 0.02; done\n" + JOB.replace("-lt 20", "-lt 300").replace("$n) &", "7) &")
    command = [sys.executable, "-c", TINY_RING, "run", "--record", "run.oomtrace", "--ready-file", "ready"]
    tracer = subprocess.Popen(
        [*command, "--", "sh", "-c", job], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "80"},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    stand_still_until_the_job_has_ended(tracer, tmp_path)
    run = oomtrace.finish(tracer)

    assert (run.out, run.code) == ("end of 300\n", plain[1])
    lost = run.events(Losses)[-1].total
    assert lost + len(run.events(ProcessForked)) >= 300
    assert lost > 0
    assert run.primary["strength"] != "proved"
    assert any("process_forked" in caveat and "Lost" in caveat for caveat in run.verdict["caveats"])


def test_a_tracer_with_hardly_any_memory_gives_up_watching_and_not_the_job(under, plain, memory_cgroup):
    memory_cgroup.limit(64 << 20)
    result, err = under(f"echo $$ > {memory_cgroup.path}/cgroup.procs")

    assert result == plain
    assert "The job exited with status 7" in err

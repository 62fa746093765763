# SPDX-License-Identifier: Apache-2.0
"""`oomtrace attach` and `stop` up to the point where the kernel is needed, and over stand-in sources from there on."""

import contextlib
import os
import signal
import subprocess
import sys
import threading

import pytest

from tests.unit.pipeline.stand_ins import sources
from tracer.cli import main, targets
from tracer.errors import LoaderFailed
from tracer.job.pidfile import PidFile, Recorder
from tracer.sources.cgroups import CgroupSource
from tracer.sources.processes import ProcessSource


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine without BPF, whose processes are real."""

    @contextlib.contextmanager
    def opened(*, need_kernel=False):
        if need_kernel:
            raise LoaderFailed("import", "no bcc")
        yield sources(processes=ProcessSource())

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tracer.cli.attach.open_sources", opened)
    monkeypatch.setattr("tracer.pipeline.attach.shun_oom_killer", lambda: False)
    monkeypatch.setattr("tracer.job.pidfile.folder_of", lambda *_: str(tmp_path / "list"))
    monkeypatch.delenv("SUDO_UID", raising=False)
    return tmp_path


@pytest.fixture
def sleeper():
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize(
    "options, said",
    [
        ([], "nothing to attach to\ntry: sudo oomtrace attach --pid PID (or see --help)"),
        (["--pid", "x"], "x is no process id"),
        (["--pid", "-1"], ""),
        (["--pid", "0"], "0 is no process id"),
        (["--pid", "9" * 40], "is no process id"),
        (["--pid", "²"], "² is no process id"),
        (["--pid", "\x1b[31m"], "\\x1b[31m is no process id"),
        (["--pid", str(os.getpid())], "is oomtrace itself"),
        (["--pid", "1", "--cgroup", "/"], "give --pid or --cgroup, not both"),
        (["--pid", "1", "--unit", "a", "--container", "b"], "give --pid or --container or --unit, not all"),
        (["--container", ""], "--container needs an id"),
        (["--container", "docker://"], "--container needs an id"),
        (["--slurm-job", "12_3"], "12_3 is no Slurm job: give its number"),
        (["--slurm-job", "12.weird"], "12.weird is no Slurm job"),
        (["--slurm-job", "\x1b[2J"], "\\x1b[2J is no Slurm job"),
        (["--unit", ""], "--unit needs a name"),
        (["--unit", "a/../b"], "a/../b is no name of a unit"),
        (["--pid", "1", "--detach", "--record", "-"], "--detach without a recording needs --report FILE"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_wrong_usage_and_leaves_nothing(machine, capsys, options, said):
    assert main(["attach", *options]) == 2
    assert said in capsys.readouterr().err
    assert os.listdir(machine) == []


def test_a_process_that_is_not_there_is_told_in_one_line(machine, capsys, sleeper):
    sleeper.kill()
    sleeper.wait()

    assert main(["attach", "--pid", str(sleeper.pid)]) == 3
    err = capsys.readouterr().err
    assert err == f"oomtrace: no process {sleeper.pid}: it has ended, or is in another pid namespace\n"
    assert os.listdir(machine) == []


def test_a_zombie_has_ended_already(machine, capsys, sleeper):
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)

    assert main(["attach", "--pid", str(sleeper.pid)]) == 3
    assert f"process {sleeper.pid} (sleep) has ended already" in capsys.readouterr().err


def test_of_a_thread_the_process_is_told(machine, capsys):
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert main(["attach", "--pid", str(thread.native_id)]) == 3
    finally:
        done.set()
        thread.join()

    said = f"{thread.native_id} is a thread of process {os.getpid()}: oomtrace attach --pid {os.getpid()}"
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("path", ["/no/such/cgroup", "relative", "/../..", "/sys/fs/cgroup/nonsense/x"])
def test_a_cgroup_that_is_not_there_is_told_in_one_line(machine, capsys, path):
    assert main(["attach", "--cgroup", path]) == 3
    assert "memory c" in capsys.readouterr().err
    assert os.listdir(machine) == []


def test_where_bpf_is_required_nothing_is_left_behind(machine, capsys, sleeper):
    assert main(["attach", "--pid", str(sleeper.pid), "--require-bpf"]) == 5
    assert "no bcc" in capsys.readouterr().err
    assert os.listdir(machine) == []


def test_without_bpf_it_watches_to_the_end_and_says_what_is_missing(machine, capsys):
    parent = subprocess.Popen(["sh", "-c", "sleep 0.3"])
    reaper = threading.Timer(0.1, parent.wait)
    reaper.start()

    assert main(["attach", "--pid", str(parent.pid), "--record", "a.rec"]) == 0
    reaper.join()
    err = capsys.readouterr().err
    assert "so there will be no proof: no BPF here" in err
    assert f"attached to process {parent.pid} (s" in err
    assert "every process of it has ended" in err
    assert main(["report", "a.rec"]) == 0
    assert "vanished" in capsys.readouterr().out


def test_ctrl_c_ends_the_watching_and_the_report_says_that_it_still_runs(machine, capsys, sleeper, monkeypatch):
    real = targets.describe
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    monkeypatch.setattr("tracer.cli.targets.describe", lambda target: (timer.start(), real(target))[1])

    assert main(["attach", "--pid", str(sleeper.pid), "--report", "out.txt"]) == 0
    assert sleeper.poll() is None
    assert "the watching was ended; 1 process of it still runs" in capsys.readouterr().err
    assert "still ran when the watching ended" in (machine / "out.txt").read_text()


def test_a_cgroup_may_be_named_by_its_path_or_its_folder():
    cgroups = CgroupSource()
    if cgroups.mount is None or cgroups.mount.root != "/":
        pytest.skip("no memory cgroups here")
    own = cgroups.memory_cgroup_of(os.getpid())

    assert cgroups.path_of(own) == own
    assert cgroups.path_of(cgroups.folder(own)) == own
    assert cgroups.path_of(cgroups.mount.mount_point) == "/"
    assert os.getpid() in cgroups.processes(own)
    assert os.getpid() in cgroups.processes("/")
    assert cgroups.processes("/no/such") is None
    assert targets.find_target(targets.Asked(cgroup=own)).cgroup == own


RECORDER = """
import os, signal, sys
from tracer.job.pidfile import PidFile, Recorder
signal.signal(signal.SIGTERM, lambda *_: sys.exit())
path, recording = sys.argv[1:]
with PidFile.create(path, Recorder(os.getpid(), "process 7 (x\\x1b)", recording, None, "2026-01-01")):
    print("ready", flush=True)
    signal.pause()
"""


@pytest.fixture
def recorder(machine):
    (machine / "list").mkdir(mode=0o700)
    started = []

    def start(name):
        path = machine / "list" / f"{name}.json"
        process = subprocess.Popen(
            [sys.executable, "-c", RECORDER, str(path), f"/tmp/{name}'s.oomtrace"],
            env={"PYTHONPATH": os.pathsep.join(sys.path)}, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append(process)
        assert process.stdout.readline() == "ready\n"
        return process, path

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_the_only_recorder_is_stopped_without_being_named(recorder, capsys):
    process, path = recorder("a")

    assert main(["stop"]) == 0
    assert process.wait(20) == 0
    out = capsys.readouterr().out
    assert "the recording is /tmp/a's.oomtrace\n" in out
    assert "oomtrace report '/tmp/a'\"'\"'s.oomtrace'\n" in out
    assert not path.exists()


def test_of_several_one_has_to_be_named_by_its_pid_or_its_file(recorder, capsys):
    (one, _), (other, path) = recorder("a"), recorder("b")

    assert main(["stop"]) == 2
    err = capsys.readouterr().err
    assert "2 recorders run; say which: oomtrace stop PID" in err
    assert {str(one.pid), str(other.pid)} == set(err.partition("(")[2].partition(")")[0].split(", "))
    assert err.endswith("\ntry: oomtrace stop --list\n")
    assert "\\n" not in err
    assert main(["stop", str(one.pid)]) == 0
    assert one.wait(20) == 0
    assert other.poll() is None
    assert main(["stop", str(path)]) == 0
    assert other.wait(20) == 0


def test_the_list_says_who_runs_and_stops_nobody(recorder, capsys):
    assert main(["stop", "--list"]) == 0
    assert "no recorder runs" in capsys.readouterr().out
    process, _ = recorder("a")
    assert main(["stop", "--list"]) == 0
    assert capsys.readouterr().out.startswith(f"{process.pid}  process 7")
    assert process.poll() is None


@pytest.mark.parametrize("which", [[], ["4194303"], ["/no/such.json"]])
def test_a_recorder_that_does_not_run_cannot_be_stopped(recorder, capsys, which):
    assert main(["stop", *which]) == 3
    assert capsys.readouterr().err.count("\n") == 1


def test_nobody_who_merely_has_the_pid_is_signalled(recorder, sleeper, capsys):
    process, path = recorder("a")
    path.write_text(path.read_text().replace(f'"pid": {process.pid}', f'"pid": {sleeper.pid}'))

    assert main(["stop", str(path)]) == 3
    assert main(["stop", str(sleeper.pid)]) == 3
    assert sleeper.poll() is None
    assert process.poll() is None


def test_one_that_does_not_end_in_time_is_told(machine, capsys, monkeypatch):
    monkeypatch.setattr("tracer.cli.stop.PATIENCE_S", 0.1)
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        who = Recorder(os.getpid(), "x", None, None, "now")
        with PidFile.create(str(machine / "me"), who):
            assert main(["stop", str(machine / "me")]) == 5
    finally:
        signal.signal(signal.SIGTERM, before)
    assert "is still busy" in capsys.readouterr().err

# SPDX-License-Identifier: Apache-2.0
"""`oomtrace attach` beside real jobs that run already: whole trees, real kills, targets that vanish, recorders."""

import json
import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.architecture.checkout import ROOT
from tests.kernel.attaching import Truth
from tests.kernel.running import said
from tests.kernel.workload import MemoryCgroup
from tests.waiting import DEADLINE_S, has_ended, wait_for
from tracer.attribution.tree import Tree
from tracer.events import Attached, Disarmed, JobStarted, ProcessForked, TrainingLine
from tracer.recording import read_recording
from tracer.verdict.story import Story

MIB = 1 << 20
FORKING = ROOT / "tests" / "kernel" / "forking.py"
NO_BPF = ROOT / "tests" / "kernel" / "no_bpf.py"
CHILDREN = 50


@pytest.fixture
def forking(memory_cgroup, tmp_path):
    """A tree of many processes that fork all the while, in a memory cgroup without a limit."""
    # Not in it itself: what holds processes can have no limited cgroup below it, in version 2.
    home = memory_cgroup.child("home")
    job = subprocess.Popen(
        ["sh", "-c", f'echo $$ > {home.path}/cgroup.procs; exec "$@"', "sh",
         sys.executable, "-I", "-S", str(FORKING), str(tmp_path), str(CHILDREN)]
    )  # fmt: skip
    log = tmp_path / "log"

    def lines(what: str) -> int:
        return log.read_text().count(what) if log.exists() else 0

    wait_for(lambda: lines("B") > 3 * CHILDREN, "the tree to grow")
    yield job, lines
    (tmp_path / "stop").touch()
    job.wait(DEADLINE_S)
    wait_for(lambda: not (home.path / "cgroup.procs").read_text(), "the tree to end")


def members(path: Path) -> Tree:
    return Tree.of(Story(read_recording(path)).events)


def test_of_a_tree_that_forks_all_the_while_no_process_is_missed_and_a_kill_in_it_is_proved(
    attach, forking, memory_cgroup, tmp_path
):
    job, lines = forking
    process = attach.start("--pid", job.pid)
    births = lines("B")
    wait_for(lambda: lines("B") > births + 2 * CHILDREN, "it to fork on")
    small: MemoryCgroup = memory_cgroup.child("small")
    small.limit(48 * MIB)
    children = Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
    victim = int(children[CHILDREN // 2])
    small.add(victim)
    (tmp_path / f"eat.{victim}").touch()
    wait_for(lambda: has_ended(victim), "the kill")
    (tmp_path / "stop").touch()
    run = attach.finish(process)
    job.wait(DEADLINE_S)

    [attached] = run.events(Attached)
    truth, tree = Truth(tmp_path / "log"), members(run.path)
    # One that was an orphan when we came is nobody's any more.
    wanted = {
        born.id: born.parent
        for born in truth.born.values()
        if truth.alive(born.id, attached.ts_ns) and truth.alive(born.parent, attached.began_ns)
    }
    found = {identity: tree.members[identity].parent for identity in wanted if identity in tree.members}
    found[tree.root] = wanted[tree.root]
    assert attached.complete
    assert attached.processes > CHILDREN
    assert len(wanted) > 3 * CHILDREN
    assert wanted.keys() - found.keys() == set()
    assert {identity: found[identity] for identity in wanted} == wanted
    assert tree.members.keys() - truth.born.keys() == set()
    assert (run.code, run.primary["cause"], run.primary["strength"]) == (0, "host_oom_cgroup", "proved")
    assert [run.links[number] for number in (1, 2, 3, 4)] == ["present"] * 4
    assert run.primary["victim"]["pid"] == victim
    assert "seen in /proc at attach" in run.primary["proof"][2]["statement"]


def test_one_process_is_watched_to_its_end_and_its_status_is_the_kernels(attach, hog):
    process = hog()
    watching = attach.start("--pid", process.pid)
    process.tell("os._exit(7)")
    run = attach.finish(watching)

    assert run.code == 0
    assert (run.primary["cause"], run.primary["strength"], run.primary["exit_code"]) == ("exited", "likely", 7)
    assert "the kernel killed nothing of the job for want of memory since oomtrace attached" in run.primary["summary"]
    assert run.verdict["job"]["status"] == "exit 7"
    assert run.verdict["job"]["argv"][-1].endswith("hog.py")
    assert run.verdict["job"]["started_at"] < run.verdict["job"]["attached_at"]
    assert "every process of it has ended" in run.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_watching_and_never_the_job(attach, hog, number):
    process = hog()
    watching = attach.start("--pid", process.pid)
    watching.send_signal(number)
    run = attach.finish(watching)

    assert run.code == 0
    assert process.do("print(end='')") == "done"
    assert run.verdict["job"]["status"] == "running"
    assert any("ended the watching" in caveat for caveat in run.verdict["caveats"])
    assert any("1 process of it still ran" in caveat for caveat in run.verdict["caveats"])
    assert "1 process of it still runs" in run.err
    assert run.events(Disarmed) != []


def test_a_kill_before_it_attached_is_not_claimed(attach, hog, memory_cgroup):
    memory_cgroup.limit(32 * MIB)
    process = hog()
    kills = memory_cgroup.key("memory.events", "memory.oom_control", "oom_kill")
    move = f'open("{memory_cgroup.path}/cgroup.procs", "w").write("0")'
    victim = int(process.do(f"child('{move}; anon(99 << 20)')"))
    wait_for(lambda: has_ended(victim), "the kill")
    assert memory_cgroup.key("memory.events", "memory.oom_control", "oom_kill") == kills + 1
    watching = attach.start("--pid", process.pid)
    process.tell("os._exit(0)")
    run = attach.finish(watching)

    assert not any(incident["cause"].startswith("host_oom") for incident in run.verdict["incidents"])


def test_a_process_that_ends_while_bpf_is_being_loaded_is_told_as_gone(attach, hog):
    process = hog()
    watching = subprocess.Popen(
        attach.command("attach", "--pid", process.pid, "--record", attach.path),
        env=attach.environ, cwd=attach.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    attach.started.append(watching)
    wait_for(lambda: attach.path.exists() or watching.poll() is not None, "the recording to begin")
    process.close()
    run = attach.finish(watching)

    assert run.code == 0
    assert "Traceback" not in run.err
    assert run.events(JobStarted)[0].attached
    assert run.primary["cause"] in ("inconclusive", "sigkill")


def test_a_cgroup_is_watched_with_those_who_enter_it_later_until_it_is_removed(attach, hog, memory_cgroup):
    inside = memory_cgroup.child("inside")
    inside.limit(48 * MIB)
    first = hog(inside)
    watching = attach.start("--cgroup", f"/{memory_cgroup.path.name}")
    later = hog(inside)
    wait_for(lambda: b'"tgid":%d,' % later.pid in attach.path.read_bytes(), "it to be found")
    later.tell(f"child('anon({99 * MIB})')")
    wait_for(lambda: inside.key("memory.events", "memory.oom_control", "oom_kill") > 0, "the kill")
    for process in (first, later):
        process.close()
    wait_for(lambda: not (inside.path / "cgroup.procs").read_text(), "it to become empty")
    inside.path.rmdir()
    memory_cgroup.path.rmdir()
    run = attach.finish(watching)
    memory_cgroup.path.mkdir()  # which the fixture removes

    assert {event.tgid for event in run.events(JobStarted)} == {first.pid, later.pid}
    assert (run.primary["cause"], run.primary["strength"]) == ("host_oom_cgroup", "proved")
    assert run.primary["limit"]["cgroup"] == f"/{memory_cgroup.path.name}/inside"
    assert "its cgroup was removed" in run.err


def test_an_empty_cgroup_is_waited_for(attach, hog, memory_cgroup):
    watching = attach.start("--cgroup", memory_cgroup.path)
    process = hog(memory_cgroup)
    wait_for(lambda: b'"kind":"JobStarted"' in attach.path.read_bytes(), "it to be found")
    watching.send_signal(signal.SIGINT)
    run = attach.finish(watching)

    assert [event.tgid for event in run.events(JobStarted)] == [process.pid]
    assert "0 processes under watch (it waits for the first)" in run.err


@pytest.mark.parametrize("under", [(), (sys.executable, NO_BPF)], ids=["bpf", "no-bpf"])
def test_oomtrace_leaves_itself_out_of_what_it_watches(attach, tmp_path, under):
    # The shell that starts oomtrace is what is watched; what it starts then is there to be found.
    words = (*under, sys.executable, "-m", "tracer", "attach", "--record", attach.path, "--ready-file", attach.ready)
    script = f"{shlex.join(map(str, words))} --pid $$ & read _; sleep 60 <&- 2>&- & echo $!; read _; kill $!"
    shell = subprocess.Popen(
        ["sh", "-c", script], env=attach.environ, cwd=tmp_path, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    attach.started.append(shell)
    wait_for(lambda: said(attach.ready), "it to watch")
    tracer = int(attach.ready.read_text())
    print(file=shell.stdin, flush=True)
    child = int(shell.stdout.readline())
    wait_for(lambda: child in {identity.tgid for identity in members(attach.path).members}, "the child to be found")
    err = shell.communicate("\n", timeout=DEADLINE_S)[1]

    assert "oomtrace itself is among what it watches, and is left out" in err
    assert "every process of it has ended" in err
    tree = members(attach.path)
    assert tree.root.tgid == shell.pid
    assert tracer not in {identity.tgid for identity in tree.members}


@pytest.fixture
def detached(attach):
    """Attaches and goes to the background; the recorders are ended."""
    pids = []

    def start(*words, **more):
        done = attach.run("attach", *words, "--record", attach.path, "--detach", **more)
        assert done.returncode == 0, done.stderr
        pids.append(int(done.stderr.rsplit("oomtrace stop ", 1)[1]))
        return pids[-1], done

    yield start
    for pid in pids:
        if not has_ended(pid):
            os.kill(pid, signal.SIGKILL)
            wait_for(lambda pid=pid: has_ended(pid), "the recorder to end")
        Path(f"/run/oomtrace/{pid}.json").unlink(missing_ok=True)


def test_a_recorder_in_the_background_watches_until_it_is_stopped(attach, detached, hog):
    process = hog()
    pid, done = detached("--pid", process.pid)
    assert f"attached to process {process.pid}" in done.stderr
    assert str(attach.path) in done.stderr
    assert os.getsid(pid) == pid
    assert {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in (0, 1, 2)} == {"/dev/null"}
    assert attach.path.stat().st_mode & 0o777 == 0o600
    os.kill(pid, signal.SIGHUP)  # as of a terminal that goes away
    listed = attach.run("stop", "--list").stdout
    assert f"{pid}  process {process.pid} " in listed
    child = int(process.do("child('os._exit(0)')"))
    stopped = attach.run("stop", pid)
    run = attach.judged()

    assert stopped.returncode == 0
    assert f"the recording is {attach.path}" in stopped.stdout
    assert f"oomtrace report {attach.path}" in stopped.stdout
    assert has_ended(pid)
    assert not Path(f"/run/oomtrace/{pid}.json").exists()
    assert child in {event.tgid for event in run.events(ProcessForked)}
    assert run.events(Disarmed) != []
    assert process.do("print(end='')") == "done"


def test_a_kill_that_a_recorder_in_the_background_saw_is_proved_and_reported(attach, detached, hog, memory_cgroup):
    memory_cgroup.limit(32 * MIB)
    process = hog(memory_cgroup)
    pid, _ = detached("--pid", process.pid, "--report", attach.folder / "report.txt")
    process.tell(f"anon({99 * MIB})")
    wait_for(lambda: has_ended(pid), "the recorder to end with the job")
    run = attach.judged()

    assert (run.primary["cause"], run.primary["strength"]) == ("host_oom_cgroup", "proved")
    assert "(the job itself)" in run.primary["proof"][2]["statement"]
    assert "Killed by the kernel" in (attach.folder / "report.txt").read_text()


def test_a_recorder_that_was_killed_is_stale_and_its_file_is_removed(attach, detached, hog):
    process = hog()
    pid, _ = detached("--pid", process.pid, "--pid-file", attach.folder / "pid")
    assert Path(f"/run/oomtrace/{pid}.json").stat().st_mode & 0o777 == 0o600
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: has_ended(pid), "it to be gone")

    assert f"{pid}  " not in attach.run("stop", "--list").stdout
    assert not Path(f"/run/oomtrace/{pid}.json").exists()
    assert attach.run("stop", attach.folder / "pid").returncode == 3
    assert attach.run("stop", pid).returncode == 3
    assert attach.judged().verdict["job"]["status"] == "running"


def test_few_open_files_of_the_caller_do_not_blind_it(attach, detached, hog):
    process = hog()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = (16, hard)

    detached("--pid", process.pid, "--require-bpf", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, few))


def test_what_fails_before_it_watches_is_said_at_the_terminal_and_nothing_is_left(attach, hog):
    process = hog()
    attach.path.write_text("mine")
    done = attach.run("attach", "--pid", process.pid, "--record", attach.path, "--detach")

    assert (done.returncode, done.stderr) == (
        2, f"oomtrace: {attach.path}: exists already, and a recording is never overwritten\n"
    )  # fmt: skip
    assert f"process {process.pid} " not in attach.run("stop", "--list").stdout


def test_a_target_that_is_not_there_is_told_in_one_line(attach, hog):
    process = hog()
    zombie = int(process.do("child('os._exit(0)')"))
    process.do("thread(lambda: time.sleep(600))")
    thread = next(int(tid) for tid in os.listdir(f"/proc/{process.pid}/task") if int(tid) != process.pid)
    wait_for(lambda: has_ended(zombie), "the child to end")
    expected = {
        zombie: f"process {zombie} ({Path(f'/proc/{zombie}/comm').read_text().strip()}) has ended already",
        thread: f"{thread} is a thread of process {process.pid}: oomtrace attach --pid {process.pid}",
        2: "process 2 (kthreadd) is a thread of the kernel",
        4_194_303: "no process 4194303",
    }
    for pid, said_so in expected.items():
        done = attach.run("attach", "--pid", pid)
        assert (done.returncode, done.stderr.count("\n")) == (3, 1)
        assert said_so in done.stderr
    assert list(attach.folder.iterdir()) == []


NOBODY = 65534
RANK = """
import json, os, sys, time
told = {"message": "RuntimeError: it was the data", "extraInfo": {"timestamp": str(int(time.time()))}}
while not os.path.exists("go"): time.sleep(0.02)
path = os.environ["TORCHELASTIC_ERROR_FILE"]
if os.access(path, os.W_OK): json.dump({"message": told}, open(path, "w"))
sys.exit(1)
"""


@pytest.mark.parametrize("owner, told", [(NOBODY, 1), (0, 0)])
def test_what_a_rank_left_in_its_error_file_is_read_with_its_own_rights(attach, tmp_path, owner, told):
    folder = Path(tempfile.mkdtemp(prefix="oomtrace-"))  # where another user may look as well
    folder.chmod(0o755)
    secret = json.dumps({"message": {"message": "RuntimeError: it was the data", "extraInfo": {"timestamp": "1"}}})
    (folder / "error.json").write_text(secret if owner == 0 else "")
    (folder / "error.json").chmod(0o600)
    os.chown(folder / "error.json", owner, owner)
    environ = {"TORCHELASTIC_ERROR_FILE": str(folder / "error.json"), "RANK": "3", "PATH": os.environ["PATH"]}
    rank = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", RANK], env=environ, cwd=folder, user=NOBODY, group=NOBODY, extra_groups=[]
    )
    try:
        process = attach.start("--pid", rank.pid)
        wait_for(lambda: b"TORCHELASTIC_ERROR_FILE" in attach.path.read_bytes(), "it to be looked at")
        (folder / "go").touch()
        assert rank.wait(DEADLINE_S) == 1
        run = attach.finish(process)
    finally:
        rank.kill()
        shutil.rmtree(folder)

    lines = [one for one in run.events(TrainingLine) if one.stream == "error_file"]
    assert [("RuntimeError: it was the data", 3)] * told == [(one.text, one.rank) for one in lines]

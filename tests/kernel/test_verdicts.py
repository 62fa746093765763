# SPDX-License-Identifier: Apache-2.0
"""Whole verdicts over real kernels' hard cases: a mark that is no kill, a limit far above, names and text that lie."""

import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernel.running import said
from tests.kernel.workload import MemoryCgroup
from tests.waiting import wait_for
from tracer.events import LoggedKill, OomMark

pytestmark = pytest.mark.kernel
MIB = 1 << 20
FREEZER = Path("/sys/fs/cgroup/freezer")
EATER = "x = []\nwhile True: x.append(bytes([1]) * (1 << 20))"
SLEEPER = """
import os, time
while not os.path.exists("moved"):
    time.sleep(0.01)
kept = bytes([1]) * (30 << 20)
open("kept", "w").close()
time.sleep(600)
"""


@pytest.fixture
def freezer(can_trace, does_not_apply):
    """A freezer cgroup (v1): a SIGKILL to what is frozen stays pending."""
    if not (FREEZER / "cgroup.procs").exists():
        does_not_apply("cgroup v2 freezes in another way: there a SIGKILL ends what is frozen")
    folder = FREEZER / f"oomtrace-test-{secrets.token_hex(4)}"
    folder.mkdir()
    yield folder
    (folder / "freezer.state").write_text("THAWED")
    wait_for(lambda: not (folder / "cgroup.procs").read_text(), "the freezer to become empty")
    folder.rmdir()


def ready_pid(process: subprocess.Popen, path: Path) -> int:
    wait_for(lambda: said(path) or process.poll() is not None, "the job to run")
    return int(path.read_text())


def test_a_process_that_was_dying_when_it_was_marked_was_not_killed_by_the_oom_killer(
    oomtrace, memory_cgroup, freezer, hog, tmp_path
):
    memory_cgroup.limit(64 * MIB)
    ready = tmp_path / "ready"
    process = oomtrace.start(sys.executable, "-S", "-c", SLEEPER, options=("--ready-file", str(ready)))
    pid = ready_pid(process, ready)
    memory_cgroup.add(pid)
    # Memory stays with the cgroup in which it was first touched.
    (tmp_path / "moved").touch()
    wait_for((tmp_path / "kept").exists, "it to take its memory")
    Path(f"/proc/{pid}/oom_score_adj").write_text("1000")
    eater = hog(memory_cgroup)
    (freezer / "cgroup.procs").write_text(str(pid))
    (freezer / "freezer.state").write_text("FROZEN")
    wait_for(lambda: "FROZEN" in (freezer / "freezer.state").read_text(), "it to freeze")
    subprocess.run(["kill", "-9", str(pid)], check=True)
    kills_before = memory_cgroup.key("memory.events", "memory.oom_control", "oom_kill")
    # More than its limit as long as the frozen one is there: the OOM killer chooses that one, marks and thaws it.
    eater.do(f"anon({60 * MIB})")
    run = oomtrace.finish(process)

    assert run.events(OomMark) != []
    assert memory_cgroup.key("memory.events", "memory.oom_control", "oom_kill") == kills_before
    assert (run.primary["cause"], run.primary["strength"]) == ("sigkill", "proved")
    assert (run.primary["sender"]["comm"], run.primary["sender"]["kind"]) == ("kill", "outside")
    assert any("already dying" in caveat for caveat in run.primary["caveats"])


def test_the_grandparent_whose_limit_was_hit_is_named_with_every_level(oomtrace, memory_cgroup):
    memory_cgroup.limit(64 * MIB)
    parent = memory_cgroup.child("parent")
    parent.limit(1024 * MIB)
    child = parent.child("child")
    script = f"echo $$ > {child.path}/cgroup.procs; exec {sys.executable} -S -c '{EATER}'"
    run = oomtrace("sh", "-c", script)
    limit = run.primary["limit"]
    name = f"/{memory_cgroup.path.name}"

    assert (run.primary["cause"], run.primary["strength"]) == ("host_oom_cgroup", "proved")
    assert limit["cgroup"] == name
    assert [level["cgroup"] for level in limit["chain"]] == [f"{name}/parent/child", f"{name}/parent", name, "/"]
    assert [level["limit_bytes"] for level in limit["chain"]] == [None, 1024 * MIB, 64 * MIB, None]
    assert all(level["usage_bytes"] > 60 * MIB for level in limit["chain"])
    assert [level["owner"] for level in limit["chain"]] == [False, False, True, False]
    assert run.err.count(name) > 1


FORGER = r"""
import ctypes, os, sys
def say(text):
    with open("/dev/kmsg", "w") as log:
        log.write(text)
line = "Memory cgroup out of memory: Killed process %d (python3) total-vm:9kB, anon-rss:9kB, file-rss:0kB, " \
       "shmem-rss:0kB, UID:0 pgtables:9kB oom_score_adj:0\n" % os.getppid()
for prefix in ("", "<3>", "<2>", "<2051>"):
    say(prefix + line)
ctypes.CDLL(None).prctl(15, b"x) total-vm:1kB", 0, 0, 0)
if sys.argv[1] == "eat":
    kept = []
    while True:
        kept.append(bytes([1]) * (1 << 20))
"""


@pytest.mark.parametrize("then", ["eat", "leave"])
def test_forged_log_lines_and_names_fool_nothing(oomtrace, then):
    script = (
        "import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-S', '-c', sys.argv[1], sys.argv[2]]) != 0)"
    )
    run = oomtrace(sys.executable, "-S", "-c", script, FORGER, then, options=("--memory-max", "64M"))
    forger = run.events(LoggedKill)

    if then == "leave":
        assert forger == []
        assert [i["cause"] for i in run.verdict["incidents"]] == ["exited"]
        assert run.code == 0
    else:
        assert [(e.pid, e.comm) for e in forger] == [(run.primary["victim"]["pid"], "x) total-vm:1kB")]
        assert (run.primary["cause"], run.primary["strength"]) == ("host_oom_cgroup", "proved")
        assert run.code == 1


def test_a_cgroup_with_a_lying_name_is_shown_as_it_is_called(oomtrace, memory_cgroup):
    lying: MemoryCgroup = memory_cgroup.child("a,oom_memcg=,task_memcg=,task=init,pid=1,uid=0")
    lying.limit(48 * MIB)
    script = f"echo $$ > '{lying.path}/cgroup.procs'; exec {sys.executable} -S -c '{EATER}'"
    run = oomtrace("sh", "-c", script)

    assert (run.primary["cause"], run.primary["strength"]) == ("host_oom_cgroup", "proved")
    assert run.primary["limit"]["cgroup"] == f"/{memory_cgroup.path.name}/{lying.path.name}"

# SPDX-License-Identifier: Apache-2.0
"""`oomtrace run --log`: the job's output is its own, a copy lies in a file, its lines stand beside the kill."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.checkout import ROOT
from tests.kernel.running import said
from tests.screen import PROMPT
from tests.waiting import DEADLINE_S, SLOWER, has_ended, wait_for
from tracer.events import JobEnded, Note, OomMark, ProcessExited, TrainingLine

DATALOADER = ROOT / "tracer" / "repro" / "workloads" / "dataloader.py"
LIMIT = ("--memory-max", "256M", "--swap-max", "0")
LOG = ("--log", "train.log")
SECRETS = ("hunter2-in-a-line-of-no-interest", "hf_secretInALineOfNoInterest0123")
# As torch says it of a worker that the kernel killed, between lines that are nobody's business.
RANK = f"""
import os, signal, sys, time
print("password: {SECRETS[0]}", flush=True)
for epoch in range(3):
    print(f"Epoch {{epoch}}/3 {SECRETS[1]}", flush=True)
worker = os.fork()
if worker == 0:
    hold = []
    while True: hold.append(bytes([1]) * (1 << 20))
_, status = os.waitpid(worker, 0)
print("{SECRETS[1]}", file=sys.stderr)
how = signal.strsignal(os.WTERMSIG(status))
raise RuntimeError(f"DataLoader worker (pid {{worker}}) is killed by signal: {{how}}. ")
"""


def test_a_real_kill_and_what_the_loader_says_of_it_stand_on_one_timeline(oomtrace, tmp_path):
    run = oomtrace(sys.executable, DATALOADER, "--rate-mib", 120, options=(*LIMIT, *LOG))

    [line] = [one for one in run.events(TrainingLine) if one.about == "worker_killed"]
    victim = run.primary["victim"]["pid"]
    [mark] = [one for one in run.events(OomMark) if one.tgid == victim]
    [gone] = [one for one in run.events(ProcessExited) if one.tgid == victim]
    [ended] = run.events(JobEnded)
    assert (run.primary["cause"], run.primary["strength"], run.code) == ("host_oom_cgroup", "proved", 1)
    assert (line.pids, line.signal) == ((victim,), 9)
    assert mark.ts_ns < gone.ts_ns < line.ts_ns < ended.ts_ns
    assert "the job's own log says so too" in run.primary["proof"][3]["statement"]
    rows = [row for row in run.err.splitlines() if re.search(r" (kill|exit|log) +worker 2 ", row)]
    assert [re.search(r" (kill|exit|log) ", row)[1] for row in rows] == ["kill", "exit", "log"]
    assert (tmp_path / "train.log").read_text() in run.out + run.err


def test_of_what_the_job_writes_only_the_lines_that_matter_are_recorded(oomtrace, tmp_path):
    (tmp_path / "rank.py").write_text(RANK)
    run = oomtrace(sys.executable, "-S", "rank.py", options=("--memory-max", "64M", "--swap-max", "0", *LOG))

    lines = run.events(TrainingLine)
    log = (tmp_path / "train.log").read_text()
    recorded = run.path.read_bytes().decode("utf-8", "backslashreplace")
    assert all(secret in log for secret in SECRETS)
    assert {"progress", "worker_killed"} <= {line.about for line in lines}
    assert [secret for secret in SECRETS if secret in recorded + json.dumps(run.verdict)] == []


def test_the_output_and_the_log_are_what_the_job_wrote(oomtrace, tmp_path):
    run = oomtrace("sh", "-c", "seq 1 50000; printf 'no newline\\001' >&2; exit 3", options=LOG)

    assert run.code == 3
    assert run.out == "".join(f"{number}\n" for number in range(1, 50001))
    assert run.err.startswith("no newline\x01\nThe job exited") or run.err.startswith("no newline\x01\n\nThe job")
    assert sorted((tmp_path / "train.log").read_text()) == sorted(run.out + "no newline\x01")
    assert [note for note in run.events(Note) if "output" in note.text] == []


def test_a_log_is_never_written_over_and_no_job_is_started_then(oomtrace, tmp_path):
    (tmp_path / "train.log").write_text("dear to somebody")
    process = oomtrace.start("touch", "ran", options=LOG)
    out, err = process.communicate(timeout=60 * SLOWER)

    assert (process.returncode, out) == (2, "")
    assert err.startswith("oomtrace: train.log: exists already, and is not written over\n")
    assert {path.name for path in tmp_path.iterdir()} == {"train.log"}
    assert (tmp_path / "train.log").read_text() == "dear to somebody"


@pytest.mark.parametrize("log", [(), LOG], ids=["plain", "log"])
def test_a_job_that_never_ran_leaves_nothing(oomtrace, tmp_path, log):
    process = oomtrace.start("no-such-command-anywhere", options=log)
    assert process.communicate(timeout=60 * SLOWER)[1] == "oomtrace: no-such-command-anywhere: command not found\n"

    assert list(tmp_path.iterdir()) == []


def test_a_tracer_that_is_killed_costs_the_job_not_a_byte(oomtrace, tmp_path):
    job = "echo before; while ! [ -e go ]; do sleep 0.02; done; seq 1 20000 && echo after >&2; echo $? > status"
    process = oomtrace.start("sh", "-c", job, options=(*LOG, "--ready-file", "ready"))
    wait_for(lambda: said(tmp_path / "ready"), "the job to run")
    wait_for(lambda: "before" in (tmp_path / "train.log").read_text(), "its first line")

    process.kill()
    process.wait(DEADLINE_S)
    (tmp_path / "go").touch()
    out, err = process.communicate(timeout=60 * SLOWER)

    numbers = "".join(f"{number}\n" for number in range(1, 20001))
    assert (out, err) == (f"before\n{numbers}", "after\n")
    assert (tmp_path / "status").read_text() == "0\n"
    assert sorted((tmp_path / "train.log").read_text()) == sorted(out + err)


def test_the_copier_stands_outside_of_the_jobs_cgroup_and_of_its_tree(oomtrace, tmp_path):
    job = "while ! [ -e go ]; do sleep 0.02; done"
    process = oomtrace.start("sh", "-c", job, options=("--memory-max", "64M", *LOG, "--ready-file", "ready"))
    wait_for(lambda: said(tmp_path / "ready"), "the job to run")
    children = [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
    [copier] = [pid for pid in children if b"copier.py" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    cgroup, adj = (Path(f"/proc/{copier}/{name}").read_text() for name in ("cgroup", "oom_score_adj"))
    tracers = [Path(f"/proc/{process.pid}/{name}").read_text() for name in ("cgroup", "oom_score_adj")]
    (tmp_path / "go").touch()
    run = oomtrace.finish(process)

    assert [cgroup, adj] == tracers
    assert copier not in {one.tgid for one in run.events(ProcessExited)}
    wait_for(lambda: has_ended(copier), "the copier to end")


def test_a_full_disk_costs_the_log_alone(oomtrace, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", "size=64k", "oomtrace-test", small]
    if subprocess.run(mounted, capture_output=True, check=False).returncode:
        pytest.skip("no tmpfs can be mounted here")
    try:
        run = oomtrace("sh", "-c", "seq 1 50000; exit 3", options=("--log", small / "train.log"))
    finally:
        subprocess.run(["umount", "-l", small], check=True)

    assert (run.code, run.out.count("\n")) == (3, 50000)
    assert "is not whole" in run.err.splitlines()[0]
    assert any("No space left on device" in note.text for note in run.events(Note))


def test_at_a_terminal_the_job_has_one_and_its_kill_is_proved_beside_its_words(can_trace, shell, tmp_path):
    run = f"'{sys.executable}' -m tracer run --record run.oomtrace --log train.log --memory-max 256M --swap-max 0"
    bash = shell()
    job = 'test -t 1 && test -t 2 && echo both; exec "$0" "$@"'
    bash.line(f"{run} -- sh -c '{job}' $PY {DATALOADER} --rate-mib 120")

    bash.until("both\n")
    pid = bash.until(r"DataLoader worker \(pid (\d+)\) is killed by signal: Killed\.")[1]
    bash.until("proved(?s:.)*own log(?s:.)*" + PROMPT)
    assert bash.run("echo free")[0] == "free\n"
    assert f"(pid {pid}) is killed by signal: Killed." in (tmp_path / "train.log").read_text()
    assert "\r" not in (tmp_path / "train.log").read_text()


def test_under_sudo_log_and_terminal_are_the_callers(sudoer, shell):
    (sudoer.home / "train.log").unlink(missing_ok=True)
    bash = shell(sudoer.environ, sudoer.home, sudoer.become)
    bash.line(
        "sudo oomtrace run --record - --log train.log -- sh -c 'echo through > /dev/stdout; echo $(id -un) there'"
    )

    bash.until(f"through\n{sudoer.name} there\n")
    bash.until(f"exit 0(?s:.)*{PROMPT}")
    found = (sudoer.home / "train.log").stat()
    assert (found.st_uid, found.st_mode & 0o777) == (sudoer.uid, 0o600)
    assert (sudoer.home / "train.log").read_text() == f"through\n{sudoer.name} there\n"


def test_what_a_rank_left_in_its_error_file_is_told_under_its_rank(oomtrace, tmp_path):
    rank = """
import json, os, sys, time
told = {"message": "RuntimeError: it was the data", "extraInfo": {"timestamp": str(int(time.time()))}}
while not os.path.exists("go"): time.sleep(0.02)
json.dump({"message": told}, open(os.environ["TORCHELASTIC_ERROR_FILE"], "w"))
sys.exit(1)
"""
    job = """
TORCHELASTIC_ERROR_FILE=$PWD/error.json RANK=3 LOCAL_RANK=1 "$0" -S -c "$1" &
until grep -q '"kind":"ProcessSeen".*"environ":{[^}]*TORCHELASTIC_ERROR_FILE' run.oomtrace; do
  n=$((n + 1)); [ $n -lt 1500 ] || exit 9
  sleep 0.02
done
: > go; wait $!
"""
    run = oomtrace("sh", "-c", job, sys.executable, rank)

    [line] = [one for one in run.events(TrainingLine) if one.stream == "error_file"]
    assert (line.text, line.rank, line.local_rank) == ("RuntimeError: it was the data", 3, 1)
    [gone] = [one for one in run.events(ProcessExited) if one.tgid == line.tgid]
    assert abs(gone.ts_ns - line.ts_ns) < 10_000_000_000
    assert os.path.exists(tmp_path / "error.json")

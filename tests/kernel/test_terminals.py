# SPDX-License-Identifier: Apache-2.0
"""`oomtrace run` at a terminal: a real bash on a real terminal, real keys, as root and under a real sudo."""

import os
import signal
import sys

import pytest

from tests.screen import CTRL_BACKSLASH, CTRL_C, CTRL_D, CTRL_Z, PROMPT
from tests.waiting import state_of, wait_for

RUN = f"'{sys.executable}' -m tracer run --record -"
LOG = pytest.mark.parametrize("log", ["", "--log train.log"], ids=["plain", "log"])
"""The job's output goes straight to the terminal, or through one of ours."""
END = f"exit (\\d+)(?s:.)*{PROMPT}"
"""The report's last lines, and the shell again."""
# Says each signal that it gets; goes on until it may end.
COUNTING = """
import os, signal, sys, time
got = []
def took(number, _):
    got.append(number)
    os.write(1, b"signal\\n")
for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1):
    signal.signal(number, took)
print("job", os.getpid(), os.getppid(), flush=True)
while not os.path.exists("go"):
    time.sleep(0.02)
print("got", len(got), flush=True)
sys.exit(7)
"""


@pytest.fixture
def bash(can_trace, shell, tmp_path):
    """Root's shell."""
    (tmp_path / "counting.py").write_text(COUNTING)
    return shell()


@pytest.fixture
def theirs(sudoer, shell):
    """The shell of someone who has to call sudo."""
    (sudoer.home / "counting.py").write_text(COUNTING)
    yield shell(sudoer.environ, sudoer.home, sudoer.become)
    (sudoer.home / "go").unlink(missing_ok=True)


def ends(bash, folder, code):
    """The job says that it got one signal, and the shell has the terminal again."""
    (folder / "go").touch()
    assert bash.until(r"got (\d)\n")[1] == "1"
    assert bash.until(END)[1] == str(code)
    assert bash.run("echo free")[0] == "free\n"


@LOG
@pytest.mark.parametrize("key", [CTRL_C, CTRL_BACKSLASH], ids=["ctrl-c", "ctrl-backslash"])
def test_a_key_reaches_the_job_once_and_the_report_comes_all_the_same(bash, tmp_path, key, log):
    bash.line(f"{RUN} {log} -- python3 counting.py")
    bash.until("job")
    bash.type(key)
    bash.until("signal\n")

    ends(bash, tmp_path, 7)


def test_under_sudo_ctrl_c_reaches_the_job_once(theirs, sudoer):
    theirs.line("sudo oomtrace run --record - -- python3 counting.py")
    theirs.until("job")
    theirs.type(CTRL_C)
    theirs.until("signal\n")

    ends(theirs, sudoer.home, 7)


@LOG
def test_under_sudo_ctrl_z_stops_the_job_and_fg_goes_on_with_it(theirs, sudoer, log):
    (sudoer.home / "train.log").unlink(missing_ok=True)
    theirs.line(f"sudo oomtrace run --record - {log} -- sh -c 'echo job $$; read line; echo got $line; exit 6'")
    job = int(theirs.until(r"job (\d+)\n")[1])
    theirs.type(CTRL_Z)
    theirs.until("Stopped(?s:.)*" + PROMPT)
    assert state_of(job) == "T"
    assert theirs.run("echo free")[0] == "free\n"
    theirs.line("fg")
    wait_for(lambda: state_of(job) == "S", "the job to go on")
    theirs.line("hello")

    theirs.until("got hello\n")
    assert theirs.until(END)[1] == "6"


def test_under_sudo_a_job_in_the_background_runs_on_and_its_read_stops_it(theirs):
    theirs.line("sudo oomtrace run --record - -- sh -c 'echo job $$; cat; exit 6' &")
    job = int(theirs.until(r"job (\d+)\n")[1])
    wait_for(lambda: state_of(job) in ("T", "S"), "the job to come to its read")
    for _ in range(3):
        theirs.line("fg")
        theirs.line("hello")
        # Its read may stop it just after fg: then the shell says so, gets the line, and a person types both again.
        if theirs.until("hello(\n|: command not found)")[1] == "\n":
            break
    theirs.type(CTRL_D)

    assert theirs.until(END)[1] == "6"


@LOG
def test_a_pager_behind_the_job_can_be_used(bash, log):
    bash.line(f"{RUN} {log} -- seq 1000 | TERM=vt100 less -X")
    bash.until("1\n2\n3\n")
    bash.type("q")

    bash.until(PROMPT)
    assert bash.run("echo free")[0] == "free\n"


@LOG
def test_ctrl_c_ends_a_script_and_not_only_the_job_in_it(bash, tmp_path, log):
    (tmp_path / "script").write_text(f"{RUN} {log} -- sh -c 'echo job; exec sleep 600'\necho the next line\n")
    bash.line("bash script")
    bash.until("job\n")
    bash.type(CTRL_C)
    bash.until(PROMPT)

    assert "Killed" not in bash.text
    assert "the next line" not in bash.text
    assert bash.run("true")[1] == 0


def test_ctrl_c_ends_a_loop_of_the_shell(bash):
    bash.line(f"for i in 1 2 3; do {RUN} -- sh -c 'echo job; exec sleep 600'; done; echo \"status=$?\"")
    bash.until("job\n")
    bash.type(CTRL_C)
    bash.until(PROMPT)

    assert bash.text.count("job\n") == 1
    assert bash.run("true")[1] == 0


def test_what_a_trainer_is_told_by_its_scheduler_reaches_the_first_process_alone(bash, tmp_path):
    # `sleep` would die of it.
    bash.line(f"{RUN} -- sh -c 'sleep 600 & echo sleeper $!; exec python3 counting.py'")
    sleeper = int(bash.until(r"sleeper (\d+)\n")[1])
    tracer = int(bash.until(r"job \d+ (\d+)\n")[1])
    os.kill(tracer, signal.SIGUSR1)
    bash.until("signal\n")

    assert state_of(sleeper) == "S"
    os.kill(sleeper, signal.SIGKILL)
    ends(bash, tmp_path, 7)


@LOG
def test_a_tracer_that_is_killed_leaves_the_shell_its_terminal_and_the_job_running(bash, log):
    bash.line(f"{RUN} {log} -- sh -c 'echo job $$ $PPID; exec sleep 600'")
    job, tracer = map(int, bash.until(r"job (\d+) (\d+)\n").groups())
    os.kill(tracer, signal.SIGKILL)
    bash.until("Killed(?s:.)*" + PROMPT)

    assert bash.run("echo free")[0] == "free\n"
    assert state_of(job) in ("R", "S")


def test_a_job_that_dies_with_the_terminals_modes_changed_leaves_them_as_they_were(bash):
    bash.run("stty echo")
    bash.line(f"{RUN} -- sh -c 'stty -echo -icanon; kill -SEGV $$'")
    bash.until("died|SIGSEGV")
    bash.until(PROMPT)

    assert bash.echoes

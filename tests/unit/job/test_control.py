# SPDX-License-Identifier: Apache-2.0
"""Job control between a real interactive bash and a real job, with a tracer in small between them."""

import os
import re
import signal
import subprocess
import sys

import pytest

from tests.architecture.checkout import ROOT
from tests.screen import CTRL_C, CTRL_D, CTRL_Z, PROMPT
from tests.waiting import DEADLINE_S, state_of, wait_for

TRACED = f"'{sys.executable}' -m tests.unit.job.small_tracer"
# Counts SIGINT, and says so; `go` ends it.
COUNTING = (
    'sh -c \'n=0; trap "n=\\$((n+1)); echo signal" INT WINCH; echo job $$ $PPID; '
    "while ! [ -e go ]; do sleep 0.02; done; echo got $n; exit 5'"
).replace("\\$", "$")


# Waits for a word in the pipe `go`. A loop of `sleep` would not do where the job is stopped: a shell whose
# child is stopped between fork and exec does not stop itself (vfork), with us as without.
WAITING = "read word < go"


@pytest.fixture
def go(tmp_path):
    """Makes the pipe; gives the function that has the job go on."""
    os.mkfifo(tmp_path / "go")
    return lambda: (tmp_path / "go").write_text("on\n")


def test_the_job_gets_the_foreground_and_the_shell_gets_it_back(shell):
    bash = shell()
    bash.line(f"{TRACED} sh -c 'echo job $$; read line; exit 3'")
    job = int(bash.until(r"job (\d+)\n")[1])
    assert bash.foreground == job
    bash.line("go on")

    bash.until("end\n" + PROMPT)
    assert bash.foreground == bash.pid
    assert bash.run("echo free")[0] == "free\n"


def test_the_jobs_status_comes_through_and_130_for_ctrl_c(shell):
    bash = shell()

    assert bash.run(f"{TRACED} sh -c 'exit 3'")[1] == 3
    assert bash.run(f"{TRACED} sh -c 'kill -TERM $$'")[1] == 128 + signal.SIGTERM
    assert bash.run(f"{TRACED} sh -c 'kill -INT $$'")[1] == 128 + signal.SIGINT


@pytest.mark.parametrize("behind", ["", " | sh -c 'trap \"\" INT; cat'"], ids=["alone", "in a pipeline"])
def test_ctrl_c_reaches_the_job_once(shell, tmp_path, behind):
    bash = shell()
    bash.line(f"{TRACED} {COUNTING}{behind}")
    bash.until("job")
    bash.type(CTRL_C)
    bash.until("signal\n")
    (tmp_path / "go").touch()

    assert bash.until(r"got (\d+)")[1] == "1"
    bash.until("end\n")


@pytest.mark.parametrize("behind", ["", " | cat"], ids=["alone", "in a pipeline"])
def test_ctrl_z_stops_both_and_fg_goes_on_with_both(shell, go, behind):
    bash = shell()
    bash.line(f"{TRACED} sh -c 'echo job $$ $PPID; {WAITING}; echo done; exit 6'{behind}")
    job, tracer = map(int, bash.until(r"job (\d+) (\d+)\n").groups())
    bash.type(CTRL_Z)
    bash.until("Stopped(?s:.)*" + PROMPT)
    assert (state_of(job), state_of(tracer)) == ("T", "T")
    assert bash.run("echo free")[0] == "free\n"
    bash.line("fg")
    wait_for(lambda: state_of(job) != "T" and state_of(tracer) != "T", "both to go on")
    go()

    bash.until("done\n(?s:.)*" + PROMPT)
    assert bash.run("jobs")[0] == ""


def test_bg_goes_on_without_the_terminal_which_stays_the_shells(shell, go):
    bash = shell()
    bash.line(f"{TRACED} sh -c 'echo job $$; {WAITING}; echo done'")
    job = int(bash.until(r"job (\d+)\n")[1])
    bash.type(CTRL_Z)
    bash.until("Stopped(?s:.)*" + PROMPT)
    bash.run("bg")
    wait_for(lambda: state_of(job) != "T", "the job to go on")

    assert bash.foreground == bash.pid
    go()
    bash.until("end\n")
    assert bash.foreground == bash.pid


def test_a_read_from_the_background_stops_the_job_as_any_and_fg_goes_on(shell):
    bash = shell()
    bash.run(f"{TRACED} sh -c 'echo $$ > pid; exec cat' &")
    wait_for(lambda: "Stopped" in bash.run("jobs")[0], "the shell to see it stopped")
    bash.line("fg")
    bash.line("hello")
    bash.until("hello\n")
    bash.type(CTRL_D)

    bash.until("end\n" + PROMPT)


def test_with_tostop_a_write_from_the_background_stops_the_job_and_fg_goes_on(shell):
    bash = shell()
    bash.run("stty tostop")
    bash.run(f"{TRACED} sh -c 'echo written' &")
    wait_for(lambda: "Stopped" in bash.run("jobs")[0], "the shell to see it stopped")
    bash.line("fg")

    bash.until("written\n")
    bash.until("end\n" + PROMPT)


def test_with_tostop_a_pipeline_of_which_both_sides_write_does_not_hang(shell):
    bash = shell()
    bash.run("stty tostop")
    bash.line(f"{TRACED} sh -c 'for i in 1 2 3; do echo out$i; echo err$i >&2; sleep 0.05; done' | cat")

    bash.until("end\n")
    bash.until(PROMPT)
    assert set(re.findall("out.|err.", bash.text)) == {"out1", "out2", "out3", "err1", "err2", "err3"}


def test_a_job_in_a_pipeline_that_reads_the_terminal_gets_it(shell):
    bash = shell()
    bash.line(f"echo data | {TRACED} sh -c 'cat; read line </dev/tty; echo got $line'")
    bash.until("data\n")
    bash.line("hello")

    bash.until("got hello\n")
    bash.until("end\n" + PROMPT)


def test_ctrl_c_ends_the_script_as_well(shell, tmp_path):
    (tmp_path / "script").write_text(f"{TRACED} sh -c 'echo job; exec sleep 600'\necho the next line\n")
    bash = shell()
    bash.line("bash script")
    bash.until("job\n")
    bash.type(CTRL_C)
    bash.until(PROMPT)

    assert "the next line" not in bash.text


def test_a_job_that_stops_itself_at_the_terminal_stops_us(shell):
    bash = shell()  # as some editors and `suspend` do
    bash.line(f"{TRACED} sh -c 'kill -STOP $$; echo went on'")
    bash.until("Stopped(?s:.)*" + PROMPT)
    bash.line("fg")

    bash.until("went on\n")
    bash.until("end\n" + PROMPT)


def test_a_job_in_the_background_that_is_stopped_by_hand_leaves_us_awake(shell, tmp_path, go):
    bash = shell()
    bash.run(f"{TRACED} sh -c 'echo $$ $PPID > pids; {WAITING}; echo done' &")
    wait_for(lambda: (tmp_path / "pids").exists() and (tmp_path / "pids").read_text().endswith("\n"), "its pids")
    job, tracer = map(int, (tmp_path / "pids").read_text().split())
    os.kill(job, signal.SIGSTOP)
    wait_for(lambda: state_of(job) == "T", "it to stop")
    bash.run("true")
    assert state_of(tracer) != "T"
    os.kill(job, signal.SIGCONT)
    go()

    bash.until("done\n")
    bash.until("end\n")


@pytest.mark.parametrize("by, echoes", [("kill -KILL $$", True), ("exit 0", False)], ids=["crash", "exit"])
def test_the_modes_of_the_terminal_are_set_back_after_a_crash_alone(shell, by, echoes):
    bash = shell()
    bash.run("stty echo")
    bash.line(f"{TRACED} sh -c 'stty -echo; {by}'")
    bash.until("end\n" + PROMPT)

    assert bash.echoes is echoes


def test_a_new_window_size_reaches_the_job_once(shell, tmp_path):
    bash = shell()
    bash.line(f"{TRACED} {COUNTING} | cat")
    bash.until("job")
    bash.resize(rows=11, columns=33)
    bash.until("signal\n")
    (tmp_path / "go").touch()

    assert bash.until(r"got (\d+)")[1] == "1"


# Without a terminal.


@pytest.fixture
def traced(tmp_path):
    """Starts a job under the tracer in small, as the leader of a session."""
    processes = []

    def start(*job):
        environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "tests.unit.job.small_tracer", *job]
        processes.append(
            subprocess.Popen(
                command, cwd=tmp_path, env=environ, start_new_session=True, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )
        )  # fmt: skip
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.communicate(timeout=DEADLINE_S)


# A leader that a signal ends by its own will (9) or by the signal, and a child that says what it got.
FAMILY = """
import os, signal, sys, time
signals = [signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT]
for number in signals:
    signal.signal(number, signal.SIG_DFL if "dies" in sys.argv else lambda *_: sys.exit(9))
if os.fork() == 0:
    os.close(1), os.close(2)
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    open("ready", "w").close()
    got = signal.sigtimedwait(signals, 60)
    open("child", "w").write(signal.Signals(got.si_signo).name + "\\n")
    os._exit(0)
while True:
    time.sleep(0.05)
"""


def family(traced, tmp_path, how):
    process = traced(sys.executable, "-S", "-c", FAMILY, how)
    wait_for((tmp_path / "ready").exists, "the job to run")
    return process


def ended(process):
    _, err = process.communicate(timeout=DEADLINE_S)
    return process.returncode, err


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGQUIT", "SIGINT", "SIGUSR1", "SIGUSR2"])
def test_what_the_leader_of_a_session_is_sent_is_for_the_jobs_first_process(traced, tmp_path, name):
    process = family(traced, tmp_path, "handles")
    process.send_signal(getattr(signal, name))
    code, err = ended(process)

    assert code == 9
    assert f"note: {name} was sent to oomtrace, and passed on to the job's first process" in err
    assert not (tmp_path / "child").exists()


def test_where_the_first_process_dies_of_it_the_rest_of_the_group_gets_it_too(traced, tmp_path):
    process = family(traced, tmp_path, "dies")
    process.terminate()

    assert ended(process)[0] == 128 + signal.SIGTERM
    wait_for(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text() == "SIGTERM\n", "the child")


def test_a_checkpoint_signal_that_nobody_expected_is_not_spread(traced, tmp_path):
    process = family(traced, tmp_path, "dies")
    process.send_signal(signal.SIGUSR1)

    assert ended(process)[0] == 128 + signal.SIGUSR1
    assert not (tmp_path / "child").exists()


def test_a_stop_and_a_continue_are_passed_on(traced, go):
    process = traced("sh", "-c", f"echo $$; {WAITING}; exit 4")
    job = int(process.stdout.readline())
    process.send_signal(signal.SIGTSTP)
    wait_for(lambda: state_of(job) == "T", "the job to stop")
    process.send_signal(signal.SIGCONT)
    wait_for(lambda: state_of(job) != "T", "the job to go on")
    go()

    assert ended(process)[0] == 4

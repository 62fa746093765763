# SPDX-License-Identifier: Apache-2.0
"""The terminal's foreground, on a terminal of the test's own."""

import os
import pty
import select
import sys
import time

import pytest

from tests.architecture.checkout import ROOT
from tracer.job.terminal import Terminal

DEADLINE_S = 30

# A tracer in small: prints what it sees, and `READY` when the job has the foreground.
TRACER = """
import os, sys
from tracer.job.identity import Caller
from tracer.job.launch import hold
from tracer.job.terminal import Terminal

def traced(program):
    terminal = Terminal.of_stdin()
    caller = Caller(uid=os.getuid(), gid=os.getgid(), groups=(), environ=dict(os.environ))
    job = hold(("sh", "-c", program), caller)
    terminal.give(job.group)
    print("given", os.tcgetpgrp(0) == job.group, flush=True)
    job.release()
    while True:
        os.waitid(os.P_PID, job.pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT)
        if job.poll():
            break
        if job.stopped:
            job.stopped = False
            terminal.job_stopped(job.group)
    terminal.take_back(job.group)
    print("status", job.status, "ours", terminal.is_ours(), flush=True)
"""

# A shell in small: puts the tracer into the foreground, sees it stop, and continues it.
SHELL = """
import signal
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
pid = os.fork()
if pid == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpgrp())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    traced("echo READY; sleep 0; kill -TSTP $$; echo WENT ON")
    os._exit(0)
_, status = os.waitpid(pid, os.WUNTRACED)
print("shell sees", os.WIFSTOPPED(status), os.tcgetpgrp(0) == pid, flush=True)
os.killpg(pid, signal.SIGCONT)
os.waitpid(pid, 0)
"""


@pytest.fixture
def terminal():
    """Starts a program on a terminal of its own; gives the function that reads what it printed."""
    children = []

    def start(program):
        pid, master = pty.fork()
        if pid == 0:
            try:
                os.chdir(ROOT)
                os.execve(sys.executable, [sys.executable, "-c", program], {"PATH": os.environ["PATH"]})
            finally:
                os._exit(1)
        children.append((pid, master))
        return Screen(master)

    yield start
    for pid, master in children:
        os.close(master)
        os.waitpid(pid, 0)


class Screen:
    def __init__(self, fd):
        self.fd, self.text = fd, ""

    def until(self, wanted):
        deadline = time.monotonic() + DEADLINE_S
        while wanted not in self.text:
            assert time.monotonic() < deadline, self.text
            if select.select([self.fd], [], [], 0.5)[0]:
                try:
                    self.text += os.read(self.fd, 4096).decode()
                except OSError:  # the other side is gone
                    assert wanted in self.text, self.text
        return self.text

    def type(self, raw):
        os.write(self.fd, raw)


def test_the_job_gets_the_foreground_and_we_get_it_back(terminal):
    text = terminal(TRACER + "traced('exit 3')").until("ours")

    assert "given True" in text
    assert "status 768 ours True" in text.replace("\r", "")


def test_ctrl_c_reaches_the_job_and_not_us(terminal):
    screen = terminal(TRACER + "traced('trap \"exit 5\" INT; echo READY; while :; do sleep 0.05; done')")
    screen.until("READY")

    screen.type(b"\x03")

    assert f"status {5 << 8} ours True" in screen.until("ours")


def test_a_stopped_job_stops_us_and_both_go_on_when_the_shell_says_so(terminal):
    text = terminal(TRACER + SHELL).until("ours")

    assert "shell sees True True" in text
    assert text.index("shell sees") < text.index("WENT ON")
    assert "status 0 ours True" in text


def test_where_nobody_would_continue_us_a_stopped_job_goes_on_at_once(terminal):
    # The leader of a session is an orphaned group: the kernel drops its stop signals.
    text = terminal(TRACER + "traced('kill -STOP $$; echo WENT ON')").until("ours")

    assert "WENT ON" in text


def test_without_a_terminal_there_is_none():
    read_fd, write_fd = os.pipe()
    try:
        assert Terminal.of_stdin(read_fd) is None
    finally:
        os.close(read_fd)
        os.close(write_fd)

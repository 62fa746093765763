# SPDX-License-Identifier: Apache-2.0
"""A terminal of a test's own, with a program on it: what it shows is waited for, what a person types is written."""

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from pathlib import Path

import pytest

from tests.architecture.checkout import ROOT
from tests.waiting import DEADLINE_S

CTRL_C, CTRL_Z, CTRL_BACKSLASH, CTRL_D = "\x03", "\x1a", "\x1c", "\x04"
PROMPT = "<prompt>"


class Screen:
    """Its master side."""

    def __init__(self, argv, environ, folder, become=None):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                # Whatever the caller's shell ignored (nohup): a person's terminal ignores nothing.
                for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP):
                    signal.signal(number, signal.SIG_DFL)
                if become is not None:
                    become()
                os.chdir(folder)
                os.execvpe(argv[0], argv, environ)
            finally:
                os._exit(1)
        self._raw = b""
        self.text = ""
        """All that it has shown so far."""
        self._read_up_to = 0

    def type(self, text):
        os.write(self.fd, text.encode())

    def line(self, text):
        """A line that a person types."""
        self.type(text + "\n")

    def until(self, wanted):
        """Waits until it shows that (a regular expression), later than what was waited for before; its match."""
        deadline = time.monotonic() + DEADLINE_S
        while not (found := re.compile(wanted).search(self.text, self._read_up_to)):
            assert time.monotonic() < deadline, f"waited in vain for {wanted!r} in {self.text[self._read_up_to :]!r}"
            if not self._read(0.2):
                assert re.search(wanted, self.text[self._read_up_to :]), f"ended without {wanted!r}: {self.text!r}"
        self._read_up_to = found.end()
        return found

    def since(self, start):
        """What was shown between a place in `text` and what was last waited for."""
        return self.text[start : self._read_up_to]

    @property
    def at(self):
        return self._read_up_to

    @property
    def foreground(self):
        return os.tcgetpgrp(self.fd)

    @property
    def echoes(self):
        return bool(termios.tcgetattr(self.fd)[3] & termios.ECHO)

    def resize(self, *, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def close(self):
        for pid in session_of(self.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        os.close(self.fd)
        os.waitpid(self.pid, 0)

    def _read(self, patience_s):
        """Whether there may be more."""
        if select.select([self.fd], [], [], patience_s)[0]:
            try:
                raw = os.read(self.fd, 65536)
            except OSError:  # the other side is gone
                return False
            # Two terminals, one behind the other (sudo's), may each have added a carriage return.
            self._raw += raw
            self.text = re.sub(rb"\r+\n", b"\n", self._raw).decode(errors="replace")
        return True


class Shell(Screen):
    """A real interactive bash, as a person has it; nothing that is typed is shown."""

    def __init__(self, environ, folder, become=None):
        environ = {"PS1": PROMPT, "TERM": "dumb", "HISTFILE": "/dev/null", "LC_ALL": "C", **environ}
        super().__init__(["bash", "--norc", "--noprofile", "--noediting", "-i"], environ, folder, become)
        self.until(PROMPT)
        self.run("stty -echo")

    def run(self, command):
        """Runs a command to the next prompt; what was shown meanwhile, and its status."""
        start = self.at
        self.line(command)
        self.until(PROMPT)
        shown = self.since(start).removesuffix(PROMPT)
        self.line('echo "status=$?"')
        # Before a prompt bash tells of jobs that have changed.
        status = int(self.until(r"status=(\d+)\n(?s:.)*?" + PROMPT)[1])
        return shown, status


def session_of(leader):
    """The pids of a terminal's session."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                if os.getsid(int(entry.name)) == leader:
                    found.append(int(entry.name))
    return found


@pytest.fixture
def shell(tmp_path):
    """Starts an interactive bash on a terminal of its own, in the test's folder."""
    shells = []

    def start(environ=None, folder=tmp_path, become=None):
        given = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(ROOT), "PY": sys.executable}
        shells.append(Shell(environ or given, folder, become))
        return shells[-1]

    yield start
    for each in shells:
        each.close()

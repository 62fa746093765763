# SPDX-License-Identifier: Apache-2.0
"""The terminal itself: found whatever standard input is, its foreground, its modes."""

import subprocess
import sys

import pytest

from tests.architecture.checkout import ROOT
from tracer.job.terminal import Terminal

SHARED = (
    f"'{sys.executable}' -c 'from tracer.job.terminal import group_is_shared; import sys; sys.exit(group_is_shared())'"
)
# A foreground group without processes: what a shell leaves that was killed.
LEFT = """
import os, signal, sys
from tracer.job.terminal import Terminal
terminal = Terminal.controlling()
child = os.fork()
if child == 0:
    os.setpgid(0, 0)
    if sys.argv[1] == "dead":
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        os.tcsetpgrp(0, os.getpgrp())
    os._exit(0)
os.waitpid(child, 0)
terminal.take_back(group=1 << 21)
print("ours" if terminal.is_ours() else "not ours")
"""


def test_without_a_terminal_there_is_none(tmp_path):
    assert Terminal.controlling(str(tmp_path / "tty")) is None


def test_a_process_of_a_session_without_a_terminal_has_none():
    program = "from tracer.job.terminal import Terminal; print(Terminal.controlling())"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, start_new_session=True, capture_output=True, text=True, check=True
    )

    assert done.stdout == "None\n"


def test_the_terminal_is_found_although_standard_input_is_none(shell):
    program = "from tracer.job.terminal import Terminal as t; print(t.controlling().is_ours())"

    assert shell().run(f"'{sys.executable}' -c '{program}' </dev/null")[0] == "True\n"


@pytest.mark.parametrize(
    "command, shared",
    [
        ("{}", 0),
        ("{} </dev/null", 0),
        ("{} | cat; (exit ${{PIPESTATUS[0]}})", 1),
        ("echo | {}", 1),
        ("sh -c '{}; exit $?'", 1),
    ],
)
def test_who_shares_our_group_is_a_pipeline_or_a_script(shell, tmp_path, command, shared):
    (tmp_path / "shared").write_text(f"exec {SHARED}\n")

    assert shell().run(command.format("bash ./shared"))[1] == shared


@pytest.mark.parametrize("group", ["dead", "none"])
def test_a_foreground_without_processes_is_taken_back(shell, tmp_path, group):
    (tmp_path / "left.py").write_text(LEFT)

    assert shell().run(f"'{sys.executable}' left.py {group}")[0] == "ours\n"


def test_a_foreground_that_the_shell_has_taken_is_left_to_it(shell, tmp_path):
    (tmp_path / "left.py").write_text(LEFT)
    bash = shell()
    bash.line(f"'{sys.executable}' left.py none &")

    assert bash.until("ours\n")
    assert "not ours" in bash.text

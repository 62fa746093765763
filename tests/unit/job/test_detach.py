# SPDX-License-Identifier: Apache-2.0
"""What goes on in the background has let go of everything, and whoever started it hears what became of it."""

import os
import subprocess
import sys

from tests.architecture.checkout import ROOT


def started(work):
    script = f"""
import os, sys
from tracer.job.detach import go_on_in_background
def work(background):
{work}
pid, word = go_on_in_background(work)
print(pid, word, flush=True)
"""
    return subprocess.run(
        [sys.executable, "-c", script], env={"PYTHONPATH": str(ROOT)}, text=True, capture_output=True, timeout=60,
        check=True,
    )  # fmt: skip


def test_the_word_comes_once_it_is_ready_and_it_lives_in_a_session_of_its_own(tmp_path):
    told = tmp_path / "told"
    done = started(f"""
    background.ready("here I am")
    print("to nobody", file=sys.stderr)
    links = [os.readlink(f"/proc/self/fd/{{fd}}") for fd in (0, 1, 2)]
    with open({str(told)!r} + ".new", "w") as file:
        print(os.getsid(0) == os.getpid(), os.getcwd(), *links, file=file)
    os.rename({str(told)!r} + ".new", {str(told)!r})
    return 0
""")
    pid, word = done.stdout.strip().split(" ", 1)
    while not told.exists():
        assert os.path.exists(f"/proc/{pid}")

    assert word == "here I am"
    assert done.stderr == ""
    assert told.read_text() == "True / /dev/null /dev/null /dev/null\n"


def test_what_ends_before_it_is_ready_is_heard_of_by_its_exit_code():
    done = started("""
    print("oomtrace: no", file=sys.stderr)
    return 3
""")

    assert (done.stdout, done.stderr) == ("3 None\n", "oomtrace: no\n")


def test_what_dies_before_it_is_ready_is_told_as_a_shell_tells_it():
    assert started("    os.kill(os.getpid(), 9)").stdout == "137 None\n"

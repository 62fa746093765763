# SPDX-License-Identifier: Apache-2.0
"""`oomtrace explain` keeps what it reads to itself: it loads nothing that could send, and opens and starts nothing."""

import subprocess
import sys

import pytest

from tests.architecture.checkout import ROOT
from tests.explained import DATA

NETWORK = (
    "socket", "ssl", "http", "urllib.request", "asyncio", "ftplib", "smtplib", "xmlrpc", "subprocess",
    "multiprocessing",
)  # fmt: skip
"""`_socket` is not among them: msgspec loads `uuid`, which some builds of Python give it with. None is opened."""
PROGRAM = """
import sys

seen = []
sys.addaudithook(lambda event, args: seen.append((event, args)))
from tracer.cli import main

status = main({words!r})
told = [
    (event, args)
    for event, args in seen
    if event.startswith(("socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.fork", "urllib."))
    or (event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+"))
]
for event in told:
    print("DID", event, file=sys.stderr)
for name in {network!r}:
    if name in sys.modules:
        print("LOADED", name, file=sys.stderr)
sys.exit(status)
"""
LOGS = (str(DATA / "worker-by-pid" / "kernel.log"), str(DATA / "worker-by-pid" / "train.log"))


def done_by(words, program=PROGRAM):
    child = subprocess.run(
        # -B: bytecode is no word of the log's.
        [sys.executable, "-B", "-c", program.format(words=list(words), network=NETWORK)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    assert child.stdout
    return child.stderr.splitlines()


@pytest.mark.parametrize("form", [(), ("--json",), ("--brief",), ("--format", "editor"), ("--redact",)], ids="".join)
def test_nothing_leaves_the_machine_and_nothing_is_written(form):
    assert done_by(("explain", *form, *LOGS)) == []


def test_a_socket_or_a_program_would_be_seen():
    program = PROGRAM.replace(
        "status = main", "import socket, subprocess; socket.socket().close(); subprocess.run(['true']); status = main"
    )
    told = "\n".join(done_by(("explain", *LOGS), program))

    assert "socket.__new__" in told
    assert "subprocess.Popen" in told
    assert "LOADED socket" in told

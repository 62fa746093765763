# SPDX-License-Identifier: Apache-2.0
"""Waiting for a condition with a deadline, what a process is doing, and putting an end to one."""

import os
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

SLOWER = float(os.environ.get("OOMTRACE_TESTS_SLOWER", "1"))
"""How many times longer to wait than on a usual machine: 10 in an emulated one."""
DEADLINE_S = 30.0 * SLOWER


def wait_for(condition: Callable[[], object], what: str, *, patience_s: float = DEADLINE_S) -> None:
    """Until it holds; an assertion with `what` when it does not in time."""
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.005)


def state_of(pid: int) -> str:
    """One letter: R, S, T (stopped), Z ...; empty once it has gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def has_ended(pid: int) -> bool:
    """Whether it runs no more, waited for or not."""
    return state_of(pid) in ("", "Z")


def put_down(process: "subprocess.Popen[str]") -> None:
    """End a process that talks through pipes, if it has not ended, and close them."""
    if process.poll() is None:
        process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()

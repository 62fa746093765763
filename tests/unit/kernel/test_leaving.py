# SPDX-License-Identifier: Apache-2.0
"""Descriptors that are left to a process of their own: who has the last one, and that nothing stays behind."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.architecture.checkout import ROOT
from tests.waiting import DEADLINE_S, wait_for
from tracer.kernel import leaving
from tracer.kernel.leaving import leave

KILLED = """
import os, signal, sys
from tracer.kernel.leaving import _heir
_heir([int(sys.argv[1])])
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def ends() -> Iterator[tuple[int, int]]:
    """Of a pipe: what is read ends once nobody has the other one any more."""
    read, write = os.pipe()
    yield read, write
    for end in (read, write):
        with suppress(OSError):
            os.close(end)


def holders(pipe: str) -> set[int]:
    """Other processes that have it open."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if any(os.readlink(f"/proc/{pid}/fd/{fd}") == pipe for fd in os.listdir(f"/proc/{pid}/fd")):
                found.add(int(pid))
    return found - {os.getpid()}


def is_over(read: int) -> bool:
    ready, _, _ = select.select([read], [], [], DEADLINE_S)
    return bool(ready) and os.read(read, 1) == b""


def test_another_process_has_them_as_they_are_closed_here(
    ends: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    read, write = ends
    pipe, close, others = os.readlink(f"/proc/self/fd/{write}"), os.close, list[set[int]]()

    def watched(descriptor: int) -> None:
        if descriptor == write:
            others.append(holders(pipe))
        close(descriptor)

    monkeypatch.setattr(leaving.os, "close", watched)
    leave([write])

    [[pid]] = others
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(write)
    assert is_over(read)
    wait_for(lambda: not os.path.exists(f"/proc/{pid}"), "it to be gone for good")


def test_it_has_nothing_else_of_ours(ends: tuple[int, int]) -> None:
    read, write = ends
    child = leaving._heir([write])
    assert child is not None
    assert child.stdin is not None
    try:
        there = {int(fd): os.readlink(f"/proc/{child.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{child.pid}/fd")}
        assert there.keys() == {0, 1, 2, write}
        assert {there[1], there[2]} == {"/dev/null"}
        assert os.readlink(f"/proc/{child.pid}/cwd") == "/"
        assert os.getsid(child.pid) == child.pid
    finally:
        child.stdin.close()
        child.wait(DEADLINE_S)
        os.close(write)
    assert is_over(read)


def test_where_no_process_can_be_started_they_are_closed_here(
    ends: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    read, write = ends
    monkeypatch.setattr(leaving, "_SHELL", "/nonexistent/sh")
    leave([write])

    assert is_over(read)


def test_it_ends_with_a_process_that_is_killed_meanwhile(ends: tuple[int, int]) -> None:
    read, write = ends
    command = [sys.executable, "-c", KILLED, str(write)]
    done = subprocess.run(command, cwd=ROOT, pass_fds=(write,), timeout=DEADLINE_S, check=False)
    os.close(write)

    assert done.returncode == -signal.SIGKILL
    assert is_over(read)


def test_of_nothing_nothing_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaving.subprocess, "Popen", lambda *_, **__: pytest.fail("a process for nothing"))
    leave([])

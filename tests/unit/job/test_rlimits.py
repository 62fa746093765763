# SPDX-License-Identifier: Apache-2.0
"""The caller's resource limits bind the job and not the tracer."""

import resource
import subprocess
import sys

import pytest

from tests.architecture.checkout import ROOT
from tracer.job.rlimits import give_back, raise_limits

# Both in a child: a limit that was lowered may not be raised again.
PROGRAM = """
import os, resource, sys
from tracer.job.rlimits import give_back, raise_limits
kind = getattr(resource, sys.argv[1])
before = raise_limits()
ours = resource.getrlimit(kind)[0]
reading, writing = os.pipe()
pid = os.fork()
if pid == 0:
    os.read(reading, 1)
    os._exit(0 if resource.getrlimit(kind)[0] == int(sys.argv[2]) else 1)
problem = give_back(pid, before)
os.write(writing, b"x")
print(problem, ours, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


@pytest.mark.parametrize(
    "kind, soft", [("RLIMIT_NOFILE", 40), ("RLIMIT_AS", 1 << 30), ("RLIMIT_DATA", 1 << 30), ("RLIMIT_CPU", 50)]
)
def test_the_tracers_are_raised_and_the_jobs_are_as_the_caller_set_them(kind, soft):
    def lower():
        number = getattr(resource, kind)
        resource.setrlimit(number, (soft, resource.getrlimit(number)[1]))

    command = [sys.executable, "-c", PROGRAM, kind, str(soft)]
    done = subprocess.run(command, cwd=ROOT, preexec_fn=lower, capture_output=True, text=True, timeout=30, check=True)
    problem, ours, same = done.stdout.split()

    assert (problem, same) == ("None", "0")
    assert int(ours) == -1 or int(ours) > soft


def test_what_is_high_enough_is_left_alone(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", lambda *_: pytest.fail("nothing was to be raised"))

    assert raise_limits() == {}


def test_a_refusal_is_told_in_one_line(monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(resource, "prlimit", refuse)

    assert give_back(1, {resource.RLIMIT_CPU: (1, 1)}) == (
        "the job's resource limits could not be set back: Operation not permitted"
    )
    assert give_back(1, {}) is None

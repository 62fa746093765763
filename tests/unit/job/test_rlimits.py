# SPDX-License-Identifier: Apache-2.0
"""The caller's resource limits bind the job and not the tracer."""

import resource
import subprocess
import sys

import pytest

from tests.architecture.checkout import ROOT
from tracer.job.rlimits import raise_rlimits, set_rlimits

# Both in a child: a limit that was lowered may not be raised again.
PROGRAM = """
import os, resource, sys
from tracer.job.rlimits import raise_rlimits, set_rlimits
kind = getattr(resource, sys.argv[1])
before = raise_rlimits()
ours = resource.getrlimit(kind)[0]
pid = os.fork()
if pid == 0:
    set_rlimits(before)
    os._exit(0 if resource.getrlimit(kind)[0] == int(sys.argv[2]) else 1)
print(ours, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
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
    ours, same = done.stdout.split()

    assert same == "0"
    assert int(ours) == -1 or int(ours) > soft


def test_what_is_high_enough_is_left_alone(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", lambda *_: pytest.fail("nothing was to be raised"))

    assert raise_rlimits() == {}


def test_one_that_may_not_be_raised_stays_and_the_others_are_set(monkeypatch):
    done = {}

    def set_one(kind, values):
        if kind == resource.RLIMIT_CPU:
            raise PermissionError(1, "Operation not permitted")
        done[kind] = values

    monkeypatch.setattr(resource, "setrlimit", set_one)
    set_rlimits({resource.RLIMIT_CPU: (1, 1), resource.RLIMIT_NOFILE: (40, 50)})

    assert done == {resource.RLIMIT_NOFILE: (40, 50)}

# SPDX-License-Identifier: Apache-2.0
"""The workload of the selftest: it grows no further than it is told, and says how its child ended."""

import resource
import subprocess
import sys

from tests.architecture.checkout import ROOT
from tracer.units import MIB

GROW = ROOT / "tracer" / "repro" / "workloads" / "grow.py"


def grow(*arguments, **kwargs):
    command = [sys.executable, "-I", "-S", str(GROW), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **kwargs)


def test_a_child_that_is_let_grow_ends_well_and_says_nothing():
    done = grow("--mib", "4")

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_it_stops_where_it_is_told_though_nothing_limits_it():
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss

    assert grow("--mib", "48").returncode == 0
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 < max(before * 1024, 128 * MIB)


def test_a_child_that_fails_by_itself_is_no_kill():
    def little_room():
        resource.setrlimit(resource.RLIMIT_AS, (96 * MIB, 96 * MIB))

    assert grow("--mib", "512", preexec_fn=little_room).returncode == 1

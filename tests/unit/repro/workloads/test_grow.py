# SPDX-License-Identifier: Apache-2.0
"""The workload of the selftest: it grows no further than it is told, and says how its child ended."""

import resource
import subprocess
import sys

from tests.architecture.checkout import ROOT
from tracer.units import KIB, MIB

GROW = ROOT / "tracer" / "repro" / "workloads" / "grow.py"
# By an interpreter of its own: what a child counts begins with all that its parent had when it forked.
MOST_OF_A_CHILD = """
import resource, subprocess, sys
subprocess.run([sys.executable, "-I", "-S", *sys.argv[1:]], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def grow(*arguments, **kwargs):
    command = [sys.executable, "-I", "-S", str(GROW), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **kwargs)


def test_a_child_that_is_let_grow_ends_well_and_says_nothing():
    done = grow("--mib", "4")

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_it_stops_where_it_is_told_though_nothing_limits_it():
    done = subprocess.run(
        [sys.executable, "-I", "-c", MOST_OF_A_CHILD, str(GROW), "--mib", "48"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip

    assert 48 * MIB < int(done.stdout) * KIB < 128 * MIB


def test_a_child_that_fails_by_itself_is_no_kill():
    def little_room():
        resource.setrlimit(resource.RLIMIT_AS, (96 * MIB, 96 * MIB))

    assert grow("--mib", "512", preexec_fn=little_room).returncode == 1

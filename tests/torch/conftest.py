# SPDX-License-Identifier: Apache-2.0
"""A real PyTorch under a real limit: one job at a time, since each takes most of a gigabyte."""

import dataclasses
import signal
import subprocess

import pytest

from tests.architecture.checkout import ROOT
from tests.kernel.conftest import can_trace  # noqa: F401 - a fixture
from tests.kernel.running import oomtrace  # noqa: F401 - a fixture
from tests.waiting import SLOWER

TORCHRUN = ROOT / ".venv-torch" / "bin" / "torchrun"
WORKLOAD = ROOT / "tracer" / "repro" / "workloads" / "train.py"
JOB_S = 100 * SLOWER
ATTEMPTS = 3


@pytest.fixture
def trained(oomtrace, can_trace, tmp_path):  # noqa: F811 - fixtures
    """Runs the workload under torchrun and watch to its end, and has something done to it once it trains.

    Now and then PyTorch does not get over the death of one of its processes: ranks wait for one another for
    ever. That is not what is tested: the job is ended then and run again.
    """
    if not TORCHRUN.exists():
        pytest.skip("there is no PyTorch for jobs here: scripts/test --torch makes one")

    def run(*workload, ranks=4, launcher=(), limit="2G", then=None):
        ready, trains = tmp_path / "ready", tmp_path / "trains"
        job = (TORCHRUN, "--standalone", f"--nproc-per-node={ranks}", *launcher, WORKLOAD, *workload)
        for _ in range(ATTEMPTS):
            for left in (ready, trains, tmp_path / "run.oomtrace"):
                left.unlink(missing_ok=True)
            options = ("--memory-max", limit, "--ready-file", ready)
            # Not a pipe: what a rank leaves behind would hold that open.
            with (tmp_path / "out").open("w+") as out, (tmp_path / "err").open("w+") as err:
                process = oomtrace.start(*job, "--ready", trains, options=options, stdout=out, stderr=err)
                try:
                    if then is not None:
                        then(process, ready, trains)
                    found = oomtrace.finish(process, patience_s=JOB_S)
                except subprocess.TimeoutExpired:
                    process.send_signal(signal.SIGTERM)
                    process.wait(JOB_S)
                except BaseException:
                    process.send_signal(signal.SIGTERM)
                    process.wait(JOB_S)
                    raise
                else:
                    return dataclasses.replace(found, err=(tmp_path / "err").read_text())
        raise AssertionError(f"the job hung {ATTEMPTS} times")

    return run

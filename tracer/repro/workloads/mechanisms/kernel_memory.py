# SPDX-License-Identifier: Apache-2.0
"""Each step leaves pipes to a logger that never reads them: full, and the kernel's memory. Fixed: they are closed."""

import fcntl
import os
import resource
import time

from tracer.repro.workloads import stage
from tracer.repro.workloads.mechanisms.training import MIB, tell
from tracer.repro.workloads.memory import F_SETPIPE_SZ

STEPS, PIPES, STEP_S = 150, 4, 0.05


def write_metrics() -> tuple[int, int]:
    """A pipe, full of what nobody reads."""
    read_fd, write_fd = os.pipe()
    try:
        fcntl.fcntl(write_fd, F_SETPIPE_SZ, MIB)
    except OSError as error:
        stage.cannot(f"no large pipe can be made: {error.strerror}")
    os.set_blocking(write_fd, False)
    os.write(write_fd, b"m" * MIB)
    return read_fd, write_fd


def main(*, fixed: bool) -> None:
    """Train, and log each step."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    for step in range(STEPS):
        for _ in range(PIPES):
            ends = write_metrics()
            if fixed:
                for end in ends:
                    os.close(end)
        tell(1, step, 1 / (1 + step))
        time.sleep(STEP_S)

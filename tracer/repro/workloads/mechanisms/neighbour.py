# SPDX-License-Identifier: Apache-2.0
"""The job keeps its level, and a process that is no part of it takes the rest of what both may have together."""

import time

import torch

from tracer.repro.workloads.mechanisms.limit_too_tight import own_mib
from tracer.repro.workloads.mechanisms.training import FLOATS, tell
from tracer.repro.workloads.stage import say

LEVEL_MIB, STEPS, STEP_S = 420, 120, 0.07


def main(*, fixed: bool) -> None:
    """Train at the same level all the time; what is fixed is the neighbour."""
    del fixed
    weights = torch.ones(max(1, LEVEL_MIB - own_mib()) * FLOATS)
    for step in range(STEPS):
        tell(1, step, float(weights[:64].mean()))
        if step == 0:
            say("training")
        time.sleep(STEP_S)

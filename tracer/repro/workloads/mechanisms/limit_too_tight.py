# SPDX-License-Identifier: Apache-2.0
"""A job whose level does not rise, and whose longest batch is too much. It is right; its limit is to be fixed."""

import ctypes
import time

import torch

from tracer.repro.workloads.mechanisms.training import FLOATS, MIB, tell

LEVEL_MIB, BATCH_MIB, LONGEST_MIB = 420, 16, 80
STEPS, LONGEST_AT, STEP_S = 90, 70, 0.07
M_MMAP_THRESHOLD = -3
"""Of malloc.h. Once it is set it stays: as it rises by itself, freed batches stay in the heap, and the level varies."""


def main(*, fixed: bool) -> None:
    """Train at the same level all the time, with batches that differ in length."""
    del fixed
    ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, MIB)
    weights = torch.ones(max(1, LEVEL_MIB - own_mib()) * FLOATS)
    for step in range(STEPS):
        batch = torch.ones((LONGEST_MIB if step == LONGEST_AT else BATCH_MIB + step % 3 * 4) * FLOATS)
        tell(1, step, float(batch[:64].mean() + weights[:64].mean()))
        del batch
        time.sleep(STEP_S)


def own_mib() -> int:
    """What this interpreter with PyTorch takes by itself."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next((int(line.split()[1]) >> 10 for line in file if line.startswith("RssAnon:")), 0)

# SPDX-License-Identifier: Apache-2.0
"""Each step makes and keeps a new page-locked buffer, as for copies to a device. Fixed: one is used again.

Without CUDA nothing can be pinned for a device: the buffers are then locked by mlock(2). To the kernel that is the
memory of the process all the same (anonymous, and unevictable); what the CUDA driver pins may be counted nowhere.
"""

import ctypes
import os
import time

import torch

from tracer.repro.workloads import stage
from tracer.repro.workloads.mechanisms.training import FLOATS, MIB, tell

BUFFER_MIB, STEPS, STEP_S = 8, 80, 0.08


def pinned() -> torch.Tensor:
    """A buffer that stays where it is."""
    if torch.cuda.is_available():
        return torch.ones(BUFFER_MIB * FLOATS, pin_memory=True)
    buffer = torch.ones(BUFFER_MIB * FLOATS)
    if stage.libc.mlock(ctypes.c_void_p(buffer.data_ptr()), ctypes.c_size_t(BUFFER_MIB * MIB)) != 0:
        stage.cannot(f"memory cannot be locked: {os.strerror(ctypes.get_errno())}")
    return buffer


def main(*, fixed: bool) -> None:
    """Train."""
    buffers: list[torch.Tensor] = []
    for step in range(STEPS):
        if not (fixed and buffers):
            buffers.append(pinned())
        buffers[-1].fill_(step)
        tell(1, step, float(buffers[-1][:64].mean()))
        time.sleep(STEP_S)

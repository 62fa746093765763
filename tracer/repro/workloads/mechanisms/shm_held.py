# SPDX-License-Identifier: Apache-2.0
"""The trainer keeps the batches that it got, and with them their shared memory. Fixed: it keeps a number of each."""

import time

import torch
from torch.utils.data import DataLoader, Dataset

from tracer.repro.workloads.mechanisms.training import FLOATS, batches, tell

SAMPLES, EPOCHS, SAMPLE_MIB, LOAD_S = 100, 2, 4, 0.05


class Samples(Dataset[torch.Tensor]):
    """Each one batch.

    Each worker fills the same memory again and again: glibc's memalign() may let a heap grow for nothing where large
    tensors come and go (https://sourceware.org/bugzilla/show_bug.cgi?id=14581), and that is another mechanism.
    """

    def __init__(self) -> None:
        self.sample: torch.Tensor | None = None

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(LOAD_S)
        if self.sample is None:
            self.sample = torch.empty(SAMPLE_MIB * FLOATS)
        return self.sample.fill_(index)


def main(*, fixed: bool) -> None:
    """Train, and keep something of each step for the metrics."""
    seen: list[torch.Tensor] = []
    loader = DataLoader(Samples(), num_workers=2)
    for epoch, step, batch in batches(loader, epochs=EPOCHS, step_s=0.02):
        seen.append(batch.mean() if fixed else batch)
        tell(epoch, step, float(seen[-1].mean()))

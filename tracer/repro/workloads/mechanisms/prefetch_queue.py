# SPDX-License-Identifier: Apache-2.0
"""Workers x prefetch_factor x large batches wait in shared memory for a slow device. Fixed: fewer, and of bytes."""

import time

import torch
from torch.utils.data import DataLoader, Dataset

from tracer.repro.workloads.mechanisms.training import train

IMAGES, BATCH, DECODE_S, STEP_S = 640, 32, 0.015, 0.3
SHAPE = (3, 256, 256)


class Images(Dataset[torch.Tensor]):
    """Images as floats, or as the bytes that they were."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype

    def __len__(self) -> int:
        return IMAGES

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(DECODE_S)
        return torch.full(SHAPE, index % 255, dtype=self.dtype)


def main(*, fixed: bool) -> None:
    """Train."""
    workers, ahead, dtype = (2, 2, torch.uint8) if fixed else (4, 4, torch.float32)
    loader = DataLoader(Images(dtype), batch_size=BATCH, num_workers=workers, prefetch_factor=ahead)
    train(loader, epochs=1, step_s=STEP_S)

# SPDX-License-Identifier: Apache-2.0
"""Workers x prefetch_factor x large batches wait in shared memory for a slow device. Fixed: fewer, and of bytes.

The device is so slow that the queue is always as full as it can be: it is waited for that, on however fast a machine.
"""

import ctypes
import multiprocessing
import time
from collections.abc import Sequence

import torch
from torch.utils.data import DataLoader, Dataset, default_collate, get_worker_info

from tracer.repro.workloads.mechanisms.training import batches, tell

IMAGES, BATCH, DECODE_S, STEP_S = 640, 32, 0.01, 0.1
SHAPE = (3, 256, 256)
LOOK_S = 0.01


class Images(Dataset[torch.Tensor]):
    """Images as floats, or as the bytes that they were."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype

    def __len__(self) -> int:
        return IMAGES

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(DECODE_S)
        return torch.full(SHAPE, index % 255, dtype=self.dtype)


class Counted:
    """Puts batches together, and counts them: each worker for itself, so that one that is killed holds no lock."""

    def __init__(self, workers: int) -> None:
        self._made = multiprocessing.RawArray(ctypes.c_int, workers)

    def __call__(self, images: Sequence[torch.Tensor]) -> torch.Tensor:
        batch: torch.Tensor = default_collate(list(images))
        worker = get_worker_info()
        assert worker is not None
        self._made[worker.id] += 1
        return batch

    def wait_for(self, number: int) -> None:
        """Until so many were made."""
        while sum(self._made) < number:
            time.sleep(LOOK_S)


def main(*, fixed: bool) -> None:
    """Train, a batch each time that no more of them can wait."""
    workers, ahead, dtype = (2, 2, torch.uint8) if fixed else (4, 4, torch.float32)
    counted = Counted(workers)
    loader = DataLoader(Images(dtype), batch_size=BATCH, num_workers=workers, prefetch_factor=ahead, collate_fn=counted)
    # A batch is taken before its step is done, and with that the next one is asked for.
    for epoch, step, batch in batches(loader, epochs=1, step_s=STEP_S):
        counted.wait_for(min(len(loader), step + 1 + workers * ahead))
        tell(epoch, step, float(batch.float().mean()))

# SPDX-License-Identifier: Apache-2.0
"""Each DataLoader worker keeps every image that it decoded in a dict of its own. Fixed: the cache is bounded.

An image takes the place of the oldest one: where that is freed instead, glibc's heap often keeps it, and grows.
"""

import random
import time
from collections import OrderedDict

import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

from tracer.repro.workloads.mechanisms.training import FEATURES, FLOATS, train

IMAGES, EPOCHS, WORKERS, BATCH = 100, 5, 2, 4
IMAGE_MIB, DECODE_S = 2, 0.04
BOUND = 8


class Images(Dataset[torch.Tensor]):
    """Decoded anew for each crop, and cached by image and crop."""

    def __init__(self, bound: int | None, *, only_in: int | None = None) -> None:
        self.bound = bound
        self.only_in = only_in
        self.cache: OrderedDict[tuple[int, int], torch.Tensor] = OrderedDict()

    def __len__(self) -> int:
        return IMAGES

    def __getitem__(self, index: int) -> torch.Tensor:
        key = (index, random.randrange(1 << 30))
        bound = self.bound if self.only_in in {None, get_worker_info().id} else 1
        if key not in self.cache:
            room = self.cache.popitem(last=False)[1] if bound is not None and len(self.cache) >= bound else None
            self.cache[key] = self.decode(index, room)
        return self.cache[key][:FEATURES].clone()

    def decode(self, index: int, room: torch.Tensor | None) -> torch.Tensor:
        """An image, after some time."""
        time.sleep(DECODE_S)
        return (torch.empty(IMAGE_MIB * FLOATS) if room is None else room).fill_(float(index))


def main(*, fixed: bool, only_in: int | None = None) -> None:
    """Train."""
    images = Images(BOUND if fixed else None, only_in=only_in)
    train(DataLoader(images, batch_size=BATCH, num_workers=WORKERS, persistent_workers=True), epochs=EPOCHS, step_s=0)

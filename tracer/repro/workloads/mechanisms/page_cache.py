# SPDX-License-Identifier: Apache-2.0
"""Workers read far more from files than the limit lets in. Nothing is wrong with that: page cache is given back."""

import os

import torch
from torch.utils.data import DataLoader, Dataset

from tracer.repro.workloads.mechanisms.training import FEATURES, MIB, train
from tracer.repro.workloads.stage import folder

SHARDS, SHARD_MIB, EPOCHS = 60, 32, 3


class Shards(Dataset[torch.Tensor]):
    """Pieces of one large file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __len__(self) -> int:
        return SHARDS

    def __getitem__(self, index: int) -> torch.Tensor:
        total = torch.zeros(FEATURES)
        with open(self.path, "rb", buffering=0) as file:
            file.seek(index * SHARD_MIB * MIB)
            for _ in range(SHARD_MIB):
                total += float(file.read(MIB)[0])
        return total


def main(*, fixed: bool) -> None:
    """Train; there is nothing to be fixed."""
    del fixed
    path = os.path.join(folder(), "shards")
    with open(path, "wb") as file:
        file.truncate(SHARDS * SHARD_MIB * MIB)
    train(DataLoader(Shards(path), num_workers=2), epochs=EPOCHS, step_s=0.02)

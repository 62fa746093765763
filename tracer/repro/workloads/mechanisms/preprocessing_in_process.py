# SPDX-License-Identifier: Apache-2.0
"""The training process tokenizes by itself, into lists of Python numbers that it keeps. Fixed: it keeps none."""

import torch
from torch.utils.data import DataLoader, Dataset

from tracer.repro.workloads.mechanisms.training import FEATURES, train

RECORDS, BATCH, TOKENS, EPOCHS = 8000, 50, 2000, 1
FIRST_TOKEN = 1000
"""Small numbers are one object for all."""


class Records(Dataset[torch.Tensor]):
    """Texts, tokenized when they are first asked for."""

    def __init__(self, *, keep: bool) -> None:
        self.keep = keep
        self.tokenized: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return RECORDS

    def __getitem__(self, index: int) -> torch.Tensor:
        tokens = self.tokenized.get(index) or [FIRST_TOKEN + index + place for place in range(TOKENS)]
        if self.keep:
            self.tokenized[index] = tokens
        return torch.tensor(tokens[:FEATURES])


def main(*, fixed: bool) -> None:
    """Train, without workers."""
    train(DataLoader(Records(keep=not fixed), batch_size=BATCH), epochs=EPOCHS, step_s=0.04)

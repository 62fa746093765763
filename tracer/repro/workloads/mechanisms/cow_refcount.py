# SPDX-License-Identifier: Apache-2.0
"""Forked workers read a long list of strings, and copy its pages by counting references. Fixed: one buffer of bytes."""

import array
import random
import time
from collections.abc import Sequence

import torch
from torch.utils.data import DataLoader, Dataset

from tracer.repro.workloads.mechanisms.training import FEATURES, train

CAPTIONS, EPOCHS, SAMPLES, WORKERS = 1_200_000, 3, 240, 3
READ, READ_S = 1000, 0.03
"""Captions that a sample is made of, and how long that takes."""


class Packed(Sequence[str]):
    """All texts in one piece of memory without a Python object each."""

    def __init__(self) -> None:
        self.text = bytearray()
        self.ends = array.array("Q")
        for number in range(CAPTIONS):
            self.text += caption(number).encode()
            self.ends.append(len(self.text))

    def __len__(self) -> int:
        return CAPTIONS

    def __getitem__(self, index: int) -> str:  # type: ignore[override]
        begin = self.ends[index - 1] if index else 0
        return self.text[begin : self.ends[index]].decode()


class Captions(Dataset[torch.Tensor]):
    """Samples of captions that are chosen at random."""

    def __init__(self, captions: Sequence[str]) -> None:
        self.captions = captions

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(READ_S)
        choose = random.Random(torch.initial_seed() + index)
        length = sum(len(self.captions[choose.randrange(CAPTIONS)]) for _ in range(READ))
        return torch.full((FEATURES,), float(length))


def caption(number: int) -> str:
    """Some text of its own."""
    return f"{number:08d} " + "a photo of a dog that reads a book " * 3


def main(*, fixed: bool) -> None:
    """Train."""
    captions = Packed() if fixed else [caption(number) for number in range(CAPTIONS)]
    loader = DataLoader(
        Captions(captions), batch_size=2, num_workers=WORKERS, multiprocessing_context="fork", persistent_workers=True
    )
    train(loader, epochs=EPOCHS, step_s=0)

# SPDX-License-Identifier: Apache-2.0
"""A training job of Lightning with two ranks, whose second one has a DataLoader worker that leaks."""

import sys
import time

import lightning
import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info

MIB = 1 << 20
LEAKING_RANK, LEAKING_WORKER = 1, 1


class Samples(Dataset):
    """One worker never lets go of a sample."""

    def __init__(self, *, leaks: bool) -> None:
        self.leaks = leaks
        self.kept: list[bytes] = []

    def __len__(self) -> int:
        return 400

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.leaks and get_worker_info().id == LEAKING_WORKER:
            self.kept.append(bytes([index % 255 + 1]) * (40 * MIB))
        time.sleep(0.02)
        return torch.ones(8)


class Model(lightning.LightningModule):
    """As small as can be."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def training_step(self, batch: torch.Tensor, _: int) -> torch.Tensor:
        return self.layer(batch).mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 1e-9)

    def train_dataloader(self) -> DataLoader:
        return DataLoader(Samples(leaks=self.global_rank == LEAKING_RANK), num_workers=2, batch_size=2)


if __name__ == "__main__":
    lightning.Trainer(
        accelerator="cpu",
        devices=2,
        strategy=sys.argv[1],
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    ).fit(Model())

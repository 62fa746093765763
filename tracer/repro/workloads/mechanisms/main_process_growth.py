# SPDX-License-Identifier: Apache-2.0
"""A validation loss that is summed up with its graph, and so all activations with it. Fixed: its number is taken."""

import time

import torch

from tracer.repro.workloads.mechanisms.training import step_of, tell

WIDTH, DEPTH, BATCH = 256, 8, 512
TRAIN_STEPS, VALIDATE_STEPS, STEP_S = 20, 150, 0.04


def main(*, fixed: bool) -> None:
    """Train for an epoch, then validate."""
    layers = [part for _ in range(DEPTH) for part in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    batch = torch.ones(BATCH, WIDTH)
    for step in range(TRAIN_STEPS):
        tell(1, step, step_of(batch, model, optimizer))
        time.sleep(STEP_S)
    total: torch.Tensor | float = 0.0
    for step in range(VALIDATE_STEPS):
        loss = model(batch).square().mean()
        total = total + (loss.item() if fixed else loss)
        tell(2, step, float(total) / (step + 1))
        time.sleep(STEP_S)

# SPDX-License-Identifier: Apache-2.0
"""Weights that are kept and updated on the CPU: Adam's first step makes two more of them. Fixed: SGD has none."""

import time

import torch

from tracer.repro.workloads.mechanisms.training import tell

WIDTH, DEPTH, BATCH = 3072, 4, 2
ACCUMULATED, STEPS, STEP_S = 25, 29, 0.12


def main(*, fixed: bool) -> None:
    """Sum gradients of some batches up, then step; as large models are trained."""
    model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(DEPTH)))
    parameters = model.parameters()
    optimizer = torch.optim.SGD(parameters, lr=1e-9) if fixed else torch.optim.Adam(parameters, lr=1e-9)
    batch = torch.ones(BATCH, WIDTH)
    for step in range(STEPS):
        loss = model(batch).square().mean()
        loss.backward()
        tell(1, step, loss.item())
        if step % ACCUMULATED == ACCUMULATED - 1:
            print(f"epoch 1 step {step}: optimizer step", flush=True)
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
        time.sleep(STEP_S)

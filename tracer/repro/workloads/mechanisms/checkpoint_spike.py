# SPDX-License-Identifier: Apache-2.0
"""A checkpoint is cloned and written to a buffer in memory first. Fixed: it is written to its file as it is."""

import io
import os
import time

import torch

from tracer.repro.workloads.mechanisms.training import step_of, tell
from tracer.repro.workloads.stage import folder

WIDTH, DEPTH, BATCH = 3072, 3, 2
EPOCHS, STEPS, STEP_S = 2, 25, 0.1


def save(model: torch.nn.Module, path: str, *, fixed: bool) -> None:
    """The weights, into a file."""
    if fixed:
        torch.save(model.state_dict(), path)
        return
    state = {name: value.detach().clone() for name, value in model.state_dict().items()}
    buffer = io.BytesIO()
    torch.save(state, buffer)
    with open(path, "wb") as file:
        file.write(buffer.getbuffer())


def main(*, fixed: bool) -> None:
    """Train, and save at the end of each epoch."""
    model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(DEPTH)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    batch = torch.ones(BATCH, WIDTH)
    for epoch in range(1, EPOCHS + 1):
        for step in range(STEPS):
            tell(epoch, step, step_of(batch, model, optimizer, keep_gradients=True))
            time.sleep(STEP_S)
        print(f"epoch {epoch} step {STEPS}: saving checkpoint", flush=True)
        save(model, os.path.join(folder(), "checkpoint.pt"), fixed=fixed)

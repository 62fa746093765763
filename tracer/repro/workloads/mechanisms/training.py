# SPDX-License-Identifier: Apache-2.0
"""What the programs share: progress as training scripts print it, the pace of a device, ranks, sizes."""

import datetime
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

MIB = 1 << 20
FLOATS = MIB // 4
"""In a MiB."""
FEATURES = 64
EVERY = 5
"""So many steps a line."""


def step_of(
    batch: torch.Tensor, model: torch.nn.Module, optimizer: torch.optim.Optimizer, *, keep_gradients: bool = False
) -> float:
    """Forward, backward, update; the loss. Where gradients are kept the level is the same all the time."""
    optimizer.zero_grad(set_to_none=not keep_gradients)
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    return float(loss.item())


def tell(epoch: int, step: int, loss: float) -> None:
    """A line of progress, now and then."""
    if step % EVERY == 0:
        print(f"epoch {epoch} step {step} loss {loss:.4f}", flush=True)


def train(loader: DataLoader[torch.Tensor], *, epochs: int, step_s: float) -> None:
    """A small model over all batches; what the device would do is waited for."""
    for epoch, step, batch in batches(loader, epochs=epochs, step_s=step_s):
        tell(epoch, step, float(batch.float().mean()))


def batches(loader: DataLoader[torch.Tensor], *, epochs: int, step_s: float) -> Iterator[tuple[int, int, torch.Tensor]]:
    """Epoch, step and batch, with a small model trained on each."""
    model = torch.nn.Linear(FEATURES, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    for epoch in range(1, epochs + 1):
        for step, batch in enumerate(loader):
            step_of(batch.reshape(-1)[:FEATURES].float(), model, optimizer)
            yield epoch, step, batch
            time.sleep(step_s)


def join() -> int:
    """Be a rank of gloo; which one."""
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=120))
    return int(dist.get_rank())


def rank_steps(steps: int, *, step_s: float = 0.05) -> None:
    """What all ranks do once they have what they need."""
    gradient = torch.ones(FEATURES)
    for step in range(steps):
        dist.all_reduce(gradient)
        gradient /= dist.get_world_size()
        if dist.get_rank() == 0:
            tell(1, step, float(gradient.mean()))
        time.sleep(step_s)
    dist.destroy_process_group()

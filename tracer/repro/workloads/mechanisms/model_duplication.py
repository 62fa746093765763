# SPDX-License-Identifier: Apache-2.0
"""Each rank reads the whole model into memory of its own. Fixed: all map one file, and share what is cached of it."""

import os
import time

import torch

from tracer.repro.workloads.mechanisms.training import FLOATS, MIB, join, rank_steps
from tracer.repro.workloads.stage import folder

LAYERS, LAYER_MIB, READ_S = 12, 32, 0.25


def main(*, fixed: bool) -> None:
    """Load, then train."""
    rank = join()
    path = os.path.join(folder(), "model.bin")
    torch.distributed.barrier()
    if rank == 0:
        with open(path, "wb") as file:
            file.truncate(LAYERS * LAYER_MIB * MIB)
    torch.distributed.barrier()
    layers = []
    for layer in range(LAYERS):
        layers.append(mapped(path, layer) if fixed else read(path, layer))
        print(f"rank {rank}: loading layer {layer + 1}/{LAYERS}", flush=True)
        time.sleep(READ_S)
    rank_steps(40)


def read(path: str, layer: int) -> torch.Tensor:
    """One layer's weights, as a copy."""
    with open(path, "rb") as file:
        file.seek(layer * LAYER_MIB * MIB)
        return torch.frombuffer(bytearray(file.read(LAYER_MIB * MIB)), dtype=torch.float32).requires_grad_()


def mapped(path: str, layer: int) -> torch.Tensor:
    """The same, where it lies."""
    whole = torch.from_file(path, shared=True, size=LAYERS * LAYER_MIB * FLOATS)
    weights = whole.narrow(0, layer * LAYER_MIB * FLOATS, LAYER_MIB * FLOATS)
    weights.sum()  # which reads them all
    return weights

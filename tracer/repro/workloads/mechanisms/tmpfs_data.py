# SPDX-License-Identifier: Apache-2.0
"""The dataset is copied into /dev/shm before it is read, so that it is fast. Fixed: it is read where it lies."""

import os
import time

import torch

from tracer.repro.workloads.mechanisms.training import FEATURES, MIB, tell
from tracer.repro.workloads.stage import folder

SHARDS, SHARD_MIB, SHARD_S = 50, 16, 0.15


def copied(source: str, shard: int) -> str:
    """A shard in /dev/shm."""
    fast = os.path.join("/dev/shm", os.path.basename(folder()))  # noqa: S108 - which is what it is about
    os.makedirs(fast, exist_ok=True)
    path = os.path.join(fast, f"shard-{shard:03}")
    with open(source, "rb") as read, open(path, "wb") as written:
        written.writelines(read.read(MIB) for _ in range(SHARD_MIB))
    return path


def main(*, fixed: bool) -> None:
    """A step a shard."""
    source = os.path.join(folder(), "shard")
    with open(source, "wb") as file:
        file.truncate(SHARD_MIB * MIB)
    for shard in range(SHARDS):
        path = source if fixed else copied(source, shard)
        with open(path, "rb") as file:
            batch = torch.frombuffer(bytearray(file.read(FEATURES)), dtype=torch.uint8).float()
        tell(1, shard, float(batch.mean()))
        time.sleep(SHARD_S)

# SPDX-License-Identifier: Apache-2.0
"""Each rank tokenizes the whole dataset into memory of its own. Fixed: one does, into a file of 16 bits a token."""

import os
import time

import torch

from tracer.repro.workloads.mechanisms.training import join, rank_steps
from tracer.repro.workloads.stage import folder

SHARDS, SHARD_TOKENS, TOKENIZE_S = 40, 1 << 20, 0.09


def tokens_of(shard: int) -> torch.Tensor:
    """As tokenizers return them: 64 bits each."""
    time.sleep(TOKENIZE_S)
    return torch.full((SHARD_TOKENS,), shard, dtype=torch.int64)


def main(*, fixed: bool) -> None:
    """Tokenize, then train."""
    rank = join()
    torch.distributed.barrier()
    path = os.path.join(folder(), "tokens.bin")
    if fixed and rank == 0:
        with open(path, "wb") as file:
            file.truncate(SHARDS * SHARD_TOKENS * 2)
    torch.distributed.barrier()
    shards: list[torch.Tensor] = []
    if fixed:
        shards += torch.from_file(path, shared=True, size=SHARDS * SHARD_TOKENS, dtype=torch.int16).chunk(SHARDS)
    for shard in range(SHARDS):
        if not fixed:
            shards.append(tokens_of(shard))
        elif rank == 0:
            shards[shard].copy_(tokens_of(shard))
        if rank == 0 and shard % 5 == 0:
            print(f"rank {rank}: tokenized shard {shard + 1}/{SHARDS}", flush=True)
    torch.distributed.barrier()
    rank_steps(40)

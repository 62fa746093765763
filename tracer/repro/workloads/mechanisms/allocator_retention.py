# SPDX-License-Identifier: Apache-2.0
"""Threads decode one after the other; each one's arena of malloc keeps what was freed. Fixed: all share one arena.

Nothing leaks: after each step no more lives than one small result a thread, which lies at the top of its arena and so
keeps glibc from giving back what is below it.
"""

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import torch

from tracer.repro.workloads.mechanisms.training import tell

THREADS, ROUNDS, DECODE_S = 14, 2, 0.35
BLOCKS, BLOCK_FLOATS = 480, 24 * 1024
"""96 KiB each: less than what malloc maps by itself, which would be given back."""
ONE_ARENA = "MALLOC_ARENA_MAX"


def decode() -> torch.Tensor:
    """Some result, and a lot of memory on the way to it."""
    blocks = [torch.ones(BLOCK_FLOATS) for _ in range(BLOCKS)]
    result = torch.stack([block[0] for block in blocks]).repeat(8)
    blocks.clear()
    time.sleep(DECODE_S)
    return result


def main(*, fixed: bool) -> None:
    """A step is one stream's turn; each stream has a thread of its own, as decoders of video have."""
    if fixed and os.environ.get(ONE_ARENA) != "1":
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, ONE_ARENA: "1"})
    streams = [ThreadPoolExecutor(1) for _ in range(THREADS)]
    kept = []
    for epoch in range(1, ROUNDS + 1):
        for step, stream in enumerate(streams):
            kept.append(stream.submit(decode).result())
            tell(epoch, step, float(kept[-1].mean()))

# SPDX-License-Identifier: Apache-2.0
"""A training job as people write them: torchrun, gloo ranks, DataLoader workers. What goes wrong in it is chosen.

    torchrun --nproc-per-node 4 tracer/repro/workloads/train.py --leaking-rank 1 --leaking-worker 0

Needs PyTorch, and nothing of oomtrace.
"""

import argparse
import collections
import ctypes
import datetime
import multiprocessing
import os
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset, get_worker_info

MIB = 1 << 20
PR_SET_NAME = 15


class Samples(Dataset[torch.Tensor]):
    """A dataset whose samples one worker of one rank never lets go of."""

    def __init__(self, count: int, *, leaks_in: int | None, leak_mib: int) -> None:
        self.count = count
        self.leaks_in = leaks_in
        self.leak_mib = leak_mib
        self.cache: list[bytes] = []

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        worker = get_worker_info()
        if worker is not None and worker.id == self.leaks_in:
            self.cache.append(bytes([index % 255 + 1]) * (self.leak_mib * MIB))
        return torch.full((64,), float(index))


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2, help="of each rank")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--steps", type=int, default=50, help="an epoch")
    parser.add_argument("--step-ms", type=int, default=50)
    parser.add_argument("--start-method", choices=("fork", "spawn", "forkserver"), default="fork")
    parser.add_argument("--persistent-workers", action="store_true")
    parser.add_argument("--leaking-rank", type=int)
    parser.add_argument("--leaking-worker", type=int, help="of that rank; without it the rank itself leaks")
    parser.add_argument("--leak-mib", type=int, default=16, help="a sample, or a step")
    parser.add_argument("--auxiliary", action="store_true", help="rank 0 has a process that logs, and that grows")
    parser.add_argument("--keeps", type=int, help="of what would leak no more than so many pieces (default: all)")
    parser.add_argument("--ready", help="a file that rank 0 makes after its first step")
    return parser.parse_args()


def main() -> None:
    """One rank."""
    args = options()
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    rank = dist.get_rank()
    leaks = rank == args.leaking_rank
    if args.auxiliary and rank == 0:
        told = (args.leak_mib, args.keeps)
        multiprocessing.get_context("fork").Process(target=log, args=told, daemon=True).start()
    data = Samples(args.steps, leaks_in=args.leaking_worker if leaks else None, leak_mib=args.leak_mib)
    loader = DataLoader(
        data,
        num_workers=args.workers,
        multiprocessing_context=args.start_method,
        persistent_workers=args.persistent_workers,
    )
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    kept: collections.deque[bytes] = collections.deque(maxlen=args.keeps)
    for epoch in range(args.epochs):
        for step, loss in enumerate(losses(model, optimizer, loader)):
            if leaks and args.leaking_worker is None:
                kept.append(bytes([1]) * (args.leak_mib * MIB))
            if rank == 0 and step % 10 == 0:
                print(f"epoch {epoch + 1}/{args.epochs} step {step}/{args.steps} loss {loss:.4f}", flush=True)
            if rank == 0 and args.ready:
                open(args.ready, "w", encoding="utf-8").close()
            time.sleep(args.step_ms / 1000)
    dist.destroy_process_group()


def losses(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, loader: DataLoader[torch.Tensor]
) -> Iterator[float]:
    """One epoch."""
    for batch in loader:
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        yield loss.item()


def log(grow_mib: int, most: int | None) -> None:
    """What a logger of rank 0 is: a process of its own, here one that keeps all that it was told, or the last of it."""
    ctypes.CDLL(None).prctl(PR_SET_NAME, b"metric_logger", 0, 0, 0)
    told: collections.deque[bytes] = collections.deque(maxlen=most)
    while os.getppid() != 1:
        told.append(bytes([1]) * (grow_mib * MIB))
        time.sleep(0.1)


if __name__ == "__main__":
    main()

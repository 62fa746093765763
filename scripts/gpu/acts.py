# SPDX-License-Identifier: Apache-2.0
"""What a job does with a GPU until it fails or survives: `python3 acts.py NAME`. Standard library and PyTorch alone."""

import ctypes
import json
import mmap
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scripts.gpu import accounting, libcuda

CALLS = 2000
TORCH = {
    "torch-default": "",
    "torch-expandable-segments": "expandable_segments:True",
    "torch-malloc-async": "backend:cudaMallocAsync",
    "torch-fraction": "",
    "torch-retry": "",
}
"""Acts of PyTorch, each with its PYTORCH_CUDA_ALLOC_CONF."""
PINS = ("cuMemHostAlloc", "cuMemHostRegister_v2")
LIKELY, PROVED = "likely", "proved"
EXPECTED = {
    "driver": ("cuda_oom", (PROVED,), 1),
    "driver-retry": ("exited", (PROVED, LIKELY), 0),
    "torch-default": ("cuda_oom", (PROVED,), 1),
    # How much such a call lacked is not always told: pieces are small, or a pool has some of it.
    "torch-expandable-segments": ("cuda_oom", (PROVED, LIKELY), 1),
    "torch-malloc-async": ("cuda_oom", (PROVED, LIKELY), 1),
    # PyTorch itself refuses, and the driver is never asked: there are its words alone.
    "torch-fraction": ("cuda_oom", (LIKELY,), 1),
    "torch-retry": ("exited", (PROVED, LIKELY), 0),
}
"""The verdict's cause and strength as they must be, and the status of the job. Without a cgroup of its own a job that
ended well is likely where the machine counted something meanwhile."""


def driver(*, survives: bool) -> int:
    """Take all of the device's memory, until a call fails; let go of it and try again, or give up."""
    cuda = libcuda.Cuda()
    cuda.use_first_device()
    free, total = cuda.free_and_total()
    step, kept = max(free // 16, 1 << 21), []
    for _ in range(64):
        result, address = cuda.allocate(step)
        if result:
            break
        kept.append(address)
    left, _ = cuda.free_and_total()
    print(f"{len(kept)} x {step} B of {free} B free, {total} B in all; then {result}, {left} B free", flush=True)
    if not survives:
        return 1
    for address in kept:
        cuda.free(address)
    again, _ = cuda.allocate(step)
    print(f"after all was freed: {again}", flush=True)
    return again


def torch_fails() -> int:
    """Tensors until there is no room; PyTorch says so and ends with exit 1."""
    import torch

    if sys.argv[1] == "torch-fraction":
        torch.cuda.set_per_process_memory_fraction(0.1)
    kept = []
    size = max(torch.cuda.mem_get_info()[0] // 16, 1 << 21)
    while True:
        kept.append(torch.empty(size, dtype=torch.uint8, device="cuda"))


def torch_retries() -> int:
    """Fill PyTorch's cache with blocks that no large tensor fits into: it frees them, and asks anew."""
    import torch

    free = torch.cuda.mem_get_info()[0]
    small = [torch.empty(free // 64, dtype=torch.uint8, device="cuda") for _ in range(58)]
    small.clear()
    large = torch.empty(free // 2, dtype=torch.uint8, device="cuda")
    retries = torch.cuda.memory_stats()["num_alloc_retries"]
    print(f"{large.numel()} B after {retries} retries", flush=True)
    return 0 if retries else 3


def calls() -> int:
    """Time of one allocation and one free of 2 MiB, the smaller half of several rounds."""
    cuda = libcuda.Cuda()
    cuda.use_first_device()
    rounds = []
    for _ in range(10):
        began = time.perf_counter_ns()
        for _ in range(CALLS // 10):
            cuda.free(cuda.allocate(1 << 21)[1])
        rounds.append((time.perf_counter_ns() - began) / (CALLS // 10))
    print(f"{sorted(rounds)[len(rounds) // 4]:.0f}", flush=True)
    return 0


def pin(kind: str, size: int) -> int:
    """Pin host memory; print the call's result, and all counters before, meanwhile and after."""
    cuda = libcuda.Cuda()
    cuda.use_first_device()
    looks = []
    if kind == "cuMemHostAlloc":
        looks.append(accounting.look())
        pointer = ctypes.c_void_p()
        result = cuda.call(kind, ctypes.byref(pointer), ctypes.c_size_t(size), 0)
        looks.append(accounting.look())
        cuda.call("cuMemFreeHost", pointer)
    else:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        ctypes.memset(start, 1, size)
        looks.append(accounting.look())
        result = cuda.call(kind, ctypes.c_void_p(start), ctypes.c_size_t(size), 0)
        looks.append(accounting.look())
        cuda.call("cuMemHostUnregister", ctypes.c_void_p(start))
    looks.append(accounting.look())
    print(json.dumps({"result": result, "looks": looks}), flush=True)
    return 0


def main() -> int:
    """Play one."""
    name = sys.argv[1]
    try:
        if name in {"driver", "driver-retry"}:
            return driver(survives=name == "driver-retry")
        if name == "calls":
            return calls()
        if name in PINS:
            return pin(name, int(sys.argv[2]))
    except libcuda.NoCudaError as error:
        print(error, file=sys.stderr)
        return 5
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = TORCH[name]
    return torch_retries() if name == "torch-retry" else torch_fails()


if __name__ == "__main__":
    sys.exit(main())

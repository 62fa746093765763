# SPDX-License-Identifier: Apache-2.0
"""Device memory, in the words of torch by version, TensorFlow, JAX, vLLM and NCCL; and what only sounds like it.

A text may have been caught, logged and survived: it says that something was refused, not that it ended the job.
"""

import re

from tracer.logs.training.shape import SIZE, SMALL, Found, Rule, asks, found, integer, numbers, rule, says, size

_KEYS = (
    ("requested_bytes", re.compile(rf"[Tt]ried to allocate (?P<it>{SIZE})|Requested size: (?P<that>{SIZE})")),
    ("total_bytes", re.compile(rf"(?P<it>{SIZE}) total capacity|total capaci?ty of (?P<that>{SIZE})")),
    ("free_bytes", re.compile(rf"of which (?P<it>{SIZE}) is free|; (?P<that>{SIZE}) free")),
    ("in_use_bytes", re.compile(rf"this process has (?P<it>{SIZE}) memory in use")),
    (
        "allocated_bytes",
        re.compile(rf"(?P<it>{SIZE}) already allocated|allocated memory (?P<that>{SIZE}) is allocated"),
    ),
    ("reserved_bytes", re.compile(rf"(?P<it>{SIZE}) (?:cached|reserved in total)")),
    ("unallocated_bytes", re.compile(rf"(?P<it>{SIZE}) is reserved by PyTorch but unallocated")),
    ("allowed_bytes", re.compile(rf"(?P<it>{SIZE}) allowed;")),
)
_DEVICE = re.compile(rf"\bGPU (?P<device>{SMALL})\b|\bdevice (?P<other>{SMALL})\b")


def _torch(match: re.Match[str], text: str) -> Found:
    figures: dict[str, float | None] = {}
    for name, pattern in _KEYS:
        hit = pattern.search(text, match.start())
        figures[name] = size(hit["it"] or hit.groupdict().get("that")) if hit is not None else None
    device = _DEVICE.search(text, match.start())
    figures["device"] = integer(device["device"] or device["other"]) if device is not None else None
    return found("device_oom", what=match["backend"], numbers=numbers(**figures))


def _bfc(match: re.Match[str], text: str) -> Found:
    """TensorFlow's pools. Its own words tell a warning from a failure; a cut line does not tell which it was."""
    pool = match["pool"]
    behind = text[match.end() :]
    harmless = "not a failure" in text or " with freed_by_count" in behind or "." not in behind[:1] + behind[-1:]
    harmless = harmless and not behind.startswith((" (rounded", "(rounded"))
    about = "device_retry" if harmless else "pinned_alloc" if "host" in pool else "device_oom"
    if pool.lower() == "cpu":
        about = "host_alloc"
    return found(about, what=pool, numbers=numbers(requested_bytes=size(match["size"])))


def _tensor(match: re.Match[str], _: str) -> Found:
    on_host = match["where"] is not None and match["where"].lower().endswith("cpu:0")
    return found("host_alloc" if on_host else "device_oom", what="TensorFlow")


RULES: tuple[Rule, ...] = (
    rule(
        "out of memory. ",
        r"(?P<backend>CUDA|HIP|XPU|NPU|MPS|MUSA|MLU) out of memory\. "
        r"(?:Tried to allocate [0-9m]|Allocation was preemptively rejected)",
        _torch,
    ),
    rule("outofmemoryerror: cuda out of memory", r"OutOfMemoryError: (?P<backend>CUDA|HIP) out of memory", _torch),
    rule(
        "memory mapping failed with oom",
        rf"expandable_segments: memory mapping failed with OOM on device (?P<device>{SMALL})",
        asks("device_oom", "CUDA"),
    ),
    rule(
        "would exceed allowed memory",
        rf"Allocation on device (?P<device>{SMALL})\b[^\n]{{0,40}}would exceed allowed memory",
        asks("device_oom", "CUDA"),
    ),
    rule(
        "[cudamallocasync] recovered",
        r"\[cudaMallocAsync\] recovered from an allocation failure",
        says("device_retry", what="CUDA"),
    ),
    rule(
        "error: out of memory",
        r"(?:CUDA|HIP)(?: driver| runtime)? error: out of memory",
        says("cuda_error", what="out of memory"),
    ),
    rule(
        "alloc_failed",
        r"\b(?:CUBLAS|CUDNN|CUSOLVER|CUSPARSE)_STATUS_ALLOC_FAILED\b",
        says("device_oom", what="library workspace"),
    ),
    rule("cuda failure", r"Cuda failure(?: \d{1,4})? '?out of memory'?", says("device_oom", what="NCCL")),
    rule(
        "failed to cuda calloc",
        r"Failed to CUDA (?:calloc|malloc)(?: async)? (?P<bytes>\d{1,15}) bytes",
        asks("device_oom", "NCCL"),
    ),
    rule(
        "ran out of memory trying to allocate",
        rf"Allocator \((?P<pool>\w{{1,40}})\) ran out of memory trying to allocate (?P<size>{SIZE})",
        _bfc,
    ),
    rule(
        "oom when allocating tensor",
        r"OOM when allocating tensor with shape\[[0-9, ]{0,120}\](?:[^\n]{0,120}? on "
        r"(?P<where>/job:[\w/:]{1,80}))?",
        _tensor,
    ),
    rule(
        "from device: ",
        rf"failed to allocate (?P<size>{SIZE})(?: \(\d{{1,16}} bytes\))? from device: CUDA_ERROR_OUT_OF_MEMORY",
        asks("device_oom", "TensorFlow"),
    ),
    rule(
        "resource_exhausted: ",
        rf"RESOURCE_EXHAUSTED: Out of memory (?:while trying to allocate|allocating) (?P<size>{SIZE})",
        asks("device_oom", "XLA"),
    ),
    rule(
        "memory space hbm",
        rf"Ran out of memory in memory space hbm\.?(?: Used (?P<used>{SIZE}) of (?P<total>{SIZE}) hbm)?",
        asks("device_oom", "TPU"),
    ),
    rule(
        "no available memory for the cache",
        r"No available memory for the cache blocks",
        says("device_budget", what="vLLM"),
    ),
    rule(
        "on startup is less than desired",
        r"Free memory on device[^\n]{0,20} \([\d.]{1,12}/(?P<total>[\d.]{1,12} GiB)\) on startup "
        r"is less than desired",
        asks("device_budget", "vLLM"),
    ),
)

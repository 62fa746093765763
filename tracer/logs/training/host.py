# SPDX-License-Identifier: Apache-2.0
"""Host memory that was refused, and nobody killed: allocators, mmap, pinned memory that CUDA calls its own."""

from tracer.logs.training.shape import SIZE, Rule, asks, rule, says

RULES: tuple[Rule, ...] = (
    rule(
        "defaultcpuallocator",
        r"DefaultCPUAllocator: (?:can't allocate memory|not enough memory): you tried to allocate "
        r"(?P<bytes>\d{1,20}) bytes",
        asks("host_alloc", "DefaultCPUAllocator"),
    ),
    rule(
        "unable to allocate",
        rf"Unable to allocate (?P<size>{SIZE}) for an array with shape",
        asks("host_alloc", "numpy"),
    ),
    rule("memoryerror", r"^(?:[\w.]{1,60}\.)?_?(?:Array)?MemoryError(?::|$)", says("host_alloc", what="MemoryError")),
    rule("bad_alloc", r"\bstd::bad_alloc\b", says("host_alloc", what="std::bad_alloc")),
    rule("[errno 12]", r"\[Errno 12\] Cannot allocate memory", says("host_alloc", what="ENOMEM")),
    rule("malloc of size", r"\bmalloc of size (?P<bytes>\d{1,20}) failed", asks("host_alloc", "Arrow")),
    rule("unable to mmap", r"\bunable to mmap (?P<bytes>\d{1,20}) bytes", asks("host_alloc", "mmap")),
    rule(
        "you tried to mmap", rf"unable to mmap memory: you tried to mmap (?P<size>{SIZE})", asks("host_alloc", "mmap")
    ),
    rule(
        "bytes on host: cuda_error",
        r"failed to alloc (?P<bytes>\d{1,20}) bytes on host: CUDA_ERROR_OUT_OF_MEMORY",
        asks("pinned_alloc", "TensorFlow"),
    ),
    rule(
        "pinned host memory of size",
        r"could not allocate pinned host memory of size: (?P<bytes>\d{1,20})",
        asks("pinned_alloc", "TensorFlow"),
    ),
    rule(
        "cudapinnedplace",
        r"Cannot allocate (?P<size>[\d.]{1,16} ?[KMG]?i?(?:B|bytes)) in CUDAPinnedPlace",
        asks("pinned_alloc", "Paddle"),
    ),
)

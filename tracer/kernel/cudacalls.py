# SPDX-License-Identifier: Apache-2.0
"""What each function of libcuda that is watched is given and does, for the program of `bpf/cuda.c` that sees it.

That program is compiled once and loaded for each function, with what it is to know as a number in its code: to compile
one for each took 0.6 s, to load them takes 15 ms. Signatures: cuda.h of CUDA 12 and 13.
Runs in the loader child: Python 3.8, standard library only.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

ENTERED, RETURNED = "on_cuda_enter", "on_cuda_return"
"""The program that is made for each function, and the one for all that return."""

MARK = 0x0C0DA000
"""What stands in the code of `ENTERED` in place of the number."""
_MOV_IMMEDIATE = 0xB7
"""BPF_ALU64 | BPF_MOV | BPF_K."""
_INSTRUCTION = struct.Struct("=BBhi")

DEVICE, MANAGED, PINNED, REGISTERED, OTHER = 1, 2, 3, 4, 5
"""`tracer.events.CudaMemory`."""
ALLOCATES, REGISTERS, FREES, TELLS = 0, 1, 2, 3
"""What it does: its answer goes where the first argument points, or it is about what that is."""
ADDRESSES, REGISTRATIONS, HANDLES = 0, 1, 2
"""What is freed by one number and is something else by the same number is kept apart."""
NO_SIZE, SECOND, THIRD_BY_FOURTH = 0, 1, 2
"""Where the size stands: in no argument, in the second, or it is a product (rows may be longer than asked for)."""


class Function(NamedTuple):
    """One function."""

    name: str
    symbol: int
    """`tracer.events.CudaSymbol`."""
    memory: int
    action: int = ALLOCATES
    space: int = ADDRESSES
    size: int = NO_SIZE
    narrow_size: bool = False
    """Sizes are of 32 bits, as before CUDA 3.2: such functions have no suffix."""
    narrow_address: bool = False
    """CUdeviceptr is, too, and sizes that are told."""
    by_property: bool = False
    """The third argument points to a CUmemAllocationProp, which says where the memory lies."""

    @property
    def code(self) -> int:
        """What the program is to know, as `bpf/cuda.c` takes it apart."""
        flags = self.narrow_size | self.narrow_address << 1 | self.by_property << 2
        return self.symbol | self.memory << 8 | self.action << 12 | self.space << 16 | self.size << 20 | flags << 24


def _other(name: str, symbol: int) -> Function:
    return Function(name, symbol, OTHER)


FUNCTIONS = (
    Function("cuMemAlloc", 1, DEVICE, size=SECOND, narrow_size=True, narrow_address=True),
    Function("cuMemAlloc_v2", 2, DEVICE, size=SECOND),
    Function("cuMemAllocPitch", 3, DEVICE, size=THIRD_BY_FOURTH, narrow_size=True, narrow_address=True),
    Function("cuMemAllocPitch_v2", 4, DEVICE, size=THIRD_BY_FOURTH),
    Function("cuMemAllocManaged", 5, MANAGED, size=SECOND),
    Function("cuMemAllocAsync", 6, DEVICE, size=SECOND),
    Function("cuMemAllocAsync_ptsz", 7, DEVICE, size=SECOND),
    Function("cuMemAllocFromPoolAsync", 8, DEVICE, size=SECOND),
    Function("cuMemAllocFromPoolAsync_ptsz", 9, DEVICE, size=SECOND),
    Function("cuMemCreate", 10, DEVICE, space=HANDLES, size=SECOND, by_property=True),
    Function("cuMemHostAlloc", 11, PINNED, size=SECOND),
    Function("cuMemAllocHost", 12, PINNED, size=SECOND, narrow_size=True),
    Function("cuMemAllocHost_v2", 13, PINNED, size=SECOND),
    Function("cuMemHostRegister", 14, REGISTERED, REGISTERS, REGISTRATIONS, SECOND),
    Function("cuMemHostRegister_v2", 15, REGISTERED, REGISTERS, REGISTRATIONS, SECOND),
    # Sizes stand in a descriptor.
    Function("cuArrayCreate", 16, DEVICE),
    Function("cuArrayCreate_v2", 17, DEVICE),
    Function("cuArray3DCreate", 18, DEVICE),
    Function("cuArray3DCreate_v2", 19, DEVICE),
    Function("cuMipmappedArrayCreate", 20, DEVICE),
    # These give no memory to anyone, and want some.
    _other("cuMemPoolCreate", 21),
    _other("cuCtxCreate", 22),
    _other("cuCtxCreate_v2", 23),
    _other("cuCtxCreate_v3", 24),
    _other("cuCtxCreate_v4", 25),
    _other("cuDevicePrimaryCtxRetain", 26),
    _other("cuModuleLoadData", 27),
    _other("cuModuleLoadDataEx", 28),
    _other("cuLibraryLoadData", 29),
    _other("cuGraphInstantiate", 30),
    _other("cuGraphInstantiate_v2", 31),
    _other("cuGraphInstantiateWithFlags", 32),
    _other("cuGraphInstantiateWithParams", 33),
    _other("cuGraphInstantiateWithParams_ptsz", 34),
    _other("cuStreamCreate", 35),
    _other("cuStreamCreateWithPriority", 36),
    Function("cuMemFree", 37, DEVICE, FREES, narrow_address=True),
    Function("cuMemFree_v2", 38, DEVICE, FREES),
    Function("cuMemFreeAsync", 39, DEVICE, FREES),
    Function("cuMemFreeAsync_ptsz", 40, DEVICE, FREES),
    Function("cuMemFreeHost", 41, PINNED, FREES),
    Function("cuMemHostUnregister", 42, REGISTERED, FREES, REGISTRATIONS),
    Function("cuMemRelease", 43, DEVICE, FREES, HANDLES),
    Function("cuMemGetInfo", 44, OTHER, TELLS, narrow_address=True),
    Function("cuMemGetInfo_v2", 45, OTHER, TELLS),
)


def constants() -> dict[str, int]:
    """What `bpf/cuda.c` knows of all this."""
    names = (
        "ALLOCATES", "REGISTERS", "FREES", "TELLS", "ADDRESSES", "REGISTRATIONS", "HANDLES", "NO_SIZE", "SECOND",
        "THIRD_BY_FOURTH",
    )  # fmt: skip
    return {"CUDA_CODE": MARK, **{"CUDA_" + name: globals()[name] for name in names}}


def program_for(function: Function | None, template: bytes) -> bytes:
    """The instructions of the program for one function.

    Args:
        function: which; `None`: for all, it is told with each call which it is.
        template: of `ENTERED`, as compiled.

    Raises:
        ValueError: the mark does not stand there once, and nowhere else.
    """
    places = [
        at
        for at in range(0, len(template), _INSTRUCTION.size)
        if _INSTRUCTION.unpack_from(template, at)[0] == _MOV_IMMEDIATE
        and _INSTRUCTION.unpack_from(template, at)[3] == MARK
    ]
    if len(places) != 1:
        raise ValueError(f"{len(places)} places for the number of a function in its program")
    code = bytearray(template)
    struct.pack_into("=i", code, places[0] + 4, 0 if function is None else function.code)
    return bytes(code)

# SPDX-License-Identifier: Apache-2.0
"""What the verdict document says of CUDA: the `cuda` object of an incident."""

from typing import Literal

import msgspec

Covered = Literal["watched", "unmapped", "other_vendor", "unknown"]
"""watched: its calls of libcuda were; unmapped: it had no GPU library mapped; other_vendor: one that is not NVIDIA's,
whose calls are not watched; unknown: neither was seen."""


class CudaProcess(msgspec.Struct, frozen=True, kw_only=True):
    """One process of the job, as of the incident."""

    pid: int
    start_ns: int | None = None
    who: str | None = None
    """`rank 0`."""
    covered: Covered
    why: str | None = None
    """Of `unknown` and `other_vendor`: the reason."""
    watched_from: str | None = None
    """UTC: its calls were watched from here on."""
    unwatched_ns: int | None = None
    """How long it may have had libcuda mapped before that, at most; 0: not at all; `None`: not known."""
    libraries: tuple[str, ...] = ()
    """Paths, as the process sees them."""
    device_calls: int | None = None
    """Calls that asked for such memory so far, failed ones included; `None`: none was told."""
    device_failed: int | None = None
    managed_calls: int | None = None
    managed_failed: int | None = None
    pinned_calls: int | None = None
    pinned_failed: int | None = None
    registered_calls: int | None = None
    registered_failed: int | None = None
    other_failed: int | None = None
    """Of contexts, modules, streams and the like."""
    device_bytes: int | None = None
    """Allocated and not freed."""
    managed_bytes: int | None = None
    pinned_bytes: int | None = None
    registered_bytes: int | None = None
    unsurvived: int = 0
    """Calls that were refused memory, and it never got as much after."""
    unknown_frees: int | None = None
    """Of what was not seen to be allocated: balances are lower bounds then."""


class CudaDevice(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU, by its newest sample before the incident."""

    index: int
    uuid: str
    name: str | None = None
    total_bytes: int | None = None
    used_bytes: int | None = None
    free_bytes: int | None = None
    at: str | None = None


class CudaFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of CUDA up to an incident."""

    processes: tuple[CudaProcess, ...] = ()
    """Those that had a GPU library mapped or called one, and those of which that is not known."""
    unmapped: int = 0
    """How many more had no GPU library mapped."""
    left_out: int = 0
    """How many more of `processes` there were."""
    devices: tuple[CudaDevice, ...] = ()
    device_memory_unknown: str | None = None
    """Why there are no devices."""
    pinned_bytes: int = 0
    """Of all processes, as `managed_bytes`."""
    managed_bytes: int = 0
    registered_bytes: int = 0
    unaccounted_bytes: int | None = None
    """Memory of the machine that no account of the kernel's has: as much more as at the start."""
    not_probed: tuple[str, ...] = ()
    """Functions that a library has and that could not be watched."""
    unknown_functions: tuple[str, ...] = ()
    """That it exports, that look like allocation and that are not watched."""

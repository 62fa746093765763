# SPDX-License-Identifier: Apache-2.0
"""The driver's library through ctypes, as little of it as the checks need. Standard library alone."""

import ctypes
from collections.abc import Iterator

OUT_OF_MEMORY = 2
NAMES = {2: "out of memory", 3: "not initialised", 100: "no device", 803: "driver and library do not match"}
# What cudart 12.9 and 13.0 ask for: base name, version of the ABI, flags (2: the per-thread default stream).
ASKED = (
    ("cuMemAlloc", 3020, (0,)),
    ("cuMemAllocPitch", 3020, (0,)),
    ("cuMemAllocManaged", 6000, (0,)),
    ("cuMemHostAlloc", 2020, (0,)),
    ("cuMemHostRegister", 6050, (0,)),
    ("cuMemAllocAsync", 11020, (0, 2)),
    ("cuMemAllocFromPoolAsync", 11020, (0, 2)),
    ("cuMemCreate", 10020, (0,)),
    ("cuArrayCreate", 3020, (0,)),
    ("cuArray3DCreate", 3020, (0,)),
    ("cuMipmappedArrayCreate", 5000, (0,)),
    ("cuMemFree", 3020, (0,)),
    ("cuMemFreeHost", 2000, (0,)),
    ("cuMemFreeAsync", 11020, (0, 2)),
    ("cuMemPoolCreate", 11020, (0,)),
)
_ENDINGS = ("", "_v2", "_v3", "_ptsz", "_v2_ptsz", "_v3_ptsz")


class NoCudaError(Exception):
    """There is no device to check, and why."""


class Cuda:
    """The library, initialised."""

    def __init__(self) -> None:
        try:
            self.library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise NoCudaError(f"no libcuda.so.1: {error}") from error
        result = self.call("cuInit", 0)
        if result:
            raise NoCudaError(f"cuInit: {result}, {NAMES.get(result, 'another error')}")
        count = ctypes.c_int()
        if self.call("cuDeviceGetCount", ctypes.byref(count)) or not count.value:
            raise NoCudaError("the driver shows no device")

    def call(self, name: str, *arguments: object) -> int:
        """The result; sizes and addresses come as ctypes."""
        return int(getattr(self.library, name)(*arguments))

    def version(self) -> int:
        """Of CUDA, that the driver knows."""
        value = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(value))
        return value.value

    def name(self) -> str:
        """Of the first device."""
        text = ctypes.create_string_buffer(128)
        self.call("cuDeviceGetName", text, 128, 0)
        return text.value.decode("utf-8", "replace")

    def use_first_device(self) -> None:
        """Make its primary context current, as cudart does."""
        context = ctypes.c_void_p()
        result = self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        if result or self.call("cuCtxSetCurrent", context):
            raise NoCudaError(f"no context: {result}")

    def free_and_total(self) -> tuple[int, int]:
        """Bytes of the current device."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def allocate(self, size: int) -> tuple[int, int]:
        """Result and address."""
        address = ctypes.c_uint64()
        return self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size)), address.value

    def free(self, address: int) -> int:
        """Result."""
        return self.call("cuMemFree_v2", ctypes.c_uint64(address))


def addresses(cuda: Cuda) -> Iterator[tuple[str, str]]:
    """Each function as cudart asks for it, and the exported symbol that lies at that very address; empty: none."""
    for base, version, all_flags in ASKED:
        exported = {symbol: at for symbol in (base + end for end in _ENDINGS) if (at := _exported(cuda, symbol))}
        for flags in all_flags:
            pointer, status = ctypes.c_void_p(), ctypes.c_int()
            result = cuda.call(
                "cuGetProcAddress_v2", base.encode(), ctypes.byref(pointer), version, ctypes.c_uint64(flags),
                ctypes.byref(status),
            )  # fmt: skip
            same = [symbol for symbol, at in exported.items() if at == pointer.value]
            asked = f"{base}, {version}, flags {flags}"
            yield asked, " = ".join(same) if result == 0 and pointer.value else f"(not given: {result})"


def _exported(cuda: Cuda, symbol: str) -> int | None:
    try:
        return ctypes.cast(getattr(cuda.library, symbol), ctypes.c_void_p).value
    except AttributeError:
        return None

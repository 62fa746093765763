# SPDX-License-Identifier: Apache-2.0
"""System calls that BPF needs and Python has no name for.

Runs in the loader child as well: Python 3.8, standard library only.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

BPF_SYSCALL = {"x86_64": 321, "aarch64": 280, "riscv64": 280}
PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241, "riscv64": 241}

_MAP_CREATE = 0
_MAP_TYPE_RINGBUF = 27
"""include/uapi/linux/bpf.h."""

_TYPE_SOFTWARE, _SW_BPF_OUTPUT, _SAMPLE_RAW = 1, 10, 1 << 10
_WAKEUP_EVENTS = 1
_FLAG_FD_CLOEXEC = 1 << 3
_ATTRIBUTE = struct.Struct("=IIQQQQQII8x")
"""struct perf_event_attr up to its first published size (PERF_ATTR_SIZE_VER0), include/uapi/linux/perf_event.h."""


def has_ring_buffer(page_bytes: int) -> bool:
    """Whether this kernel knows BPF ring buffers: the smallest one is made, and let go.

    An unknown type of map is EINVAL. Whatever else stands in the way (no right, no memory) stands in the way of
    all maps: that is for those to say that are really needed.
    """
    attribute = ctypes.create_string_buffer(struct.pack("=IIIII", _MAP_TYPE_RINGBUF, 0, 0, page_bytes, 0))
    try:
        os.close(_call(BPF_SYSCALL, _MAP_CREATE, attribute, 20))
    except OSError as error:
        return error.errno != errno.EINVAL
    return True


def open_bpf_output(cpu: int) -> int:
    """Descriptor of what the programs of one CPU write to, for a map of perf events; wakes at each record.

    Raises:
        OSError: with what was tried as its text.
    """
    attribute = ctypes.create_string_buffer(
        _ATTRIBUTE.pack(
            _TYPE_SOFTWARE, _ATTRIBUTE.size, _SW_BPF_OUTPUT, 1, _SAMPLE_RAW, 0, 0, _WAKEUP_EVENTS, 0
        )
    )  # fmt: skip
    try:
        return _call(PERF_EVENT_OPEN, attribute, -1, cpu, -1, ctypes.c_ulong(_FLAG_FD_CLOEXEC))
    except OSError as error:
        raise OSError(error.errno, f"perf_event_open for CPU {cpu}: {error.strerror}") from error


def _call(numbers: dict[str, int], *arguments: object) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    result = int(libc.syscall(numbers[os.uname().machine], *arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result

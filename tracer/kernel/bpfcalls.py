# SPDX-License-Identifier: Apache-2.0
"""System calls that BPF needs and Python has no name for.

Runs in the loader child as well: Python 3.8, standard library only.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct

BPF_SYSCALL = {"x86_64": 321, "aarch64": 280, "riscv64": 280}
PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241, "riscv64": 241}

KPROBE, RAW_TRACEPOINT = 2, 17
"""enum bpf_prog_type, include/uapi/linux/bpf.h."""

UPROBE_MULTI = 48
"""BPF_TRACE_UPROBE_MULTI of enum bpf_attach_type: 6.6."""

_MAP_CREATE, _PROG_LOAD, _RAW_TRACEPOINT_OPEN, _LINK_CREATE = 0, 5, 17, 28
_LOG_BYTES = 1 << 20
_INSTRUCTION = struct.Struct("=BBhi")
_LOAD_64, _PSEUDO_MAP_FD = 0x18, 1
_MAP_TYPE_RINGBUF = 27
"""include/uapi/linux/bpf.h."""

_TYPE_SOFTWARE, _SW_BPF_OUTPUT, _SAMPLE_RAW = 1, 10, 1 << 10
_WAKEUP_EVENTS = 1
_FLAG_FD_CLOEXEC = 1 << 3
_ATTRIBUTE = struct.Struct("=IIQQQQQII8x")
"""struct perf_event_attr up to its first published size (PERF_ATTR_SIZE_VER0), include/uapi/linux/perf_event.h."""
_UPROBE = struct.Struct("=IIQQQQQIIQQ")
"""The same up to probe_offset (PERF_ATTR_SIZE_VER1)."""
_IOC_ENABLE, _IOC_SET_BPF = 0x2400, 0x4004_2408


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


def load_program(kind: int, instructions: bytes, name: str, attach_type: int = 0) -> int:
    """Descriptor of a program.

    Args:
        kind: `KPROBE` (uprobes as well) or `RAW_TRACEPOINT`.
        instructions: with the descriptors of the maps in place.
        name: to tell it by in lists of programs; cut after 15 characters.
        attach_type: 0, or `UPROBE_MULTI`.

    Raises:
        OSError: the kernel refuses it; with the last words of the verifier.
    """
    log = ctypes.create_string_buffer(_LOG_BYTES)
    code = ctypes.create_string_buffer(instructions, len(instructions))
    licence = ctypes.create_string_buffer(b"GPL")
    for room in (None, log):  # what it says costs time, and is no use where all is well
        # Up to expected_attach_type: 4.17.
        packed = struct.pack(
            "=IIQQIIQII16sII",
            kind, len(instructions) // _INSTRUCTION.size, ctypes.addressof(code), ctypes.addressof(licence),
            int(room is not None), 0 if room is None else _LOG_BYTES, 0 if room is None else ctypes.addressof(room),
            0, 0, name.encode()[:15], 0, attach_type,
        )  # fmt: skip
        attribute = ctypes.create_string_buffer(packed, len(packed))
        try:
            return _call(BPF_SYSCALL, _PROG_LOAD, attribute, len(packed))
        except OSError as error:
            refused = error
    said = log.value.decode("ascii", "replace").splitlines()
    words = [line for line in said if not line.startswith(("processed", "stack depth", "verification time"))][-1:]
    raise OSError(refused.errno, "; ".join([f"{name}: {refused.strerror}", *words]))


def open_raw_tracepoint(tracepoint: str, program: int) -> int:
    """Descriptor of the link by which the program runs at the tracepoint.

    Raises:
        OSError: there is no such tracepoint.
    """
    name = ctypes.create_string_buffer(tracepoint.encode())
    attribute = struct.pack("=QIxxxx", ctypes.addressof(name), program)
    return _call(BPF_SYSCALL, _RAW_TRACEPOINT_OPEN, ctypes.create_string_buffer(attribute, 16), 16)


def open_uprobes(program: int, path: bytes, cookies: dict[int, int], *, returns: bool) -> int:
    """Descriptor of the link by which a program runs at many functions of a file, in every process.

    Args:
        program: loaded for `UPROBE_MULTI`.
        path: of the file.
        cookies: where in it a function's code begins, to what the program is told.
        returns: as they return, and not as they are entered.

    Raises:
        OSError: there can be none.
    """
    held = ctypes.create_string_buffer(path)
    offsets = (ctypes.c_uint64 * len(cookies))(*cookies)
    told = (ctypes.c_uint64 * len(cookies))(*cookies.values())
    packed = struct.pack(
        "=IIIIQQQQIII4x",
        program, 0, UPROBE_MULTI, 0, ctypes.addressof(held), ctypes.addressof(offsets), 0, ctypes.addressof(told),
        len(cookies), int(returns), 0,
    )  # fmt: skip
    return _call(BPF_SYSCALL, _LINK_CREATE, ctypes.create_string_buffer(packed, len(packed)), len(packed))


def has_uprobe_links(program: int) -> bool:
    """Whether `open_uprobes` can work on this kernel: one that knows it misses the file, another one the sense."""
    try:
        os.close(open_uprobes(program, b"/proc/oomtrace-has-no-file", {0: 0}, returns=False))
    except OSError as error:
        return error.errno == errno.ENOENT
    return True


def with_other_maps(instructions: bytes, places: dict[int, int]) -> bytes:
    """A program that uses other maps of the same kind: by descriptor, which it had to which it is to have."""
    code = bytearray(instructions)
    for at in range(0, len(code), _INSTRUCTION.size):
        opcode, registers, offset, immediate = _INSTRUCTION.unpack_from(code, at)
        if opcode == _LOAD_64 and registers >> 4 == _PSEUDO_MAP_FD and immediate in places:
            _INSTRUCTION.pack_into(code, at, opcode, registers, offset, places[immediate])
    return bytes(code)


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


def open_uprobe(pmu: int, config: int, path: bytes, offset: int, *, pid: int = -1) -> int:
    """Descriptor of a uprobe on the file's inode; it counts, until a program is put to it.

    Args:
        pmu: type of such events.
        config: of the event: whether it is about the return.
        path: of the file.
        offset: in the file, where the function's code begins.
        pid: of the process; -1: in each.

    Raises:
        OSError: there can be none.
    """
    held = ctypes.create_string_buffer(path)
    packed = _UPROBE.pack(pmu, _UPROBE.size, config, 0, 0, 0, 0, 0, 0, ctypes.addressof(held), offset)
    attribute = ctypes.create_string_buffer(packed, len(packed))
    cpu = min(os.sched_getaffinity(0)) if pid == -1 else -1  # all processes on all CPUs cannot be said, nor is it meant
    return _call(PERF_EVENT_OPEN, attribute, pid, cpu, -1, ctypes.c_ulong(_FLAG_FD_CLOEXEC))


def run_at(probe: int, program: int) -> None:
    """Have a program run at a probe.

    Raises:
        OSError: it cannot be.
    """
    fcntl.ioctl(probe, _IOC_SET_BPF, program)
    fcntl.ioctl(probe, _IOC_ENABLE, 0)


def _call(numbers: dict[str, int], *arguments: object) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    result = int(libc.syscall(numbers[os.uname().machine], *arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result

# SPDX-License-Identifier: Apache-2.0
"""Whether a probe on a function's return would end the process: tried on a child of ours, before any other has one.

From 6.11 on such a return is a system call on x86-64 ("uprobe: Add uretprobe syscall to speed up return probe"), which
the seccomp filters of containers do not know and refuse, and then the process is killed; until "seccomp: passthrough
uretprobe systemcall without filtering" (6.14, and stable kernels of before). Probes are by inode, so a container would
be hit that nobody watches. Runs in the loader child: Python 3.8, standard library only.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
from typing import Callable

from tracer.kernel import bpfcalls

URETPROBE = 335
"""On x86-64: elsewhere there is no such call."""
FUNCTION = "labs"
"""Of libc: short, and called by nobody else in that child."""

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2
_LOAD, _EQUALS, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _REFUSE = 0x7FFF_0000, 0x0005_0001
"""SECCOMP_RET_ALLOW; SECCOMP_RET_ERRNO with EPERM, as container engines answer."""


def why_returns_hurt(pmu: int, config: int) -> str | None:
    """Why no return may be probed on this kernel; `None`: it harms nobody.

    Args:
        pmu: type of events of uprobes.
        config: of such an event, about a return.

    Raises:
        OSError: it cannot be tried.
    """
    if os.uname().machine != "x86_64":
        return None
    path, offset = place_of(FUNCTION)
    ended_by = tried(_call_filtered, lambda pid: bpfcalls.open_uprobe(pmu, config, path, offset, pid=pid))
    if ended_by is None:
        return None
    return (
        f"on this kernel a probe on a return ends programs whose seccomp filter does not know it ({ended_by}): "
        "those of containers; 6.14 and newer stable kernels mended that"
    )


def tried(call: Callable[[], None], put: Callable[[int], int]) -> str | None:
    """Name of the signal by which a child that makes the call ends, once the probe is there; `None`: none.

    Args:
        call: made in the child.
        put: opens a probe on the child, by its pid, which counts.

    Raises:
        OSError: it was not tried: there is no probe, or the child passed by it.
    """
    wait_fd, go_fd = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.close(go_fd)
            os.read(wait_fd, 1)
            call()
        finally:
            os._exit(0)  # whatever else goes wrong is no harm that a probe does
    hits = 0
    probe = None
    try:
        probe = put(pid)
    finally:
        os.close(wait_fd)
        os.close(go_fd)
        _, status = os.waitpid(pid, 0)
        if probe is not None:
            hits = int.from_bytes(os.read(probe, 8), "little")
            os.close(probe)
    if not os.WIFSIGNALED(status) and not hits:
        raise OSError("whether a probe on a return harms a program could not be tried")
    return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else None


def place_of(function: str) -> tuple[bytes, int]:
    """File and offset in it of a function of our own libc.

    Raises:
        OSError: it lies in no file.
    """
    address = ctypes.cast(getattr(ctypes.CDLL(None), function), ctypes.c_void_p).value or 0
    with open("/proc/self/maps", "rb") as lines:
        for line in lines:
            fields = line.split(None, 5)
            start, _, end = fields[0].partition(b"-")
            if int(start, 16) <= address < int(end, 16) and len(fields) == 6:
                return fields[5].rstrip(b"\n"), address - int(start, 16) + int(fields[2], 16)
    raise OSError(f"{function} lies in no file")


def _call_filtered() -> None:
    """Under a filter that refuses what it does not know."""
    rules = (
        (_LOAD | 0, 0, 0, 0),  # the number of the call
        (_EQUALS, 0, 1, URETPROBE),
        (_RETURN, 0, 0, _REFUSE),
        (_RETURN, 0, 0, _ALLOW),
    )
    program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *rule) for rule in rules))
    header = ctypes.create_string_buffer(struct.pack("=H6xQ", len(rules), ctypes.addressof(program)))
    libc = ctypes.CDLL(None, use_errno=True)
    function = getattr(libc, FUNCTION)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(header), 0, 0)
    function(ctypes.c_long(-1))

# SPDX-License-Identifier: Apache-2.0
"""What a tracer has put into the kernel, and whether it is there still: nothing may stay attached."""

import contextlib
import ctypes
import errno
import os
import struct
from pathlib import Path

from tracer.kernel.bpfcalls import BPF_SYSCALL

OPEN_BY_ID = {"prog": 13, "map": 14, "link": 30}
"""Commands of bpf(2)."""


def bpf_ids(pid):
    """What BPF objects a process holds: programs, maps and links by id."""
    found = set()
    for path in Path(f"/proc/{pid}/fdinfo").iterdir():
        with contextlib.suppress(OSError):
            lines = dict(line.split(":\t") for line in path.read_text().splitlines() if ":\t" in line)
            found |= {(kind, int(lines[f"{kind}_id"])) for kind in OPEN_BY_ID if f"{kind}_id" in lines}
    return found


def still_there(ids):
    """Which of them the kernel still has, whoever holds them."""
    return {(kind, number) for kind, number in ids if _is_there(kind, number)}


def _is_there(kind, number):
    attribute = ctypes.create_string_buffer(struct.pack("=III", number, 0, 0), 12)
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.syscall(BPF_SYSCALL[os.uname().machine], OPEN_BY_ID[kind], attribute, 12)
    if fd >= 0:
        os.close(fd)
        return True
    assert ctypes.get_errno() == errno.ENOENT, os.strerror(ctypes.get_errno())
    return False

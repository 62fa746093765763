# SPDX-License-Identifier: Apache-2.0
"""A small reader of /proc for what psutil does not give: start ticks, NSpid, one pass over status.

Every read is of a process that may vanish or be replaced at any moment: that is `None`, never an error.
"""

import os
import re
from dataclasses import dataclass
from typing import NamedTuple

from tracer.events import ProcessLimits
from tracer.events.signals import PF_KTHREAD
from tracer.pseudofiles import read_bytes
from tracer.units import KIB, NO_LIMIT_BYTES, TICK_NS

_STAT_BYTES = 4096
_ENDED = (b"Z", b"X")
_HEX = re.compile(rb"[0-9a-f]+")
_GPU = re.compile(r"/dev/(nvidia\d{1,4})")
_PT = b"pt_"
_MAX_FDS, _MAX_THREADS = 1024, 512


@dataclass(frozen=True)
class Stat:
    """/proc/PID/stat."""

    comm: str
    state: str
    parent_tgid: int
    session_id: int
    start_tick: int
    kernel_thread: bool = False
    """It is a thread of the kernel's own."""

    @property
    def start_ns(self) -> int:
        """CLOCK_BOOTTIME, floored to a tick."""
        return self.start_tick * TICK_NS


class Row(NamedTuple):
    """One process in the table of all: who it is, and below whom."""

    tgid: int
    parent_tgid: int
    start_ns: int
    """CLOCK_BOOTTIME, floored to a tick."""
    comm: str = ""
    ended: bool = False
    """A zombie without a thread that lives. The leader alone may have ended, and its process goes on."""


@dataclass(frozen=True)
class Status:
    """/proc/PID/status, but for what changes all the time (`sources.memory`)."""

    tgid: int | None = None
    uid: int | None = None
    """Effective."""
    state: str | None = None
    ns_pids: tuple[int, ...] | None = None
    code_bytes: int | None = None
    """VmExe and VmLib."""
    caught: int | None = None
    """SigCgt: bit N-1 for signal N."""


def read_exe(root: str, tgid: int) -> str | None:
    """Path of the running program; `None`: gone, or not allowed to look."""
    try:
        return os.readlink(f"{root}/{tgid}/exe")
    except (OSError, ValueError):
        return None


def is_foreign_user_ns(root: str, tgid: int) -> bool | None:
    """Whether its user namespace is not that of whoever reads; `None`: gone, or not allowed to look."""
    try:
        return os.readlink(f"{root}/{tgid}/ns/user") != os.readlink(f"{root}/self/ns/user")
    except (OSError, ValueError):
        return None


def text_of(raw: bytes) -> str:
    """Bytes from outside as text that can be shown and stored; as `tracer.wire` decodes a comm."""
    return raw.decode("utf-8", "backslashreplace")


def read_stat(proc_root: str, pid: int) -> Stat | None:
    """The line of /proc/PID/stat. comm may hold spaces and parentheses: it ends at the last one."""
    raw = read_bytes(f"{proc_root}/{pid}/stat")
    if raw is None:
        return None
    head, _, rest = raw.rpartition(b")")
    fields = rest.split()
    try:
        return Stat(
            comm=text_of(head[head.index(b"(") + 1 :]),
            state=text_of(fields[0]),
            parent_tgid=int(fields[1]),
            session_id=int(fields[3]),
            start_tick=int(fields[19]),
            kernel_thread=bool(int(fields[6]) & PF_KTHREAD),
        )
    except (ValueError, IndexError):
        return None


def read_table(proc_root: str) -> list[Row]:
    """All processes, in one pass over /proc/PID/stat: three system calls each, for it is done over and over."""
    rows: list[Row] = []
    for name in os.listdir(proc_root):
        if not name.isdecimal():
            continue
        try:
            fd = os.open(f"{proc_root}/{name}/stat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue  # gone
        try:
            head, _, rest = os.read(fd, _STAT_BYTES).rpartition(b")")
            fields = rest.split(None, 20)
            comm = text_of(head.partition(b"(")[2])
            ended = fields[0] in _ENDED and int(fields[17]) <= 1
            rows.append(Row(int(name), int(fields[1]), int(fields[19]) * TICK_NS, comm, ended))
        except (OSError, ValueError, IndexError):
            continue
        finally:
            os.close(fd)
    return rows


def read_status(proc_root: str, pid: int | str) -> Status | None:
    """The lines of /proc/PID/status that matter here. No name can pose as a line: its newlines are escaped."""
    raw = read_bytes(f"{proc_root}/{pid}/status")
    if not raw:
        return None
    lines: dict[bytes, list[bytes]] = {}
    for line in raw.split(b"\n"):
        key, colon, value = line.partition(b":")
        if colon:
            lines.setdefault(key, value.split())
    ns_pids = tuple(number for number in map(_int, lines.get(b"NSpid", ())) if number is not None)
    state = _word(lines, b"State")
    return Status(
        tgid=_int(_word(lines, b"Tgid")),
        uid=_int(_word(lines, b"Uid", 1)),
        state=None if state is None else text_of(state[:1]),
        ns_pids=ns_pids or None,
        code_bytes=_sum(_kib(_word(lines, b"VmExe")), _kib(_word(lines, b"VmLib"))),
        caught=_mask(_word(lines, b"SigCgt")),
    )


def read_limits(proc_root: str, pid: int) -> ProcessLimits | None:
    """What /proc/PID/limits has of memory; `None`: gone, or not allowed to look."""
    raw = read_bytes(f"{proc_root}/{pid}/limits")
    if not raw:
        return None
    # Names have single spaces in them, columns stand further apart.
    rows = (re.split(rb" {2,}", line) for line in raw.split(b"\n"))
    soft = {row[0]: row[1] for row in rows if len(row) > 1}
    bounds = (soft.get(name) for name in (b"Max address space", b"Max data size"))
    address, data = (NO_LIMIT_BYTES if word == b"unlimited" else _int(word) for word in bounds)
    return ProcessLimits(address_bytes=address, data_bytes=data)


def read_devices(proc_root: str, pid: int) -> tuple[str, ...] | None:
    """GPUs that it has open: `nvidia0`, not the control devices. `None`: not allowed to look, or gone."""
    try:
        fds = os.listdir(f"{proc_root}/{pid}/fd")
    except (OSError, ValueError):
        return None
    found: set[str] = set()
    for fd in fds[:_MAX_FDS]:
        try:
            target = os.readlink(f"{proc_root}/{pid}/fd/{fd}")
        except OSError:
            continue
        device = _GPU.fullmatch(target)
        if device is not None:
            found.add(device[1])
    return tuple(sorted(found))


def read_thread_names(proc_root: str, pid: int) -> tuple[str, ...] | None:
    """Names of its threads that begin as PyTorch's do, once each. `None`: gone."""
    try:
        tids = os.listdir(f"{proc_root}/{pid}/task")
    except (OSError, ValueError):
        return None
    found: set[str] = set()
    for tid in tids[:_MAX_THREADS]:
        name = (read_bytes(f"{proc_root}/{pid}/task/{tid}/comm", 64) or b"").rstrip(b"\n")
        if name.startswith(_PT) and tid != str(pid):
            found.add(text_of(name))
    return tuple(sorted(found))


def read_keys(path: str) -> dict[str, int] | None:
    """A file of `KEY VALUE` or `KEY: VALUE kB` lines; kB become bytes. `None`: not readable."""
    raw = read_bytes(path)
    if raw is None:
        return None
    keys: dict[str, int] = {}
    for line in raw.split(b"\n"):
        parts = line.split()
        number = _int(parts[1]) if len(parts) in (2, 3) else None
        if number is not None:
            keys[text_of(parts[0].rstrip(b":"))] = number * KIB if parts[2:] == [b"kB"] else number
    return keys


def _word(lines: dict[bytes, list[bytes]], key: bytes, place: int = 0) -> bytes | None:
    words = lines.get(key, [])
    return words[place] if len(words) > place else None


def _int(word: bytes | None) -> int | None:
    return int(word) if word is not None and word.isdigit() and len(word) < 20 else None


def _mask(word: bytes | None) -> int | None:
    return int(word, 16) if word is not None and len(word) <= 16 and _HEX.fullmatch(word) else None


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _kib(word: bytes | None) -> int | None:
    number = _int(word)
    return None if number is None else number * KIB

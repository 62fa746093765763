# SPDX-License-Identifier: Apache-2.0
"""What passes between the loader child and the session: one message with a report and descriptors.

Both ends import this, so it also holds what the BPF programs and the parent agree on. JSON and not
pickle: the parent believes no object from outside. Python 3.8, standard library only.
"""

from __future__ import annotations

import array
import json
import os
import socket
import zlib
from typing import Any, NamedTuple, Sequence

from tracer.kernel import cudacalls
from tracer.kernel.probes import Hook

MAPS = ("events", "counters", "tree", "reclaim", "settings")
"""The maps whose descriptors are handed over, first and in this order; links follow."""

RING_BUFFER, PERF_BUFFER = "ring_buffer", "perf_buffer"
"""The ways of records to user space, the better one first: the other is for kernels that lack it."""

SHARED_MAPS = ("events", "counters", "tree", "settings")
"""Of these the ones that the programs for CUDA, which another child loads, use as well: the parent hands them to it."""
CUDA_MAPS = ("cuda_running", "cuda_held")
"""What that child hands over in place of `MAPS`; behind the links come the programs for uprobes: see `Report`."""

DROPPED_AT, SENT_AT, UNTRACKED_AT, RECLAIM_LOST_AT, FULL_AT, CUDA_LOST_AT, COUNTER_SLOTS = 0, 32, 64, 65, 66, 67, 68
"""Slots of the counter array: per record kind twice, then single ones."""
KIND_SLOTS = 32
ROOM_BYTES, RECORD_KINDS = 512, 16
"""No record is larger, no kind has a higher number: with a perf buffer each kind has a room on each CPU."""
FOLLOW_ALL_AT, OWN_LEVEL_AT, SETTING_SLOTS = 0, 1, 2
"""Slots of the settings: what the parent switches, and what the programs find out."""
FIRST_PID_NAMESPACE = 0xEFFFFFFC
"""PROC_PID_INIT_INO, include/linux/proc_ns.h; part of the ABI since 3.8."""
RECLAIM_FIELDS = ("memcg_runs", "memcg_stall_ns", "direct_runs", "direct_stall_ns", "pages")
"""Slots of a reclaim total."""

CUDA_RUNNING_BYTES = 832
"""What the programs keep of a process that calls CUDA; its first bytes are a record."""
CUDA_KEY = "=QQII"
"""Of an allocation: its address, whose (`cuda_running.owner`), tgid, kind of number."""
CUDA_OWNER_AT = 30
"""Of `owner` in `cuda_running`, in words: a test holds it against the record's size."""

FOLDERS = ("/tmp", "/dev/shm", "/run", "/var/tmp")  # noqa: S108 - the child makes its own in one of them, with mkdtemp
"""Where the child may put what it compiles against: the first that it can write to."""
MAX_DESCRIPTORS = 200
"""The kernel passes 253 in one message (SCM_MAX_FD)."""
_MAX_REPORT_BYTES = 64 * 1024


class Limits(NamedTuple):
    """Sizes of the maps, chosen by the parent."""

    ring_bytes: int = 1 << 20
    """Some 350 kills with a chain of six levels, while nobody reads."""
    tree_entries: int = 16384
    reclaim_entries: int = 2048
    cuda_processes: int = 1024
    cuda_calls: int = 1024
    """At once, of all threads."""
    cuda_holdings: int = 65536
    """Allocations that were not freed yet, some 90 bytes each: with expandable segments PyTorch has 4000 on a GPU of
    80 GB. Only where there is a libcuda."""


class Report(NamedTuple):
    """What the child did."""

    digest: str
    """Of the events.h that it compiled."""
    hooks: tuple[Hook, ...]
    transport: str = RING_BUFFER
    """Or `PERF_BUFFER`."""
    uprobes: tuple[str, ...] = ()
    """Functions of libcuda whose programs are handed over, in this order, and that of their return."""
    at_once: bool = False
    """One program is for all of these: each link tells it which function it is that was called."""

    @property
    def descriptors(self) -> int:
        """How many go with it."""
        links = sum(hook.attached for hook in self.hooks)
        entered = 1 if self.at_once else len(self.uprobes)
        return len(CUDA_MAPS) + links + entered + 1 if self.uprobes else len(MAPS) + links


class Failure(NamedTuple):
    """Why it did not."""

    stage: str
    why: str
    denied: bool
    """The kernel refused for lack of privilege."""


def constants(
    limits: Limits, page_bytes: int, pid_namespace: int = FIRST_PID_NAMESPACE, transport: str = RING_BUFFER
) -> dict[str, int]:
    """What the programs are compiled with.

    Args:
        limits: sizes of the maps.
        page_bytes: of this kernel.
        pid_namespace: inode number of the namespace that the parent lives in, as /proc/self/ns/pid has it.
        transport: `RING_BUFFER` or `PERF_BUFFER`.
    """
    named = {
        "PERF_BUFFER": int(transport == PERF_BUFFER),
        "ROOM_BYTES": ROOM_BYTES,
        "RECORD_KINDS": RECORD_KINDS,
        "RING_PAGES": max(1, limits.ring_bytes // page_bytes),
        "TREE_ENTRIES": limits.tree_entries,
        "RECLAIM_ENTRIES": limits.reclaim_entries,
        "COUNTER_DROPPED": DROPPED_AT,
        "COUNTER_SENT": SENT_AT,
        "COUNTER_UNTRACKED": UNTRACKED_AT,
        "COUNTER_RECLAIM_LOST": RECLAIM_LOST_AT,
        "COUNTER_FULL": FULL_AT,
        "COUNTER_CUDA_LOST": CUDA_LOST_AT,
        "COUNTER_SLOTS": COUNTER_SLOTS,
        "CUDA_RUNNING_BYTES": CUDA_RUNNING_BYTES,
        "CUDA_OWNER_AT": CUDA_OWNER_AT,
        "CUDA_PROCESSES": limits.cuda_processes,
        "CUDA_CALLS": limits.cuda_calls,
        "CUDA_HOLDINGS": limits.cuda_holdings,
        "RECLAIM_SLOTS": len(RECLAIM_FIELDS),
        "SETTING_FOLLOW_ALL": FOLLOW_ALL_AT,
        "SETTING_OWN_LEVEL": OWN_LEVEL_AT,
        "SETTING_SLOTS": SETTING_SLOTS,
        "OWN_PID_NAMESPACE": 0 if pid_namespace == FIRST_PID_NAMESPACE else pid_namespace,
    }
    named.update(cudacalls.constants())
    named.update(("RECLAIM_" + name.upper(), slot) for slot, name in enumerate(RECLAIM_FIELDS))
    return named


def digest_of(text: bytes) -> str:
    """Tells one events.h from another: against a half-upgraded installation, not against an attacker.

    A checksum from hashlib would be stronger, and would keep 4 MiB of OpenSSL in the resident process.
    """
    return f"{zlib.crc32(text):08x}-{len(text)}"


def send(sock: socket.socket, content: Report | Failure, descriptors: list[int]) -> None:
    """Sends the one message. Descriptors go in the order of `MAPS`, then the links.

    Raises:
        OSError: the other end is gone, or the message is too large.
    """
    tagged = {"type": type(content).__name__, "content": content}
    data = json.dumps(tagged).encode()
    passed = array.array("i", descriptors)
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, passed)] if descriptors else []
    sock.sendmsg([data], ancillary)


def lend(sock: socket.socket, descriptors: Sequence[int]) -> None:
    """Gives the child descriptors of `SHARED_MAPS`, in that order.

    Raises:
        OSError: it is gone.
    """
    passed = array.array("i", descriptors)
    sock.sendmsg([b"maps"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, passed)])


def borrow(sock: socket.socket) -> list[int]:
    """Takes them.

    Raises:
        OSError: the parent is gone.
        ValueError: not all came.
    """
    room = socket.CMSG_SPACE(len(SHARED_MAPS) * array.array("i").itemsize)
    _, ancillary, _, _ = sock.recvmsg(16, room, socket.MSG_CMSG_CLOEXEC)
    descriptors = array.array("i")
    for _, _, passed in ancillary:
        descriptors.frombytes(passed[: len(passed) - len(passed) % descriptors.itemsize])
    if len(descriptors) != len(SHARED_MAPS):
        raise ValueError(f"{len(descriptors)} of {len(SHARED_MAPS)} maps came")
    return list(descriptors)


def receive(sock: socket.socket) -> tuple[Report | Failure | None, list[int]]:
    """The one message, `None` when the other end left without a word. Descriptors are close-on-exec.

    Raises:
        ValueError: the message is none of ours.
        OSError: the socket failed or timed out.
    """
    room = socket.CMSG_SPACE(MAX_DESCRIPTORS * array.array("i").itemsize)
    data, ancillary, _, _ = sock.recvmsg(_MAX_REPORT_BYTES, room, socket.MSG_CMSG_CLOEXEC)
    descriptors = array.array("i")
    for level, kind, passed in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(passed[: len(passed) - len(passed) % descriptors.itemsize])
    # What was cut off is no JSON any more, and too few descriptors are seen by whoever counts them.
    try:
        return (_content(json.loads(data)) if data else None), list(descriptors)
    except (ValueError, TypeError, KeyError) as error:
        for descriptor in descriptors:
            os.close(descriptor)
        raise ValueError(f"the loader's message is not understood: {error}") from error


def _content(message: Any) -> Report | Failure:
    content = message["content"]
    if message["type"] == "Failure":
        stage, why, denied = content
        return Failure(str(stage), str(why), bool(denied))
    digest, hooks, transport, uprobes, at_once = content
    if transport not in (RING_BUFFER, PERF_BUFFER):
        raise ValueError(f"no transport is called {transport!r}")
    read = tuple(Hook(*hook) for hook in hooks)
    return Report(str(digest), read, str(transport), tuple(map(str, uprobes)), bool(at_once))

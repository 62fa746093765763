# SPDX-License-Identifier: Apache-2.0
"""The parent's side of tracing: starts the loader child, owns the descriptors, reads records and counters.

The hooks live for as long as these descriptors do: closing them is all it takes to detach, and the end of
this process, however it ends, closes them. Knows no record's content.
"""

import json
import mmap
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import IO, NamedTuple

from tracer.errors import LoaderFailed, PermissionDenied
from tracer.kernel import handover
from tracer.kernel.handover import Failure, Limits, Report
from tracer.kernel.maps import Counters, HashMap, PolledCounters
from tracer.kernel.perfbuf import PerfBuffer, online_cpus, size_each
from tracer.kernel.probes import Hook, Wanted
from tracer.kernel.ringbuf import RingBuffer
from tracer.units import TICK_NS

PYTHON = "/usr/bin/python3"
"""The distribution's: the one whose packages include bcc."""

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

_DEADLINE_S = 120.0
"""A quarter of a second where it matters; half a minute under emulation with cold caches."""

_LIMITS = Limits()
_EVERYTHING = Wanted()

_STATUS = "/proc/self/status"
_LOCKDOWN = "/sys/kernel/security/lockdown"
_REFUSED = "Operation not permitted"
"""EPERM in what the C side of bcc says, whose exceptions do not tell it."""

_FOLDER = re.compile(r"oomtrace-[0-9]+-\w+")
"""As the loader's mkdtemp names it."""
_STALE_S = 3600.0

_CAP_SYS_ADMIN, _CAP_PERFMON, _CAP_BPF = 21, 38, 39


class Reclaim(NamedTuple):
    """Reclaim so far by the tasks of one memory cgroup, since the hooks were attached."""

    cgroup_id: int
    memcg_runs: int
    memcg_stall_ns: int
    direct_runs: int
    direct_stall_ns: int
    reclaimed_pages: int


class Session:
    """Attached hooks. Made by `open_session`; a context manager.

    Args:
        report: the child's.
        descriptors: of `handover.MAPS`, then of the links; owned from here on.
        limits: sizes of the maps.
        start_to_armed_ns: what it took.
    """

    def __init__(self, report: Report, descriptors: list[int], limits: Limits, start_to_armed_ns: int) -> None:
        self.hooks: tuple[Hook, ...] = report.hooks
        self.transport = report.transport
        """`handover.RING_BUFFER` or `PERF_BUFFER`."""
        self.start_to_armed_ns = start_to_armed_ns
        self._descriptors = list(descriptors)
        events, counters, tree, reclaim, settings = descriptors[: len(handover.MAPS)]
        page_bytes = mmap.PAGESIZE
        self._counters: Counters | PolledCounters
        self._buffer: RingBuffer | PerfBuffer
        if self.transport == handover.PERF_BUFFER:
            cpus = online_cpus()
            self._counters = PolledCounters(counters)
            self._buffer = PerfBuffer(events, cpus, size_each(limits.ring_bytes, len(cpus), page_bytes))
        else:
            self._counters = Counters(counters, handover.COUNTER_SLOTS)
            self._buffer = RingBuffer(events, max(1, limits.ring_bytes // page_bytes) * page_bytes)
        self._tree = HashMap(tree, "=I", "=Q")
        self._settings = HashMap(settings, "=I", "=Q")
        self._reclaim = HashMap(reclaim, "=Q", f"={len(handover.RECLAIM_FIELDS)}Q")
        self._dropped_before: dict[int, int] = {}
        # The hooks are older than perf buffers are: what they sent until now, before anything is claimed, is no loss.
        self._dropped_before = self.drops()

    def fileno(self) -> int:
        """Readable when there are records."""
        return self._buffer.fileno()

    def waiting(self) -> bool:
        """Whether there are records although the descriptor may not say so."""
        return self._buffer.waiting()

    def records(self) -> Iterator[bytes]:
        """All records that are there now, as copies, in the kernel's order: see the buffer of the transport."""
        return self._buffer.records()

    def track(self, tgid: int, start_ns: int) -> None:
        """Puts a process into the tree filter; its children follow by themselves.

        Raises:
            OSError: the filter is full (E2BIG).
        """
        self._tree.update(tgid, (start_ns,))

    def track_running(self, tgid: int, start_ns: int) -> None:
        """The same for one that runs already, and may end and give its pid away meanwhile.

        Whoever stands in the filter under that pid came there by a fork: that one stays.

        Raises:
            OSError: the filter is full (E2BIG).
        """
        self._tree.insert(tgid, (start_ns,))

    def untrack(self, tgid: int, start_ns: int | None = None) -> None:
        """Takes a process out of the tree filter, if it is there; with a start time no later owner of its pid."""
        found = self._tree.lookup(tgid) if start_ns is not None else None
        if start_ns is None or (found is not None and found[0] // TICK_NS == start_ns // TICK_NS):
            self._tree.delete(tgid)

    def tracked(self) -> dict[int, int]:
        """The tree filter: tgid to start time."""
        return {tgid: value[0] for tgid, value in self._tree.items()}

    def follow_all(self, *, on: bool) -> None:
        """Whether forks and ends of all processes are sent, and not only those of the tree.

        For as long as it takes to find a tree that runs already: a process that is not in the filter yet
        may fork and be gone before anyone has seen it.

        Raises:
            OSError: the session is closed.
        """
        self._settings.update(handover.FOLLOW_ALL_AT, (int(on),))

    def lent(self) -> list[int]:
        """Descriptors of the maps that other programs may use: `handover.SHARED_MAPS`."""
        by_name = dict(zip(handover.MAPS, self._descriptors, strict=False))
        return [by_name[name] for name in handover.SHARED_MAPS]

    def cuda_lost(self) -> int:
        """Processes that call CUDA and found no room for their totals: counted at each call."""
        return self._counters[handover.CUDA_LOST_AT]

    def drops(self) -> dict[int, int]:
        """Records that found no room, by kind; only kinds that lost some."""
        counts = self._by_kind(handover.DROPPED_AT)
        since = {kind: count - self._dropped_before.get(kind, 0) for kind, count in counts.items()}
        return {kind: count for kind, count in since.items() if count}

    def lost(self) -> int:
        """Records that were lost besides, and nobody knows of what kind."""
        return self._buffer.lost(counted=self._counters[handover.FULL_AT])

    def sent(self) -> dict[int, int]:
        """Records that were sent, by kind; only kinds that were."""
        return self._by_kind(handover.SENT_AT)

    def untracked(self) -> int:
        """Forks that did not fit into the tree filter."""
        return self._counters[handover.UNTRACKED_AT]

    def reclaim_lost(self) -> int:
        """Reclaim runs whose cgroup did not fit into the table."""
        return self._counters[handover.RECLAIM_LOST_AT]

    def reclaim(self) -> tuple[Reclaim, ...]:
        """Totals by memory cgroup."""
        return tuple(Reclaim(cgroup_id, *totals) for cgroup_id, totals in self._reclaim.items())

    def close(self) -> None:
        """Detaches everything; a second call does nothing."""
        if not self._descriptors:
            return
        self._buffer.close()
        self._counters.close()
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors = []

    def __enter__(self) -> "Session":  # noqa: PYI034 - typing.Self came with Python 3.11
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _by_kind(self, first: int) -> dict[int, int]:
        counts = ((kind, self._counters[first + kind]) for kind in range(handover.KIND_SLOTS))
        return {kind: count for kind, count in counts if count}


def open_session(
    *,
    events_h_digest: str | None = None,
    limits: Limits = _LIMITS,
    wanted: Wanted = _EVERYTHING,
    transport: str | None = None,
) -> Session:
    """Compiles, loads and attaches in a child that is gone when this returns.

    Args:
        events_h_digest: `handover.digest_of` the header that the caller decodes by.
        limits: sizes of the maps.
        wanted: which programs.
        transport: `handover.RING_BUFFER` or `PERF_BUFFER`, for tests; `None`: what this kernel has.

    Raises:
        PermissionDenied: this process may not load BPF programs.
        LoaderFailed: at a named stage, with the reason in one line.
    """
    began_ns = time.monotonic_ns()
    if not _may_trace(_STATUS):
        raise PermissionDenied("cannot load BPF programs", need="root, or CAP_BPF and CAP_PERFMON")
    report, descriptors = load(limits, wanted, transport)
    if events_h_digest not in (None, report.digest):
        _close(descriptors)
        raise LoaderFailed("handover", "bpf/events.h is not of this version of oomtrace: the installation is mixed")
    try:
        return Session(report, descriptors, limits, time.monotonic_ns() - began_ns)
    except OSError as error:
        _close(descriptors)
        raise LoaderFailed("handover", f"cannot map what the loader sent: {error.strerror}") from error


def load(limits: Limits, wanted: Wanted, transport: str | None, lent: Sequence[int] = ()) -> tuple[Report, list[int]]:
    """What the loader child reports and hands over, which is then gone.

    Args:
        limits: sizes of the maps.
        wanted: which programs.
        transport: `None`: what this kernel has.
        lent: maps of others that it needs: `handover.SHARED_MAPS`.

    Raises:
        PermissionDenied: this process may not load BPF programs.
        LoaderFailed: at a named stage, with the reason in one line.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [
        PYTHON, "-I", "-B", os.path.join(_PACKAGE, "kernel", "loader.py"),
        str(theirs.fileno()), os.path.join(_PACKAGE, "bpf"), json.dumps(limits._asdict()),
        json.dumps(wanted), *([] if transport is None else [transport]),
    ]  # fmt: skip
    # Compiler errors come on stderr, and can be long: a file in memory never blocks the child.
    with ours, os.fdopen(os.memfd_create("loader-stderr"), "w+b") as stderr:
        try:
            child = subprocess.Popen(
                command,
                pass_fds=(theirs.fileno(),),
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                start_new_session=True,
            )
        except OSError as error:
            raise LoaderFailed("start", f"cannot run {PYTHON}: {error.strerror}") from error
        finally:
            theirs.close()
        return _receive(ours, child, stderr, lent)


def _receive(
    ours: socket.socket, child: "subprocess.Popen[bytes]", stderr: IO[bytes], lent: Sequence[int]
) -> tuple[Report, list[int]]:
    descriptors: list[int] = []
    try:
        ours.settimeout(_DEADLINE_S)
        if lent:
            handover.lend(ours, lent)
        content, descriptors = handover.receive(ours)
        child.wait(_DEADLINE_S)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        _close(descriptors)
        late = isinstance(error, (TimeoutError, subprocess.TimeoutExpired))
        why = f"no word from it within {_DEADLINE_S:g} s" if late else str(error) or type(error).__name__
        raise LoaderFailed("handover", why) from error
    except BaseException:
        _close(descriptors)
        raise
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)  # it leads a session of its own
            child.wait()
        _clean_up(child.pid)
    if isinstance(content, Report):
        wanted = content.descriptors
        if len(descriptors) == wanted:
            return content, descriptors
        # The kernel hands over as many as there is room for, and the hooks of the others are gone by now.
        _close(descriptors)
        raise LoaderFailed(
            "handover", f"{len(descriptors)} of {wanted} descriptors came: too few may be open (ulimit -n)"
        )
    _close(descriptors)
    said = _last_words(stderr)
    if not isinstance(content, Failure):
        raise LoaderFailed("compile", said or f"it ended without a word, status {child.returncode}")
    why = " ".join(content.why.split())
    if content.denied or _REFUSED in said:
        # We have the capabilities, or had not come so far.
        raise PermissionDenied(f"cannot load BPF programs: {said or why}", need=_what_refuses())
    if content.stage == "attach" and _is_locked_down():
        # What the verifier has to say of it names a program and no reason.
        raise LoaderFailed(content.stage, "lockdown=confidentiality, so the kernel lets nobody read its memory")
    raise LoaderFailed(content.stage, f"{why} ({said})" if said else why)


def _is_locked_down() -> bool:
    """Whether no program may read the kernel's memory: loading then fails with EINVAL, which says nothing (5.10 on)."""
    with suppress(OSError), open(_LOCKDOWN, encoding="ascii", errors="replace") as file:
        return "[confidentiality]" in file.read()
    return False


def _what_refuses() -> str:
    """What has to give way, when the kernel refuses us although we have the capabilities."""
    if _is_locked_down():
        return "a kernel without lockdown=confidentiality"
    with suppress(OSError), open(_STATUS, encoding="utf-8", errors="replace") as lines:
        if any(line.split() == ["Seccomp:", "2"] for line in lines):
            return "a container whose seccomp profile allows bpf(2)"
    return "CAP_BPF and CAP_PERFMON in the machine's own user namespace (root of a container has them not)"


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _clean_up(pid: int) -> None:
    """LLVM ends its process with abort() when it is at a loss: then the child cannot clean up itself.

    Nor can it when both were killed: what is left of others is removed once no loader can be at work in it.
    """
    for place in handover.FOLDERS:
        with suppress(OSError):
            for name in filter(_FOLDER.fullmatch, os.listdir(place)):
                folder = os.path.join(place, name)
                made = os.lstat(folder)
                stale = time.time() - made.st_mtime > _STALE_S
                if made.st_uid == os.geteuid() and (stale or name.startswith(f"oomtrace-{pid}-")):
                    from shutil import rmtree  # noqa: PLC0415 - hardly ever needed: not in the resident process

                    rmtree(folder, ignore_errors=True)


def _last_words(stderr: IO[bytes]) -> str:
    """One line of what the child said: the first compiler error, else its last line."""
    stderr.seek(0)
    lines = [line.strip() for line in stderr.read().decode("utf-8", "backslashreplace").splitlines() if line.strip()]
    return next((line for line in lines if "error:" in line), lines[-1] if lines else "")


def _may_trace(status: str) -> bool:
    both = 1 << _CAP_BPF | 1 << _CAP_PERFMON
    with open(status, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.startswith("CapEff:"):
                effective = int(line.split()[1], 16)
                return bool(effective >> _CAP_SYS_ADMIN & 1) or effective & both == both
    return True

# SPDX-License-Identifier: Apache-2.0
"""Two vocabularies made one: kernel records in our clocks, and what /proc says in the kernel's pids.

Only where the tracer lives in a pid or time namespace of its own; elsewhere none of this is in the way. Pids are
learned from the kernel's records of forks, which say both. A pid that no fork told of is not translated, and what
/proc says of it is not used: nothing is joined by a guess.
"""

from collections.abc import Sequence

import msgspec

from tracer.events import (
    AnyEvent,
    CodeLooked,
    CudaTotals,
    GpuLibrary,
    Losses,
    ProcessExited,
    ProcessForked,
    ProcessId,
    ProcessLooked,
    ProcessSample,
    ProcessSeen,
    ReclaimSample,
    ShmFilesSample,
    TmpfsSample,
    process_id,
)
from tracer.pipeline.ports import Hook, Kernel, Probed, Processes, Row
from tracer.sources import procfs
from tracer.sources.namespaces import Namespaces

_MONOTONIC = frozenset({"mark_ts_ns", "entered_ns", "failed_ns", "info_ns", "first_ns", "last_ns"})
"""Beside `ts_ns`, fields of the kernel's records by CLOCK_MONOTONIC."""


class PidTable:
    """Which pid of ours is which of the kernel's. Read by the helper thread too: each step is one on a dict."""

    def __init__(self) -> None:
        self.in_use = False
        """Whether the recording speaks the kernel's pids; else nothing is translated."""
        self._own: dict[int, tuple[int, ProcessId]] = {}
        self._kernel: dict[ProcessId, int] = {}

    def learn(self, event: AnyEvent) -> None:
        """Take a fork in, which tells of two processes, or an end."""
        if isinstance(event, ProcessForked):
            self._put(event.tgid, event.start_ns, event.own_tgid)
            self._put(event.parent_tgid, event.parent_start_ns, event.own_parent_tgid)
        elif isinstance(event, ProcessExited):
            own = self._own.get(event.tgid)
            if own is not None and own[1] == process_id(own[0], event.start_ns):
                del self._own[event.tgid]
                self._kernel.pop(own[1], None)

    def own(self, tgid: int) -> int | None:
        """Our pid of the process that has this one for the kernel."""
        found = self._own.get(tgid)
        return None if found is None else found[0]

    def kernel(self, own_tgid: int, start_ns: int) -> int | None:
        """The kernel's pid of this very process of ours; `None`: no fork has told it yet.

        For one that ran before the tracer did, its first fork tells: see `Session.follow_all`.
        """
        return self._kernel.get(process_id(own_tgid, start_ns))

    def _put(self, tgid: int, start_ns: int, own_tgid: int | None) -> None:
        if own_tgid:  # 0: our namespace has no pid for it
            own = process_id(own_tgid, start_ns)
            self._kernel[own] = tgid
            self._own[tgid] = own_tgid, own


class TranslatedProcesses:
    """/proc of our own pid namespace, asked and answering in the kernel's pids."""

    def __init__(self, inner: Processes, table: PidTable) -> None:
        self._inner = inner
        self._table = table

    def start_ns(self, tgid: int) -> int | None:
        own = self._own(tgid)
        return None if own is None else self._inner.start_ns(own)

    def seen(self, tgid: int) -> ProcessSeen | None:
        own = self._own(tgid)
        seen = None if own is None else self._inner.seen(own)
        if seen is None or not self._table.in_use:
            return seen
        if self._table.kernel(seen.tgid, seen.start_ns) != tgid:
            return None  # the pid has another owner by now
        parent = None
        if seen.parent_start_ns is not None:
            parent = self._table.kernel(seen.parent_tgid, seen.parent_start_ns)
        return msgspec.structs.replace(
            seen,
            tgid=tgid,
            parent_tgid=parent or 0,
            parent_start_ns=None if parent is None else seen.parent_start_ns,
            session_id=None,
            ns_pids=None if seen.ns_pids is None else (tgid, *seen.ns_pids),
        )

    def looked(self, tgid: int) -> ProcessLooked | None:
        own = self._own(tgid)
        looked = None if own is None else self._inner.looked(own)
        if looked is None or not self._table.in_use:
            return looked
        same = self._table.kernel(looked.tgid, looked.start_ns) == tgid
        return msgspec.structs.replace(looked, tgid=tgid) if same else None

    def sample(self, tgid: int, start_ns: int) -> ProcessSample | None:
        own = self._own(tgid)
        sample = None if own is None else self._inner.sample(own, start_ns)
        return None if sample is None else msgspec.structs.replace(sample, tgid=tgid)

    def moved(self, tgid: int, start_ns: int) -> int:
        own = self._own(tgid)
        return 1 if own is None else self._inner.moved(own, start_ns)

    def shm_files(self, tgids: Sequence[int]) -> ShmFilesSample | None:
        kernel = {own: tgid for tgid in tgids if (own := self._own(tgid)) is not None}
        sample = self._inner.shm_files(tuple(kernel))
        if sample is None or not self._table.in_use:
            return sample
        groups = tuple(
            msgspec.structs.replace(group, holders=tuple(kernel[own] for own in group.holders))
            for group in sample.groups
        )
        return msgspec.structs.replace(sample, tgid=kernel[sample.tgid], groups=groups)

    def code(self, tgid: int, known_bytes: int | None) -> CodeLooked | None:
        own = self._own(tgid)
        looked = None if own is None else self._inner.code(own, known_bytes)
        if looked is None or not self._table.in_use:
            return looked
        same = self._table.kernel(looked.tgid, looked.start_ns) == tgid
        return msgspec.structs.replace(looked, tgid=tgid) if same else None

    def open_code(self, tgid: int, start_ns: int, library: GpuLibrary) -> int | None:
        own = self._own(tgid)
        return None if own is None else self._inner.open_code(own, start_ns, library)

    def shm(self, tgid: int) -> TmpfsSample | None:
        own = self._own(tgid)
        sample = None if own is None else self._inner.shm(own)
        return None if sample is None else msgspec.structs.replace(sample, tgid=tgid)

    def tmpfs(self, tgid: int, signalled_tgid: int) -> TmpfsSample | None:
        own = self._own(tgid)
        sample = None if own is None else self._inner.tmpfs(own, signalled_tgid)
        return None if sample is None else msgspec.structs.replace(sample, tgid=tgid)

    def table(self) -> Sequence[Row]:
        rows = self._inner.table()
        if not self._table.in_use:
            return tuple(rows)
        rows = tuple(rows)
        named = {row.tgid: self._table.kernel(row.tgid, row.start_ns) for row in rows}
        return [
            procfs.Row(tgid, named.get(row.parent_tgid) or 0, row.start_ns, row.comm, row.ended)
            for row in rows
            if (tgid := named[row.tgid]) is not None
        ]

    def _own(self, tgid: int) -> int | None:
        return self._table.own(tgid) if self._table.in_use else tgid


class TranslatedKernel:
    """The kernel's records with times as our clocks have them; each fork is learned from on the way."""

    def __init__(self, inner: Kernel, namespaces: Namespaces, pids: PidTable | None) -> None:
        self._inner = inner
        self._namespaces = namespaces
        self._pids = pids

    @property
    def hooks(self) -> Sequence[Hook]:
        return self._inner.hooks

    @property
    def start_to_armed_ns(self) -> int | None:
        return self._inner.start_to_armed_ns

    @property
    def transport(self) -> str | None:
        return self._inner.transport

    @property
    def naming(self) -> bool:
        return self._inner.naming

    @property
    def pending(self) -> bool:
        return self._inner.pending

    def fileno(self) -> int:
        return self._inner.fileno()

    def read(self) -> Sequence[AnyEvent]:
        events = self._inner.read()
        if self._namespaces.own_clocks:
            events = [in_our_clocks(event, self._namespaces) for event in events]
        if self._pids is not None:
            for event in events:
                self._pids.learn(event)
        return events

    def track(self, tgid: int, start_ns: int) -> None:
        self._inner.track(tgid, start_ns - self._namespaces.boottime_shift_ns)

    def track_running(self, tgid: int, start_ns: int) -> None:
        self._inner.track_running(tgid, start_ns - self._namespaces.boottime_shift_ns)

    def untrack(self, tgid: int, start_ns: int) -> None:
        self._inner.untrack(tgid, start_ns - self._namespaces.boottime_shift_ns)

    def follow_all(self, *, on: bool) -> None:
        self._inner.follow_all(on=on)

    def losses(self, now_ns: int) -> Losses:
        return self._inner.losses(now_ns)

    def reclaim(self, now_ns: int) -> Sequence[ReclaimSample]:
        return self._inner.reclaim(now_ns)

    def prepare_cuda(self) -> None:
        self._inner.prepare_cuda()

    def probe_cuda(self, library: int) -> Probed:
        return self._inner.probe_cuda(library)

    def cuda_totals(self, now_ns: int) -> Sequence[CudaTotals]:
        totals = self._inner.cuda_totals(now_ns)
        shift_ns = self._namespaces.monotonic_shift_ns
        return [
            msgspec.structs.replace(
                total,
                start_ns=total.start_ns + self._namespaces.boottime_shift_ns,
                first_ns=total.first_ns + shift_ns,
                last_ns=total.last_ns + shift_ns,
            )
            for total in totals
        ]

    def forget_cuda(self) -> None:
        self._inner.forget_cuda()

    def close(self) -> None:
        self._inner.close()


def in_our_clocks(event: AnyEvent, namespaces: Namespaces) -> AnyEvent:
    """A record of the kernel as it would be if its clocks were ours."""
    changes = {"ts_ns": event.ts_ns + namespaces.monotonic_shift_ns}
    for name in event.__struct_fields__:
        value = getattr(event, name)
        if name.endswith("start_ns") and value:  # CLOCK_BOOTTIME; 0: not known
            changes[name] = value + namespaces.boottime_shift_ns
        elif name in _MONOTONIC and value:
            changes[name] = value + namespaces.monotonic_shift_ns
    return msgspec.structs.replace(event, **changes)

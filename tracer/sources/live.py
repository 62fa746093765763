# SPDX-License-Identifier: Apache-2.0
"""The BPF programs as a source: their records to events, and what was lost on the way.

Joins the mechanism (`tracer.kernel`), which knows no record, and the vocabulary (`tracer.events`), which
knows no kernel.
"""

import itertools
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, cast

from tracer.events import (
    LAYOUTS,
    AnyEvent,
    CudaTotals,
    KernelStack,
    Kind,
    Losses,
    OomMark,
    OomStack,
    Printed,
    ReclaimSample,
)
from tracer.events.header import header_text
from tracer.kernel.handover import digest_of
from tracer.kernel.session import Reclaim
from tracer.kernel.symbols import resolve, without_tracing
from tracer.sources.printing import Printing
from tracer.wire import HEAD, EventT, Layout

Resolve = Callable[[Iterable[int]], dict[int, str | None]]


class Records(Protocol):
    """What is needed of a `tracer.kernel.session.Session`."""

    def fileno(self) -> int: ...
    def waiting(self) -> bool: ...
    def records(self) -> Iterator[bytes]: ...
    def drops(self) -> dict[int, int]: ...
    def lost(self) -> int: ...
    def untracked(self) -> int: ...
    def reclaim_lost(self) -> int: ...
    def cuda_lost(self) -> int: ...
    def reclaim(self) -> tuple[Reclaim, ...]: ...


def events_h_digest() -> str:
    """Of the header that this source decodes by; for `open_session`."""
    return digest_of(header_text().encode())


def totals_in(running: bytes, now_ns: int) -> CudaTotals:
    """Totals of a process as they are kept in the kernel: a record whose head is empty, and more behind it."""
    layout = cast("Layout[CudaTotals]", LAYOUTS[Kind.CUDA_TOTALS])
    return layout.decode(HEAD.pack(now_ns, Kind.CUDA_TOTALS, 0) + running[HEAD.size : layout.size_bytes])


MAX_RECORDS = 4096
"""Of one read: whoever floods the ring buffer (any user's signals are in it) must not keep the loop from the job."""


MAX_NAMES = 4096


class LiveSource:
    """Events of one session.

    Args:
        session: stays the caller's; must stay open while this is read.
        resolve: addresses to names; runs in a thread of its own.
    """

    def __init__(self, session: Records, *, resolve: Resolve = resolve) -> None:
        self._session, self._resolve = session, resolve
        self._cut = False
        self._short = self._unknown = 0
        self._stacks: deque[OomStack] = deque()
        """To be resolved."""
        self._named: deque[KernelStack] = deque()
        self._outstanding = 0
        self._changed = threading.Condition()
        self._worker: threading.Thread | None = None
        self._names: dict[int, str] = {}
        """Of the kernel's own functions, which never move: one kill's stack is much like another's."""
        self._reclaim: dict[int, Reclaim] = {}
        self._printing = Printing()

    def fileno(self) -> int:
        """Readable when there are records; not when a stack has got its names: see `pending`."""
        return self._session.fileno()

    def read(self) -> list[AnyEvent]:
        """Events that are there now, so many at most; stacks of earlier marks once they have names. Never blocks."""
        events: list[AnyEvent] = []
        records = list(itertools.islice(self._session.records(), MAX_RECORDS))
        self._cut = len(records) == MAX_RECORDS
        for record in records:
            event = self._decode(record)
            if event is not None:
                events.append(event)
        with self._changed:
            events.extend(stack for stack in self._named if not self._printing.is_of_a_line(stack))
            self._outstanding -= len(self._named)
            self._named.clear()
        events.extend(cast("list[AnyEvent]", self._printing.finished()))
        return events

    @property
    def pending(self) -> bool:
        """Whether more is to come from `read` unannounced: stacks of marks, or what one read had no room for.

        Or records of which the descriptor may have told somebody else.
        """
        with self._changed:
            return self._cut or self._outstanding > 0 or self._session.waiting()

    @property
    def naming(self) -> bool:
        """Whether stacks are still to come: a proof rests on them, so they are worth waiting for."""
        with self._changed:
            return self._outstanding > 0

    def finish(self, timeout_s: float) -> bool:
        """Waits until all stacks that were read have names, or the time is up; then `read` once more."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while self._outstanding > len(self._named):
                if not self._changed.wait(deadline - time.monotonic()) and time.monotonic() >= deadline:
                    return False
            return True

    def losses(self, now_ns: int) -> Losses:
        """The counters so far."""
        dropped = {_kind_name(kind): count for kind, count in self._session.drops().items()}
        return Losses(
            ts_ns=now_ns,
            dropped=dropped,
            untracked=self._session.untracked(),
            short=self._short,
            unknown=self._unknown + self._session.lost(),
            reclaim=self._session.reclaim_lost(),
            cuda=self._session.cuda_lost(),
        )

    def reclaim(self, now_ns: int) -> list[ReclaimSample]:
        """Totals of the cgroups whose tasks had to reclaim since the last call."""
        changed = [total for total in self._session.reclaim() if self._reclaim.get(total.cgroup_id) != total]
        self._reclaim.update((total.cgroup_id, total) for total in changed)
        return [ReclaimSample(ts_ns=now_ns, **total._asdict()) for total in changed]

    def _decode(self, record: bytes) -> AnyEvent | None:
        layout = LAYOUTS.get(HEAD.unpack_from(record)[1]) if len(record) >= HEAD.size else None
        if layout is None:
            self._unknown += len(record) >= HEAD.size
            self._short += len(record) < HEAD.size
            return None
        event = self._decode_as(layout, record)
        if isinstance(event, OomStack):
            self._printing.expect(event)
            self._name_later(event)
            return None
        if isinstance(event, Printed):
            self._printing.take(event)
            return None
        if isinstance(event, OomMark):
            self._printing.marked(event)
        # Every other layout's class is in the union.
        return cast("AnyEvent | None", event)

    def _decode_as(self, layout: Layout[EventT], record: bytes) -> EventT | None:
        try:
            return layout.decode(record)
        except struct.error:
            self._short += 1
            return None

    def _name_later(self, stack: OomStack) -> None:
        with self._changed:
            self._stacks.append(stack)
            self._outstanding += 1
            if self._worker is None:
                self._worker = threading.Thread(target=self._name_all, name="oomtrace-symbols", daemon=True)
                self._worker.start()

    def _name_all(self) -> None:
        """In the thread: as many stacks in one pass over the symbols as have come meanwhile."""
        while True:
            with self._changed:
                batch = list(self._stacks)
                self._stacks.clear()
                if not batch:
                    self._worker = None
                    return
            try:
                names = self._names_of({a for stack in batch for a in stack.addresses[: stack.depth]})
            except Exception:  # noqa: BLE001 - frames without names say more than a thread that is gone
                names = {}
            named = [_with_names(stack, names) for stack in batch]
            with self._changed:
                self._named.extend(named)
                self._changed.notify_all()

    def _names_of(self, addresses: set[int]) -> dict[int, str | None]:
        new = addresses - self._names.keys()
        found = self._resolve(new) if new else {}
        names = {**found, **{address: self._names[address] for address in addresses - new}}
        # A module may go, and another come to where it was.
        lasting = {address: name for address, name in found.items() if name is not None and " [" not in name}
        if len(self._names) + len(lasting) <= MAX_NAMES:
            self._names.update(lasting)
        return names


def _with_names(stack: OomStack, names: dict[int, str | None]) -> KernelStack:
    frames = without_tracing([names.get(address) for address in stack.addresses[: stack.depth]])
    return KernelStack(
        ts_ns=stack.ts_ns,
        mark_ts_ns=stack.ts_ns,
        tgid=stack.tgid,
        frames=tuple(frame or "?" for frame in frames),
    )


def _kind_name(kind: int) -> str:
    return Kind(kind).name.lower() if kind in LAYOUTS else str(kind)

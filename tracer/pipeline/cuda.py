# SPDX-License-Identifier: Apache-2.0
"""Which libraries for GPUs the job has mapped, and probes on each libcuda: before anything runs, and once one appears.

Mappings are looked at again where the amount of code has changed, which each sample says. Both looking and probing
may block, so threads of their own do it.
"""

import os
import select
import time
from collections.abc import Sequence

import msgspec

from tracer.events import CodeLooked, CudaProbed, CudaTotals, Event, GpuLibrary, ProcessId, ProcessSample, process_id
from tracer.pipeline.helper import Helper
from tracer.pipeline.journal import Journal
from tracer.pipeline.members import Member, Members
from tracer.pipeline.ports import Kernel, Sources
from tracer.sources.code import NVIDIA, driver_version, place_of
from tracer.units import NS_PER_MS, NS_PER_S

Place = tuple[str, int]
"""Device and inode of a file."""

PROBING_DEADLINE_NS = 60 * NS_PER_S
BEFORE_NS = 30 * NS_PER_S
"""Longer than it takes one by one on a slow machine."""
TOTALS_NS = NS_PER_S
SWEEP_NS = 10 * NS_PER_S
NO_KERNEL = "the kernel is not watched"
NOT_ALL_SEEN = (
    "another container may have a libcuda that is hooked, which a probe would end, and cannot be seen from here"
)
"""In a pid namespace of our own: containers share the file, and `tracer.kernel.rewritten` has to look into all."""


class CudaWatch:
    """What the job does with CUDA, as far as the kernel shows it."""

    def __init__(self, sources: Sources, journal: Journal, inspector: Helper, members: Members) -> None:
        self._kernel: Kernel | None = sources.kernel
        self._processes = sources.processes
        self._sees_all = sources.namespaces.own_pids is False
        self._libcudas, self._has_driver = sources.libcudas, sources.has_nvidia_driver
        self._journal = journal
        self._inspector = inspector
        self._members = members
        self._prober = Helper("oomtrace-probes", deadline_ns=PROBING_DEADLINE_NS)
        self._known_bytes: dict[ProcessId, int] = {}
        """Of code, when a process was looked at last."""
        self._asked: dict[ProcessId, int] = {}
        """And as it is now that it is to be looked at."""
        self._libraries: set[Place] = set()
        """That are probed or about to be, as mappings name them."""
        self._probed: dict[Place, CudaProbed] = {}
        """By file. Of the thread that probes."""
        self._watches = False
        self._next_totals_ns = self._next_sweep_ns = 0

    def begin(self) -> None:
        """Probe what is there before the job runs. Takes the time that it takes, and `BEFORE_NS` at most.

        It looks into other processes, and waits for locks of theirs: one that hangs must not keep the job from running.
        """
        kernel, found = self._kernel, False
        for path, fd in self._libcudas():
            found = True
            self._libraries.add(place_of(fd))
            self._prober.submit(lambda path=path, fd=fd: self._probe_found(fd, path))  # type: ignore[misc]
        if not found and kernel is not None and self._sees_all and self._has_driver():
            self._prober.submit(kernel.prepare_cuda)  # a container brings its own, and then there is no time to lose
        answers = select.poll()
        answers.register(self._prober, select.POLLIN)
        until_ns = time.monotonic_ns() + BEFORE_NS
        while found and not self._prober.idle() and (left_ns := until_ns - time.monotonic_ns()) > 0:
            answers.poll(left_ns / NS_PER_MS)
            self.read()

    def fileno(self) -> int:
        """Readable when `read` has something."""
        return self._prober.fileno()

    def read(self) -> int:
        """Record what was probed by now."""
        results = self._prober.take()
        for event in results:
            self._record(event)
        return len(results)

    def sampled(self, member: Member, sample: ProcessSample) -> None:
        """A process was sampled: if it has other code than when it was looked at, it is looked at."""
        now = sample.code_bytes
        if now is not None and now not in (self._known_bytes.get(member.id), self._asked.get(member.id)):
            self._asked[member.id] = now
            self.look(member)

    def look(self, member: Member) -> None:
        """Have one looked at, unless nothing has changed."""
        processes, tgid, wanted = self._processes, member.tgid, member.id
        known_bytes = self._known_bytes.get(wanted)

        def look() -> Event | None:
            found = processes.code(tgid, known_bytes)
            # The pid may be someone else's by now.
            return found if found is not None and process_id(found.tgid, found.start_ns) == wanted else None

        self._inspector.submit(look)

    def take(self, looked: CodeLooked) -> None:
        """A look has come back."""
        identity = process_id(looked.tgid, looked.start_ns)
        self._journal.append_changed(("code", *identity), looked)
        if looked.code_bytes is not None and identity in self._members:
            self._known_bytes[identity] = looked.code_bytes
        for library in looked.libraries:
            place = library.device, library.inode
            if library.vendor == NVIDIA and place not in self._libraries:
                self._libraries.add(place)
                self._prober.submit(lambda library=library: self._probe_mapped(looked, library))  # type: ignore[misc]

    def forget(self, identity: ProcessId) -> None:
        """It has ended, or is another program: then what that has mapped is to be said anew."""
        self._known_bytes.pop(identity, None)
        self._asked.pop(identity, None)

    def totalled(self, totals: CudaTotals) -> None:
        """A process that called CUDA has ended: what it had not freed takes room."""
        kernel, now_ns = self._kernel, time.monotonic_ns()
        left = totals.device_bytes or totals.managed_bytes or totals.pinned_bytes or totals.registered_bytes
        if kernel is not None and left and now_ns >= self._next_sweep_ns:
            self._next_sweep_ns = now_ns + SWEEP_NS
            self._prober.submit(kernel.forget_cuda)

    def tick(self, now_ns: int, *, last: bool = False) -> None:
        """Record what was called since the last time."""
        self._prober.check(now_ns)
        kernel = self._kernel
        if kernel is None or not self._watches or (now_ns < self._next_totals_ns and not last):
            return
        self._next_totals_ns = now_ns + TOTALS_NS
        none: Sequence[CudaTotals] = ()
        for totals in self._journal.attempt("CUDA's totals", lambda: kernel.cuda_totals(now_ns), otherwise=none):
            self._journal.append(totals)

    def close(self) -> None:
        """Let go of the thread."""
        self._prober.close()

    def _record(self, event: Event) -> None:
        self._journal.append(event)
        self._watches = self._watches or (isinstance(event, CudaProbed) and bool(event.symbols))

    def _probe_found(self, fd: int, path: str) -> CudaProbed:
        try:
            return self._probe(fd, path, place_of(fd))
        finally:
            os.close(fd)

    def _probe_mapped(self, looked: CodeLooked, library: GpuLibrary) -> CudaProbed:
        place = library.device, library.inode
        fd = self._processes.open_code(looked.tgid, looked.start_ns, library)
        if fd is None:
            return _not_probed("the file that is mapped cannot be opened", library.path, place)
        try:
            return self._probe(fd, library.path, place)
        finally:
            os.close(fd)

    def _probe(self, fd: int, path: str, place: Place) -> CudaProbed:
        """Probe it, or say when that was done: some file systems give files other numbers than mappings have."""
        file, kernel = place_of(fd), self._kernel
        before = self._probed.get(file)
        if before is not None:
            return msgspec.structs.replace(
                before, ts_ns=time.monotonic_ns(), path=path, device=place[0], inode=place[1]
            )
        if kernel is None or not self._sees_all:
            return _not_probed(NO_KERNEL if kernel is None else NOT_ALL_SEEN, path, place)
        probed = kernel.probe_cuda(fd)
        self._probed[file] = event = CudaProbed(
            ts_ns=time.monotonic_ns(),
            source="tracer",
            device=place[0],
            inode=place[1],
            path=path,
            version=driver_version(fd),
            symbols=probed.symbols,
            missing=probed.missing,
            refused=dict(probed.refused),
            unknown=probed.unknown,
            why_not=probed.why_not,
        )
        return event


def _not_probed(why: str, path: str, place: Place) -> CudaProbed:
    return CudaProbed(
        ts_ns=time.monotonic_ns(), source="tracer", device=place[0], inode=place[1], path=path, why_not=why
    )

# SPDX-License-Identifier: Apache-2.0
"""The real sources of a run, opened one by one; what cannot be opened is left out, with the reason."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from tracer.errors import LoaderFailed, OomtraceError
from tracer.events import (
    AnyEvent,
    CudaTotals,
    Losses,
    PressureSample,
    ProcessId,
    ReclaimSample,
    VmstatSample,
    process_id,
)
from tracer.kernel.cuda import CudaPrograms, NoUprobes, Probed, open_cuda
from tracer.kernel.probes import Hook, Wanted
from tracer.kernel.session import Session, open_session
from tracer.kernel.symbols import why_hidden
from tracer.pipeline.ports import Sources
from tracer.pipeline.translation import PidTable, TranslatedKernel, TranslatedProcesses
from tracer.sources.cgroups import CgroupSource
from tracer.sources.gpu import GpuSource, GpuUnavailable
from tracer.sources.kmsg import KernelLogSource, KernelLogUnreadable
from tracer.sources.libcuda import find_libcudas, has_driver
from tracer.sources.live import LiveSource, events_h_digest, totals_in
from tracer.sources.namespaces import read_namespaces
from tracer.sources.numa import read_numa_nodes
from tracer.sources.pressure import read_pressure, read_vmstat
from tracer.sources.processes import ProcessSource


class KernelFeed:
    """The BPF session and the source that decodes it, as one."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._live = LiveSource(session)
        self._cuda: CudaPrograms | None = None
        self._why_no_cuda: str | None = None
        self._totals: dict[ProcessId, CudaTotals] = {}

    @property
    def hooks(self) -> Sequence[Hook]:
        return self._session.hooks

    @property
    def start_to_armed_ns(self) -> int | None:
        return self._session.start_to_armed_ns

    @property
    def transport(self) -> str | None:
        return self._session.transport

    @property
    def pending(self) -> bool:
        return self._live.pending

    @property
    def naming(self) -> bool:
        return self._live.naming

    def fileno(self) -> int:
        return self._live.fileno()

    def read(self) -> Sequence[AnyEvent]:
        return self._live.read()

    def track(self, tgid: int, start_ns: int) -> None:
        self._session.track(tgid, start_ns)

    def track_running(self, tgid: int, start_ns: int) -> None:
        self._session.track_running(tgid, start_ns)

    def untrack(self, tgid: int, start_ns: int) -> None:
        self._session.untrack(tgid, start_ns)

    def follow_all(self, *, on: bool) -> None:
        self._session.follow_all(on=on)

    def losses(self, now_ns: int) -> Losses:
        return self._live.losses(now_ns)

    def reclaim(self, now_ns: int) -> Sequence[ReclaimSample]:
        return self._live.reclaim(now_ns)

    def prepare_cuda(self) -> None:
        if self._cuda is None and self._why_no_cuda is None:
            try:
                self._cuda = open_cuda(self._session, events_h_digest=events_h_digest())
            except (NoUprobes, OomtraceError) as error:
                self._why_no_cuda = str(error)

    def probe_cuda(self, library: int) -> Probed:
        self.prepare_cuda()
        return Probed(why_not=self._why_no_cuda) if self._cuda is None else self._cuda.probe(library)

    def cuda_totals(self, now_ns: int) -> Sequence[CudaTotals]:
        if self._cuda is None:
            return ()
        before, self._totals = self._totals, {}
        changed: list[CudaTotals] = []
        for record in self._cuda.totals():
            total = totals_in(record, now_ns)
            if not total.last_ns:
                continue  # just begun
            identity = process_id(total.tgid, total.start_ns)
            self._totals[identity] = total
            if identity not in before or before[identity].last_ns != total.last_ns:
                changed.append(total)
        return changed

    def forget_cuda(self) -> None:
        if self._cuda is not None:
            self._cuda.sweep()

    def close(self) -> None:
        if self._cuda is not None:
            self._cuda.close()
        self._session.close()


class HostMemory:
    """The machine as a whole."""

    def pressure(self) -> PressureSample:
        return read_pressure()

    def vmstat(self) -> VmstatSample | None:
        return read_vmstat()


@contextmanager
def open_sources(*, need_kernel: bool = False) -> Iterator[Sources]:
    """All sources that this machine has.

    Args:
        need_kernel: rather fail than go without BPF.

    Raises:
        KernelUnavailable: BPF is needed and cannot be had.
        PermissionDenied: likewise.
    """
    cgroups = CgroupSource()
    here = read_namespaces()
    log = KernelLogSource.open(monotonic_shift_ns=here.monotonic_shift_ns)
    console = isinstance(log, KernelLogUnreadable)
    kernel, why_no_kernel = _open_kernel(need=need_kernel, console=console)
    # Its records could be of use with the kernel's own pids and clocks alone.
    initial = here.own_pids is False and not here.own_clocks
    glimpses = _open_scalars() if kernel is None and initial else None
    processes = ProcessSource(cgroups=cgroups)
    differ = bool(here.own_pids) and here.proc_above == 0
    pids = PidTable() if kernel is not None and differ else None
    translated = kernel is not None and (pids is not None or here.own_clocks)
    gpu = GpuSource.open()
    try:
        yield Sources(
            processes=processes if pids is None else TranslatedProcesses(processes, pids),
            cgroups=cgroups,
            host=HostMemory(),
            kernel=TranslatedKernel(kernel, here, pids) if kernel is not None and translated else kernel,
            libcudas=_libcudas,
            has_nvidia_driver=has_driver,
            namespaces=here,
            pids=pids,
            why_no_kernel=why_no_kernel,
            why_no_symbols=None if kernel is None and glimpses is None else why_hidden(),
            glimpses=glimpses,
            log=None if isinstance(log, KernelLogUnreadable) else log,
            why_no_log=log.why if isinstance(log, KernelLogUnreadable) else None,
            gpu=None if isinstance(gpu, GpuUnavailable) else gpu,
            no_gpu=gpu if isinstance(gpu, GpuUnavailable) else None,
            nodes=read_numa_nodes(),
        )
    finally:
        if not isinstance(gpu, GpuUnavailable):
            gpu.close()
        for feed in (kernel, glimpses):
            if feed is not None:
                feed.close()
        if not isinstance(log, KernelLogUnreadable):
            log.close()


def _libcudas() -> Iterator[tuple[str, int]]:
    return find_libcudas(more=os.environ.get("LD_LIBRARY_PATH", "").split(":"))


def _open_kernel(*, need: bool, console: bool) -> tuple[KernelFeed | None, str | None]:
    try:
        return _open(Wanted(console=console)), None
    except OomtraceError as error:
        if need:
            raise
        return None, str(error)
    except Exception as error:  # the job is worth more than our hooks, whatever is wrong with them
        why = f"{type(error).__name__}: {error}"
        if need:
            raise LoaderFailed("start", why) from error
        return None, why


def _open_scalars() -> KernelFeed | None:
    """What is left where the kernel lets nobody read its memory, or does not say where what lies in it."""
    with suppress(Exception):
        return _open(Wanted(scalars=True))
    return None


def _open(wanted: Wanted) -> KernelFeed:
    return KernelFeed(open_session(events_h_digest=events_h_digest(), wanted=wanted))

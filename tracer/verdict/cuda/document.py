# SPDX-License-Identifier: Apache-2.0
"""The `cuda` object of an incident."""

from tracer.events import CudaProbed, CudaTotals, GpuSample
from tracer.verdict import people
from tracer.verdict.cuda import devices
from tracer.verdict.cuda.calls import BALANCES
from tracer.verdict.cuda.coverage import Watch
from tracer.verdict.cuda.model import CudaDevice, CudaFacts, CudaProcess
from tracer.verdict.cuda.unaccounted import unaccounted
from tracer.verdict.incident import Case

MOST_PROCESSES = 64
MOST_NAMES = 20
COUNTED = (
    "device_calls", "device_failed", "managed_calls", "managed_failed", "pinned_calls", "pinned_failed",
    "registered_calls", "registered_failed", "other_failed", "unknown_frees",
)  # fmt: skip


def build(case: Case, at_ns: int) -> CudaFacts | None:
    """As of a moment; `None`: nothing of CUDA was looked for."""
    cuda, story = case.cuda, case.story
    if not cuda.watched_at_all and not story.of(GpuSample):
        return None
    watches = cuda.watches(at_ns)
    unmapped = [w for w in watches if w.state == "unmapped"]
    told = sorted((w for w in watches if w.state != "unmapped"), key=lambda w: (w.state == "unknown", w.id))
    held, grown = cuda.held(at_ns), unaccounted(story, at_ns)
    probed = [one for one in story.of(CudaProbed) if one.ts_ns <= at_ns]
    found = devices.used_by(story, [w.id for w in watches], at_ns)
    return CudaFacts(
        processes=tuple(_process(case, watch, at_ns) for watch in told[:MOST_PROCESSES]),
        unmapped=len(unmapped),
        left_out=max(0, len(told) - MOST_PROCESSES),
        devices=tuple(_device(case, sample) for sample in found),
        device_memory_unknown=None if found else devices.why_unknown(story) or "not sampled",
        pinned_bytes=held.pinned_bytes,
        managed_bytes=held.managed_bytes,
        registered_bytes=held.registered_bytes,
        unaccounted_bytes=None if grown is None else grown.grown_bytes,
        not_probed=tuple(sorted({name for one in probed for name in one.refused}))[:MOST_NAMES],
        unknown_functions=tuple(sorted({name for one in probed for name in one.unknown}))[:MOST_NAMES],
    )


def _process(case: Case, watch: Watch, at_ns: int) -> CudaProcess:
    story, calls = case.story, case.cuda.calls
    member = story.tree.processes.get(watch.id)
    totals: CudaTotals | None = calls.totals_at(watch.id, at_ns)
    failures = calls.failures.get(watch.id, ())
    called = watch.id in calls.callers
    held = calls.held(watch.id, at_ns)
    return CudaProcess(
        pid=watch.id.tgid,
        start_ns=member.start_ns if member is not None else None,
        who=people.short(story, watch.id),
        covered=watch.state,
        why=watch.why or None,
        watched_from=story.utc(watch.from_ns) if watch.from_ns is not None else None,
        unwatched_ns=watch.gap_ns if watch.state == "watched" else None,
        libraries=tuple(lib.path for lib in watch.libraries),
        unsurvived=sum(1 for f in failures if f.out_of_memory and f.survived is None and f.call.ts_ns <= at_ns),
        **{name: getattr(totals, name) if totals is not None else None for name in COUNTED},
        **{name: getattr(held, name) if called else None for name in BALANCES},
    )


def _device(case: Case, sample: GpuSample) -> CudaDevice:
    known = devices.device(case.story, sample.uuid)
    return CudaDevice(
        index=sample.index,
        uuid=sample.uuid,
        name=known.name if known is not None else None,
        total_bytes=sample.total_bytes,
        used_bytes=sample.used_bytes,
        free_bytes=sample.free_bytes,
        at=case.story.utc(sample.ts_ns),
    )
